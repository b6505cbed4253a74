"""Encode and decode the repo info and its ops log."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from frazil.format import repo_info as model
from frazil.format.flatbuffers.flatbuffers_reader import Buffer, Source, Table, Tables
from frazil.format.flatbuffers.flatbuffers_writer import (
    ABSENT,
    Field,
    Link,
    Number,
    Struct,
    Writer,
    numbers,
    one,
    rows,
)
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Encoding, Value
from frazil.format.overlays import FrozenSequence, Prepended
from frazil.format.ragged import Integers, Part, Pieces
from frazil.format.repo_info import Availability, RepoInfo, RepoStatus, Update, UpdateType
from frazil.format.timestamps import from_microseconds, to_microseconds
from frazil.format.v2.schema import (
    RefSlot,
    RepoSlot,
    StatusSlot,
    UpdateSlot,
    decode_metadata,
    write_metadata,
)
from frazil.format.v2.snapshot_info_codec import (
    Find,
    decode_snapshot_infos,
    id_at,
    index_of,
    write_snapshot_infos,
)

TEXT, ID, BYTE = "text", "id", "byte"

# The code of each type, and its fields in slot order. Two types have special fields and are
# handled separately below.
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
    """Decode an entry of the ops log."""
    return Update(**{name: read(table) for name, read in _UPDATE_FIELDS.items()})


_UPDATE_FIELDS: dict[str, Callable[[Table], Any]] = {
    "kind": lambda table: _decode_type(
        table.number(UpdateSlot.TYPE, "B"), table.table(UpdateSlot.VALUE, "what an update did")
    ),
    "updated_at": lambda table: from_microseconds(table.number(UpdateSlot.UPDATED_AT, "Q")),
    "backup_path": lambda table: table.find_text(UpdateSlot.BACKUP_PATH),
}


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
    """Write the details of updates of one type."""
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
    """Decode the status of a repository."""
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


_FEW_UPDATES = 16
_ID_SIZE = 12


def decode_log(root: Table) -> Sequence[Update]:
    """Decode the newest page of the ops log, newest first."""
    buffer = root.buffer
    position = root.find(RepoSlot.LATEST_UPDATES)
    if position is None:
        return ()
    start, count = buffer.vector(buffer.follow(position), 4)
    if count > _FEW_UPDATES:
        return EncodedUpdates(_Page(buffer, start, count), range(count))
    tables = (Table(buffer, buffer.follow(start + 4 * row)) for row in range(count))
    return tuple(map(decode_update, tables))


def write_log(writer: Writer, updates: Sequence[Update]) -> Integers:
    """Write a page of the ops log."""
    head: Sequence[Update] = ()
    if isinstance(updates, Prepended):
        head, updates = updates.head, updates.tail
    if not isinstance(updates, EncodedUpdates):
        return write_updates(writer, [*head, *updates])
    return np.concatenate([write_updates(writer, head), updates.copy_to(writer)])


class EncodedUpdates(FrozenSequence[Update]):
    """Consecutive ops log entries of a repo info, decoded on demand."""

    __slots__ = ("_page", "_rows")

    def __init__(self, page: "_Page", rows: range) -> None:
        self._page = page
        self._rows = rows

    @overload
    def __getitem__(self, index: int) -> Update: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Update]: ...
    def __getitem__(self, index: int | slice) -> Update | Sequence[Update]:
        chosen = self._rows[index]
        if isinstance(chosen, int):
            return self._page.update(chosen)
        if chosen.step != 1:
            return tuple(map(self._page.update, chosen))
        return EncodedUpdates(self._page, chosen)

    def __iter__(self) -> Iterator[Update]:
        return map(self._page.update, self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __reduce__(self) -> tuple[object, ...]:
        return (tuple, (tuple(self),))

    def copy_to(self, writer: Writer) -> Integers:
        """Copy the entries unchanged; raise FormatError if an entry of the page is damaged."""
        columns = self._page.columns()
        start, stop = self._rows.start, self._rows.stop
        values = np.empty(len(self), np.int64)
        for kind in columns.kinds:
            members = np.flatnonzero((kind.rows >= start) & (kind.rows < stop))
            values[kind.rows[members] - start] = kind.copy_to(writer, members)
        return writer.tables(
            len(self),
            Number(UpdateSlot.TYPE, columns.codes[start:stop]),
            Link(UpdateSlot.VALUE, values),
            Number(UpdateSlot.UPDATED_AT, columns.updated_at[start:stop]),
            Link(UpdateSlot.BACKUP_PATH, columns.copy_backups(writer, np.arange(start, stop))),
        )


class _Page:
    """All ops log entries of a repo info; each is decoded at most once, and once more in columns."""

    __slots__ = ("_columns", "_updates", "buffer", "count", "start")

    def __init__(self, buffer: Buffer, start: int, count: int) -> None:
        self.buffer = buffer
        self.start = start
        self.count = count
        self._updates: dict[int, Update] = {}
        self._columns: _Columns | None = None

    def update(self, row: int) -> Update:
        """Return one entry."""
        update = self._updates.get(row)
        if update is None:
            update = self._updates[row] = Update.defer(partial(self._read, row))
        return update

    def _read(self, row: int, name: str) -> Any:
        """Return a field of one entry."""
        return _UPDATE_FIELDS[name](Table(self.buffer, self.buffer.follow(self.start + 4 * row)))

    def columns(self) -> "_Columns":
        """Return all entries as columns."""
        if self._columns is None:
            self._columns = _read_columns(self)
        return self._columns


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """Updates of one type: their rows, with their encoded fields or decoded values."""

    code: int
    rows: Integers
    fields: tuple[Pieces | NDArray[Any], ...]
    values: Sequence[UpdateType] = ()

    def copy_to(self, writer: Writer, members: Integers) -> Integers:
        if self.values:
            return write_types(writer, self.code, [self.values[i] for i in members.tolist()])
        fields = [_copy_field(writer, slot, f, members) for slot, f in enumerate(self.fields)]
        return writer.tables(members.size, *fields)


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    codes: NDArray[np.uint8]
    updated_at: NDArray[np.uint64]
    backups: Pieces
    has_backup: NDArray[np.bool_]
    kinds: Sequence[_Kind]

    def copy_backups(self, writer: Writer, rows: Integers) -> Integers:
        places = np.full(rows.size, ABSENT, np.int64)
        present = np.flatnonzero(self.has_backup[rows])
        places[present] = writer.copies(self.backups.take(rows[present]))
        return places


def _read_columns(page: _Page) -> _Columns:
    source = Source.of(page.buffer)
    tables = Tables(source, source.follow(page.start + 4 * np.arange(page.count, dtype=np.int64)))
    codes = tables.numbers(UpdateSlot.TYPE, "<u1")
    values = _present(tables, UpdateSlot.VALUE, "what an update did")
    backups = tables.targets(UpdateSlot.BACKUP_PATH)
    return _Columns(
        codes=codes,
        updated_at=tables.numbers(UpdateSlot.UPDATED_AT, "<u8"),
        backups=source.texts(backups, "the name of a backup"),
        has_backup=backups >= 0,
        kinds=[
            _read_kind(page, source, code, np.flatnonzero(codes == code), values)
            for code in np.unique(codes).tolist()
        ],
    )


def _read_kind(page: _Page, source: Source, code: int, rows: Integers, values: Integers) -> _Kind:
    if code not in TYPES:
        # Types with special fields are rare; for an unknown type this raises.
        return _Kind(code, rows, (), [page.update(row).kind for row in rows.tolist()])
    tables = Tables(source, values[rows])
    kinds = TYPES[code][1].values()
    fields = (_read_field(tables, slot, kind) for slot, kind in enumerate(kinds))
    return _Kind(code, rows, tuple(fields))


def _read_field(tables: Tables, slot: int, kind: str) -> Pieces | NDArray[Any]:
    if kind == TEXT:
        targets = _present(tables, slot, "a name in the ops log")
        return tables.source.texts(targets, "a name in the ops log")
    if kind == ID:
        if not tables.has(slot).all():
            raise tables.source.damaged("a snapshot id in the ops log is missing")
        return tables.structs(slot, _ID_SIZE)
    return tables.numbers(slot, "<u1")


def _present(tables: Tables, slot: int, name: str) -> Integers:
    targets = tables.targets(slot)
    if np.any(targets < 0):
        raise tables.source.damaged(f"{name} is missing")
    return targets


def _copy_field(writer: Writer, slot: int, column: Pieces | NDArray[Any], rows: Integers) -> Field:
    if isinstance(column, Pieces):
        return Link(slot, writer.copies(column.take(rows)))
    part = column[rows]
    return Struct(slot, part) if part.ndim == 2 else Number(slot, part)


def decode_repo_info_payload(payload: bytes) -> RepoInfo:
    """Decode a repo info's FlatBuffer."""
    root = Buffer(payload, "repo-info").root()
    ids, snapshots = decode_snapshot_infos(root)
    config = root.find_data(RepoSlot.CONFIG)
    return RepoInfo(
        branches=_decode_refs(root, RepoSlot.BRANCHES, ids),
        tags=_decode_refs(root, RepoSlot.TAGS, ids),
        deleted_tags=frozenset(root.texts(RepoSlot.DELETED_TAGS)),
        snapshots=snapshots,
        status=decode_status(root.table(RepoSlot.STATUS, "the status")),
        latest_updates=decode_log(root),
        metadata=decode_metadata(root, RepoSlot.METADATA, Encoding.FLEXBUFFERS),
        repo_before_updates=root.find_text(RepoSlot.REPO_BEFORE_UPDATES),
        config=None if config is None else Value.encoded(Encoding.FLEXBUFFERS, config),
        enabled_feature_flags=_decode_flags(root, RepoSlot.ENABLED_FEATURE_FLAGS),
        disabled_feature_flags=_decode_flags(root, RepoSlot.DISABLED_FEATURE_FLAGS),
        spec_version=root.number(RepoSlot.SPEC_VERSION, "B"),
        extra=root.find_data(RepoSlot.EXTRA),
    )


