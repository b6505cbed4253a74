"""Cells of chunks that commits changed, with their values before and after."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.format.paths import validate_path
from frazil.frames.chosen import Chosen, choose
from frazil.frames.columns import Column, find_columns
from frazil.frames.grids import Region, join_boxes, split_box
from frazil.frames.options import Options
from frazil.frames.scanning import schema_of
from frazil.frames.source import Source
from frazil.frames.tables.commits import (
    ChunkChanges,
    Commit,
    CommitRange,
    describe_rows,
    find_changes,
    plan_tasks,
)
from frazil.frames.tables.whole import choose_columns
from frazil.frames.types import TIMESTAMP, Values, byte_width
from frazil.repository import Repository
from frazil.session import Session

_OWN = pa.schema(
    {
        "snapshot_id": pa.string(), "parent_id": pa.string(), "written_at": TIMESTAMP,
        "message": pa.string(),
    }
)  # fmt: skip
_OLD, _NEW = "old", "new"
_READ_AT_ONCE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, eq=False)
class ChangedCells:
    """A row for each cell of a chunk of one array that a commit set or deleted.

    `old` is null where the array was smaller before, or not there.
    """

    repository: Repository
    options: Options
    variable: str
    coordinates: tuple[Column, ...]
    type: pa.DataType
    schema: pa.Schema
    """The columns that were asked for."""
    range: CommitRange

    def partitions(self) -> Sequence[tuple[Commit, ...]]:
        """The commits, oldest first."""
        return plan_tasks(self.range.list())

    def read(self, partition: Sequence[Commit]) -> Iterator[pa.RecordBatch]:
        """The cells that some commits changed."""
        for commit in partition:
            yield from self._read_commit(commit)

    def _read_commit(self, commit: Commit) -> Iterator[pa.RecordBatch]:
        after = self.repository.readonly_session(snapshot_id=commit.id)
        path = find_path(self.options.group, self.variable)
        changes = find_changes(after.state.surroundings.protocol, commit, path)
        chunks = [each.chunks for each in changes if isinstance(each, ChunkChanges)]
        if chunks:
            new = _choose(self, after)
            before = _Before.find(self, commit, after, path)
            for region in _regions(new, self.variable, np.concatenate(chunks).astype(np.int64)):
                yield from self._read_region(commit, new, before, region)

    def _read_region(
        self, commit: Commit, new: Chosen, before: "_Before", region: Region
    ) -> Iterator[pa.RecordBatch]:
        scan = new.scan()
        read = scan.read_columns(region, None, new.read_array)
        read[_NEW] = read.pop(self.variable)
        dims = new.columns.get(self.variable).dims
        shape = read[_NEW].data.shape
        read[_OLD] = before.read(region, shape, dims, read[_NEW])
        ends = tuple(Column(name, "variable", dims, self.type) for name in (_OLD, _NEW))
        cells = replace(scan, given=(*self.coordinates, *ends), lazy={}, grids={})
        for batch in cells.batches(region, None, read):
            columns = {
                **describe_rows(commit, len(batch)),
                **dict(zip(batch.schema.names, batch.columns, strict=True)),
            }
            yield pa.RecordBatch.from_arrays(
                [columns[name] for name in self.schema.names], schema=self.schema
            )


@dataclass(frozen=True, slots=True, eq=False)
class _Before:
    """The array as it was before a commit, if it was there."""

    variable: str
    chosen: Chosen | None = None

    @classmethod
    def find(cls, cells: ChangedCells, commit: Commit, after: Session, path: str) -> "_Before":
        if commit.parent_id is None:
            return cls(cells.variable)
        before = cells.repository.readonly_session(snapshot_id=commit.parent_id)
        node = after.state.view.get_node(path)
        former = [each for each in before.state.view.nodes() if each.id == node.id]
        # It is the same array wherever it was, as long as it has the same dimensions.
        if not former or former[0].array is None or node.array is None:
            return cls(cells.variable)
        if former[0].array.dimension_names != node.array.dimension_names:
            return cls(cells.variable)
        group, _, name = former[0].path.rpartition("/")
        options = replace(cells.options, group=group or "/", variables=(name,))
        return cls(name, choose(Source(cells.repository, before, options)))

    def read(
        self, region: Region, shape: tuple[int, ...], dims: Sequence[str], new: Values
    ) -> Values:
        """Values in a region as far as there were any; the rest is missing."""
        data: NDArray[Any] = np.zeros(shape, new.data.dtype)
        missing = np.ones(shape, np.bool_)
        if self.chosen is None or self.chosen.columns.get(self.variable).type != new.type:
            return Values(new.type, data, missing)
        sizes = self.chosen.columns.sizes
        part = tuple(
            slice(each.start, min(each.stop, sizes[dim]))
            for each, dim in zip(region, dims, strict=True)
        )
        if any(each.stop <= each.start for each in part):
            return Values(new.type, data, missing)
        values = self.chosen.read_array(self.variable, part)
        own = tuple(slice(0, size) for size in values.data.shape)
        data[own] = values.data
        missing[own] = False if values.missing is None else values.missing
        return Values(new.type, data, missing)


def _choose(cells: ChangedCells, session: Session) -> Chosen:
    chosen = choose(Source(cells.repository, session, cells.options))
    found = {each.name: each for each in chosen.columns.all}
    type = found[cells.variable].type
    lost = [each.name for each in cells.coordinates if found.get(each.name) != each]
    if type != cells.type or lost:
        raise InvalidInputError(
            f"{cells.variable} in {session.snapshot_id} has other columns than at the end: "
            f"{', '.join(lost) or f'its type is {type}, no {cells.type}'}. Ask for the commits before "
            "and after it apart, with `from` and `to`"
        )
    return chosen


def _regions(chosen: Chosen, variable: str, chunks: NDArray[np.int64]) -> Iterator[Region]:
    grid = chosen.find_grid(variable)
    width = sum(byte_width(each.type) for each in chosen.columns.all)
    most = max(_READ_AT_ONCE_BYTES // max(grid.largest_chunk() * width, 1), 1)
    if not grid.dims:
        yield ()
        return
    for box in join_boxes(chunks):
        for part in split_box(box, most):
            yield grid.region(part)


def find_path(group: str, variable: str) -> str:
    """The path of an array of a group."""
    return validate_path("/" + f"{group.strip('/')}/{variable}".lstrip("/"))


def open_changed_cells(source: Source, range: CommitRange) -> ChangedCells:
    """The feed of the one array that the options name, with the columns of the source's session."""
    options = source.options
    columns = find_columns(source.session, options.group, options.variables)
    if len(columns.variables) != 1:
        raise InvalidInputError(
            f"values=true is about one array, and there are {', '.join(columns.variables)}: choose one "
            "with `variables`"
        )
    variable = columns.variables[0]
    coordinates = tuple(each for each in columns.all if each.name != variable)
    type = columns.get(variable).type
    ends: Mapping[str, pa.DataType] = {_OLD: type, _NEW: type}
    whole = [*_OWN, *schema_of(coordinates), *(pa.field(*each) for each in ends.items())]
    names = [each.name for each in whole]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInputError(
            f"{', '.join(twice)} is a coordinate, and a column of the feed as well"
        )
    return ChangedCells(
        repository=source.repository,
        options=replace(options, variables=(variable,), columns=None, where=None),
        variable=variable,
        coordinates=coordinates,
        type=type,
        schema=choose_columns(options, pa.schema(whole)),
        range=range,
    )
