"""Change feed: changes of each commit to nodes, chunks and cells, as a table and a stream."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.errors import ConflictError, InvalidInputError, SnapshotNotFoundError
from frazil.format.coordinates import Coordinates
from frazil.format.ids import SnapshotId
from frazil.format.metadata import to_microseconds
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import Snapshot
from frazil.protocols.protocol import MAIN, CommitProtocol
from frazil.protocols.v1_protocol import read_snapshot
from frazil.repository.changes import ChangeSet
from frazil.repository.diff import compare_snapshots, diff
from frazil.repository.locate import read_version
from frazil.repository.rebase import read_references
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.repository.view import View
from frazil.snapshots import Diff
from frazil.tables.chunk_tables import BATCH_ROWS, BOUNDS, BoundsFinder, place_column
from frazil.tables.columns import (
    TIMESTAMP,
    Column,
    GroupArrays,
    Region,
    Values,
    byte_width,
    join_boxes,
    split_to_read,
)
from frazil.tables.scan_plan import ScanPlan, plan_scan, schema_of
from frazil.tables.table_options import Options
from frazil.tables.table_source import Source, find_branch, list_of, select_fields
from frazil.urls import NamedRef

EARLIEST, LATEST = "earliest", "latest"
COMMITS_OF_A_TASK = 50
"""Maximum commits per task; few commits get one task each."""
_ENOUGH_TASKS = 64
ChangeKind = Literal[
    "group_created", "group_updated", "group_deleted", "array_created", "array_updated",
    "array_deleted", "node_moved", "chunk_set", "chunk_deleted",
]  # fmt: skip
_NODE_CHANGES: dict[ChangeKind, str] = {
    "group_deleted": "deleted_groups", "array_deleted": "deleted_arrays",
    "group_created": "new_groups", "array_created": "new_arrays",
    "group_updated": "updated_groups", "array_updated": "updated_arrays",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Commit:
    """Snapshot and its parent."""

    id: str
    parent_id: str | None
    written_at: int
    """Microseconds since 1970."""
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class NodeChange:
    """Change of a node by a commit."""

    kind: ChangeKind
    path: str
    from_path: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ChunkChanges:
    """Chunks of an array that a commit set or deleted; the array exists in that version."""

    kind: ChangeKind
    path: str
    chunks: Coordinates


def resolve(repository: Repository, name: str) -> str:
    """Return the snapshot id of a tag, branch or id; raises RefNotFoundError, SnapshotNotFoundError."""
    return read_version(repository, NamedRef(name)).snapshot_id


def list_line(protocol: CommitProtocol, tip: str) -> list[Commit]:
    """Return the commits up to a snapshot, oldest first."""
    infos = list(protocol.ancestry(SnapshotId.parse(tip)))
    # Not every generation records the parent; the ancestry always has it.
    parents = [*(str(info.id) for info in infos[1:]), None]
    found = [_describe(info, parent) for info, parent in zip(infos, parents, strict=True)]
    return found[::-1]


def _describe(info: SnapshotInfo, parent_id: str | None) -> Commit:
    return Commit(str(info.id), parent_id, to_microseconds(info.flushed_at), info.message)


@dataclass(frozen=True, slots=True, eq=False)
class CommitRange:
    """Commits after one version up to another."""

    repository: Repository
    start: str
    """Snapshot, tag or branch (exclusive), or `earliest` or `latest`."""
    end: str
    """Snapshot id (inclusive)."""

    def list(self) -> list[Commit]:
        """Return the commits, oldest first; raises InvalidInputError if `start` is no ancestor."""
        session = self.repository.readonly_session(snapshot_id=self.end)
        line = list_line(session.state.context.protocol, self.end)
        if self.start == EARLIEST:
            return line
        first = self.end if self.start == LATEST else resolve(self.repository, self.start)
        numbers = [number for number, commit in enumerate(line) if commit.id == first]
        if not numbers:
            raise InvalidInputError(
                f"invalid from {self.start!r}: {first} is no ancestor of {self.end}; "
                "give a version in its "
                "history"
            )
        return line[numbers[0] + 1 :]


def find_changes(
    protocol: CommitProtocol, commit: Commit, array: str | None = None
) -> Iterator[NodeChange | ChunkChanges]:
    """Yield the changes of a commit: nodes first, then chunks, optionally of one array only."""
    new = read_snapshot(protocol.assets, SnapshotId.parse(commit.id))
    found = _diff(protocol, commit, new)
    for source, target in found.moved_nodes:
        yield NodeChange("node_moved", target, source)
    for kind, name in _NODE_CHANGES.items():
        for path in sorted(getattr(found, name)):
            yield NodeChange(kind, path)
    for path, chunks in sorted(found.chunk_coordinates.items()):
        if array is None or path == array:
            yield from _split_by_existence(protocol, new, path, chunks)


def _diff(protocol: CommitProtocol, commit: Commit, new: Snapshot) -> Diff:
    if commit.parent_id is not None:
        return diff(protocol, SnapshotId.parse(commit.parent_id), new.id)
    # The oldest remaining snapshot: everything in it is new.
    nothing = Snapshot(new.id, None, new.flushed_at, "")
    return compare_snapshots(protocol.assets, nothing, new)


def _split_by_existence(
    protocol: CommitProtocol, new: Snapshot, path: str, chunks: Coordinates
) -> Iterator[ChunkChanges]:
    """Split changed chunks into those that now exist and those that were deleted."""
    view = View(protocol.assets, new, ChangeSet.of(protocol.dialect))
    node = view.find_node(path)
    if node is None or node.array is None or len(node.array.shape) != chunks.shape[1]:
        return
    inside = np.ones(len(chunks), np.bool_)
    for axis, dimension in enumerate(node.array.shape):
        inside &= chunks[:, axis] < dimension.num_chunks
    chunks = chunks[inside]
    present = read_references(protocol.assets, node, chunks).locate(chunks) >= 0
    kinds: Sequence[tuple[ChangeKind, Coordinates]] = (
        ("chunk_set", chunks[present]),
        ("chunk_deleted", chunks[~present]),
    )
    for kind, places in kinds:
        if len(places):
            yield ChunkChanges(kind, path, places)


def plan_tasks(commits: Sequence[Commit]) -> list[tuple[Commit, ...]]:
    """Group commits by task, in their order."""
    size = min(max(len(commits) // _ENOUGH_TASKS, 1), COMMITS_OF_A_TASK)
    return [tuple(commits[at : at + size]) for at in range(0, len(commits), size)]


def describe_rows(commit: Commit, count: int) -> dict[str, pa.Array]:
    """Return the columns that are constant for all rows of a commit."""
    scalars = {
        "snapshot_id": pa.scalar(commit.id, pa.string()),
        "parent_id": pa.scalar(commit.parent_id, pa.string()),
        "written_at": pa.scalar(commit.written_at, pa.int64()).cast(TIMESTAMP),
        "message": pa.scalar(commit.message, pa.string()),
    }
    return {name: pa.repeat(value, count) for name, value in scalars.items()}


_OWN = pa.schema(
    {
        "snapshot_id": pa.string(), "parent_id": pa.string(), "written_at": TIMESTAMP,
        "message": pa.string(),
    }
)  # fmt: skip
_OLD, _NEW = "old", "new"


@dataclass(frozen=True, slots=True, eq=False)
class ChangedCells:
    """Table of the cells in chunks of one array that commits set or deleted.

    `old` is null where the array was smaller before the commit, or did not exist.
    """

    repository: Repository
    options: Options
    variable: str
    coordinates: tuple[Column, ...]
    type: pa.DataType
    schema: pa.Schema
    """The selected columns."""
    range: CommitRange

    def partitions(self) -> Sequence[tuple[Commit, ...]]:
        """Return the commits by task, oldest first."""
        return plan_tasks(self.range.list())

    def read(self, partition: Sequence[Commit]) -> Iterator[pa.RecordBatch]:
        """Yield the cells changed by some commits."""
        for commit in partition:
            yield from self._read_commit(commit)

    def _read_commit(self, commit: Commit) -> Iterator[pa.RecordBatch]:
        after = self.repository.readonly_session(snapshot_id=commit.id)
        path = GroupArrays(after, self.options.group).path(self.variable)
        changes = find_changes(after.state.context.protocol, commit, path)
        chunks = [each.chunks for each in changes if isinstance(each, ChunkChanges)]
        if chunks:
            new = _select_cells(self, after)
            before = _Before.find(self, commit, after, path)
            for region in _regions(new, self.variable, np.concatenate(chunks).astype(np.int64)):
                yield from self._read_region(commit, new, before, region)

    def _read_region(
        self, commit: Commit, new: ScanPlan, before: "_Before", region: Region
    ) -> Iterator[pa.RecordBatch]:
        read = new.read_columns(region)
        read[_NEW] = read.pop(self.variable)
        dims = new.columns.get(self.variable).dims
        shape = read[_NEW].data.shape
        read[_OLD] = before.read(region, shape, dims, read[_NEW])
        ends = tuple(Column(name, "variable", dims, self.type) for name in (_OLD, _NEW))
        cells = replace(new, selected=(*self.coordinates, *ends), lazy={}, grids={})
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
    """Array as it was before a commit, if it existed."""

    variable: str
    plan: ScanPlan | None = None

    @classmethod
    def find(cls, cells: ChangedCells, commit: Commit, after: Session, path: str) -> "_Before":
        if commit.parent_id is None:
            return cls(cells.variable)
        before = cells.repository.readonly_session(snapshot_id=commit.parent_id)
        node = after.state.view.get_node(path)
        former = [each for each in before.state.view.nodes() if each.id == node.id]
        # A moved array is still the same array, as long as it has the same dimensions.
        if not former or former[0].array is None or node.array is None:
            return cls(cells.variable)
        if former[0].array.dimension_names != node.array.dimension_names:
            return cls(cells.variable)
        group, _, name = former[0].path.rpartition("/")
        options = replace(cells.options, group=group or "/", variables=(name,))
        return cls(name, plan_scan(Source.of(cells.repository, before, options)))

    def read(
        self, region: Region, shape: tuple[int, ...], dims: Sequence[str], new: Values
    ) -> Values:
        """Return the old values in a region; missing where there were none."""
        data: NDArray[Any] = np.zeros(shape, new.data.dtype)
        missing = np.ones(shape, np.bool_)
        if self.plan is None or self.plan.columns.get(self.variable).type != new.type:
            return Values(new.type, data, missing)
        sizes = self.plan.columns.sizes
        part = tuple(
            slice(each.start, min(each.stop, sizes[dim]))
            for each, dim in zip(region, dims, strict=True)
        )
        if any(each.stop <= each.start for each in part):
            return Values(new.type, data, missing)
        values = self.plan.read_array(self.variable, part)
        own = tuple(slice(0, size) for size in values.data.shape)
        data[own] = values.data
        missing[own] = False if values.missing is None else values.missing
        return Values(new.type, data, missing)


def _select_cells(cells: ChangedCells, session: Session) -> ScanPlan:
    plan = plan_scan(Source.of(cells.repository, session, cells.options))
    found = {each.name: each for each in plan.columns.all}
    type = found[cells.variable].type
    lost = [each.name for each in cells.coordinates if found.get(each.name) != each]
    if type != cells.type or lost:
        raise InvalidInputError(
            f"{cells.variable} has other columns in {session.snapshot_id} than at the end "
            f"({', '.join(lost) or f'type {type}, not {cells.type}'}): read the "
            "commits before and after "
            "it separately, with `from` and `to`"
        )
    return plan


def _regions(plan: ScanPlan, variable: str, chunks: NDArray[np.int64]) -> Iterator[Region]:
    grid = plan.find_grid(variable)
    width = sum(byte_width(each.type) for each in plan.columns.all)
    if not grid.dims:
        yield ()
        return
    for box in join_boxes(chunks):
        yield from map(grid.region, split_to_read(grid, box, width))


def open_changed_cells(source: Source, range: CommitRange) -> ChangedCells:
    """Open the feed of the array that the options name, with the columns of the source's session."""
    options = source.options
    columns = source.arrays.columns(options.variables)
    if len(columns.variables) != 1:
        raise InvalidInputError(
            "values=true reads one array, but there are "
            f"{', '.join(columns.variables)}: select one with "
            "`variables`"
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
            f"the coordinate {', '.join(twice)} has the name of a column of the feed: rename it"
        )
    return ChangedCells(
        repository=source.repository,
        options=replace(options, variables=(variable,), columns=None, where=None),
        variable=variable,
        coordinates=coordinates,
        type=type,
        schema=select_fields(options, pa.schema(whole)),
        range=range,
    )