def _decode_refs(root: Table, slot: int, ids: Sequence[SnapshotId]) -> dict[str, SnapshotId]:
    return {
        ref.text(RefSlot.NAME, "a ref's name"): id_at(
            ids, ref.number(RefSlot.SNAPSHOT_INDEX, "I"), root.buffer
        )
        for ref in root.tables(slot)
    }


def _decode_flags(root: Table, slot: int) -> tuple[int, ...] | None:
    position = root.find(slot)
    if position is None:
        return None
    start, count = root.buffer.vector(root.buffer.follow(position), 2)
    return struct.unpack_from(f"<{count}H", root.buffer.data, start)


def encode_repo_info_payload(info: RepoInfo) -> list[Part]:
    """Encode a repo info as FlatBuffer."""
    writer = Writer("repo info")
    config = None if info.config is None else info.config.encode(Encoding.FLEXBUFFERS)
    updates = write_log(writer, info.latest_updates)
    snapshots, find = write_snapshot_infos(writer, info.snapshots)
    root = writer.table(
        Number(RepoSlot.SPEC_VERSION, numbers([info.spec_version], "<u1")),
        Link(RepoSlot.TAGS, one(_write_refs(writer, info.tags, find))),
        Link(RepoSlot.BRANCHES, one(_write_refs(writer, info.branches, find))),
        Link(RepoSlot.DELETED_TAGS, one(_write_deleted_tags(writer, info))),
        Link(RepoSlot.SNAPSHOTS, one(writer.link_vector(snapshots))),
        Link(RepoSlot.STATUS, write_status(writer, [info.status])),
        Link(RepoSlot.METADATA, write_metadata(writer, [info.metadata], Encoding.FLEXBUFFERS)),
        Link(RepoSlot.LATEST_UPDATES, one(writer.link_vector(updates))),
        Link(RepoSlot.REPO_BEFORE_UPDATES, writer.text(info.repo_before_updates)),
        Link(RepoSlot.CONFIG, writer.optional_bytes([config])),
        Link(RepoSlot.ENABLED_FEATURE_FLAGS, _write_flags(writer, info.enabled_feature_flags)),
        Link(RepoSlot.DISABLED_FEATURE_FLAGS, _write_flags(writer, info.disabled_feature_flags)),
        Link(RepoSlot.EXTRA, writer.optional_bytes([info.extra])),
    )
    return writer.finish(root)


def _write_refs(writer: Writer, refs: Mapping[str, SnapshotId], find: Find) -> int:
    names = sorted(refs, key=str.encode)
    indexes = (index_of(find, refs[name], "ref", name) for name in names)
    tables = writer.tables(
        len(names),
        Link(RefSlot.NAME, writer.texts(names)),
        Number(RefSlot.SNAPSHOT_INDEX, numbers(indexes, "<u4")),
    )
    return writer.link_vector(tables)


def _write_deleted_tags(writer: Writer, info: RepoInfo) -> int:
    names = sorted(info.deleted_tags, key=str.encode)
    return writer.link_vector(writer.texts(names))


def _write_flags(writer: Writer, flags: tuple[int, ...] | None) -> Integers:
    if flags is None:
        return one(ABSENT)
    return one(writer.struct_vector(numbers(sorted(flags), "<u2").view(np.uint8).reshape(-1, 2)))
