"""History as the draft and the alphas before 0.1.0 keep it: in each snapshot, as text.

Two things need care. The first alphas gave the first snapshot one id inside its file, which the text
of all later ones repeats, and another as the file's name, which is the one that leads anywhere. And a
commit's metadata is not in the text, only in the snapshot's own file, which may be gone.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from frazil.assets import Assets
from frazil.errors import ObjectNotFoundError
from frazil.format.ids import SnapshotId
from frazil.format.metadata import NO_METADATA
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import History, HistoryEntry, Snapshot
from frazil.format.times import Nanoseconds
from frazil.protocols.history import has_history, next_history
from frazil.protocols.snapshot_infos import describe_snapshot, read_snapshot_anew


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
