"""Statistics as arrays of the repository: read from a session, and written to one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import zarr
from numpy.typing import NDArray

from frazil.engine.view import View
from frazil.frames.grids import Grid
from frazil.frames.statistics.fingerprints import NONE, Fingerprints
from frazil.frames.statistics.measures import Measures, measured_types
from frazil.session import Session

STATISTICS = "/_frazil/statistics"
_FINGERPRINT = "fingerprint"
_DIGEST = "digest"
_CHUNK_ITEMS = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What is kept of the chunks of an array, by the grid that the array has now."""

    columns: Mapping[str, NDArray[Any]]
    fingerprints: Fingerprints


def group_of(path: str) -> str:
    """The group with the statistics of an array."""
    return STATISTICS + path


def read_statistics(
    session: Session, path: str, grid: Grid, type: pa.DataType, digest: str
) -> Kept | None:
    """The statistics of an array with this digest; None where there are none that can be used."""
    group = _find_group(session, path, type, digest, "r")
    if group is None:
        return None
    columns = {
        name: _fit(_array(group, name), grid.shape)
        for name in (*measured_types(type), _FINGERPRINT)
    }
    return Kept(columns, columns.pop(_FINGERPRINT))


def write_statistics(
    session: Session,
    path: str,
    grid: Grid,
    type: pa.DataType,
    digest: str,
    measures: Measures,
    fingerprints: Fingerprints,
) -> None:
    """Note measures of chunks, with their fingerprints, beside what is known of other chunks."""
    group = _find_group(session, path, type, digest, "r+")
    if group is None:
        group = _create(session, path, grid, type, digest)
    box = tuple(
        slice(int(first), int(last) + 1)
        for first, last in zip(measures.chunks.min(0), measures.chunks.max(0), strict=True)
    )
    inside = tuple((measures.chunks - measures.chunks.min(0)).T)
    for name, values in {**measures.columns, _FINGERPRINT: fingerprints}.items():
        array = _array(group, name)
        if array.shape != grid.shape:
            array.resize(grid.shape)
        part = np.array(array[box])
        part[inside] = values
        array[box] = part


def _find_group(
    session: Session, path: str, type: pa.DataType, digest: str, mode: Literal["r", "r+"]
) -> "zarr.Group | None":
    """The group, if it is as it is written here, for this array."""
    place, view = group_of(path), session.state.view
    node = view.find_node(place)
    if node is None or node.array is not None:
        return None
    group = zarr.open_group(session.store, path=place.lstrip("/"), mode=mode, zarr_format=3)
    if group.attrs.get(_DIGEST) != digest:
        return None
    types = {**measured_types(type), _FINGERPRINT: np.dtype(np.uint64)}
    is_whole = all(_has_array(view, f"{place}/{name}") for name in types)
    if not is_whole or any(_array(group, name).dtype != each for name, each in types.items()):
        return None
    return group


def _has_array(view: View, path: str) -> bool:
    node = view.find_node(path)
    return node is not None and node.array is not None


def _create(session: Session, path: str, grid: Grid, type: pa.DataType, digest: str) -> zarr.Group:
    place, store = group_of(path), session.store
    _remove_arrays_above(session, place)
    group = zarr.open_group(store, path=place.lstrip("/"), mode="w", zarr_format=3)
    for name, dtype in {**measured_types(type), _FINGERPRINT: np.dtype(np.uint64)}.items():
        group.create_array(
            name,
            shape=grid.shape,
            chunks=choose_chunks(grid.shape),
            dtype=dtype,
            fill_value=0,
            dimension_names=[f"{dim}_chunk" for dim in grid.dims],
        )
    group.attrs.put({_DIGEST: digest})
    return group


def _remove_arrays_above(session: Session, place: str) -> None:
    """Statistics of an array that is a group by now may be where that of its arrays has to be."""
    parts = place.strip("/").split("/")
    for end in range(1, len(parts) + 1):
        path = "/" + "/".join(parts[:end])
        if _has_array(session.state.view, path):
            parent, _, name = path.strip("/").rpartition("/")
            del zarr.open_group(session.store, path=parent, mode="r+", zarr_format=3)[name]


def choose_chunks(shape: Sequence[int]) -> tuple[int, ...]:
    """Chunks of some thousand elements, whole along the last axes; the first one may grow."""
    chunks = [1] * len(shape)
    for axis in reversed(range(1, len(shape))):
        chunks[axis] = max(min(shape[axis], _CHUNK_ITEMS // prod(chunks)), 1)
    if chunks:
        chunks[0] = max(_CHUNK_ITEMS // prod(chunks[1:]), 1)
    return tuple(chunks)


def _array(group: zarr.Group, name: str) -> Any:
    return group[name]


def _fit(array: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Its values for a grid of another shape, which is of as many axes; zeros beyond its own."""
    found = np.zeros(shape, array.dtype)
    if array.ndim == len(shape):
        common = tuple(slice(0, min(each)) for each in zip(array.shape, shape, strict=True))
        found[common] = array[common]
    return found


def is_fresh(kept: Kept, fingerprints: Fingerprints) -> NDArray[np.bool_]:
    """Which chunks are as they were when they were measured."""
    found: NDArray[np.bool_] = (fingerprints != NONE) & (kept.fingerprints == fingerprints)
    return found
