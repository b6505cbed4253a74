"""Encode and decode the snapshots of a repo info, in columns."""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.format.ids import SnapshotId
from frazil.format.metadata import MICROSECOND, Encoding, from_microseconds
from frazil.format.ragged import Bytes, Integers, Pieces
from frazil.format.repo_info import (
    FrozenSequence,
    Overlaid,
    SnapshotInfo,
    with_entries,
    without_entries,
)
from frazil.format.v2.flatbuffers_reader import Buffer, Source, Table, Tables
from frazil.format.v2.flatbuffers_writer import (
    ABSENT,
    FEW,
    LINK,
    Kind,
    Link,
    Number,
    Struct,
    Writer,
    rows,
)
from frazil.format.v2.schema import (
    EncodedMetadata,
    RepoSlot,
    SnapshotInfoSlot,
    copy_metadata,
    decode_metadata,
    read_metadata,
    write_metadata,
)
from frazil.lazy import dataclass

NO_PARENT = -1
ID_SIZE = 12

_INT, _SHORT = struct.Struct("<i"), struct.Struct("<H")


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotColumns:
    """Columns of all snapshots of a repo info, in file order."""

    tables: Tables
    ids: Bytes
    parents: Integers
    """Row of the parent; negative without one."""
    flushed_at: NDArray[np.uint64]
    """Time in microseconds."""
    by_id: Integers
    """Rows sorted by id."""


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotContents:
    """Remaining fields of the snapshots, in equal row order."""

    messages: Pieces
    metadata: EncodedMetadata
    pruned: Pieces
    has_pruned: NDArray[np.bool_]


def read_snapshot_contents(tables: Tables) -> SnapshotContents:
    """Read the contents of snapshots, validated like single snapshots."""
    source = tables.source
    messages = tables.targets(SnapshotInfoSlot.MESSAGE)
    if np.any(messages < 0):
        raise source.damaged("a snapshot's message is missing")
    pruned = tables.targets(SnapshotInfoSlot.PRUNED_ANCESTOR_TX_LOGS)
    return SnapshotContents(
        messages=source.texts(messages, "a snapshot's message"),
        metadata=read_metadata(tables, SnapshotInfoSlot.METADATA),
        pruned=source.structs(pruned, ID_SIZE),
        has_pruned=pruned >= 0,
    )


def read_snapshot_columns(buffer: Buffer, start: int, count: int) -> SnapshotColumns:
    """Read the columns of a vector of snapshots; raise FormatError if they are inconsistent."""
    source = Source.of(buffer)
    positions = source.follow(start + 4 * np.arange(count, dtype=np.int64))
    tables = Tables(source, positions)
    if not tables.has(SnapshotInfoSlot.ID).all():
        raise buffer.damaged("a snapshot's id is missing")
    ids = tables.structs(SnapshotInfoSlot.ID, ID_SIZE)
    parents = tables.numbers(SnapshotInfoSlot.PARENT_OFFSET, "<i4").astype(np.int64)
    times = tables.numbers(SnapshotInfoSlot.FLUSHED_AT, "<u8")
    _refuse_strangers(buffer, parents)
    _refuse_circles(buffer, ids, parents, times)
    return SnapshotColumns(tables, ids, parents, times, _order(buffer, ids))


def _order(buffer: Buffer, ids: Bytes) -> Integers:
    names = as_names(ids)
    if np.all(names[:-1] < names[1:]):
        return np.arange(len(ids))
    # Writers should sort by id; a file in another order can still be read.
    order = np.argsort(names, kind="stable")
    if np.any(names[order][:-1] == names[order][1:]):
        raise buffer.damaged("a snapshot is there twice")
    return order


def as_names(ids: Bytes) -> NDArray[np.bytes_]:
    """Return ids as comparable NumPy values; fixed-size bytes sort in id order."""
    return np.ascontiguousarray(ids).view(f"S{ID_SIZE}").ravel()


def _refuse_strangers(buffer: Buffer, parents: Integers) -> None:
    strange = (parents < NO_PARENT) | (parents >= parents.size)
    if strange.any():
        index = int(parents[strange][0])
        raise buffer.damaged(f"snapshot {index} of {parents.size} is referred to")


