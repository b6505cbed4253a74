"""What a group of the repository holds already, as a source that new ones have to fit."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import zarr

from frazil.spark.ingesting.groups import find_group
from frazil.spark.ingesting.ledger import Region
from frazil.virtual.combining.agreement import compare_storage
from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.sources import ArrayHeader, FileVersion, SourceHeader

THE_REPOSITORY = "the repository"
_NO_VERSION = FileVersion(None, datetime(1970, 1, 1, tzinfo=UTC), 0)


def read_existing(
    store: object,
    group: str,
    fresh: Mapping[str, ArrayHeader],
    append_dim: str | None,
    times: Collection[str] = (),
) -> SourceHeader | None:
    """The header of a group, as one of those that it is combined with; None where it has no arrays.

    `fresh` are the arrays whose values come with all the new headers. Of those that are kept as values
    here, too, only what has to be compared is read, and `times`, which may have to be counted anew.
    """
    with without_codec_warnings():
        found = find_group(store, group)
        if found is None:
            return None
        arrays = {
            name: _read_array(
                array,
                ArrayHeader(name, _metadata(array)),
                fresh.get(name),
                None if name in times else append_dim,
            )
            for name, array in found.arrays()
        }
    if not arrays:
        return None
    attributes = dict(found.attrs)
    return SourceHeader(THE_REPOSITORY, "zarr", "", _NO_VERSION, attributes, arrays)


def _metadata(array: zarr.Array[Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(array.metadata.to_dict()))
    return found


def _read_array(
    array: zarr.Array[Any], header: ArrayHeader, fresh: ArrayHeader | None, append_dim: str | None
) -> ArrayHeader:
    if header.is_index:
        return replace(header, values=np.asarray(array[...]))
    if fresh is None or _is_virtual(header, fresh):
        return header
    if append_dim in header.dims:
        # Nobody looks at the values, which stay as they are; what counts is that they are values.
        return replace(header, values=np.broadcast_to(np.zeros((), array.dtype), array.shape))
    return replace(header, values=np.asarray(array[...]))


def _is_virtual(header: ArrayHeader, fresh: ArrayHeader) -> bool:
    """Whether an array is stored as the files are, and so can be referred to further on."""
    return header.chunk_shape == fresh.chunk_shape and not list(
        compare_storage([(THE_REPOSITORY, header), ("a file", fresh)])
    )


def cut_out(header: SourceHeader, dim: str | None, holes: Sequence[Region]) -> list[SourceHeader]:
    """The parts of a group that stay beside the regions that are to be ingested anew."""
    if not holes:
        return [header]
    if dim is None:
        return []
    length = header.dims[dim]
    return [_cut(header, dim, part) for part in _between(sorted(holes), length)]


def _between(holes: Sequence[Region], length: int) -> Iterator[Region]:
    start = 0
    for hole_start, hole_stop in [*holes, (length, length)]:
        if start < hole_start:
            yield start, hole_start
        start = hole_stop


def _cut(header: SourceHeader, dim: str, part: Region) -> SourceHeader:
    arrays = {name: _cut_array(array, dim, part) for name, array in header.arrays.items()}
    return replace(header, location=f"{header.location} [{part[0]}:{part[1]}]", arrays=arrays)


def _cut_array(array: ArrayHeader, dim: str, part: Region) -> ArrayHeader:
    if dim not in array.dims:
        return array
    axis = array.dims.index(dim)
    shape = list(array.shape)
    shape[axis] = part[1] - part[0]
    values = array.values
    if values is not None:
        values = values[(slice(None),) * axis + (slice(*part),)]
    return replace(array, metadata={**array.metadata, "shape": shape}, values=values)