_TEXT = pa.string()
_SCHEMA = pa.schema(
    {
        "snapshot_id": _TEXT, "parent_id": _TEXT, "written_at": TIMESTAMP, "message": _TEXT,
        "change": _TEXT, "path": _TEXT, "from_path": _TEXT, "chunk": list_of(pa.int64()),
        "bounds": BOUNDS,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ChangeRows:
    """Table of the nodes and chunks that commits changed, one row each."""

    repository: Repository
    schema: pa.Schema
    range: CommitRange

    def partitions(self) -> Sequence[tuple[Commit, ...]]:
        """Return the commits by task, oldest first."""
        return plan_tasks(self.range.list())

    def read(self, partition: Sequence[Commit]) -> Iterator[pa.RecordBatch]:
        """Yield the changes of some commits."""
        for commit in partition:
            yield from self._read_commit(commit)

    def _read_commit(self, commit: Commit) -> Iterator[pa.RecordBatch]:
        session = self.repository.readonly_session(snapshot_id=commit.id)
        changes = list(find_changes(session.state.context.protocol, commit))
        nodes = [each for each in changes if isinstance(each, NodeChange)]
        if nodes:
            yield self._node_rows(commit, nodes)
        finder = BoundsFinder(session)
        for change in changes:
            if isinstance(change, ChunkChanges):
                yield from self._chunk_rows(commit, change, session, finder)

    def _node_rows(self, commit: Commit, changes: Sequence[NodeChange]) -> pa.RecordBatch:
        count = len(changes)
        own = {
            "change": pa.array([each.kind for each in changes], _TEXT),
            "path": pa.array([each.path for each in changes], _TEXT),
            "from_path": pa.array([each.from_path for each in changes], _TEXT),
            "chunk": pa.nulls(count, _SCHEMA.field("chunk").type),
            "bounds": pa.nulls(count, BOUNDS),
        }
        return self._batch(commit, own, count)

    def _chunk_rows(
        self, commit: Commit, change: ChunkChanges, session: Session, finder: BoundsFinder
    ) -> Iterator[pa.RecordBatch]:
        spans = finder.find(session.state.view.get_node(change.path))
        for start in range(0, len(change.chunks), BATCH_ROWS):
            chunks = change.chunks[start : start + BATCH_ROWS]
            own = {
                "change": pa.repeat(pa.scalar(change.kind, _TEXT), len(chunks)),
                "path": pa.repeat(pa.scalar(change.path, _TEXT), len(chunks)),
                "from_path": pa.nulls(len(chunks), _TEXT),
                "chunk": place_column(chunks),
                "bounds": spans.column(chunks),
            }
            yield self._batch(commit, own, len(chunks))

    def _batch(self, commit: Commit, own: dict[str, Any], count: int) -> pa.RecordBatch:
        columns = {**describe_rows(commit, count), **own}
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self.schema.names], schema=self.schema
        )


