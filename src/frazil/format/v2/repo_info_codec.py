"""Encode and decode the repo info and its ops log."""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from frazil.format import repo_info as model
from frazil.format.ids import SnapshotId
from frazil.format.metadata import MICROSECOND, Encoding, Value, from_microseconds
from frazil.format.ragged import Integers, Part, Pieces
from frazil.format.repo_info import (
    Availability,
    FrozenSequence,
    LogPage,
    Overlaid,
    Prepended,
    RepoInfo,
    RepoStatus,
    SnapshotInfo,
    Update,
    UpdateType,
    prepend,
)
from frazil.format.v2.flatbuffers_reader import Buffer, Source, Table, Tables
from frazil.format.v2.flatbuffers_writer import (
    ABSENT,
    LINK,
    Field,
    Kind,
    Link,
    Number,
    Struct,
    Writer,
)
from frazil.format.v2.schema import (
    RefSlot,
    RepoSlot,
    SnapshotInfoSlot,
    StatusSlot,
    UpdateSlot,
    decode_metadata,
    write_metadata,
)
from frazil.format.v2.snapshot_info_codec import (
    RecordedSnapshots,
    WrittenInfo,
    WrittenRefs,
    add_snapshots,
    decode_snapshot_infos,
    id_at,
    index_fields,
    index_of,
    positions,
    shift_indexes,
    without_record,
    write_snapshot_infos,
)
from frazil.lazy import dataclass, replace

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
_FIELD_TYPES = {TEXT: LINK, ID: "12s", BYTE: "B"}


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


_UPDATE = Kind(
    (UpdateSlot.TYPE, "B"), (UpdateSlot.VALUE, LINK), (UpdateSlot.UPDATED_AT, "Q"),
    (UpdateSlot.BACKUP_PATH, LINK),
)  # fmt: skip
_KINDS = {
    code: Kind(*((slot, _FIELD_TYPES[type_]) for slot, type_ in enumerate(fields.values())))
    for code, (_, fields) in TYPES.items()
}
_FLAG = Kind((0, "H"), (1, "B"), (2, "B"))
_NEW_STATUS = Kind((0, LINK))
_STATUS = Kind(
    (StatusSlot.AVAILABILITY, "B"), (StatusSlot.SET_AT, "Q"),
    (StatusSlot.LIMITED_AVAILABILITY_REASON, LINK),
)  # fmt: skip


