"""Scan plan: columns, grid, condition and arrays derived from the options of a table."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from frazil.display import suggest
from frazil.errors import InvalidInputError
from frazil.protocols.protocol import MAIN
from frazil.repository.locate import authorize, read_version
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.storage.constructors import storage_from_url
from frazil.tables.columns import (
    Column,
    Columns,
    Grid,
    Region,
    Values,
    byte_width,
    common_cuts,
    find_columns,
    find_grid,
)
from frazil.tables.predicates import (
    EVERYTHING,
    Condition,
    Leaf,
    columns_of,
    find_zone,
    keep_failures,
    leaves_of,
)
from frazil.tables.pruning import Axis, ChunkTruth, find_chunks
from frazil.tables.scan import Scan
from frazil.tables.statistics import Arrays, tell_of_chunks
from frazil.tables.table_options import NO_REPOSITORY, Options, Table
from frazil.urls import BranchRef, Location, NamedRef, parse_location

AnyRepository = Repository | Location
"""Repository, or its location."""


@dataclass(frozen=True, slots=True)
class Source:
    """Repository and a read-only session at the selected version.

    The options name that version even if it came from the URL.
    """

    repository: Repository
    session: Session
    options: Options


def open_source(options: Options, repository: AnyRepository | None = None) -> Source:
    """Open the repository that the options name, or the given one, at the version they name."""
    location: Any = options.repo if repository is None else repository
    if location is None:
        raise InvalidInputError(NO_REPOSITORY)
    ref = options.ref
    if isinstance(location, Repository):
        opened = location
    else:
        url = parse_location(location)
        if ref is not None and url.ref is not None:
            raise InvalidInputError(f"{url} names a version, and so do the options")
        ref = ref or url.ref
        opened = Repository.open(storage_from_url(replace(url, ref=None)))
    authorized = authorize(opened, options.authorize)
    return Source(authorized, read_version(authorized, ref), replace(options, ref=ref))


def find_branch(source: Source, purpose: str) -> str:
    """Return the branch that is read; raises InvalidInputError with the purpose for other versions."""
    match source.options.ref:
        case None:
            return MAIN
        case BranchRef(name, None):
            return name
        case NamedRef(name) if name in source.repository.list_branches():
            return name
    raise InvalidInputError(f"{purpose} goes with a branch, not with a tag, a snapshot or a moment")


class ChunkCount(NamedTuple):
    """Number of chunks of an array to read, and in total, written or not."""

    read: int
    total: int


@dataclass(frozen=True, slots=True, eq=False)
class ScanPlan:
    """Everything a task needs to read a table."""

    arrays: Arrays
    columns: Columns
    given: tuple[Column, ...]
    lazy: Mapping[str, Column]
    grids: Mapping[str, Grid]
    grid: Grid
    """Chunks by which rows are partitioned."""
    axes: Mapping[str, Axis]
    condition: Condition
    target_bytes: int
    told: Mapping[Leaf, ChunkTruth] = field(default_factory=dict)
    """Possible results per chunk of leaves on arrays, from statistics."""

    def scan(self) -> Scan:
        """Return the scan of a region."""
        return Scan(
            self.columns.dims,
            self.given,
            self.lazy,
            self.grids,
            self.axes,
            self.condition,
            self.told,
        )

    def read_array(self, name: str, region: Region) -> Values:
        """Read values of an array in a region."""
        return self.arrays.read(name, self.columns.get(name).type, region)

    def find_chunks(self, grid: Grid | None = None) -> NDArray[np.bool_]:
        """Return a mask of the chunks of a grid with these dimensions that may have matching rows."""
        axes = {**self.axes, **self._load_coordinates()}
        return find_chunks(self.condition, axes, grid or self.grid, self.told)

    def check_access(self, kept: NDArray[np.bool_], grid: Grid, names: Iterable[str]) -> None:
        """Raise InvalidInputError if the first chunks to read are virtual and not authorized.

        Tasks would fail too, but only after they start, and once per retry.
        """
        if not self.arrays.is_restricted or not kept.any():
            return
        first = np.unravel_index(int(np.argmax(kept)), kept.shape)
        places = zip(grid.dims, grid.offsets, first, strict=True)
        starts = {dim: int(offsets[number]) for dim, offsets, number in places}
        for name in names:
            own = self.find_grid(name)
            chunk = [
                int(np.searchsorted(offsets, starts[dim], side="right")) - 1
                for dim, offsets in zip(own.dims, own.offsets, strict=True)
            ]
            self.arrays.check_access(name, tuple(chunk))

    def count_chunks(self) -> dict[str, ChunkCount]:
        """Return the number of chunks with matching rows, by array."""
        counts = {}
        for name, own in self.grids.items():
            kept = self.find_chunks(self.grid.cut_like(own))
            counts[name] = ChunkCount(int(kept.sum()), prod(own.shape))
        return counts

    def find_grid(self, name: str) -> Grid:
        """Return the chunk grid of an array."""
        return find_grid(self.arrays.session, self.arrays.group, self.columns.get(name))

    def _load_coordinates(self) -> dict[str, Axis]:
        """Read the multidimensional coordinates that the condition uses."""
        asked = columns_of(self.condition) - set(self.columns.variables)
        found = {}
        for name in asked & set(self.lazy):
            column = self.lazy[name]
            whole = tuple(slice(0, self.columns.sizes[dim]) for dim in column.dims)
            found[name] = Axis(column.dims, self.read_array(name, whole))
        return found


def choose(source: Source, *, with_all_columns: bool = False) -> ScanPlan:
    """Plan the scan that the options of a source describe. Reads only coordinates and statistics."""
    options, session = source.options, source.session
    columns = find_columns(session, options.group, options.variables)
    condition = _read_condition(options, columns)
    given = columns.all
    if options.columns is not None and not with_all_columns:
        given = tuple(columns.get(name) for name in options.columns)
    asked = {each.name for each in given} | columns_of(condition)
    lazy = {
        each.name: each for each in columns.all if each.kind == "variable" and each.name in asked
    }
    arrays = Arrays(session, options.group, columns.opened)
    grids = {name: find_grid(session, options.group, each) for name, each in lazy.items()}
    chosen = ScanPlan(
        arrays=arrays,
        columns=columns,
        given=given,
        lazy=lazy,
        grids=grids,
        grid=_plan_grid(source, columns, grids, given),
        axes={
            each.name: _load_scan(arrays, columns, each)
            for each in columns.all
            if _is_kept(each, asked)
        },
        condition=condition,
        target_bytes=options.target_bytes,
    )
    return replace(chosen, told=_ask_statistics(chosen))


def _ask_statistics(chosen: ScanPlan) -> dict[Leaf, ChunkTruth]:
    """Return statistics on the arrays that the condition uses, for chunks left by coordinates."""
    leaves: dict[str, list[Leaf]] = {}
    for leaf in leaves_of(chosen.condition):
        if leaf.column in chosen.lazy:
            leaves.setdefault(leaf.column, []).append(leaf)
    told: dict[Leaf, ChunkTruth] = {}
    for name, about in leaves.items():
        column, own = chosen.lazy[name], chosen.grids[name]
        wanted = find_chunks(chosen.condition, chosen.axes, chosen.grid.cut_like(own))
        # Dimensions that the array lacks are not split.
        order = [dim for dim in chosen.grid.dims if dim in own.dims]
        wanted = wanted.reshape([own.shape[own.dims.index(dim)] for dim in order])
        wanted = wanted.transpose([order.index(dim) for dim in own.dims])
        told.update(tell_of_chunks(chosen.arrays, column, own, about, wanted))
    return told


def _read_condition(options: Options, columns: Columns) -> Condition:
    if options.where is None:
        return EVERYTHING
    zone = find_zone(options.time_zone)
    from frazil.tables.sql_predicates import Scope, parse_predicate  # noqa: PLC0415

    scope = Scope(columns.types, zone, options.qualifiers, options.needs_qualifier, options.is_ansi)
    return keep_failures(parse_predicate(options.where, scope))


def _is_kept(column: Column, asked: set[str]) -> bool:
    return column.kind != "variable" and column.name in asked


def _load_scan(arrays: Arrays, columns: Columns, column: Column) -> Axis:
    whole = tuple(slice(0, columns.sizes[dim]) for dim in column.dims)
    if column.kind == "index":
        values = Values(column.type, np.arange(whole[0].stop, dtype=np.int64))
    else:
        values = arrays.read(column.name, column.type, whole)
    return Axis(column.dims, values)


def _plan_grid(
    source: Source, columns: Columns, grids: Mapping[str, Grid], given: tuple[Column, ...]
) -> Grid:
    """Return boxes of whole chunks of all arrays; of the largest array only, if they get too large."""
    session, group = source.session, source.options.group
    known = grids or {
        name: find_grid(session, group, columns.get(name)) for name in columns.variables
    }
    whole = Grid(columns.dims, tuple(np.array([0, size]) for size in columns.sizes.values()))
    largest = max(known.values(), key=lambda each: (len(each.dims), each.largest_chunk()))
    own = whole.cut_like(largest)
    shared = [
        common_cuts([*known.values()], dim)
        if any(dim in each.dims for each in known.values())
        else cuts
        for dim, cuts in zip(own.dims, own.offsets, strict=True)
    ]
    common = Grid(columns.dims, tuple(shared))
    width = sum(byte_width(each.type) for each in given)
    return common if common.largest_chunk() * width <= source.options.target_bytes else own


CELLS = "cells"
ABOUT_REPOSITORY: Mapping[str, str] = {
    "arrays": "array_tables",
    "changes": "change_feed",
    "chunks": "chunk_tables",
    "history": "history_tables",
    "ledger": "array_tables",
    "manifests": "chunk_tables",
    "nodes": "array_tables",
    "ops_log": "history_tables",
    "refs": "history_tables",
    "snapshots": "history_tables",
    "statistics": "array_tables",
    "storage": "array_tables",
    "virtual_sources": "chunk_tables",
}
"""Module of each table, with its function `open_…`. It is imported when the table is opened, because
Spark starts a process for each step of query planning.
"""
TABLES = frozenset((CELLS, *ABOUT_REPOSITORY))


def open_table(source: Source) -> Table:
    """Open the table that the options of a source name; raises InvalidInputError."""
    name = source.options.table
    if name not in TABLES:
        raise InvalidInputError(f"there is no table {name!r}: {suggest(name, sorted(TABLES))}")
    open_it: Callable[[Source], Table]
    if name in ABOUT_REPOSITORY:
        open_it = getattr(_load_table(ABOUT_REPOSITORY[name]), f"open_{name}")
    elif source.options.layout == "chunks":
        open_it = _load_table("cells").open_chunk_rows
    else:
        open_it = _load_table("cells").open_cells
    return open_it(source)


def _load_table(module: str) -> Any:
    return import_module(f"frazil.tables.{module}")
