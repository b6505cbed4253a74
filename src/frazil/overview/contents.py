"""Summaries of arrays: storage, coverage in time and space, chunks on a grid with their commits."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice, pairwise
from time import monotonic
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from frazil.errors import ErrorKind, IcechunkError, InvalidInputError
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.manifest import ChunkKind, ChunkTable, InlineRef, VirtualRef, concatenate
from frazil.format.metadata import to_datetime
from frazil.format.snapshot import Node
from frazil.overview.nodes import (
    Axis,
    Decoding,
    find_axes,
    normalize,
    read_metadata,
    spell_data_type,
)
from frazil.overview.preview import (
    MOST_SAMPLE_CHUNKS,
    READ_ERRORS,
    Sample,
    Span,
    explain,
    read_coordinates,
    read_sample,
)
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
        kinds = {name: count for name, count in self.chunks.items() if name != "grid" and count}
        counts = ", ".join(f"{count:,} {name}" for name, count in kinds.items()) or "none"
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
    return ArrayOverview(
        path=node.path,
        node_id=str(node.id),
        shape=tuple(each.array_length for each in array.shape),
        dtype=spell_data_type(metadata.get("data_type")),
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


MOST_CELLS = 64
"""Maximum cells along each axis of a binned grid."""
MOST_SINGLE_CELLS = 4096
"""Maximum chunks of a grid with one cell for each chunk; larger grids are binned."""
MOST_COMMITS = 200
"""Maximum commits in which the origin of chunks is looked up."""
_MOST_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Origin:
    """Commit that wrote chunks."""

    id: str
    written_at: datetime
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class ChunkGrid:
    """Chunk references of an array, on cells of two axes.

    The last axis of the array is the second axis; all others are flattened into the first.
    """

    grid: tuple[int, ...]
    """Chunks along each axis of the array."""
    is_binned: bool
    """True if a cell stands for several chunks."""
    room: NDArray[Any]
    """Number of grid chunks in each cell, as integers of any size."""
    counts: dict[str, NDArray[np.int64]]
    """Number of chunks with a reference in each cell, by kind."""
    size_bytes: NDArray[np.int64]
    """Total size of the chunks in each cell."""
    origin: NDArray[np.int64]
    """Newest commit of each cell, as an index into `commits`; -1 if older or unknown."""
    commits: tuple[Origin, ...]
    """Commits that wrote chunks of the array, newest first."""
    is_complete: bool
    """False if some manifests were not read because of the limit."""


def map_chunks(session: Session, path: str, *, finds_origins: bool = True) -> ChunkGrid:
    """Put the references of an array on a grid of cells.

    Parameters
    ----------
    session
        Session at the version to map.
    path
        Path of the array.
    finds_origins
        If False, no transaction logs are read and no commits are named.

    Raises
    ------
    NodeNotFoundError
        If there is no node at the path.
    InvalidInputError
        If the node is a group.
    """
    node, array = session.state.view.get_array(normalize(path))
    grid = [each.num_chunks for each in array.shape]
    rows, columns = fold(grid)
    is_binned = rows * columns > MOST_SINGLE_CELLS
    most = MOST_CELLS if is_binned else MOST_SINGLE_CELLS
    height, width = max(1, min(rows, most)), max(1, min(columns, most))
    tables = list(islice(session.state.view.tables(node), MOST_MANIFESTS))
    table = concatenate(tables) if tables else ChunkTable.empty(len(grid))
    cell = find_cells(table.coordinates.astype(np.int64), grid, height, width)
    counts = {
        kind.name.lower(): np.bincount(cell[table.kind == kind], minlength=height * width)
        for kind in ChunkKind
    }
    size = np.bincount(cell, weights=table.length, minlength=height * width).astype(np.int64)
    origin = np.full(height * width, -1, np.int64)
    commits: tuple[Origin, ...] = ()
    if finds_origins and len(table):
        found, commits = find_origins(session, {node.id: table})
        later = np.where(found[node.id] < 0, len(commits), found[node.id])
        newest = np.full(height * width, len(commits), np.int64)
        np.minimum.at(newest, cell, later)
        origin = np.where(newest == len(commits), -1, newest)
    room = np.outer(_widths(rows, height), _widths(columns, width))
    shaped = {name: each.reshape(height, width) for name, each in counts.items()}
    return ChunkGrid(
        tuple(grid),
        is_binned,
        room,
        shaped,
        size.reshape(height, width),
        origin.reshape(height, width),
        commits,
        len(array.manifests) <= MOST_MANIFESTS,
    )


def fold(grid: Sequence[int]) -> tuple[int, int]:
    """Return the rows and columns of a grid whose axes but the last are flattened."""
    if not grid:
        return 1, 1
    rows = 1
    for extent in grid[:-1]:
        rows *= extent
    return rows, grid[-1]


def find_cells(
    coordinates: NDArray[np.int64], grid: Sequence[int], height: int, width: int
) -> NDArray[np.int64]:
    """Return the cell of each chunk, row by row."""
    rows, columns = fold(grid)
    # Beyond int64, rows are binned as floats, which is precise enough for a picture.
    is_exact = rows * height < 1 << 63
    row = np.zeros(len(coordinates), np.int64 if is_exact else np.float64)
    for axis, extent in enumerate(grid[:-1]):
        row = row * extent + coordinates[:, axis]
    column = coordinates[:, -1] if grid else np.zeros(len(coordinates), np.int64)
    at = np.minimum(row * height // max(1, rows), height - 1).astype(np.int64)
    found: NDArray[np.int64] = at * width + column * width // max(1, columns)
    return found


def _widths(count: int, cells: int) -> NDArray[Any]:
    """Return the number of items in each bin, as Python integers, because they may exceed int64."""
    edges = [-(-number * count // cells) for number in range(cells + 1)]
    return np.array([end - start for start, end in pairwise(edges)], dtype=object)


def find_origins(
    session: Session, tables: Mapping[NodeId, ChunkTable]
) -> tuple[dict[NodeId, NDArray[np.int64]], tuple[Origin, ...]]:
    """Find the commits that wrote chunks, from the newest transaction logs.

    Returns
    -------
    dict, tuple of Origin
        Index of the commit of each row by node, -1 if older or unknown; and the commits.
    """
    rows = {id: np.full(len(table), -1, np.int64) for id, table in tables.items()}
    commits: list[Origin] = []
    protocol = session.state.context.protocol
    assets = protocol.assets
    left = sum(map(len, rows.values()))
    if assets.layout.transactions is None:
        return rows, ()
    end = monotonic() + _MOST_SECONDS
    for info in islice(protocol.ancestry(session.state.view.snapshot_id), MOST_COMMITS):
        if not left or monotonic() > end:
            break
        try:
            log = assets.read_transaction_log(info.id)
        except IcechunkError:  # an expired commit, or the first one
            continue
        is_used = False
        for id in log.updated_chunks.keys() & tables.keys():
            changed = log.updated_chunks[id]
            if changed.shape[1] != tables[id].axes:
                continue
            place = tables[id].locate(changed)
            place = place[place >= 0]
            fresh = place[rows[id][place] < 0]
            rows[id][fresh] = len(commits)
            left -= len(fresh)
            is_used |= bool(len(fresh))
        if is_used:
            commits.append(Origin(str(info.id), to_datetime(info.flushed_at), info.message))
    return rows, tuple(commits)


@dataclass(frozen=True, slots=True)
class ChunkDetails:
    """One chunk: where its bytes are."""

    at: tuple[int, ...]
    kind: str
    """`native`, `virtual`, `inline` or `absent`."""
    size_bytes: int = 0
    offset: int = 0
    source: str | None = None
    """Object of a native chunk, or source file of a virtual one."""


def describe_chunk(session: Session, path: str, at: Sequence[int]) -> ChunkDetails:
    """Describe one chunk of an array by its place on the grid."""
    node, array = session.state.view.get_array(normalize(path))
    is_inside = len(at) == len(array.shape) and all(
        0 <= index < each.num_chunks for index, each in zip(at, array.shape, strict=True)
    )
    found = session.state.view.find_chunk(node, tuple(at)) if is_inside else None
    if found is None:
        return ChunkDetails(tuple(at), "absent")
    if isinstance(found, VirtualRef):
        return ChunkDetails(tuple(at), "virtual", found.length, found.offset, found.location)
    if isinstance(found, InlineRef):
        return ChunkDetails(tuple(at), "inline", len(found.data))
    return ChunkDetails(tuple(at), "native", found.length, found.offset, f"chunks/{found.chunk_id}")


def measure_commits(session: Session) -> tuple[tuple[Origin, int], ...]:
    """Return the bytes of a version that each of its newest commits wrote, newest first."""
    tables, left = {}, MOST_MANIFESTS
    for node in session.state.view.nodes():
        if node.array is None or len(node.array.manifests) > left:
            continue
        left -= len(node.array.manifests)
        parts = list(session.state.view.tables(node))
        if parts:
            tables[node.id] = concatenate(parts)
    rows, commits = find_origins(session, tables)
    sizes = np.zeros(len(commits), np.int64)
    for id, table in tables.items():
        known = rows[id] >= 0
        sizes += np.bincount(
            rows[id][known], weights=table.length[known], minlength=len(commits)
        ).astype(np.int64)
    return tuple(zip(commits, sizes.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Cells:
    """Chunk grid, with one number for each cell, row by row."""

    grid: tuple[int, ...]
    rows: int
    columns: int
    is_binned: bool
    is_complete: bool
    kind: list[int]
    """0 absent, 1 native, 2 virtual, 3 inline: the most frequent one."""
    count: list[int]
    room: list[int]
    size: list[int]
    origin: list[int]
    commits: tuple[Origin, ...]
    chunk_bytes: int | None
    """Uncompressed size of a chunk."""
    changed: list[int] | None = None
    """1 for cells with changed chunks, on a page that compares versions."""


def mark(found: ChunkGrid, coordinates: Any) -> list[int]:
    """Return 1 for each cell that has one of some chunks, else 0."""
    height, width = found.room.shape
    marked = np.zeros(height * width, np.int64)
    if coordinates is not None and len(coordinates) and coordinates.shape[1] == len(found.grid):
        inside = (coordinates < np.array(found.grid)).all(axis=1)
        cells = find_cells(coordinates[inside].astype(np.int64), found.grid, height, width)
        marked[cells] = 1
    return [int(each) for each in marked]


def to_cells(found: ChunkGrid, chunk_bytes: int | None, changed: list[int] | None) -> Cells:
    """Return a grid as lists of numbers."""
    height, width = found.room.shape
    stacked = np.stack([found.counts[kind].ravel() for kind in ("native", "virtual", "inline")])
    total = stacked.sum(axis=0)
    return Cells(
        found.grid,
        height,
        width,
        found.is_binned,
        found.is_complete,
        np.where(total > 0, stacked.argmax(axis=0) + 1, 0).tolist(),
        total.tolist(),
        [int(each) for each in found.room.ravel()],
        found.size_bytes.ravel().tolist(),
        found.origin.ravel().tolist(),
        found.commits,
        chunk_bytes,
        changed,
    )


_MOST_TIMES = 20_000
"""Maximum elements of a time coordinate in which gaps are looked for."""
_MOST_COORDINATES = 4
"""Maximum coordinates of each kind that are read."""


@dataclass(frozen=True, slots=True)
class TimeCoverage:
    """Times of a coordinate."""

    path: str
    first: str
    last: str
    count: int
    step: str | None
    """Usual distance, such as `6 h`; None if irregular or unknown."""
    segments: tuple[tuple[float, float], ...]
    """Parts of the time span that are covered, between 0 and 1."""
    gaps: int | None
    """Number of gaps; None if not all times were read."""


@dataclass(frozen=True, slots=True)
class SpaceCoverage:
    """Area of a latitude and a longitude coordinate."""

    path: str
    west: float
    south: float
    east: float
    north: float
    step: tuple[float, float] | None
    """Distance of latitudes and longitudes, if regular."""
    is_global: bool


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage in time and space of the variables on the overview."""

    times: tuple[TimeCoverage, ...]
    areas: tuple[SpaceCoverage, ...]
    unreadable: str | None = None


