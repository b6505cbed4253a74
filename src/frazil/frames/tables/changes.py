"""The feed of changes: what each commit did to nodes and to chunks, or to the cells of one array."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from frazil.errors import InvalidInputError
from frazil.frames.source import Source
from frazil.frames.tables.bounds import BOUNDS, BoundsFinder
from frazil.frames.tables.changed_cells import ChangedCells, open_changed_cells
from frazil.frames.tables.chunks import BATCH_ROWS, place_column
from frazil.frames.tables.commits import (
    EARLIEST,
    ChunkChanges,
    Commit,
    CommitRange,
    NodeChange,
    describe_rows,
    find_changes,
    plan_tasks,
    resolve,
)
from frazil.frames.tables.whole import choose_columns, list_of
from frazil.frames.types import TIMESTAMP
from frazil.repository import Repository
from frazil.session import Session

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
    """A row for each node and each chunk that a commit changed; tasks read a commit each."""

    repository: Repository
    schema: pa.Schema
    range: CommitRange

    def partitions(self) -> Sequence[tuple[Commit, ...]]:
        """The commits, oldest first."""
        return plan_tasks(self.range.list())

    def read(self, partition: Sequence[Commit]) -> Iterator[pa.RecordBatch]:
        """What some commits changed."""
        for commit in partition:
            yield from self._read_commit(commit)

    def _read_commit(self, commit: Commit) -> Iterator[pa.RecordBatch]:
        session = self.repository.readonly_session(snapshot_id=commit.id)
        changes = list(find_changes(session.state.surroundings.protocol, commit))
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
    """The changes after `from` up to `to`, or up to the version that the options name.

    `from` and `to` are snapshots, tags or branches; `from` is exclusive, and `earliest` if not given.
    """
    more, repository = source.options.more, source.repository
    end = more.get("to")
    tip = source.session.snapshot_id if end is None else resolve(repository, end)
    start = more.get("from", EARLIEST)
    if start in repository.list_branches():
        # Others change no more, and are looked for when they are needed.
        start = repository.lookup_branch(start)
    session = repository.readonly_session(snapshot_id=tip)
    return make_feed(replace(source, session=session), CommitRange(repository, start, tip))


def make_feed(source: Source, range: CommitRange) -> Changes:
    """The feed that the options ask for; columns of cells are those of the source's session."""
    wanted = source.options.more.get("values", "false").lower()
    if wanted not in ("true", "false"):
        raise InvalidInputError(f"values={wanted!r}: it is true or false")
    if wanted == "true":
        return open_changed_cells(source, range)
    return ChangeRows(source.repository, choose_columns(source.options, _SCHEMA), range)
