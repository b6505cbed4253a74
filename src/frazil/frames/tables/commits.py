"""Commits of a line of history, and what each of them changed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from frazil.engine.changes import ChangeSet
from frazil.engine.diffing import diff
from frazil.engine.picked_changes import read_references
from frazil.engine.snapshot_comparison import compare_snapshots
from frazil.engine.view import View
from frazil.errors import InvalidInputError
from frazil.format.coordinates import Coordinates
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import Snapshot
from frazil.format.times import to_microseconds
from frazil.frames.types import TIMESTAMP
from frazil.opening import read_version
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.snapshot_infos import read_snapshot
from frazil.repository import Repository
from frazil.snapshots import Diff
from frazil.urls import NamedRef

EARLIEST, LATEST = "earliest", "latest"
COMMITS_OF_A_TASK = 50
"""At most; a few commits have a task each."""
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
    """One version, and the one before it."""

    id: str
    parent_id: str | None
    written_at: int
    """In microseconds since 1970."""
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class NodeChange:
    """What happened to a node."""

    kind: ChangeKind
    path: str
    from_path: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ChunkChanges:
    """What happened to some chunks of an array, which is in the version of the commit."""

    kind: ChangeKind
    path: str
    chunks: Coordinates


def resolve(repository: Repository, name: str) -> str:
    """The snapshot of a tag, a branch or an id; raises RefNotFoundError, SnapshotNotFoundError."""
    return read_version(repository, NamedRef(name)).snapshot_id


def list_line(protocol: CommitProtocol, tip: str) -> list[Commit]:
    """The commits up to a snapshot, oldest first."""
    infos = list(protocol.ancestry(SnapshotId.parse(tip)))
    # Not every generation records the parent; the line has it in any case.
    parents = [*(str(info.id) for info in infos[1:]), None]
    found = [_describe(info, parent) for info, parent in zip(infos, parents, strict=True)]
    return found[::-1]


def _describe(info: SnapshotInfo, parent_id: str | None) -> Commit:
    return Commit(str(info.id), parent_id, to_microseconds(info.flushed_at), info.message)


@dataclass(frozen=True, slots=True, eq=False)
class CommitRange:
    """The commits after one version up to another."""

    repository: Repository
    start: str
    """A snapshot, a tag, a branch, or `earliest` or `latest`."""
    end: str
    """A snapshot."""

    def list(self) -> list[Commit]:
        """Them, oldest first; raises InvalidInputError unless the first is an ancestor of the last."""
        session = self.repository.readonly_session(snapshot_id=self.end)
        line = list_line(session.state.surroundings.protocol, self.end)
        if self.start == EARLIEST:
            return line
        first = self.end if self.start == LATEST else resolve(self.repository, self.start)
        numbers = [number for number, commit in enumerate(line) if commit.id == first]
        if not numbers:
            raise InvalidInputError(
                f"from={self.start}: {first} is no ancestor of {self.end}, so that no commits lead "
                "from one to the other"
            )
        return line[numbers[0] + 1 :]


def find_changes(
    protocol: CommitProtocol, commit: Commit, array: str | None = None
) -> Iterator[NodeChange | ChunkChanges]:
    """What a commit changed: nodes first, then chunks, of one array only if it is given."""
    new = read_snapshot(protocol.assets, SnapshotId.parse(commit.id))
    found = _diff(protocol, commit, new)
    for source, target in found.moved_nodes:
        yield NodeChange("node_moved", target, source)
    for kind, name in _NODE_CHANGES.items():
        for path in sorted(getattr(found, name)):
            yield NodeChange(kind, path)
    for path, chunks in sorted(found.chunk_coordinates.items()):
        if array is None or path == array:
            yield from _tell_apart(protocol, new, path, chunks)


def _diff(protocol: CommitProtocol, commit: Commit, new: Snapshot) -> Diff:
    if commit.parent_id is not None:
        return diff(protocol, SnapshotId.parse(commit.parent_id), new.id)
    # The first version that is left: all that it has is new.
    nothing = Snapshot(new.id, None, new.flushed_at, "")
    return compare_snapshots(protocol.assets, nothing, new)


def _tell_apart(
    protocol: CommitProtocol, new: Snapshot, path: str, chunks: Coordinates
) -> Iterator[ChunkChanges]:
    """Chunks that there are now, and chunks that there are no more."""
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
    """Commits by task, in their order."""
    size = min(max(len(commits) // _ENOUGH_TASKS, 1), COMMITS_OF_A_TASK)
    return [tuple(commits[at : at + size]) for at in range(0, len(commits), size)]


def describe_rows(commit: Commit, count: int) -> dict[str, pa.Array]:
    """The columns that are the same in all rows of a commit."""
    scalars = {
        "snapshot_id": pa.scalar(commit.id, pa.string()),
        "parent_id": pa.scalar(commit.parent_id, pa.string()),
        "written_at": pa.scalar(commit.written_at, pa.int64()).cast(TIMESTAMP),
        "message": pa.scalar(commit.message, pa.string()),
    }
    return {name: pa.repeat(value, count) for name, value in scalars.items()}
