"""What a new snapshot says about those before it: pure, and different in every generation."""

from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.snapshot import History, HistoryEntry, Snapshot
from frazil.format.times import Nanoseconds

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
