"""The repo info of V2."""

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from frazil.errors import InvalidInputError
from frazil.format.flatbuffers.reader import Buffer, Table
from frazil.format.flatbuffers.writer import (
    ABSENT,
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
from frazil.format.ragged import Integers, Part
from frazil.format.repo_info import RepoInfo, SnapshotInfo
from frazil.format.times import from_microseconds, to_microseconds
from frazil.format.v2.metadata_items import decode_metadata, write_metadata
from frazil.format.v2.schema import RefSlot, RepoSlot, SnapshotInfoSlot
from frazil.format.v2.updates import decode_status, decode_update, write_status, write_updates

_NO_PARENT = -1


def decode_repo_info_payload(payload: bytes) -> RepoInfo:
    """Read a repo info's FlatBuffer."""
    root = Buffer(payload, "repo-info").root()
    tables = list(root.tables(RepoSlot.SNAPSHOTS))
    ids = [SnapshotId(t.struct(SnapshotInfoSlot.ID, 12, "a snapshot's id")) for t in tables]
    snapshots = {
        id_: _decode_snapshot_info(t, id_, ids) for id_, t in zip(ids, tables, strict=True)
    }
    if len(snapshots) != len(ids):
        raise root.buffer.damaged("a snapshot is there twice")
    _refuse_cycles(root.buffer, snapshots)
    config = root.find_data(RepoSlot.CONFIG)
    return RepoInfo(
        branches=_decode_refs(root, RepoSlot.BRANCHES, ids),
        tags=_decode_refs(root, RepoSlot.TAGS, ids),
        deleted_tags=frozenset(root.texts(RepoSlot.DELETED_TAGS)),
        snapshots=snapshots,
        status=decode_status(root.table(RepoSlot.STATUS, "the status")),
        latest_updates=tuple(map(decode_update, root.tables(RepoSlot.LATEST_UPDATES))),
        metadata=decode_metadata(root, RepoSlot.METADATA, Encoding.FLEXBUFFERS),
        repo_before_updates=root.find_text(RepoSlot.REPO_BEFORE_UPDATES),
        config=None if config is None else Value.encoded(Encoding.FLEXBUFFERS, config),
        enabled_feature_flags=_decode_flags(root, RepoSlot.ENABLED_FEATURE_FLAGS),
        disabled_feature_flags=_decode_flags(root, RepoSlot.DISABLED_FEATURE_FLAGS),
        spec_version=root.number(RepoSlot.SPEC_VERSION, "B"),
        extra=root.find_data(RepoSlot.EXTRA),
    )


def _decode_snapshot_info(table: Table, id_: SnapshotId, ids: Sequence[SnapshotId]) -> SnapshotInfo:
    parent = table.number(SnapshotInfoSlot.PARENT_OFFSET, "i")
    pruned = table.structs(SnapshotInfoSlot.PRUNED_ANCESTOR_TX_LOGS, 12)
    return SnapshotInfo(
        id=id_,
        parent_id=None if parent == _NO_PARENT else _id_at(ids, parent, table.buffer),
        flushed_at=from_microseconds(table.number(SnapshotInfoSlot.FLUSHED_AT, "Q")),
        message=table.text(SnapshotInfoSlot.MESSAGE, "a snapshot's message"),
        metadata=decode_metadata(table, SnapshotInfoSlot.METADATA, Encoding.FLEXBUFFERS),
        pruned_ancestor_tx_logs=tuple(map(SnapshotId, pruned)),
    )


def _refuse_cycles(buffer: Buffer, snapshots: Mapping[SnapshotId, SnapshotInfo]) -> None:
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


def _decode_refs(root: Table, slot: int, ids: Sequence[SnapshotId]) -> dict[str, SnapshotId]:
    return {
        ref.text(RefSlot.NAME, "a ref's name"): _id_at(
            ids, ref.number(RefSlot.SNAPSHOT_INDEX, "I"), root.buffer
        )
        for ref in root.tables(slot)
    }


def _id_at(ids: Sequence[SnapshotId], index: int, buffer: Buffer) -> SnapshotId:
    if not 0 <= index < len(ids):
        raise buffer.damaged(f"snapshot {index} of {len(ids)} is referred to")
    return ids[index]


def _decode_flags(root: Table, slot: int) -> tuple[int, ...] | None:
    position = root.find(slot)
    if position is None:
        return None
    start, count = root.buffer.vector(root.buffer.follow(position), 2)
    return struct.unpack_from(f"<{count}H", root.buffer.data, start)


def encode_repo_info_payload(info: RepoInfo) -> list[Part]:
    """The FlatBuffer of a repo info."""
    writer = Writer("repo info")
    order = sorted(info.snapshots)
    index_of = {id_: index for index, id_ in enumerate(order)}
    config = None if info.config is None else info.config.encode(Encoding.FLEXBUFFERS)
    updates = write_updates(writer, info.latest_updates)
    snapshots = _write_snapshots(writer, [info.snapshots[id_] for id_ in order], index_of)
    root = writer.table(
        Number(RepoSlot.SPEC_VERSION, numbers([info.spec_version], "<u1")),
        Link(RepoSlot.TAGS, one(_write_refs(writer, info.tags, index_of))),
        Link(RepoSlot.BRANCHES, one(_write_refs(writer, info.branches, index_of))),
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


def _write_snapshots(
    writer: Writer, snapshots: Sequence[SnapshotInfo], index_of: Mapping[SnapshotId, int]
) -> Integers:
    parents = (
        _NO_PARENT if s.parent_id is None else _index_of(index_of, s.parent_id, "snapshot", s.id)
        for s in snapshots
    )
    pruned = np.full(len(snapshots), ABSENT, np.int64)
    for index, snapshot in enumerate(snapshots):
        if snapshot.pruned_ancestor_tx_logs:
            pruned[index] = writer.struct_vector(rows(snapshot.pruned_ancestor_tx_logs, 12))
    metadata = write_metadata(writer, [s.metadata for s in snapshots], Encoding.FLEXBUFFERS)
    times = (to_microseconds(snapshot.flushed_at) for snapshot in snapshots)
    return writer.tables(
        len(snapshots),
        Struct(SnapshotInfoSlot.ID, rows([snapshot.id for snapshot in snapshots], 12)),
        Number(SnapshotInfoSlot.PARENT_OFFSET, numbers(parents, "<i4")),
        Number(SnapshotInfoSlot.FLUSHED_AT, numbers(times, "<u8")),
        Link(SnapshotInfoSlot.MESSAGE, writer.texts([s.message for s in snapshots])),
        Link(SnapshotInfoSlot.METADATA, metadata),
        Link(SnapshotInfoSlot.PRUNED_ANCESTOR_TX_LOGS, pruned),
    )


def _write_refs(
    writer: Writer, refs: Mapping[str, SnapshotId], index_of: Mapping[SnapshotId, int]
) -> int:
    names = sorted(refs, key=str.encode)
    indexes = (_index_of(index_of, refs[name], "ref", name) for name in names)
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


def _index_of(index_of: Mapping[SnapshotId, int], id_: SnapshotId, what: str, name: object) -> int:
    index = index_of.get(id_)
    if index is None:
        raise InvalidInputError(
            f"repo info: {what} {name} points to snapshot {id_}, which is not in it"
        )
    return index
