"""A repository with a bit of everything, written and read through Zarr with either library."""
