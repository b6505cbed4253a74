"""Copies of repositories, and the ways out to plain Zarr and in from it, on a cluster."""
