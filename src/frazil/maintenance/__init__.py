"""Maintenance of a repository: expiry, garbage collection, checks, repair, statistics, migration.

Pure functions (`plan_x`) decide what to do; a few lines each perform it.
"""
