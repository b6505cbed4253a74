"""Room for what is ingested: arrays made or grown, and values that come with the headers."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import zarr

from frazil.errors import InvalidInputError
from frazil.spark.ingesting.ledger import Region
from frazil.spark.ingesting.planning import IngestPlan
from frazil.virtual import Treatment, VariablePlan
from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.writing import as_zarr, create_array, create_group, join

_ROOM_ITEMS = 1 << 14
"""A chunk of a small array that grows has room for so many items."""


def make_room(found: IngestPlan, store: Any, group: str) -> None:
    """Make the arrays of a plan, or let them grow, and write what is not virtual."""
    there = found.existing.arrays if found.existing is not None else {}
    with without_codec_warnings():
        if found.existing is None:
            create_group(store, group, found.plan.attributes)
        for name, variable in found.plan.variables.items():
            path = join(group, name)
            if name not in there:
                is_asked = name in found.asked
                dim = None if is_asked else found.append_dim
                array = create_array(store, path, _with_room(variable, dim))
                if variable.values is not None:
                    array[...] = variable.values
            else:
                _grow(found, variable, store, path)


def _grow(found: IngestPlan, variable: VariablePlan, store: Any, path: str) -> None:
    array: zarr.Array[Any] = zarr.open_array(as_zarr(store), path=path, mode="r+", zarr_format=3)
    if variable.treatment is Treatment.INLINE and _means_something_else(array, variable):
        _rewrite(found, variable, store, path)
        return
    shape = tuple(variable.metadata["shape"])
    if array.shape != shape:
        array.resize(shape)
    if variable.treatment is not Treatment.INLINE or variable.values is None:
        return
    axis = _axis(variable, found.append_dim)
    if axis is not None:
        for region in unite(each for each in found.regions.values() if each is not None):
            place = (slice(None),) * axis + (slice(*region),)
            array[place] = variable.values[place]
    elif not found.kept:
        array[...] = variable.values


def _means_something_else(array: zarr.Array[Any], variable: VariablePlan) -> bool:
    """Whether stored times were widened, or are counted in finer units."""
    stored = json.loads(json.dumps(array.metadata.to_dict()))
    if stored["data_type"] != variable.metadata["data_type"]:
        return True
    attributes = variable.metadata.get("attributes") or {}
    return any(array.attrs.get(each) != attributes.get(each) for each in ("units", "calendar"))


def _rewrite(found: IngestPlan, variable: VariablePlan, store: Any, path: str) -> None:
    """Replace an array by one of all its values, old and new."""
    if variable.values is None:
        raise InvalidInputError(
            f"invalid type or units of {path!r}: its values in the repository can't be converted to "
            f"those of the files; leave it out with skip="
        )
    parent, _, name = path.rpartition("/")
    del zarr.open_group(as_zarr(store), path=parent, mode="r+", zarr_format=3)[name]
    array = create_array(store, path, _with_room(variable, found.append_dim))
    array[...] = variable.values


def unite(regions: Iterable[Region]) -> Iterator[Region]:
    """Regions that touch each other as one."""
    start, stop = -1, -1
    for each in sorted(regions):
        if each[0] > stop or start < 0:
            if start >= 0:
                yield start, stop
            start = each[0]
        stop = max(stop, each[1])
    if start >= 0:
        yield start, stop


def _axis(variable: VariablePlan, dim: str | None) -> int | None:
    dims = list(variable.metadata.get("dimension_names") or ())
    return dims.index(dim) if dim in dims else None


def _with_room(variable: VariablePlan, dim: str | None) -> dict[str, Any]:
    """The metadata of an array; small ones that will grow have chunks to grow into."""
    axis = _axis(variable, dim)
    metadata = dict(variable.metadata)
    if axis is None or variable.treatment is not Treatment.INLINE:
        return metadata
    chunk = list(metadata["chunk_grid"]["configuration"]["chunk_shape"])
    items = 1
    for each, extent in enumerate(chunk):
        items *= extent if each != axis else 1
    chunk[axis] = max(chunk[axis], _ROOM_ITEMS // max(1, items))
    metadata["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": chunk}}
    return metadata
