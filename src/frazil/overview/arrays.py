"""An array in few words: what its metadata says, how its chunks are kept, what its values are like."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from frazil.errors import IcechunkError
from frazil.format.references import ChunkKind
from frazil.format.snapshot import Node
from frazil.overview.nodes import normalize, read_metadata
from frazil.session import Session

_SAMPLE_ELEMENTS = 1 << 20
"""A summary looks at about so many elements, from the middle of the array."""


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """What some values are like."""

    elements: int
    """How many were looked at."""
    missing: int = 0
    """Not a number, or equal to the fill value."""
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None


@dataclass(frozen=True, slots=True)
class ArrayOverview:
    """What `frazil show` tells."""

    path: str
    node_id: str
    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str | None, ...]
    chunk_shape: tuple[int, ...] | None
    """None for grids whose chunks differ."""
    codecs: tuple[str, ...]
    fill_value: Any
    chunks: dict[str, int]
    """References by kind, and how many the grid has room for."""
    size_bytes: int
    """As it is stored, virtual chunks included."""
    manifests: int
    attributes: dict[str, Any] = field(default_factory=dict)
    values: ValueSummary | None = None
    """None where they can't be read, or are no numbers."""
    unreadable: str | None = None
    """Why they can't be read."""


def describe_array(session: Session, path: str) -> ArrayOverview:
    """What there is to say about an array; raises NodeNotFoundError, InvalidInputError for groups."""
    node, array = session.state.view.get_array(normalize(path))
    metadata = read_metadata(node)
    counts, size = _count_chunks(session, node)
    values, reason = _try_summary(session, node.path)
    grid = metadata.get("chunk_grid", {}).get("configuration", {}).get("chunk_shape")
    data_type = metadata.get("data_type")
    return ArrayOverview(
        path=node.path,
        node_id=str(node.id),
        shape=tuple(each.array_length for each in array.shape),
        dtype=data_type if isinstance(data_type, str) else str(data_type),
        dims=tuple(array.dimension_names or ()),
        chunk_shape=tuple(grid) if grid and all(isinstance(each, int) for each in grid) else None,
        codecs=tuple(each.get("name", "?") for each in metadata.get("codecs", ())),
        fill_value=metadata.get("fill_value"),
        chunks={**counts, "grid": math.prod(each.num_chunks for each in array.shape)},
        size_bytes=size,
        manifests=len(array.manifests),
        attributes=dict(metadata.get("attributes") or {}),
        values=values,
        unreadable=reason,
    )


def _count_chunks(session: Session, node: Node) -> tuple[dict[str, int], int]:
    counts = dict.fromkeys((kind.name.lower() for kind in ChunkKind), 0)
    size = 0
    for table in session.state.view.tables(node):
        for kind in ChunkKind:
            counts[kind.name.lower()] += int((table.kind == kind).sum())
        size += int(table.length.sum())
    return counts, size


def _try_summary(session: Session, path: str) -> tuple[ValueSummary | None, str | None]:
    try:
        return summarize_values(read_sample(session, path)), None
    except (IcechunkError, ValueError, OSError) as error:
        return None, str(getattr(error, "message", None) or error)


def read_sample(session: Session, path: str) -> NDArray[Any]:
    """Values from the middle of an array, all of it if it is small."""
    array: zarr.Array[Any] = zarr.open_array(session.store, path=path.strip("/"), mode="r")
    room = _SAMPLE_ELEMENTS
    place: list[slice] = []
    for extent in reversed(array.shape):
        length = max(1, min(extent, room))
        room //= max(1, length)
        start = (extent - length) // 2
        place.insert(0, slice(start, start + min(extent, length)))
    values = np.asarray(array[tuple(place)])
    fill = array.fill_value
    if values.dtype.kind in "iuf" and fill is not None and fill != 0:
        values = np.where(values == fill, np.nan, values)
    return values


def summarize_values(values: NDArray[Any]) -> ValueSummary | None:
    """What numbers are like; None for what are none."""
    if values.dtype.kind not in "iufb":
        return None
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values.ravel()
    missing = values.size - known.size
    if not known.size:
        return ValueSummary(values.size, missing)
    mean = float(known.mean(dtype=np.float64))
    return ValueSummary(values.size, missing, float(known.min()), float(known.max()), mean)
