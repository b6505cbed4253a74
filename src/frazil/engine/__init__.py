"""What a session does: nodes and chunks as it sees them, its edits, and how they become a commit."""
