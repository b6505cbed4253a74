"""Checking and measuring repositories on a cluster."""
