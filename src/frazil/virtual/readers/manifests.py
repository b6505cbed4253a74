"""VirtualiZarr's manifests as columns and headers, and back."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from virtualizarr.manifests import ChunkManifest, ManifestArray
from virtualizarr.manifests.manifest import INLINED_CHUNK_PATH
from zarr.core.buffer import default_buffer_prototype

from frazil.virtual.sources import ReferenceColumns

_ENCODING_OF_KEYS = {"name": "default", "configuration": {"separator": "/"}}


def metadata_of(array: ManifestArray) -> dict[str, Any]:
    """The `zarr.json` of an array, with keys of chunks as Icechunk spells them."""
    encoded = array.metadata.to_buffer_dict(default_buffer_prototype())["zarr.json"]
    found: dict[str, Any] = json.loads(encoded.to_bytes())
    return {**found, "chunk_key_encoding": _ENCODING_OF_KEYS}


def columns_of(
    manifest: ChunkManifest, axes: int, spell: Callable[[str], str] = str
) -> ReferenceColumns:
    """The references of a manifest; `spell` is asked once for each distinct location."""
    grid = manifest._paths.shape if axes else ()
    paths = manifest._paths.reshape(-1)
    rows = np.flatnonzero((paths != "") & (paths != INLINED_CHUNK_PATH))
    texts, codes = _encode_texts(paths[rows])
    inlined = manifest._inlined
    return ReferenceColumns(
        coordinates=_unravel(rows, grid),
        location_codes=codes,
        locations=tuple(map(spell, texts)),
        offsets=manifest._offsets.reshape(-1)[rows],
        lengths=manifest._lengths.reshape(-1)[rows],
        inline_coordinates=np.array(list(inlined), np.int64).reshape(len(inlined), axes),
        inline_chunks=tuple(map(bytes, inlined.values())),
    )


def manifest_of(columns: ReferenceColumns, grid: Sequence[int]) -> ChunkManifest:
    """Columns as a manifest over a whole grid of chunks."""
    cells = int(np.prod(grid, dtype=np.int64))
    paths = np.full(cells, "", np.dtypes.StringDType())
    offsets, lengths = np.zeros(cells, np.uint64), np.zeros(cells, np.uint64)
    rows = _ravel(columns.coordinates, grid)
    if len(rows):
        texts = np.array(columns.locations, np.dtypes.StringDType())
        paths[rows] = texts[columns.location_codes]
        offsets[rows], lengths[rows] = columns.offsets, columns.lengths
    inline_rows = _ravel(columns.inline_coordinates, grid)
    paths[inline_rows] = INLINED_CHUNK_PATH
    lengths[inline_rows] = [len(each) for each in columns.inline_chunks]
    places = map(tuple, columns.inline_coordinates.tolist())
    shape = tuple(grid)
    return ChunkManifest.from_arrays(
        paths=paths.reshape(shape),
        offsets=offsets.reshape(shape),
        lengths=lengths.reshape(shape),
        validate_paths=False,
        inlined=dict(zip(places, columns.inline_chunks, strict=True)),
    )


def _encode_texts(texts: Any) -> tuple[list[str], Any]:
    if not len(texts):
        return [], np.empty(0, np.int32)
    if np.all(texts == texts[0]):  # the rule: all chunks are in the one file
        return [str(texts[0])], np.zeros(len(texts), np.int32)
    distinct, codes = np.unique(texts, return_inverse=True)
    return [str(each) for each in distinct], codes.astype(np.int32)


def _unravel(rows: Any, grid: Sequence[int]) -> Any:
    if not grid:
        return np.empty((len(rows), 0), np.int64)
    return np.stack(np.unravel_index(rows, tuple(grid)), axis=1).astype(np.int64)


def _ravel(coordinates: Any, grid: Sequence[int]) -> Any:
    if not len(grid):
        return np.zeros(len(coordinates), np.int64)
    return np.ravel_multi_index(tuple(coordinates.T), tuple(grid))


def chunk_grid(metadata: Mapping[str, Any]) -> tuple[int, ...]:
    """How many chunks an array has along each axis."""
    chunk_shape = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    return tuple(
        -(-extent // step) for extent, step in zip(metadata["shape"], chunk_shape, strict=True)
    )
