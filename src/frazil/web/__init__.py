"""Web pages of a repository: served locally (extra `web`), or as one HTML file."""
