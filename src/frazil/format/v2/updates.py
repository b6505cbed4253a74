"""Entries of the ops log, and the status, of a V2 repo info."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from frazil.format import repo_info as model
from frazil.format.flatbuffers.fields import Field, Link, Number, Struct, numbers, rows
from frazil.format.flatbuffers.reader import Table
from frazil.format.flatbuffers.writer import Writer
from frazil.format.ids import SnapshotId
from frazil.format.ragged import Integers
from frazil.format.repo_info import Availability, RepoStatus, Update, UpdateType
from frazil.format.times import from_microseconds, to_microseconds
from frazil.format.v2.schema import StatusSlot, UpdateSlot

TEXT, ID, BYTE = "text", "id", "byte"

# The code of each type, and its fields in the order of their slots. Two types have fields of their
# own kind and stand apart below.
TYPES: dict[int, tuple[type[UpdateType], dict[str, str]]] = {
    1: (model.RepoInitialized, {}),
    2: (model.RepoMigrated, {"from_version": BYTE, "to_version": BYTE}),
    3: (model.ConfigChanged, {}),
    4: (model.MetadataChanged, {}),
    5: (model.TagCreated, {"name": TEXT}),
    6: (model.TagDeleted, {"name": TEXT, "previous_snap_id": ID}),
    7: (model.BranchCreated, {"name": TEXT}),
    8: (model.BranchDeleted, {"name": TEXT, "previous_snap_id": ID}),
    9: (model.BranchReset, {"name": TEXT, "previous_snap_id": ID}),
    10: (model.NewCommit, {"branch": TEXT, "new_snap_id": ID}),
    11: (model.CommitAmended, {"branch": TEXT, "previous_snap_id": ID, "new_snap_id": ID}),
    12: (model.NewDetachedSnapshot, {"new_snap_id": ID}),
    13: (model.GCRan, {}),
    14: (model.ExpirationRan, {}),
}
_FEATURE_FLAG_CHANGED, _REPO_STATUS_CHANGED = 15, 16
_CODES: dict[type[UpdateType], int] = {
    **{cls: code for code, (cls, _) in TYPES.items()},
    model.FeatureFlagChanged: _FEATURE_FLAG_CHANGED,
    model.RepoStatusChanged: _REPO_STATUS_CHANGED,
}

_READ: dict[str, Callable[[Table, int], Any]] = {
    TEXT: lambda table, slot: table.text(slot, "a name in the ops log"),
    ID: lambda table, slot: SnapshotId(table.struct(slot, 12, "a snapshot id in the ops log")),
    BYTE: lambda table, slot: table.number(slot, "B"),
}
_WRITE: dict[str, Callable[[Writer, int, list[Any]], Field]] = {
    TEXT: lambda writer, slot, values: Link(slot, writer.texts(values)),
    ID: lambda _, slot, values: Struct(slot, rows(values, 12)),
    BYTE: lambda _, slot, values: Number(slot, numbers(values, "<u1")),
}


def decode_update(table: Table) -> Update:
    """An entry of the ops log."""
    code = table.number(UpdateSlot.TYPE, "B")
    return Update(
        kind=_decode_type(code, table.table(UpdateSlot.VALUE, "what an update did")),
        updated_at=from_microseconds(table.number(UpdateSlot.UPDATED_AT, "Q")),
        backup_path=table.find_text(UpdateSlot.BACKUP_PATH),
    )


def _decode_type(code: int, table: Table) -> UpdateType:
    if code == _FEATURE_FLAG_CHANGED:
        new_value = bool(table.number(1, "B")) if table.number(2, "B") else None
        return model.FeatureFlagChanged(table.number(0, "H"), new_value)
    if code == _REPO_STATUS_CHANGED:
        return model.RepoStatusChanged(decode_status(table.table(0, "a status in the ops log")))
    if code not in TYPES:
        raise table.buffer.damaged(f"the ops log has an update of the unknown type {code}")
    cls, fields = TYPES[code]
    return cls(*(_READ[kind](table, slot) for slot, kind in enumerate(fields.values())))


def write_updates(writer: Writer, updates: Sequence[Update]) -> Integers:
    """Write entries of the ops log."""
    codes = numbers((_CODES[type(update.kind)] for update in updates), "<u1")
    values = np.empty(len(updates), np.int64)
    for code in np.unique(codes).tolist():
        members = np.flatnonzero(codes == code)
        values[members] = write_types(writer, code, [updates[i].kind for i in members.tolist()])
    return writer.tables(
        len(updates),
        Number(UpdateSlot.TYPE, codes),
        Link(UpdateSlot.VALUE, values),
        Number(
            UpdateSlot.UPDATED_AT, numbers((to_microseconds(u.updated_at) for u in updates), "<u8")
        ),
        Link(UpdateSlot.BACKUP_PATH, writer.texts([update.backup_path for update in updates])),
    )


def write_types(writer: Writer, code: int, kinds: Sequence[Any]) -> Integers:
    """Write what updates of one type did."""
    count = len(kinds)
    if code == _FEATURE_FLAG_CHANGED:
        return writer.tables(
            count,
            Number(0, numbers((kind.id for kind in kinds), "<u2")),
            Number(1, numbers((bool(kind.new_value) for kind in kinds), "<u1")),
            Number(2, numbers((kind.new_value is not None for kind in kinds), "<u1")),
        )
    if code == _REPO_STATUS_CHANGED:
        return writer.tables(count, Link(0, write_status(writer, [kind.status for kind in kinds])))
    fields = [
        _WRITE[field_kind](writer, slot, [getattr(kind, name) for kind in kinds])
        for slot, (name, field_kind) in enumerate(TYPES[code][1].items())
    ]
    return writer.tables(count, *fields)


def decode_status(table: Table) -> RepoStatus:
    """A repository's status."""
    availability = table.number(StatusSlot.AVAILABILITY, "B")
    if availability not in list(Availability):
        raise table.buffer.damaged(f"the unknown availability {availability}")
    return RepoStatus(
        availability=Availability(availability),
        set_at=from_microseconds(table.number(StatusSlot.SET_AT, "Q")),
        limited_availability_reason=table.find_text(StatusSlot.LIMITED_AVAILABILITY_REASON),
    )


def write_status(writer: Writer, statuses: Sequence[RepoStatus]) -> Integers:
    """Write statuses."""
    times = (to_microseconds(status.set_at) for status in statuses)
    reasons = [status.limited_availability_reason for status in statuses]
    return writer.tables(
        len(statuses),
        Number(StatusSlot.AVAILABILITY, numbers((s.availability for s in statuses), "<u1")),
        Number(StatusSlot.SET_AT, numbers(times, "<u8")),
        Link(StatusSlot.LIMITED_AVAILABILITY_REASON, writer.texts(reasons)),
    )