def find_coverage(session: Session, paths: Sequence[str]) -> Coverage:
    """Read the coordinates of some arrays, few of them.

    Parameters
    ----------
    session
        Session at the version to read.
    paths
        Paths of the arrays.
    """
    times: dict[str, TimeCoverage] = {}
    areas: dict[tuple[str, str], SpaceCoverage] = {}
    reason = None
    for path in paths:
        axes = find_axes(session, session.state.view.get_node(path))
        try:
            for axis in axes:
                name = axis.coordinate
                is_new = name is not None and name not in times and len(times) < _MOST_COORDINATES
                if axis.kind == "time" and name and is_new:
                    times[name] = _cover_time(session, axis)
            pair = _find_area(axes)
            if pair and pair not in areas and len(areas) < _MOST_COORDINATES:
                areas[pair] = _cover_area(session, *pair)
        except READ_ERRORS as error:
            reason = explain(error)
    known = {(each.first, each.last, each.count): each for each in times.values() if each.count}
    boxes = {(each.west, each.south, each.east, each.north): each for each in areas.values()}
    return Coverage(tuple(known.values()), tuple(boxes.values()), reason)


def _find_area(axes: Sequence[Axis]) -> tuple[str, str] | None:
    found = {each.kind: each.coordinate for each in axes}
    latitude, longitude = found.get("latitude"), found.get("longitude")
    return (latitude, longitude) if latitude and longitude else None


