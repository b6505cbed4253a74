"""Summaries of arrays, their chunks and their storage."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import zarr

from frazil.errors import ErrorKind, InvalidInputError
from frazil.format.ids import SnapshotId
from frazil.format.manifest import ChunkKind
from frazil.format.snapshot import Node
from frazil.overview.decoding import Decoding
from frazil.overview.nodes import normalize, read_metadata
from frazil.overview.preview import MOST_SAMPLE_CHUNKS, READ_ERRORS, Sample, explain, read_sample
from frazil.protocols.v1_protocol import read_snapshot
from frazil.repository.diff import compare_snapshots
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.snapshots import Diff

MOST_MANIFESTS = 256
"""Maximum manifests of an array in which references are counted."""


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """Summary of some values, decoded as xarray decodes them."""

    elements: int
    """Number of values read; zero if nothing is written."""
    missing: int = 0
    """Number of missing values: NaN, or equal to `_FillValue` or `missing_value`."""
    minimum: float | str | None = None
    """Minimum; as text for times."""
    maximum: float | str | None = None
    mean: float | None = None
    units: str | None = None
    chunks: int = 0
    """Number of chunks read, evenly spread over the written ones."""

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
    """Summary of an array, printed by `frazil show`."""

    path: str
    node_id: str
    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str | None, ...]
    chunk_shape: tuple[int, ...] | None
    """None for irregular chunk grids."""
    codecs: tuple[str, ...]
    fill_value: Any
    chunks: dict[str, int]
    """Counted references by kind, and the number of chunks in the grid."""
    size_bytes: int
    """Stored size of the counted chunks, including virtual ones."""
    manifests: int
    counted_manifests: int
    """Number of manifests in which references were counted."""
    attributes: dict[str, Any] = field(default_factory=dict)
    values: ValueSummary | None = None
    """None if values can't be read or aren't numbers or times."""
    unreadable: str | None = None
    """Reason why values can't be read."""

    def describe_references(self) -> str:
        """Return the references of each kind, and the number of counted manifests if not all."""
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
    """Summarize an array.

    Parameters
    ----------
    session
        Session at the version to summarize.
    path
        Path of the array.
    reads_values
        If False, no chunk is read and `values` is None.
    most_manifests
        Maximum manifests in which references are counted.

    Raises
    ------
    NodeNotFoundError
        If there is no node at the path.
    InvalidInputError
        If the node is a group.
    """
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
    """Reference counts of an array, with the coordinates of some chunks."""

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
    except READ_ERRORS as error:
        return None, explain(error)
    return None if sample is None else summarize_values(sample), None


def summarize_values(sample: Sample) -> ValueSummary:
    """Summarize decoded numbers or times."""
    values, decoding = sample.values, sample.decoding
    # NaN and NaT differ from themselves.
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


def find_changes(repository: Repository, old_id: str, new_id: str) -> Diff:
    """Return the changes from one snapshot to another, whichever is older, or on another branch.

    Parameters
    ----------
    repository
        Repository of both snapshots.
    old_id, new_id
        Snapshot ids.
    """
    if old_id == new_id:
        return Diff()
    for first, last in ((old_id, new_id), (new_id, old_id)):
        try:
            found = repository.diff(from_snapshot_id=first, to_snapshot_id=last)
        except InvalidInputError as error:
            if error.kind != ErrorKind.BAD_SNAPSHOT_CHAIN_FOR_DIFF:
                raise
        else:
            return found if first == old_id else _reverse(found)
    assets = repository.protocol.assets
    old, new = (read_snapshot(assets, SnapshotId.parse(each)) for each in (old_id, new_id))
    return compare_snapshots(assets, old, new)


def spell_values(session: Session, path: str, places: Sequence[int]) -> tuple[str, ...]:
    """Return some values of a one-dimensional array as text, decoded as xarray decodes them."""
    array = zarr.open_array(session.store, path=path.strip("/"), mode="r")
    decoding = Decoding.of(array.attrs.asdict(), array.dtype)
    return tuple(
        decoding.spell(decoding.decode(np.asarray(array[place]).reshape(1))[0]) for place in places
    )


def _reverse(diff: Diff) -> Diff:
    return replace(
        diff,
        new_groups=diff.deleted_groups,
        new_arrays=diff.deleted_arrays,
        deleted_groups=diff.new_groups,
        deleted_arrays=diff.new_arrays,
        moved_nodes=[(new, old) for old, new in reversed(diff.moved_nodes)],
    )


MOST_MANIFESTS_IN_ALL = 2048
"""Maximum manifests of a version in which references are counted; `frazil stats` counts all."""


@dataclass(frozen=True, slots=True)
class StoredArray:
    """Storage used by the chunks of an array in one version."""

    path: str
    chunks: int
    native_bytes: int
    inline_bytes: int
    virtual_bytes: int
    is_complete: bool = True
    """False if some of its manifests were not read because of the limit."""

    @property
    def total_bytes(self) -> int:
        """Return the total size of all kinds."""
        return self.native_bytes + self.inline_bytes + self.virtual_bytes


def measure_arrays(
    session: Session, most_manifests: int = MOST_MANIFESTS_IN_ALL
) -> tuple[StoredArray, ...]:
    """Return the storage used by all arrays of a version, largest first.

    Parameters
    ----------
    session
        Session at the version to measure.
    most_manifests
        Maximum manifests to read, over all arrays. Arrays beyond it have `is_complete` False.
    """
    view = session.state.view
    found = []
    left = most_manifests
    for node in view.nodes():
        if node.array is None:
            continue
        chunks, sizes = 0, dict.fromkeys(ChunkKind, 0)
        count = len(node.array.manifests)
        looked_at = min(count, left)
        left -= looked_at
        # A writable session has one more table, in memory.
        for table in islice(view.tables(node), looked_at if looked_at < count else None):
            chunks += len(table)
            for kind in ChunkKind:
                sizes[kind] += int(np.sum(table.length[table.kind == kind], dtype=np.uint64))
        native, inline, virtual = (
            sizes[each] for each in (ChunkKind.NATIVE, ChunkKind.INLINE, ChunkKind.VIRTUAL)
        )
        is_complete = looked_at == count
        found.append(StoredArray(node.path, chunks, native, inline, virtual, is_complete))
    return tuple(sorted(found, key=lambda each: (-each.total_bytes, each.path)))
