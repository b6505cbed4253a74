"""The ops log of a repo info: its entries all at once where they are few, else each when asked for.

What is the same in every commit, a thousand entries but the newest two, is copied in columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from frazil.format.flatbuffers.columns import Source, Tables
from frazil.format.flatbuffers.fields import ABSENT, Field, Link, Number, Struct
from frazil.format.flatbuffers.reader import Buffer, Table
from frazil.format.flatbuffers.writer import Writer
from frazil.format.overlays import FrozenSequence, Prepended
from frazil.format.ragged import Integers, Pieces
from frazil.format.repo_info import Update, UpdateType
from frazil.format.v2.schema import RepoSlot, UpdateSlot
from frazil.format.v2.updates import ID, TEXT, TYPES, decode_update, write_types, write_updates

_FEW_UPDATES = 16
_ID_SIZE = 12


def decode_log(root: Table) -> Sequence[Update]:
    """The newest page of the ops log, newest first."""
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
    """Entries of the ops log in a repo info that follow each other."""

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
        """Write them as they were read; raises FormatError where an entry of the page is damaged."""
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
    """All entries in a repo info; each is read once, and once more in columns."""

    __slots__ = ("_columns", "_updates", "buffer", "count", "start")

    def __init__(self, buffer: Buffer, start: int, count: int) -> None:
        self.buffer = buffer
        self.start = start
        self.count = count
        self._updates: dict[int, Update] = {}
        self._columns: _Columns | None = None

    def update(self, row: int) -> Update:
        """One entry."""
        update = self._updates.get(row)
        if update is None:
            table = Table(self.buffer, self.buffer.follow(self.start + 4 * row))
            update = self._updates[row] = decode_update(table)
        return update

    def columns(self) -> "_Columns":
        """All entries."""
        if self._columns is None:
            self._columns = _read_columns(self)
        return self._columns


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """What the updates of one type did: the rows they are in, and their fields or themselves."""

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
        # Those with fields of their own kind are rare; of a type nobody knows, this raises.
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
