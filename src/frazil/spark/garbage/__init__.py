"""Collecting garbage on a cluster, and the upkeep that a schedule runs."""
