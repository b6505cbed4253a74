"""Ingest source files into a group of a repository, in one commit.

Only `ingest_tasks`, `native_write` and `ingest_job` use Spark; the other modules are pure functions.
"""