def _cover_time(session: Session, axis: Axis) -> TimeCoverage:
    path, length = str(axis.coordinate), axis.length
    if not length:
        return TimeCoverage(path, "", "", 0, None, (), None)
    is_whole = length <= _MOST_TIMES
    chosen: Span | list[int] = Span(0, length) if is_whole else [0, length - 1]
    numbers, labels = read_coordinates(session, path, chosen)
    if not labels:
        return TimeCoverage(path, "", "", 0, None, (), None)
    first, last = labels[0], labels[-1]
    if not is_whole or numbers is None or length < 2:
        return TimeCoverage(path, first, last, length, None, ((0.0, 1.0),), None)
    times = np.asarray(numbers)
    steps = np.diff(times)
    usual = float(np.median(steps))
    whole = float(times[-1] - times[0])
    if usual <= 0 or whole <= 0:
        return TimeCoverage(path, first, last, length, None, ((0.0, 1.0),), None)
    breaks = np.flatnonzero(steps > 1.5 * usual)
    starts = [0, *(breaks + 1).tolist()]
    stops = [*breaks.tolist(), length - 1]
    segments = tuple(
        (float(times[a] - times[0]) / whole, float(times[b] - times[0]) / whole)
        for a, b in zip(starts, stops, strict=True)
    )
    is_monthly = _is_monthly(axis.units, usual)
    is_regular = bool(np.allclose(np.delete(steps, breaks), usual, rtol=0.01)) or is_monthly
    step = _spell_step(axis.units, usual) if is_regular else None
    gaps = 0 if is_monthly else len(breaks)
    return TimeCoverage(
        path, first, last, length, step, segments[:500] if gaps else ((0.0, 1.0),), gaps
    )


