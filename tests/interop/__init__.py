"""The official library beside ours: each reads what the other wrote."""