def write_updates(writer: Writer, updates: Sequence[Update]) -> list[int]:
    """Write entries of the ops log."""
    codes = [_CODES[type(update.kind)] for update in updates]
    values = [0] * len(updates)
    for code in dict.fromkeys(codes):
        members = [number for number, each in enumerate(codes) if each == code]
        places = write_types(writer, code, [updates[number].kind for number in members])
        for number, place in zip(members, places, strict=True):
            values[number] = place
    return writer.rows(
        _UPDATE,
        len(updates),
        codes,
        values,
        [update.updated_at // MICROSECOND for update in updates],
        writer.vectors([update.backup_path for update in updates]),
    )


def _write_update(writer: Writer, update: Update, details: int = ABSENT) -> int:
    """Write an entry of the ops log, whose details may be written already."""
    code = _CODES[type(update.kind)]
    if details == ABSENT:
        details = _write_type(writer, update.kind)
    backup = writer.vector(update.backup_path)
    return writer.row(_UPDATE, code, details, update.updated_at // MICROSECOND, backup)


def _write_type(writer: Writer, kind: UpdateType) -> int:
    """Write the details of one update."""
    code = _CODES[type(kind)]
    if code not in TYPES:
        return write_types(writer, code, [kind])[0]
    values = []
    for name, type_ in TYPES[code][1].items():
        value = getattr(kind, name)
        values.append(writer.vector(value) if type_ is TEXT else value)
    return writer.row(_KINDS[code], *values)


def write_types(writer: Writer, code: int, kinds: Sequence[Any]) -> list[int]:
    """Write the details of updates of one type."""
    count = len(kinds)
    if code == _FEATURE_FLAG_CHANGED:
        return writer.rows(
            _FLAG,
            count,
            [kind.id for kind in kinds],
            [bool(kind.new_value) for kind in kinds],
            [kind.new_value is not None for kind in kinds],
        )
    if code == _REPO_STATUS_CHANGED:
        statuses = write_status(writer, [kind.status for kind in kinds])
        return writer.rows(_NEW_STATUS, count, statuses)
    columns = []
    for name, type_ in TYPES[code][1].items():
        column = [getattr(kind, name) for kind in kinds]
        columns.append(writer.vectors(column) if type_ == TEXT else column)
    return writer.rows(_KINDS[code], count, *columns)


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


def write_status(writer: Writer, statuses: Sequence[RepoStatus]) -> list[int]:
    """Write statuses."""
    return writer.rows(
        _STATUS,
        len(statuses),
        [status.availability for status in statuses],
        [status.set_at // MICROSECOND for status in statuses],
        writer.vectors([status.limited_availability_reason for status in statuses]),
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


def _write_older(writer: Writer, updates: Sequence[Update]) -> Integers:
    """Write the updates before the newest; return their positions."""
    head, older = (), updates[1:]
    if type(older) is Prepended:
        head, older = older.head, older.tail
    if type(older) is not EncodedUpdates:
        return np.array(write_updates(writer, [*head, *older]), np.int64)
    places = np.array(write_updates(writer, head), np.int64)
    return np.concatenate((places, older.copy_to(writer)))


class RecordedUpdates(FrozenSequence[Update]):
    """Consecutive updates of a repo info that was written."""

    __slots__ = ("first", "items", "written")

    def __init__(self, items: Sequence[Update], written: WrittenInfo, first: int = 0) -> None:
        self.items = items
        self.written = written
        self.first = first
        """Index of the first among all updates, of which the newest, 0, is written apart."""

    @overload
    def __getitem__(self, index: int) -> Update: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Update]: ...
    def __getitem__(self, index: int | slice) -> Update | Sequence[Update]:
        if not isinstance(index, slice):
            return self.items[index]
        chosen = range(len(self.items))[index]
        if chosen.step != 1:
            return tuple([self.items[each] for each in chosen])
        return RecordedUpdates(self.items[index], self.written, self.first + chosen.start)

    def __iter__(self) -> Iterator[Update]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __reduce__(self) -> tuple[object, ...]:
        return (tuple, (tuple(self),))


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
        return map(self._page.defer, self._rows)

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


def with_backup(updates: Sequence[Update], name: str) -> Iterable[Update]:
    """Return the updates of a backup, where those without a backup have this one."""
    if type(updates) is EncodedUpdates:
        page = updates._page
        return EncodedUpdates(_Page(page.buffer, page.start, page.count, name), updates._rows)
    return (each if each.backup_path else replace(each, backup_path=name) for each in updates)


class _Page:
    """All ops log entries of a repo info, decoded when they are asked for, or all in columns."""

    __slots__ = ("_backup", "_columns", "_updates", "buffer", "count", "defer", "start")

    def __init__(self, buffer: Buffer, start: int, count: int, backup: str | None = None) -> None:
        self.buffer = buffer
        self.start = start
        self.count = count
        self._backup = backup
        """Backup of updates that have none."""
        self._updates: dict[int, Update] = {}
        self._columns: _Columns | None = None
        self.defer = Update.defer(self._read)

    def update(self, row: int) -> Update:
        """Return one entry."""
        update = self._updates.get(row)
        if update is None:
            update = self._updates[row] = self.defer(row)
        return update

    def _read(self, row: int, name: str) -> Any:
        """Return a field of one entry."""
        table = Table(self.buffer, self.buffer.follow(self.start + 4 * row))
        value = _UPDATE_FIELDS[name](table)
        return self._backup if value is None else value

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
            chosen = [self.values[i] for i in members.tolist()]
            return np.array(write_types(writer, self.code, chosen), np.int64)
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
    texts = source.texts(backups, "the name of a backup")
    kinds = [
        _read_kind(page, source, code, np.flatnonzero(codes == code), values)
        for code in np.unique(codes).tolist()
    ]
    return _Columns(
        codes=codes,
        updated_at=tables.numbers(UpdateSlot.UPDATED_AT, "<u8"),
        backups=texts,
        has_backup=backups >= 0,
        kinds=kinds,
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


def decode_log_page_payload(payload: bytes) -> LogPage:
    """Decode only the ops log of a repo info's FlatBuffer."""
    root = Buffer(payload, "repo-info").root()
    return LogPage(decode_log(root), root.find_text(RepoSlot.REPO_BEFORE_UPDATES))


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


_REPO = Kind(
    (RepoSlot.SPEC_VERSION, "B"),
    *((slot, LINK) for slot in range(1, RepoSlot.EXTRA + 1)),
)
_REF = Kind((RefSlot.NAME, LINK), (RefSlot.SNAPSHOT_INDEX, "I"))
_REF_SIZE, _UPDATE_SIZE = 24, 128
"""Number of bytes, about, of a ref without its name, and of an update."""


def encode_repo_info_payload(info: RepoInfo) -> list[Part]:
    """Encode a repo info as FlatBuffer."""
    return record_repo_info_payload(info)[0]


def record_repo_info_payload(info: RepoInfo) -> tuple[list[Part], RepoInfo]:
    """Encode a repo info as FlatBuffer; also return it with what is known of its file."""
    writer = Writer("repo info")
    # First, which is at the end of the file, so that the next update can copy it whole.
    written = _grow(writer, info) or _write_anew(writer, info)
    updates = written.updates
    if info.latest_updates:
        updates = updates[:]
        updates.insert(0, _write_update(writer, info.latest_updates[0], written.newest[1]))
    deleted_tags, status, metadata, config, enabled, disabled, extra = written.state[1]
    root = writer.row(
        _REPO,
        info.spec_version,
        writer.links(written.tags.places),
        writer.links(written.branches.places),
        deleted_tags,
        writer.links(written.snapshots),
        status,
        metadata,
        writer.links(updates),
        writer.vector(info.repo_before_updates),
        config,
        enabled,
        disabled,
        extra,
    )
    recorded = replace(
        info,
        snapshots=RecordedSnapshots(without_record(info.snapshots), written),
        latest_updates=RecordedUpdates(_without_record(info.latest_updates), written),
    )
    return writer.finish(root), recorded


def _write_anew(writer: Writer, info: RepoInfo) -> WrittenInfo:
    """Write all but the newest update, of which only the details are written."""
    infos = without_record(info.snapshots)
    written = WrittenInfo(infos, positions(write_snapshot_infos(writer, infos)))
    written.updates = positions(_write_older(writer, _without_record(info.latest_updates)))
    _close(writer, info, written, {}, written.snapshots)
    return written


def _grow(writer: Writer, info: RepoInfo) -> WrittenInfo | None:
    """Write what was added to a repo info that was written before; None if too much has changed."""
    base, log = info.snapshots, info.latest_updates
    added: Mapping[SnapshotId, SnapshotInfo] = {}
    head: Sequence[Update] = ()
    if type(base) is Overlaid and not base.hidden:
        added, base = base.changed, base.base
    if type(log) is Prepended:
        head, log = log.head, log.tail
    if type(base) is not RecordedSnapshots or type(log) is not RecordedUpdates:
        return None
    former = base.written
    # The newest of all updates is written apart: it gets the name of a backup from the next one.
    first = log.first - 1 if head else log.first
    kept = former.updates[first : first + len(log) - (not head)]
    if log.written is not former or first < 0 or former.unused > len(former.data) // 2:
        return None
    written = former.copy()
    written.unused += _UPDATE_SIZE * (len(former.updates) - len(kept))
    writer.prepend(former.data)
    places = add_snapshots(writer, written, added) if added else ()
    older = []
    for update in head[1:]:
        details = former.newest[1] if update.kind is former.newest[0] else ABSENT
        older.append(_write_update(writer, update, details))
    written.updates = positions(older) + kept
    _close(writer, info, written, added, places)
    return written


def _close(
    writer: Writer,
    info: RepoInfo,
    written: WrittenInfo,
    added: Mapping[SnapshotId, SnapshotInfo],
    snapshots: Sequence[int],
) -> None:
    """Write refs, state and the details of the newest update, unless they are written already.

    `snapshots` are positions of those that were just written, and `added` are those among them for
    which all indexes must make room.
    """
    moved: dict[int, int] = {}
    written.tags, tags = _write_refs(writer, written, written.tags, info.tags, moved)
    written.branches, branches = _write_refs(
        writer, written, written.branches, info.branches, moved
    )
    _write_state(writer, info, written)
    if info.latest_updates:
        kind = info.latest_updates[0].kind
        if kind is not written.newest[0]:
            written.newest = kind, _write_type(writer, kind)
    written.data = data = writer.close_end()
    if added:
        shift_indexes(written, added, snapshots)
    for place, index in moved.items():
        (field,) = index_fields(data, [place], RefSlot.SNAPSHOT_INDEX)
        struct.pack_into("<I", data, len(data) + 4 * field, index)
    if len(snapshots):
        parents = index_fields(data, snapshots, SnapshotInfoSlot.PARENT_OFFSET)
        written.fields = written.fields + parents
    if tags or branches:
        refs = index_fields(data, tags + branches, RefSlot.SNAPSHOT_INDEX)
        written.fields = written.fields + refs


def _without_record(updates: Sequence[Update]) -> Sequence[Update]:
    if type(updates) is Prepended and type(updates.tail) is RecordedUpdates:
        return prepend(updates.head, updates.tail.items)
    return updates.items if type(updates) is RecordedUpdates else updates


def _write_refs(
    writer: Writer,
    written: WrittenInfo,
    former: WrittenRefs,
    refs: Mapping[str, SnapshotId],
    moved: dict[int, int],
) -> tuple[WrittenRefs, list[int]]:
    """Write new refs; return all refs and the new ones; add the indexes of moved ones by position."""
    if refs is former.refs:
        return former, []
    names, places = former.names, former.places
    before = former.refs
    added = []
    for name, id_ in refs.items():
        if before.get(name) is id_:  # an update keeps the ids that it does not change
            continue
        index = index_of(written.find, id_, "ref", name)
        if name in before:
            moved[places[bisect_left(names, name.encode())]] = index
        else:
            added.append((name.encode(), index))
    if len(refs) == len(names) and not added:
        return WrittenRefs(refs, names, places), []
    names, places = names.copy(), places[:]
    if len(refs) != len(names) + len(added):
        for name in before.keys() - refs.keys():
            at = bisect_left(names, name.encode())
            written.unused += _REF_SIZE + len(names[at])
            del names[at], places[at]
    if len(added) == 1:
        ((key, index),) = added
        tables = [writer.row(_REF, writer.vector(key), index)]
    else:
        added.sort()
        keys = writer.vectors([name for name, _ in added])
        tables = writer.rows(_REF, len(added), keys, [index for _, index in added])
    for (key, _), table in zip(added, tables, strict=True):
        at = bisect_left(names, key)
        names.insert(at, key)
        places.insert(at, table)
    return WrittenRefs(refs, names, places), tables


def _write_state(writer: Writer, info: RepoInfo, written: WrittenInfo) -> None:
    """Write what few updates change, all of it."""
    values = (
        info.deleted_tags, info.status, info.metadata, info.config,
        info.enabled_feature_flags, info.disabled_feature_flags, info.extra,
    )  # fmt: skip
    former, _, size = written.state
    if former and all(map(is_, former, values)):
        return
    start = writer.size
    config = None if info.config is None else info.config.encode(Encoding.FLEXBUFFERS)
    places = (
        writer.links(writer.vectors(sorted(map(str.encode, info.deleted_tags)))),
        *write_status(writer, [info.status]),
        *write_metadata(writer, [info.metadata], Encoding.FLEXBUFFERS),
        writer.vector(config),
        _write_flags(writer, info.enabled_feature_flags),
        _write_flags(writer, info.disabled_feature_flags),
        writer.vector(info.extra),
    )
    written.unused += size
    written.state = (values, places, writer.size - start)


def _write_flags(writer: Writer, flags: tuple[int, ...] | None) -> int:
    if flags is None:
        return ABSENT
    return writer.structs([flag.to_bytes(2, "little") for flag in sorted(flags)])
