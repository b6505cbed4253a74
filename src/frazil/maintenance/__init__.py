"""Keeping a repository small and quick: expiry, garbage, statistics, manifests, migration.

What is to be done is decided by pure functions of values (`plan_x`); doing it takes a few lines each.
"""
