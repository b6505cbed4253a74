"""Files become a group of a repository: found, opened, combined, referred to, committed at once.

Only `frames`, `attempt` and `ingest` know Spark; the other modules are plain functions of values.
"""