_UNIT_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def _seconds(units: str | None, step: float) -> float | None:
    name = (units or "").split(" since ")[0].strip().lower()
    if name.startswith(("milli", "ms")):
        return step / 1e3
    if name.startswith(("micro", "us")):
        return step / 1e6
    if name.startswith(("nano", "ns")):
        return step / 1e9
    if name.startswith(("month", "year")):
        return None
    scale = _UNIT_SECONDS.get(name[:1])
    return None if scale is None else step * scale


def _is_monthly(units: str | None, step: float) -> bool:
    seconds = _seconds(units, step)
    return seconds is not None and 27.5 <= seconds / 86400 <= 31.5


def _spell_step(units: str | None, step: float) -> str | None:
    """Format the distance of times, such as `6 h`."""
    seconds = _seconds(units, step)
    if seconds is None:
        return None
    if _is_monthly(units, step):
        return "month"
    if 360 <= seconds / 86400 <= 367:
        return "year"
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= size:
            count = seconds / size
            return {"d": "day", "h": "hour"}.get(name, f"1 {name}") if abs(count - 1) < 1e-6 else (
                f"{count:g} {name}"
            )  # fmt: skip
    return f"{seconds:g} s"


def _cover_area(session: Session, latitude: str, longitude: str) -> SpaceCoverage:
    found = []
    for path in (latitude, longitude):
        _, array = session.state.view.get_array(path)
        length = array.shape[0].array_length
        numbers, _ = read_coordinates(session, path, [0, min(1, length - 1), length - 1])
        if numbers is None:
            raise InvalidInputError(f"the coordinate {path} has missing values")
        first, second, last = numbers
        step = abs(last - first) / max(1, length - 1)
        is_regular = length > 1 and math.isclose(abs(second - first), step, rel_tol=0.02)
        found.append((min(first, last), max(first, last), step, is_regular))
    (south, north, tall, is_even), (west, east, wide, is_also) = found
    is_global = east - west + wide >= 359.0
    if west >= 180:
        west, east = west - 360, east - 360
    return SpaceCoverage(
        latitude,
        west - wide / 2,
        max(-90.0, south - tall / 2),
        east + wide / 2,
        min(90.0, north + tall / 2),
        (round(tall, 6), round(wide, 6)) if is_even and is_also else None,
        is_global,
    )
