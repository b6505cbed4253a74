"""What a group of the repository holds already, as a source that new ones have to fit."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import zarr

from frazil.spark.ingesting.groups import find_group
from frazil.spark.ingesting.ledger import Region
from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.sources import ArrayHeader, FileVersion, SourceHeader

THE_REPOSITORY = "the repository"
_NO_VERSION = FileVersion(None, datetime(1970, 1, 1, tzinfo=UTC), 0)


def read_existing(store: object, group: str, loaded: Collection[str]) -> SourceHeader | None:
    """The header of a group, with the values of its indexes and of some arrays; None for no arrays."""
    with without_codec_warnings():
        found = find_group(store, group)
        if found is None:
            return None
        arrays = {name: _read_array(name, array, loaded) for name, array in found.arrays()}
    if not arrays:
        return None
    attributes = dict(found.attrs)
    return SourceHeader(THE_REPOSITORY, "zarr", "", _NO_VERSION, attributes, arrays)


def _read_array(name: str, array: zarr.Array[Any], loaded: Collection[str]) -> ArrayHeader:
    header = ArrayHeader(name, json.loads(json.dumps(array.metadata.to_dict())))
    if header.is_index or name in loaded:
        return replace(header, values=np.asarray(array[...]))
    return header


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