def _refuse_circles(
    buffer: Buffer, ids: Bytes, parents: Integers, times: NDArray[np.uint64]
) -> None:
    """Raise FormatError if ancestors form a cycle; there is none if all parents are older."""
    children = np.flatnonzero(parents >= 0)
    if np.all(times[parents[children]] < times[children]):
        return
    # Row `size` marks the end and is its own parent.
    size = parents.size
    ancestors = np.append(np.where(parents < 0, size, parents), size)
    for _ in range(size.bit_length()):
        ancestors = ancestors[ancestors]
    endless = ancestors[ancestors < size]
    if endless.size:
        id_ = SnapshotId(ids[endless[0]].tobytes())
        raise buffer.damaged(f"snapshot {id_} is its own ancestor")


_FEW_SNAPSHOTS = 16

Snapshots = Mapping[SnapshotId, SnapshotInfo]


def decode_snapshot_infos(root: Table) -> tuple[Sequence[SnapshotId], Snapshots]:
    """Decode the snapshots of a repo info by id, and their ids in file order."""
    buffer = root.buffer
    position = root.find(RepoSlot.SNAPSHOTS)
    if position is None:
        return [], {}
    start, count = buffer.vector(buffer.follow(position), 4)
    if count > _FEW_SNAPSHOTS:
        snapshots = EncodedSnapshots(buffer, start, count)
        return snapshots.ids, snapshots
    tables = [Table(buffer, buffer.follow(start + 4 * row)) for row in range(count)]
    ids = [SnapshotId(t.struct(SnapshotInfoSlot.ID, ID_SIZE, "a snapshot's id")) for t in tables]
    infos = {id_: _decode_snapshot_info(t, id_, ids) for id_, t in zip(ids, tables, strict=True)}
    if len(infos) != len(ids):
        raise buffer.damaged("a snapshot is there twice")
    _refuse_cycles(buffer, infos)
    return ids, infos


def id_at(ids: Sequence[SnapshotId], index: int, buffer: Buffer) -> SnapshotId:
    """Return the snapshot id with an index in the file."""
    if not 0 <= index < len(ids):
        raise buffer.damaged(f"snapshot {index} of {len(ids)} is referred to")
    return ids[index]


def _decode_snapshot_info(table: Table, id_: SnapshotId, ids: Sequence[SnapshotId]) -> SnapshotInfo:
    parent = table.number(SnapshotInfoSlot.PARENT_OFFSET, "i")
    parent_id = None if parent == NO_PARENT else id_at(ids, parent, table.buffer)
    fields = {name: read(table) for name, read in _FIELDS.items()}
    return SnapshotInfo(id_, parent_id, **fields)


_FIELDS: dict[str, Callable[[Table], Any]] = {
    "flushed_at": lambda table: from_microseconds(table.number(SnapshotInfoSlot.FLUSHED_AT, "Q")),
    "message": lambda table: table.text(SnapshotInfoSlot.MESSAGE, "a snapshot's message"),
    "metadata": lambda table: decode_metadata(
        table, SnapshotInfoSlot.METADATA, Encoding.FLEXBUFFERS
    ),
    "pruned_ancestor_tx_logs": lambda table: tuple(
        map(SnapshotId, table.structs(SnapshotInfoSlot.PRUNED_ANCESTOR_TX_LOGS, ID_SIZE))
    ),
}
"""Fields of a snapshot other than its id and its parent."""


def walk_ancestors(snapshots: Snapshots, id_: SnapshotId) -> Iterator[SnapshotInfo]:
    """Yield a snapshot and its ancestors, newest first; raise KeyError if it is missing."""
    current: SnapshotId | None = id_
    while current is not None:
        if type(snapshots) is RecordedSnapshots:
            snapshots = snapshots.infos
        if type(snapshots) is Overlaid and not snapshots.hidden:
            snapshots = snapshots if current in snapshots.changed else snapshots.base
        if type(snapshots) is EncodedSnapshots:
            yield from snapshots.ancestors(current)
            return
        info = snapshots[current]
        yield info
        current = info.parent_id


def _refuse_cycles(buffer: Buffer, snapshots: Snapshots) -> None:
    """Raise FormatError if ancestors form a cycle."""
    ends: set[SnapshotId | None] = {None}
    for start in snapshots:
        path: set[SnapshotId] = set()
        current: SnapshotId | None = start
        while current is not None and current not in ends:
            if current in path:
                raise buffer.damaged(f"snapshot {current} is its own ancestor")
            path.add(current)
            current = snapshots[current].parent_id
        ends |= path