Changes = ChangeRows | ChangedCells


def open_changes(source: Source) -> Changes:
    """Open the changes after `from` up to `to`, or up to the version that the options name.

    `from` and `to` are snapshots, tags or branches; `from` is exclusive and defaults to `earliest`.
    """
    more, repository = source.options.more, source.repository
    end = more.get("to")
    tip = source.session.snapshot_id if end is None else resolve(repository, end)
    start = more.get("from", EARLIEST)
    if start in repository.list_branches():
        # Pin a branch to its current tip. Other refs don't move and are resolved when needed.
        start = repository.lookup_branch(start)
    session = repository.readonly_session(snapshot_id=tip)
    at_end = Source.of(repository, session, source.options)
    return make_feed(at_end, CommitRange(repository, start, tip))


def make_feed(source: Source, range: CommitRange) -> Changes:
    """Return the feed that the options select; cell columns are those of the source's session."""
    wanted = source.options.more.get("values", "false").lower()
    if wanted not in ("true", "false"):
        raise InvalidInputError(f"invalid values {wanted!r}: give true or false")
    if wanted == "true":
        return open_changed_cells(source, range)
    return ChangeRows(source.repository, select_fields(source.options, _SCHEMA), range)


OnReset = Literal["fail", "ancestor", "latest"]
OnExpired = Literal["fail", "earliest"]
BEGINNING = ""
"""Offset before the first commit."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of a stream that follows a branch."""

    branch: str = MAIN
    start: str = EARLIEST
    """Start of a new stream: `earliest`, `latest`, or after a snapshot, tag or branch."""
    on_reset: OnReset = "fail"
    """Policy if a reset removed the last commit that was read from the branch."""
    on_expired: OnExpired = "fail"
    """Policy if the last commit that was read has expired."""
    max_commits: int | None = None
    """Maximum commits per batch."""


