"""Pages of a repository: served on this machine (extra `web`), or as one file."""
