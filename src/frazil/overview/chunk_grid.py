"""Chunk references of an array on a grid of cells: kind, size and the commit that wrote them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.errors import IcechunkError
from frazil.format.ids import NodeId
from frazil.format.manifest import ChunkKind, ChunkTable, InlineRef, VirtualRef, concatenate
from frazil.format.timestamps import to_datetime
from frazil.overview.contents import MOST_MANIFESTS
from frazil.overview.nodes import normalize
from frazil.repository.session import Session

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
