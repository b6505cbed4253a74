"""An array in few words: what its metadata says, how its chunks are kept, what its values are like."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from frazil.errors import IcechunkError
from frazil.format.references import ChunkKind
from frazil.format.snapshot import Node
from frazil.overview.nodes import normalize, read_metadata
from frazil.overview.preview import MOST_SAMPLE_CHUNKS, Sample, read_sample
from frazil.session import Session

MOST_MANIFESTS = 256
"""References are counted in no more manifests of an array."""


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """What some values are like, decoded as xarray decodes them."""

    elements: int
    """How many were looked at; none where nothing is written."""
    missing: int = 0
    """Not a number, or what `_FillValue` and `missing_value` say."""
    minimum: float | str | None = None
    """Of times, as text."""
    maximum: float | str | None = None
    mean: float | None = None
    units: str | None = None
    chunks: int = 0
    """How many chunks they are from, evenly spread over those that are written."""

    def __str__(self) -> str:
        if not self.elements:
            return "nothing is written"
        chunks = "1 chunk" if self.chunks == 1 else f"{self.chunks:,} chunks"
        seen = f"{self.elements:,} values in {chunks} looked at"
        if self.minimum is None:
            return f"{seen}, all missing"
        units = "" if self.units in (None, "1") else f" {self.units}"
        span = f"{_spell(self.minimum)} to {_spell(self.maximum)}{units}"
        mean = "" if self.mean is None else f", mean {_spell(self.mean)}{units}"
        return f"{span}{mean} ({seen}, {self.missing:,} missing)"


def _spell(value: float | str | None) -> str:
    return value if isinstance(value, str) else f"{value:g}"


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
    """References by kind, as far as they were counted, and how many the grid has room for."""
    size_bytes: int
    """As it is stored, virtual chunks included."""
    manifests: int
    counted_manifests: int
    """How many of them references were counted in."""
    attributes: dict[str, Any] = field(default_factory=dict)
    values: ValueSummary | None = None
    """None where they can't be read, or are no numbers."""
    unreadable: str | None = None
    """Why they can't be read."""

    def describe_references(self) -> str:
        """How many references there are of each kind, and whether that is all of them."""
        counts = ", ".join(f"{count:,} {name}" for name, count in self.chunks.items())
        if self.counted_manifests == self.manifests:
            return counts
        return f"{counts} (counted in {self.counted_manifests:,} of {self.manifests:,} manifests)"


def describe_array(
    session: Session,
    path: str,
    *,
    reads_values: bool = True,
    most_manifests: int = MOST_MANIFESTS,
) -> ArrayOverview:
    """What there is to say about an array; raises NodeNotFoundError, InvalidInputError for groups."""
    node, array = session.state.view.get_array(normalize(path))
    metadata = read_metadata(node)
    found = _count_chunks(session, node, most_manifests)
    values, reason = None, None
    if reads_values:
        values, reason = _try_summary(session, node.path, found.places)
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
        chunks={**found.counts, "grid": math.prod(each.num_chunks for each in array.shape)},
        size_bytes=found.size_bytes,
        manifests=len(array.manifests),
        counted_manifests=min(len(array.manifests), most_manifests),
        attributes=dict(metadata.get("attributes") or {}),
        values=values,
        unreadable=reason,
    )


@dataclass(slots=True)
class _Counted:
    """References of an array, counted, with the places of some of them."""

    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((kind.name.lower() for kind in ChunkKind), 0)
    )
    size_bytes: int = 0
    places: list[tuple[int, ...]] = field(default_factory=list)


def _count_chunks(session: Session, node: Node, most_manifests: int) -> _Counted:
    found = _Counted()
    for table in islice(session.state.view.tables(node), most_manifests):
        for kind in ChunkKind:
            found.counts[kind.name.lower()] += int((table.kind == kind).sum())
        found.size_bytes += int(table.length.sum())
        few = np.linspace(0, len(table) - 1, min(len(table), MOST_SAMPLE_CHUNKS)).astype(np.int64)
        found.places += map(tuple, table.coordinates[few].tolist())
    return found


def _try_summary(
    session: Session, path: str, places: Sequence[tuple[int, ...]]
) -> tuple[ValueSummary | None, str | None]:
    try:
        sample = read_sample(session, path, places)
    except (IcechunkError, ValueError, OSError, NotImplementedError) as error:
        return None, str(getattr(error, "message", None) or error)
    return None if sample is None else summarize_values(sample), None


def summarize_values(sample: Sample) -> ValueSummary:
    """What decoded numbers or times are like."""
    values, decoding = sample.values, sample.decoding
    # What is not equal to itself is missing: NaN, and NaT among times.
    known = values[values == values]
    summary = ValueSummary(values.size, values.size - known.size, chunks=sample.chunks)
    if not known.size:
        return summary
    least, greatest = known.min(), known.max()
    if values.dtype.kind in "mM" or decoding.is_time:
        return replace(summary, minimum=decoding.spell(least), maximum=decoding.spell(greatest))
    return replace(
        summary,
        minimum=float(least),
        maximum=float(greatest),
        mean=float(known.mean(dtype=np.float64)),
        units=decoding.units,
    )
