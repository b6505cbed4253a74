"""Garbage collection, checks, statistics and compaction on a cluster."""
