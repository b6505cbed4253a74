"""What a snapshot says about itself and its ancestors: the draft, and the alphas before 0.1.0."""

from collections.abc import Mapping

from frazil.errors import FormatError, InvalidInputError
from frazil.format.checked import (
    UINT16_MAX,
    UINT32_MAX,
    as_int,
    as_json_map,
    as_list,
    as_text,
    refused,
)
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Metadata
from frazil.format.snapshot import History, HistoryEntry, Snapshot
from frazil.format.times import Nanoseconds, decode_rfc3339, encode_rfc3339
from frazil.format.trees.form import TreeForm
from frazil.format.trees.nodes import sort_keys

HISTORY_FIELDS = (
    "total_parents",
    "short_term_parents",
    "short_term_history",
    "metadata",
    "started_at",
)
# The years that RFC 3339 can spell; a time zone can lead out of them.
_FIRST_TIME = -62_135_596_800 * 10**9
_END_OF_TIME = 253_402_300_800 * 10**9

_ENTRY_FIELDS = ("id", "written_at", "message")


def read_history(fields: Mapping[str, object], form: TreeForm) -> tuple[HistoryEntry, History]:
    """The snapshot's own entry, and its ancestors."""
    entries = as_list("short_term_history", fields["short_term_history"])
    history = History(
        total_parents=as_int("total_parents", fields["total_parents"], 0, UINT32_MAX),
        short_term_parents=as_int(
            "short_term_parents", fields["short_term_parents"], 0, UINT16_MAX
        ),
        short_term_history=tuple(_read_entry(entry, form) for entry in entries),
        started_at=read_time("started_at", fields["started_at"]),
    )
    return _read_entry(fields["metadata"], form), history


def write_history(snapshot: Snapshot, form: TreeForm) -> dict[str, object]:
    """The fields of `read_history`; the snapshot's history must be there and name its parent."""
    history = snapshot.history
    if history is None:
        raise InvalidInputError("the snapshot needs a history, which this generation stores in it")
    if snapshot.parent_id != parent_of(history):
        raise InvalidInputError(
            f"the parent is {snapshot.parent_id!r}, the history says {parent_of(history)!r}"
        )
    own = HistoryEntry(snapshot.id, snapshot.flushed_at, snapshot.message)
    with refused("history"):
        return {
            "total_parents": as_int("total_parents", history.total_parents, 0, UINT32_MAX),
            "short_term_parents": as_int(
                "short_term_parents", history.short_term_parents, 0, UINT16_MAX
            ),
            "short_term_history": tuple(
                _write_entry(entry, form) for entry in history.short_term_history
            ),
            "metadata": _write_entry(own, form),
            "started_at": write_time(history.started_at),
        }


def parent_of(history: History) -> SnapshotId | None:
    """The newest ancestor, if there is one."""
    entries = history.short_term_history
    return entries[0].id if entries else None


def read_properties(what: str, value: object) -> Metadata:
    """A commit's metadata."""
    return Metadata(as_json_map(what, value))


def write_properties(metadata: Metadata) -> dict[str, object]:
    """The reverse of `read_properties`, in order of the names."""
    with refused("metadata"):
        properties: dict[str, object] = sort_keys(as_json_map("metadata", dict(metadata)))
        return properties


def read_time(what: str, value: object) -> Nanoseconds:
    """A point in time."""
    return _check_time(decode_rfc3339(as_text(what, value)))


def write_time(time: Nanoseconds) -> str:
    """The reverse of `read_time`."""
    return encode_rfc3339(_check_time(time))


def _check_time(time: Nanoseconds) -> Nanoseconds:
    if _FIRST_TIME <= time < _END_OF_TIME:
        return time
    raise FormatError(f"the time {time} is not in the years 1 to 9999")


def _read_entry(value: object, form: TreeForm) -> HistoryEntry:
    fields = form.read_struct("snapshot metadata", value, _ENTRY_FIELDS)
    return HistoryEntry(
        id=form.read_id(SnapshotId, fields["id"]),
        written_at=read_time("written_at", fields["written_at"]),
        message=as_text("message", fields["message"]),
    )


def _write_entry(entry: HistoryEntry, form: TreeForm) -> object:
    return form.write_struct(
        {
            "id": form.write_id(entry.id),
            "written_at": write_time(entry.written_at),
            "message": as_text("message", entry.message),
        }
    )