class _Ids(FrozenSequence[SnapshotId]):
    """Contiguous ids."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    @overload
    def __getitem__(self, index: int) -> SnapshotId: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SnapshotId]: ...
    def __getitem__(self, index: int | slice) -> SnapshotId | Sequence[SnapshotId]:
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            return SnapshotId(self.data[ID_SIZE * numbers : ID_SIZE * (numbers + 1)])
        return tuple(self[number] for number in numbers)

    def __len__(self) -> int:
        return len(self.data) // ID_SIZE


class EncodedSnapshots(Mapping[SnapshotId, SnapshotInfo]):
    """Snapshots of a repo info, each decoded on demand."""

    __slots__ = (
        "_contents", "_defer", "_infos", "_row_of", "_vector", "columns", "ids",
    )  # fmt: skip

    def __init__(self, buffer: Buffer, start: int, count: int) -> None:
        self._vector = (buffer, start, count)
        self.columns = read_snapshot_columns(buffer, start, count)
        self.ids = _Ids(self.columns.ids.tobytes())
        self._row_of: dict[bytes, int] | None = None
        self._infos: dict[int, SnapshotInfo] = {}
        self._contents: SnapshotContents | None = None
        self._defer = SnapshotInfo.defer(self._read)

    def contents(self) -> SnapshotContents:
        """Return the validated contents of the snapshots; raise FormatError if damaged."""
        if self._contents is None:
            self._contents = read_snapshot_contents(self.columns.tables)
        return self._contents

    def find_row(self, id_: object) -> int | None:
        """Return the row of a snapshot, or None."""
        if self._row_of is None:
            data, size = self.ids.data, ID_SIZE
            ids = [data[start : start + size] for start in range(0, len(data), size)]
            self._row_of = dict(zip(ids, range(len(ids)), strict=True))
        return self._row_of.get(id_)  # type: ignore[call-overload,no-any-return]

    def row(self, id_: SnapshotId) -> int:
        """Return the row of a snapshot; raise KeyError if it is missing."""
        row = self.find_row(id_)
        if row is None:
            raise KeyError(id_)
        return row

    def __getitem__(self, id_: SnapshotId) -> SnapshotInfo:
        return self._info(self.row(id_))

    def _info(self, row: int) -> SnapshotInfo:
        info = self._infos.get(row)
        if info is None:
            info = self._infos[row] = self._defer(row)
        return info

    def _read(self, row: int, name: str) -> Any:
        """Return a field of a snapshot."""
        match name:
            case "id":
                return self.ids[row]
            case "parent_id":
                parent = int(self.columns.parents[row])
                return None if parent == NO_PARENT else self.ids[parent]
        table = Table(self._vector[0], int(self.columns.tables.positions[row]))
        return _FIELDS[name](table)

    def ancestors(self, id_: SnapshotId) -> Iterator[SnapshotInfo]:
        """Yield a snapshot and its ancestors, newest first; raise KeyError if it is missing."""
        parents = self.columns.parents.tolist()
        row = self.row(id_)
        while row != NO_PARENT:
            yield self._defer(row)
            row = parents[row]

    def __contains__(self, id_: object) -> bool:
        return self.find_row(id_) is not None

    def __iter__(self) -> Iterator[SnapshotId]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> tuple[object, ...]:
        buffer, start, count = self._vector
        return (_read_again, (buffer.data, buffer.what, start, count))


def _read_again(data: bytes, what: str, start: int, count: int) -> EncodedSnapshots:
    return EncodedSnapshots(Buffer(data, what), start, count)


Scalar = TypeVar("Scalar", bound=np.generic)
Find = Callable[[SnapshotId], int | None]
"""Return the index of a snapshot in the file being written, or None."""


_SNAPSHOT_INFO = Kind(
    (SnapshotInfoSlot.ID, "12s"), (SnapshotInfoSlot.PARENT_OFFSET, "i"),
    (SnapshotInfoSlot.FLUSHED_AT, "Q"), (SnapshotInfoSlot.MESSAGE, LINK),
    (SnapshotInfoSlot.METADATA, LINK), (SnapshotInfoSlot.PRUNED_ANCESTOR_TX_LOGS, LINK),
)  # fmt: skip


def write_snapshot_infos(writer: Writer, snapshots: Snapshots) -> Integers:
    """Write snapshots sorted by id; return the positions of their tables."""
    whole = snapshots if type(snapshots) is Overlaid else Overlaid(snapshots, {}, frozenset())
    if type(whole.base) is EncodedSnapshots:
        others = [whole.changed[id_] for id_ in sorted(whole.changed)]
        return _write_merged(writer, _Merge(whole.base, whole.hidden, others))
    infos = [snapshots[id_] for id_ in sorted(snapshots)]
    index_of = {info.id: index for index, info in enumerate(infos)}
    return np.array(_write_rows(writer, infos, index_of.get), np.int64)


def _write_rows(writer: Writer, infos: Sequence[SnapshotInfo], find: Find) -> list[int]:
    times, *links = _write_contents(writer, infos)
    ids = [info.id for info in infos]
    return writer.rows(_SNAPSHOT_INFO, len(infos), ids, _parents(infos, find), times, *links)


Positions: TypeAlias = "array[int]"


def positions(values: Iterable[int] | Integers) -> Positions:
    """Return positions as an array, which is quickly copied and changed, be it short or long."""
    if isinstance(values, np.ndarray):
        return array("q", np.ascontiguousarray(values, np.int64).tobytes())
    return array("q", values)


class WrittenInfo:
    """End of a repo info that was written, with all that the next one can keep.

    Positions count from the end of the file. They stay valid in a file that ends with the same bytes,
    so that an update writes only what is new.
    """

    __slots__ = (
        "branches", "data", "fields", "ids", "newest", "snapshots", "state", "tags", "unused",
        "updates",
    )  # fmt: skip

    def __init__(self, ids: Iterable[SnapshotId], snapshots: Positions) -> None:
        self.data = bytearray()
        self.ids = sorted(ids)
        """Snapshots in order."""
        self.snapshots = snapshots
        """Positions of their tables."""
        self.fields = positions(())
        """Fields with indexes of snapshots, those of parents and refs, in words from the end."""
        self.updates = self.fields
        """Positions of the updates before the newest, newest first."""
        self.newest: tuple[object, int] = (None, ABSENT)
        """Type of the newest update, and the position of its details."""
        self.tags = self.branches = WrittenRefs({}, [], self.fields)
        self.state: tuple[Sequence[object], Sequence[int], int] = ((), (), 0)
        """Other values, their positions and their size in bytes."""
        self.unused = 0
        """Number of bytes, about, of what the repo info does not have any more."""

    def find(self, id_: SnapshotId) -> int | None:
        """Return the index of a snapshot, or None."""
        at = bisect_left(self.ids, id_)
        return at if at < len(self.ids) and self.ids[at] == id_ else None

    def copy(self) -> "WrittenInfo":
        """Return the same, to be changed; nothing that both refer to may be changed."""
        other: WrittenInfo = object.__new__(WrittenInfo)
        other.branches, other.tags, other.state = self.branches, self.tags, self.state
        other.data, other.fields, other.ids = self.data, self.fields, self.ids
        other.newest, other.updates = self.newest, self.updates
        other.snapshots, other.unused = self.snapshots, self.unused
        return other


class WrittenRefs(NamedTuple):
    """Branches or tags that were written."""

    refs: Mapping[str, SnapshotId]
    names: list[bytes]
    """Names in order."""
    places: Positions
    """Positions of their tables."""


def add_snapshots(writer: Writer, written: WrittenInfo, added: Snapshots) -> list[int]:
    """Write more snapshots; return the positions of their tables, which `shift_indexes` takes."""
    written.ids = sorted([*written.ids, *added])
    return _write_rows(writer, [added[id_] for id_ in sorted(added)], written.find)


_FEW_FIELDS = 16


def shift_indexes(written: WrittenInfo, added: Snapshots, places: Sequence[int]) -> None:
    """Make room for more snapshots in all fields with indexes of snapshots."""
    data, fields, snapshots = written.data, written.fields, written.snapshots[:]
    size = len(data)
    if len(fields) > _FEW_FIELDS:
        words = np.frombuffer(data, "<i4")
        chosen = np.frombuffer(fields, np.int64)
        indexes = words[chosen]
    for id_, place in zip(sorted(added), places, strict=True):
        at = bisect_left(written.ids, id_)
        snapshots.insert(at, place)
        if len(fields) > _FEW_FIELDS:
            indexes += indexes >= at
            continue
        for field in fields:
            (index,) = _INT.unpack_from(data, size + 4 * field)
            if index >= at:
                _INT.pack_into(data, size + 4 * field, index + 1)
    if len(fields) > _FEW_FIELDS:
        words[chosen] = indexes
    written.snapshots = snapshots


def index_fields(data: bytearray, tables: Sequence[int], slot: int) -> Positions:
    """Return where the tables at these positions have a field, in words from the end."""
    size = len(data)
    if len(tables) > FEW:
        starts = size - np.array(tables, np.int64)
        vtables = starts - np.frombuffer(data, "<i4")[starts >> 2]
        found = starts + np.frombuffer(data, "<u2")[(vtables >> 1) + 2 + slot]
        return positions((found - size) >> 2)
    fields = []
    for table in tables:
        start = size - table
        vtable = start - _INT.unpack_from(data, start)[0]
        fields.append((start + _SHORT.unpack_from(data, vtable + 4 + 2 * slot)[0] - size) >> 2)
    return positions(fields)


class RecordedSnapshots(Mapping[SnapshotId, SnapshotInfo]):
    """Snapshots that were written."""

    __slots__ = ("infos", "written")

    def __init__(self, infos: Snapshots, written: WrittenInfo) -> None:
        self.infos = infos
        self.written = written

    def __getitem__(self, id_: SnapshotId) -> SnapshotInfo:
        return self.infos[id_]

    def __contains__(self, id_: object) -> bool:
        return id_ in self.infos

    def __iter__(self) -> Iterator[SnapshotId]:
        return iter(self.infos)

    def __len__(self) -> int:
        return len(self.infos)

    def __reduce__(self) -> tuple[object, ...]:
        return (with_entries, (self.infos, {}))


def without_record(snapshots: Snapshots) -> Snapshots:
    """Return the same snapshots without what is known of a file that has them or some of them."""
    if type(snapshots) is RecordedSnapshots:
        return snapshots.infos
    if type(snapshots) is Overlaid and type(snapshots.base) is RecordedSnapshots:
        kept: Snapshots = snapshots.base.infos
        if snapshots.hidden:
            kept = without_entries(kept, snapshots.hidden)
        return with_entries(kept, snapshots.changed)
    return snapshots


def _write_contents(writer: Writer, infos: Sequence[SnapshotInfo]) -> tuple[list[int], ...]:
    """Write what snapshots refer to; return their times, and positions by field."""
    pruned = [
        writer.structs(info.pruned_ancestor_tx_logs) if info.pruned_ancestor_tx_logs else ABSENT
        for info in infos
    ]
    times = [info.flushed_at // MICROSECOND for info in infos]
    messages = writer.vectors([info.message for info in infos])
    metadata = write_metadata(writer, [info.metadata for info in infos], Encoding.FLEXBUFFERS)
    return times, messages, metadata, pruned


def index_of(find: Find, id_: SnapshotId, what: str, name: object) -> int:
    """Return the index of a referenced snapshot; raise InvalidInputError if it is missing."""
    index = find(id_)
    if index is None:
        raise InvalidInputError(
            f"repo info: {what} {name} points to snapshot {id_}, which is not in it"
        )
    return index


def _parents(infos: Sequence[SnapshotInfo], find: Find) -> list[int]:
    found = [NO_PARENT if info.parent_id is None else find(info.parent_id) for info in infos]
    if None in found:
        lost = infos[found.index(None)]
        index_of(find, lost.parent_id, "snapshot", lost.id)  # type: ignore[arg-type]
    return found  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """Fields of snapshots; links are positions."""

    ids: Bytes
    flushed_at: NDArray[np.uint64]
    messages: Integers
    metadata: Integers
    pruned: Integers


def _write_tables(writer: Writer, columns: _Columns, parents: NDArray[np.int32]) -> Integers:
    return writer.tables(
        len(columns.ids),
        Struct(SnapshotInfoSlot.ID, columns.ids),
        Number(SnapshotInfoSlot.PARENT_OFFSET, parents),
        Number(SnapshotInfoSlot.FLUSHED_AT, columns.flushed_at),
        Link(SnapshotInfoSlot.MESSAGE, columns.messages),
        Link(SnapshotInfoSlot.METADATA, columns.metadata),
        Link(SnapshotInfoSlot.PRUNED_ANCESTOR_TX_LOGS, columns.pruned),
    )


def _write_columns(writer: Writer, infos: Sequence[SnapshotInfo]) -> _Columns:
    times, *links = _write_contents(writer, infos)
    ids = rows([info.id for info in infos], ID_SIZE)
    return _Columns(ids, np.array(times, "<u8"), *(np.array(each, np.int64) for each in links))


def _copy_columns(writer: Writer, base: EncodedSnapshots, chosen: Integers) -> _Columns:
    ids, flushed_at = base.columns.ids[chosen], base.columns.flushed_at[chosen]
    contents = base.contents()
    pruned = np.full(chosen.size, ABSENT, np.int64)
    with_pruned = np.flatnonzero(contents.has_pruned[chosen])
    pruned[with_pruned] = writer.copies(contents.pruned.take(chosen[with_pruned]), ID_SIZE)
    return _Columns(
        ids=ids,
        flushed_at=flushed_at,
        messages=writer.copies(contents.messages.take(chosen)),
        metadata=copy_metadata(writer, contents.metadata, chosen),
        pruned=pruned,
    )


class _Merge:
    """Merge of the kept snapshots of a file with other ones, sorted by id."""

    __slots__ = ("_at_of_row", "at_of", "base", "kept", "kept_at", "others", "others_at")

    def __init__(
        self, base: EncodedSnapshots, hidden: frozenset[SnapshotId], others: Sequence[SnapshotInfo]
    ) -> None:
        self.base = base
        self.others = others
        self.kept = _kept_rows(base, hidden)
        kept_ids = as_names(base.columns.ids[self.kept])
        other_ids = as_names(rows([info.id for info in others], ID_SIZE))
        self.kept_at = np.arange(kept_ids.size) + np.searchsorted(other_ids, kept_ids)
        self.others_at = np.arange(other_ids.size) + np.searchsorted(kept_ids, other_ids)
        self.at_of = dict(zip((info.id for info in others), self.others_at.tolist(), strict=True))
        self._at_of_row = np.full(len(base), ABSENT, np.int64)
        self._at_of_row[self.kept] = self.kept_at
        for id_ in hidden:
            self._at_of_row[base.row(id_)] = self.at_of.get(id_, ABSENT)

    def find(self, id_: SnapshotId) -> int | None:
        """Return the new index of a snapshot, or None."""
        at = self.at_of.get(id_)
        row = self.base.find_row(id_) if at is None else None
        if row is not None and self._at_of_row[row] != ABSENT:
            at = int(self._at_of_row[row])
        return at

    def kept_parents(self) -> NDArray[np.int32]:
        """Return new parent indexes of kept snapshots; raise InvalidInputError if one is missing."""
        parents = self.base.columns.parents[self.kept]
        has_parent = parents != NO_PARENT
        # A row without a parent gets the last row's index here, which is then discarded.
        found = np.where(has_parent, self._at_of_row[parents], NO_PARENT)
        lost = np.flatnonzero(has_parent & (found == ABSENT))
        if lost.size:
            id_, parent = (self.base.ids[int(of[lost[0]])] for of in (self.kept, parents))
            index_of(self.find, parent, "snapshot", id_)
        return found.astype("<i4")

    def interleave(self, kept: NDArray[Scalar], others: NDArray[Scalar]) -> NDArray[Scalar]:
        """Merge two columns in id order."""
        merged = np.empty((len(kept) + len(others), *kept.shape[1:]), kept.dtype)
        merged[self.kept_at] = kept
        merged[self.others_at] = others
        return merged


def _kept_rows(base: EncodedSnapshots, hidden: frozenset[SnapshotId]) -> Integers:
    stays = np.ones(len(base), np.bool_)
    stays[[base.row(id_) for id_ in hidden]] = False
    by_id = base.columns.by_id
    return by_id[stays[by_id]]


def _write_merged(writer: Writer, merge: _Merge) -> Integers:
    kept = _copy_columns(writer, merge.base, merge.kept)
    others = _write_columns(writer, merge.others)
    both = _Columns(
        ids=merge.interleave(kept.ids, others.ids),
        flushed_at=merge.interleave(kept.flushed_at, others.flushed_at),
        messages=merge.interleave(kept.messages, others.messages),
        metadata=merge.interleave(kept.metadata, others.metadata),
        pruned=merge.interleave(kept.pruned, others.pruned),
    )
    parents = merge.interleave(
        merge.kept_parents(), np.array(_parents(merge.others, merge.find), "<i4")
    )
    return _write_tables(writer, both, parents)
