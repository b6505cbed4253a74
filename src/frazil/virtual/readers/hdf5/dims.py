"""Names of axes, from dimension scales."""

from typing import Any

from h5py import h5a, h5ds, h5i

from frazil.virtual.readers.hdf5.refusals import RefusedError

_PHONY = "phony_dim_"


def dims_of(dataset: Any, name: str, axes: int, group: str) -> list[str]:
    """The name of each axis, relative to a group where it is inside; one that has none is numbered."""
    has_scales = h5a.exists(dataset, b"DIMENSION_LIST")
    is_scale = h5ds.is_scale(dataset)
    found = []
    for axis in range(axes):
        scales = _scale_names(dataset, axis) if has_scales else []
        if len(scales) == 1:
            found.append(_relative(scales[0].decode("utf-8", "surrogateescape"), group))
        elif is_scale:
            found.append(name)
        elif scales:
            raise RefusedError(f"its axis {axis} has {len(scales)} dimension scales")
        else:
            found.append(f"{_PHONY}{axis}")
    return found


def _scale_names(dataset: Any, axis: int) -> list[bytes]:
    names: list[bytes] = []
    if h5ds.get_num_scales(dataset, axis):
        h5ds.iterate(dataset, axis, lambda scale: names.append(h5i.get_name(scale)))
    return names


def _relative(path: str, group: str) -> str:
    return path.removeprefix(f"/{group}" if group else "").removeprefix("/")
