"""The official library's own tests, run against Frazil."""
