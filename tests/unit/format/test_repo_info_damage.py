"""Histories in which rows don't fit together, read in columns and row by row."""

import struct
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import pytest

from frazil.errors import FormatError
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Metadata
from frazil.format.repo_info import NewCommit, RepoInfo, RepoStatus, SnapshotInfo, Update
from frazil.format.v2.flatbuffers_reader import Buffer, Table
from frazil.format.v2.repo_info_codec import decode_repo_info_payload, encode_repo_info_payload
from frazil.format.v2.schema import MetadataSlot, RepoSlot, SnapshotInfoSlot, UpdateSlot

IDS = [SnapshotId(bytes([number] * 12)) for number in range(40)]


def make_info() -> RepoInfo:
    snapshots = [
        SnapshotInfo(
            id_, IDS[n - 1] if n else None, n * 1000, f"commit {n}", Metadata({"a": n, "b": n})
        )
        for n, id_ in enumerate(IDS)
    ]
    return RepoInfo(
        branches={"main": IDS[-1]},
        tags={},
        deleted_tags=frozenset(),
        snapshots={snapshot.id: snapshot for snapshot in snapshots},
        status=RepoStatus(),
        latest_updates=tuple(Update(NewCommit("main", id_), 0, "backup") for id_ in IDS),
    )


Place = Callable[[Table, Table], int]


def snapshot_field(slot: int) -> Place:
    """Where a field of the seventh snapshot is."""
    return lambda snapshot, _: snapshot.field(slot, "")


def text_of(slot: int) -> Place:
    return lambda snapshot, _: snapshot.buffer.follow(snapshot.field(slot, "")) + 4


def second_metadata_name(snapshot: Table, _: Table) -> int:
    item = list(snapshot.tables(SnapshotInfoSlot.METADATA))[1]
    return item.buffer.follow(item.field(MetadataSlot.NAME, "")) + 4


def update_field(slot: int) -> Place:
    """Where a field of the seventh update is."""
    return lambda _, update: update.field(slot, "")


def update_text(slot: int) -> Place:
    return lambda _, update: update.buffer.follow(update.field(slot, "")) + 4


FOUND_WHEN_READ = {
    "a parent that is not there": (
        snapshot_field(SnapshotInfoSlot.PARENT_OFFSET),
        struct.pack("<i", 40),
        "snapshot 40 of 40 is referred to",
    ),
    "a parent before all": (
        snapshot_field(SnapshotInfoSlot.PARENT_OFFSET),
        struct.pack("<i", -2),
        "snapshot -2 of 40 is referred to",
    ),
    "its own parent": (
        snapshot_field(SnapshotInfoSlot.PARENT_OFFSET),
        struct.pack("<i", 7),
        f"snapshot {IDS[7]} is its own ancestor",
    ),
    "a child for a parent": (
        snapshot_field(SnapshotInfoSlot.PARENT_OFFSET),
        struct.pack("<i", 20),
        "is its own ancestor",
    ),
    "another's id": (snapshot_field(SnapshotInfoSlot.ID), IDS[3], "a snapshot is there twice"),
}

FOUND_WHEN_TOUCHED = {
    "a message that is no text": (
        text_of(SnapshotInfoSlot.MESSAGE),
        b"\xc3(",
        "a snapshot's message is not UTF-8",
    ),
    "a message outside the file": (
        snapshot_field(SnapshotInfoSlot.MESSAGE),
        struct.pack("<I", 2**31),
        "bytes",
    ),
    "metadata outside the file": (
        snapshot_field(SnapshotInfoSlot.METADATA),
        struct.pack("<I", 2**31),
        "bytes",
    ),
    "a name twice": (second_metadata_name, b"a", "metadata has .* twice"),
    "a name that is no text": (second_metadata_name, b"\xff", "a metadata name is not UTF-8"),
    "an update of no type": (
        update_field(UpdateSlot.TYPE),
        b"\x63",
        "the ops log has an update of the unknown type 99",
    ),
    "an update outside the file": (
        update_field(UpdateSlot.VALUE),
        struct.pack("<I", 2**31),
        "bytes",
    ),
    "a backup that is no text": (update_text(UpdateSlot.BACKUP_PATH), b"\xff", "is not UTF-8"),
}


def damage(place: Place, data: bytes) -> bytes:
    """A repo info with other bytes at a place of its seventh snapshot or update."""
    payload = b"".join(map(bytes, encode_repo_info_payload(make_info())))
    root = Buffer(payload, "file").root()
    snapshot = list(root.tables(RepoSlot.SNAPSHOTS))[7]
    at = place(snapshot, list(root.tables(RepoSlot.LATEST_UPDATES))[7])
    return payload[:at] + data + payload[at + len(data) :]


def decode_at_once(payload: bytes) -> RepoInfo:
    with (
        patch("frazil.format.v2.snapshot_info_codec._FEW_SNAPSHOTS", 100),
        patch("frazil.format.v2.repo_info_codec._FEW_UPDATES", 100),
    ):
        return decode_repo_info_payload(payload)


@pytest.mark.parametrize(
    ("place", "data", "message"), FOUND_WHEN_READ.values(), ids=FOUND_WHEN_READ
)
def test_rows_that_do_not_fit_together_are_refused_when_the_file_is_read(
    place: Place, data: bytes, message: str
) -> None:
    payload = damage(place, data)

    for decode in (decode_repo_info_payload, decode_at_once):
        with pytest.raises(FormatError, match=message):
            decode(payload)


@pytest.mark.parametrize(
    ("place", "data", "message"), FOUND_WHEN_TOUCHED.values(), ids=FOUND_WHEN_TOUCHED
)
def test_a_damaged_row_is_refused_when_it_is_read_and_when_it_is_copied(
    place: Place, data: bytes, message: str
) -> None:
    payload = damage(place, data)
    untouched = decode_repo_info_payload(payload)

    assert untouched.snapshots[IDS[5]] == make_info().snapshots[IDS[5]]
    assert untouched.latest_updates[5] == make_info().latest_updates[5]
    with pytest.raises(FormatError, match=message):
        repr((untouched.snapshots[IDS[7]], untouched.latest_updates[7]))
    with pytest.raises(FormatError, match=message):
        encode_repo_info_payload(untouched)
    with pytest.raises(FormatError, match=message):
        decode_at_once(payload)


def test_a_copy_may_be_made_as_often_as_somebody_commits() -> None:
    payload = b"".join(map(bytes, encode_repo_info_payload(make_info())))
    known = decode_repo_info_payload(payload)

    for number in range(100):
        tip = replace(make_info().snapshots[IDS[-1]], message=str(number))
        encode_repo_info_payload(known.with_snapshots(tip))
        assert known.latest_updates[1:][0] == make_info().latest_updates[1]
