"""Decoding the snapshots of a repo info: all at once where they are few, else each when asked for.

What one snapshot has to do with others is checked when the file is read: parents are there, no id is
there twice, nobody is his own ancestor. What is its own is checked when it is asked for.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from frazil.format.flatbuffers.reader import Buffer, Table
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Encoding
from frazil.format.overlays import FrozenSequence
from frazil.format.repo_info import SnapshotInfo
from frazil.format.times import from_microseconds
from frazil.format.v2.metadata_items import decode_metadata
from frazil.format.v2.schema import RepoSlot, SnapshotInfoSlot
from frazil.format.v2.snapshot_columns import (
    ID_SIZE,
    NO_PARENT,
    SnapshotContents,
    read_snapshot_columns,
    read_snapshot_contents,
)

_FEW_SNAPSHOTS = 16

Snapshots = Mapping[SnapshotId, SnapshotInfo]


def decode_snapshot_infos(root: Table) -> tuple[Sequence[SnapshotId], Snapshots]:
    """The snapshots of a repo info, by id, and their ids in the order of the file."""
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
    """The id that an index in the file stands for."""
    if not 0 <= index < len(ids):
        raise buffer.damaged(f"snapshot {index} of {len(ids)} is referred to")
    return ids[index]


def _decode_snapshot_info(table: Table, id_: SnapshotId, ids: Sequence[SnapshotId]) -> SnapshotInfo:
    parent = table.number(SnapshotInfoSlot.PARENT_OFFSET, "i")
    pruned = table.structs(SnapshotInfoSlot.PRUNED_ANCESTOR_TX_LOGS, ID_SIZE)
    return SnapshotInfo(
        id=id_,
        parent_id=None if parent == NO_PARENT else id_at(ids, parent, table.buffer),
        flushed_at=from_microseconds(table.number(SnapshotInfoSlot.FLUSHED_AT, "Q")),
        message=table.text(SnapshotInfoSlot.MESSAGE, "a snapshot's message"),
        metadata=decode_metadata(table, SnapshotInfoSlot.METADATA, Encoding.FLEXBUFFERS),
        pruned_ancestor_tx_logs=tuple(map(SnapshotId, pruned)),
    )


def _refuse_cycles(buffer: Buffer, snapshots: Snapshots) -> None:
    """Ancestors must end, or whoever walks them would not."""
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
    """Ids that lie behind each other."""

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
    """Snapshots in a repo info: each is read when it is asked for."""

    __slots__ = ("_contents", "_infos", "_sorted_ids", "_vector", "columns", "ids")

    def __init__(self, buffer: Buffer, start: int, count: int) -> None:
        self._vector = (buffer, start, count)
        self.columns = read_snapshot_columns(buffer, start, count)
        self.ids = _Ids(self.columns.ids.tobytes())
        self._sorted_ids = self.columns.ids[self.columns.by_id].tobytes()
        self._infos: dict[int, SnapshotInfo] = {}
        self._contents: SnapshotContents | None = None

    def contents(self) -> SnapshotContents:
        """What else the file has of them, checked; raises FormatError."""
        if self._contents is None:
            self._contents = read_snapshot_contents(self.columns.tables)
        return self._contents

    def find_row(self, id_: object) -> int | None:
        """The row of a snapshot, or None."""
        if not isinstance(id_, bytes):
            return None
        data = self._sorted_ids
        size = ID_SIZE
        at = bisect_left(range(len(self)), id_, key=lambda n: data[size * n : size * (n + 1)])
        return int(self.columns.by_id[at]) if data[size * at : size * (at + 1)] == id_ else None

    def row(self, id_: SnapshotId) -> int:
        """The row of a snapshot that is there."""
        row = self.find_row(id_)
        if row is None:
            raise KeyError(id_)
        return row

    def __getitem__(self, id_: SnapshotId) -> SnapshotInfo:
        row = self.row(id_)
        info = self._infos.get(row)
        if info is None:
            table = Table(self._vector[0], int(self.columns.tables.positions[row]))
            info = self._infos[row] = _decode_snapshot_info(table, self.ids[row], self.ids)
        return info

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
