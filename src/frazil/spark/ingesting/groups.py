"""Groups that may not be there."""

import zarr

from frazil.virtual.writing import as_zarr


def find_group(store: object, path: str) -> zarr.Group | None:
    """The group at a path, to be read; None where there is none."""
    try:
        return zarr.open_group(as_zarr(store), path=path, mode="r", zarr_format=3)
    except FileNotFoundError:
        return None
