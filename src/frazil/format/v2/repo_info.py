"""The repo info of V2."""

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from frazil.format.flatbuffers.fields import ABSENT, Link, Number, numbers, one
from frazil.format.flatbuffers.reader import Buffer, Table
from frazil.format.flatbuffers.writer import Writer
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Encoding, Value
from frazil.format.ragged import Integers, Part
from frazil.format.repo_info import RepoInfo
from frazil.format.v2.metadata_items import decode_metadata, write_metadata
from frazil.format.v2.schema import RefSlot, RepoSlot
from frazil.format.v2.snapshot_info_writer import Find, index_of, write_snapshot_infos
from frazil.format.v2.snapshot_infos import decode_snapshot_infos, id_at
from frazil.format.v2.update_log import decode_log, write_log
from frazil.format.v2.updates import decode_status, write_status


def decode_repo_info_payload(payload: bytes) -> RepoInfo:
    """Read a repo info's FlatBuffer."""
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
    """The FlatBuffer of a repo info."""
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
