"""Copies of repositories, and export to and import from plain Zarr, on a cluster."""
