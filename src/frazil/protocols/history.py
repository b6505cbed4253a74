"""History recorded in snapshots, in the generations before V2."""

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

LONGEST_TEXT = 2**16 - 1
"""Maximum number of recorded ancestors (a 16-bit count); the last one's file records older ones."""


def next_history(parent: Snapshot, dialect: Dialect, started_at: Nanoseconds) -> History | None:
    """Return the history of a child of `parent`, or None if the dialect records none."""
    if not dialect.records_history:
        return None
    entries = (HistoryEntry(parent.id, parent.flushed_at, parent.message), *_ancestors(parent))
    kept = entries[:LONGEST_TEXT]
    total = parent.history.total_parents + 1 if parent.history else len(entries)
    return History(total, len(kept), kept, started_at)


def first_history(dialect: Dialect, started_at: Nanoseconds) -> History | None:
    """Return the history of a repository's first snapshot, or None if the dialect records none."""
    return History(0, 0, (), started_at) if dialect.records_history else None


def snapshot_parent_id(parent: Snapshot, dialect: Dialect) -> SnapshotId | None:
    """Return the parent id to store in a snapshot file; None in V2, where only the repo info has it."""
    return parent.id if dialect.names_parents else None


def _ancestors(parent: Snapshot) -> tuple[HistoryEntry, ...]:
    return parent.history.short_term_history if parent.history else ()


def continue_history(
    assets: Assets, parent_id: SnapshotId, started_at: Nanoseconds
) -> History | None:
    """Return the history of a child of a snapshot, from the current file of that snapshot.

    None if the dialect records no history. Raises SnapshotNotFoundError.
    """
    if not assets.dialect.records_history:
        return None
    return next_history(read_snapshot_anew(assets, parent_id), assets.dialect, started_at)


class RecordedHistory:
    """History of one repository, as its snapshots record it."""

    def __init__(self, assets: Assets, find_first: Callable[[], SnapshotId | None]) -> None:
        self._assets = assets
        self._find_first = find_first
        """Returns the id that names the first snapshot's file, or None if unknown."""

    def describe(self, snapshot: Snapshot, history: History) -> SnapshotInfo:
        """Return the history entry of a snapshot."""
        info = describe_snapshot(snapshot)
        if history.total_parents != 1 or not history.short_term_history:
            return info
        return replace(info, parent_id=self._file_id(history.short_term_history[0]))

    def follow(self, snapshot: Snapshot, history: History) -> Iterator[SnapshotInfo]:
        """Yield a snapshot and its ancestors, newest first."""
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
            # The record is truncated: its last snapshot's file continues it. Read that file uncached.
            last_id = history.short_term_history[-1].id
            self._assets.drop_snapshots([last_id])
            last = self._find(last_id)
            if last is not None and last.history is not None:
                _, *older = self._entries(last, last.history)
                yield from older

    def _file_id(self, entry: HistoryEntry) -> SnapshotId:
        """Return the id that names an ancestor's file; for the first it may differ from the record."""
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
