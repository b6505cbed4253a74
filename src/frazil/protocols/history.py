"""History that a new snapshot records, in each generation."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from frazil.errors import ObjectNotFoundError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.metadata import NO_METADATA
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import History, HistoryEntry, Snapshot
from frazil.format.timestamps import Nanoseconds
from frazil.protocols.assets import Assets
from frazil.protocols.ref_files import describe_snapshot, read_snapshot_anew

_WITHOUT_HISTORY = frozenset((Dialect.ALPHA_H, Dialect.V1, Dialect.V2))
LONGEST_TEXT = 2**16 - 1
"""As many ancestors as the count of them can count; older ones are in the text of the last."""


def has_history(dialect: Dialect) -> bool:
    """Whether snapshots hold the text of their history."""
    return dialect not in _WITHOUT_HISTORY


def next_history(parent: Snapshot, dialect: Dialect, started_at: Nanoseconds) -> History | None:
    """The history of a snapshot that follows `parent`; None where snapshots hold none."""
    if not has_history(dialect):
        return None
    entries = (HistoryEntry(parent.id, parent.flushed_at, parent.message), *_ancestors(parent))
    kept = entries[:LONGEST_TEXT]
    total = parent.history.total_parents + 1 if parent.history else len(entries)
    return History(total, len(kept), kept, started_at)


def first_history(dialect: Dialect, started_at: Nanoseconds) -> History | None:
    """The history of a repository's first snapshot; None where snapshots hold none."""
    return History(0, 0, (), started_at) if has_history(dialect) else None


def snapshot_parent_id(parent: Snapshot, dialect: Dialect) -> SnapshotId | None:
    """The parent that a snapshot's own file names; in V2 only the repo info knows it."""
    return None if dialect is Dialect.V2 else parent.id


def _ancestors(parent: Snapshot) -> tuple[HistoryEntry, ...]:
    return parent.history.short_term_history if parent.history else ()


def continue_history(
    assets: Assets, parent_id: SnapshotId, started_at: Nanoseconds
) -> History | None:
    """The history of a snapshot that follows another, by what that one's file tells now.

    None where snapshots hold none. Raises SnapshotNotFoundError.
    """
    if not has_history(assets.dialect):
        return None
    return next_history(read_snapshot_anew(assets, parent_id), assets.dialect, started_at)


class RecordedHistory:
    """The history of one repository, by the text in its snapshots."""

    def __init__(self, assets: Assets, find_first: Callable[[], SnapshotId | None]) -> None:
        self._assets = assets
        self._find_first = find_first
        """The name of the first snapshot's file, if it is known."""

    def describe(self, snapshot: Snapshot, history: History) -> SnapshotInfo:
        """A snapshot without its nodes."""
        info = describe_snapshot(snapshot)
        if history.total_parents != 1 or not history.short_term_history:
            return info
        return replace(info, parent_id=self._file_id(history.short_term_history[0]))

    def follow(self, snapshot: Snapshot, history: History) -> Iterator[SnapshotInfo]:
        """A snapshot and those before it, newest first."""
        entries = list(self._entries(snapshot, history))
        ids = [entry.id for entry in entries]
        ids[-1] = self._file_id(entries[-1])
        parents = [*ids[1:], None]
        for entry, id, parent_id in zip(entries, ids, parents, strict=True):
            found = self._find(id)
            metadata = NO_METADATA if found is None else found.metadata
            yield SnapshotInfo(id, parent_id, entry.written_at, entry.message, metadata)

    def _entries(self, snapshot: Snapshot, history: History) -> Iterator[HistoryEntry]:
        yield HistoryEntry(snapshot.id, snapshot.flushed_at, snapshot.message)
        yield from history.short_term_history
        if history.total_parents > len(history.short_term_history) > 0:
            # The text ends before the history does: its last snapshot has the next part, today's.
            last_id = history.short_term_history[-1].id
            self._assets.drop_snapshots([last_id])
            last = self._find(last_id)
            if last is not None and last.history is not None:
                _, *older = self._entries(last, last.history)
                yield from older

    def _file_id(self, entry: HistoryEntry) -> SnapshotId:
        """The name of an ancestor's file, which of the first one may not be the id in the text."""
        if self._find(entry.id) is not None:
            return entry.id
        first_id = self._find_first()
        first = None if first_id is None else self._find(first_id)
        if first is None or (first.flushed_at, first.message) != (entry.written_at, entry.message):
            return entry.id
        return first.id

    def _find(self, id: SnapshotId) -> Snapshot | None:
        try:
            return self._assets.read_snapshot(id)
        except ObjectNotFoundError:
            return None