def parse_stream_options(source: Source) -> StreamOptions:
    """Return the stream options of a source; raises InvalidInputError."""
    more = source.options.more
    most = more.get("max_commits")
    if most is not None and (not most.isdecimal() or int(most) < 1):
        raise InvalidInputError(f"invalid max_commits {most!r}: give a number of at least 1")
    if "to" in more:
        raise InvalidInputError("a stream has no end: leave out the option `to`")
    return StreamOptions(
        branch=find_branch(source, "a stream"),
        start=more.get("from", EARLIEST),
        on_reset=cast("OnReset", _select_commits(more, "on_reset", OnReset)),
        on_expired=cast("OnExpired", _select_commits(more, "on_expired", OnExpired)),
        max_commits=None if most is None else int(most),
    )


def _select_commits(more: Mapping[str, str], name: str, choices: Any) -> str:
    known: Sequence[str] = get_args(choices)
    found = more.get(name, known[0])
    if found not in known:
        raise InvalidInputError(f"invalid {name} {found!r}: expected {', '.join(known)}")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class CommitStream:
    """Branch followed as a stream of commits."""

    repository: Repository
    protocol: CommitProtocol
    options: StreamOptions

    def tip(self) -> str:
        """Return the newest commit of the branch; raises RefNotFoundError."""
        return self.repository.lookup_branch(self.options.branch)

    def initial(self) -> str:
        """Return the offset at which a new stream starts."""
        match self.options.start:
            case "earliest":
                return BEGINNING
            case "latest":
                return self.tip()
            case name:
                return resolve(self.repository, name)

    def latest(self, start: str, most: int | None = None, target: str | None = None) -> str:
        """Return the offset at most `most` commits after `start`, limited by the target or the tip."""
        line = list_line(self.protocol, target or self.tip())
        todo = self._after(line, start)
        if todo:
            return todo[: most or len(todo)][-1].id
        is_on_line = any(commit.id == start for commit in line)
        return start if is_on_line else line[-1].id

    def between(self, start: str, end: str) -> list[Commit]:
        """Return the commits after `start` up to `end`, oldest first."""
        if start == end:
            return []
        try:
            line = list_line(self.protocol, end)
        except SnapshotNotFoundError as error:
            if self.options.on_expired == "fail":
                raise self._expired(end) from error
            # The end has expired; the next batch starts at the oldest remaining commit.
            return []
        return self._after(line, start)

    def _after(self, line: list[Commit], start: str) -> list[Commit]:
        """Return the commits of a line after an offset, which need not be on it."""
        if start == BEGINNING:
            return line
        numbers = {commit.id: number for number, commit in enumerate(line)}
        if start in numbers:
            return line[numbers[start] + 1 :]
        try:
            former = list(self.protocol.ancestry(SnapshotId.parse(start)))
        except SnapshotNotFoundError as error:
            if self.options.on_expired == "fail":
                raise self._expired(start) from error
            return line
        return self._after_reset(line, [numbers.get(str(info.id), -1) for info in former], start)

    def _after_reset(self, line: list[Commit], shared: list[int], start: str) -> list[Commit]:
        match self.options.on_reset:
            case "latest":
                return []
            case "ancestor":
                return line[max(shared) + 1 :]
        raise ConflictError(
            message=f"the branch {self.options.branch} was reset, and the last commit that the stream"
            f" read, {start}, is no longer in its history: set the option on_reset to ancestor, to"
            " continue from the common ancestor, or to latest"
        )

    def _expired(self, id: str) -> SnapshotNotFoundError:
        return SnapshotNotFoundError(
            f"the last commit that the stream read, {id}, has expired: set the option on_expired to "
            "earliest, to read all commits that are left again"
        )


def open_stream(source: Source) -> CommitStream:
    """Open a stream of the branch that the options of a source name."""
    protocol = source.session.state.context.protocol
    return CommitStream(source.repository, protocol, parse_stream_options(source))
