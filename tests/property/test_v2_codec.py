"""Every value that V1 and V2 can hold survives being written and read, and is written in order."""

import random
from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.format.files import (
    FileEncoding,
    decode_manifest,
    decode_repo_info,
    decode_snapshot,
    decode_transaction_log,
    decode_used_manifests,
    encode_manifest,
    encode_repo_info,
    encode_snapshot,
    encode_transaction_log,
)
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import ChunkRef, ChunkTable, LocationCompression, Manifest
from frazil.format.metadata import NO_METADATA, byte_order, segment_order
from frazil.format.ragged import Part
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import Snapshot
from frazil.format.v2.flatbuffers_reader import Buffer, Table
from frazil.format.v2.manifest_decoder import decode_manifest_payload
from frazil.format.v2.manifest_encoder import encode_manifest_payload
from frazil.format.v2.repo_info_codec import encode_repo_info_payload
from frazil.format.v2.schema import (
    ArrayManifestSlot,
    ChunkRefSlot,
    ManifestFileSlot,
    ManifestSlot,
    MetadataSlot,
    MoveSlot,
    NodeSlot,
    RefSlot,
    RepoSlot,
    SnapshotInfoSlot,
    SnapshotSlot,
    TransactionLogSlot,
    UpdatedChunksSlot,
)
from frazil.format.v2.snapshot_codec import (
    EncodedNodes,
    decode_snapshot_payload,
    encode_snapshot_payload,
    encode_transaction_log_payload,
)
from tests.strategies import v2
from tests.strategies.foreign import ForeignWriter, Rows
from tests.strategies.values import manifest_ids, node_ids

DIALECTS = {1: Dialect.V1, 2: Dialect.V2}
EAGER = LocationCompression(min_num_chunks=1)

# What holds for some holds for all: order does not hang on rare values.
few_examples = settings(max_examples=settings().max_examples // 4)
versions = pytest.mark.parametrize("version", v2.SPEC_VERSIONS)
compressions = pytest.mark.parametrize("compression", [None, EAGER], ids=["plain", "compressed"])


def root_of(parts: Sequence[Part]) -> Table:
    return Buffer(b"".join(bytes(part) for part in parts), "file").root()


# What is written comes back


@versions
@given(data=st.data())
def test_a_snapshot_survives_being_written_and_read(version: int, data: st.DataObject) -> None:
    snapshot = data.draw(v2.snapshots(version))

    decoded = decode_snapshot(encode_snapshot(snapshot, DIALECTS[version]))

    assert decoded.value == snapshot
    assert decoded.dialect is DIALECTS[version]


@versions
@given(data=st.data())
def test_the_manifests_of_a_snapshot_are_found_without_the_rest(
    version: int, data: st.DataObject
) -> None:
    snapshot = data.draw(v2.snapshots(version))

    file = encode_snapshot(snapshot, DIALECTS[version])

    expected = decode_snapshot(file).value.used_manifests()
    assert decode_used_manifests(file) == expected
    with patch("frazil.format.v2.snapshot_codec._FEW_NODES", -1):
        assert decode_used_manifests(file) == expected
        assert decode_snapshot(file).value.manifest_files == snapshot.manifest_files


@given(v2.manifests(), st.sampled_from([Dialect.V1, Dialect.V2]))
def test_a_manifest_survives_being_written_and_read(manifest: Manifest, dialect: Dialect) -> None:
    options = FileEncoding(location_compression=EAGER)

    decoded = decode_manifest(encode_manifest(manifest, dialect, options))

    assert decoded.value == manifest
    assert decoded.dialect is dialect


@versions
@given(data=st.data())
def test_a_transaction_log_survives_being_written_and_read(
    version: int, data: st.DataObject
) -> None:
    log = data.draw(v2.transaction_logs(version))

    decoded = decode_transaction_log(encode_transaction_log(log, DIALECTS[version]), log.id)

    assert decoded.value == log
    assert decoded.dialect is DIALECTS[version]


@given(v2.repo_infos())
def test_a_repo_info_survives_being_written_and_read(info: RepoInfo) -> None:
    decoded = decode_repo_info(encode_repo_info(info))

    assert decoded.value == info
    assert decoded.dialect is Dialect.V2


@compressions
@few_examples
@given(table=v2.chunk_tables(), id_=manifest_ids, data=st.data())
def test_compressed_locations_are_those_that_were_compressed(
    compression: LocationCompression | None, table: ChunkTable, id_: ManifestId, data: st.DataObject
) -> None:
    many: dict[tuple[int, ...], ChunkRef] = {
        (index,): ref for index, ref in enumerate(data.draw(many_virtual_refs))
    }
    nodes = data.draw(st.lists(node_ids, min_size=2, max_size=2, unique=True))
    manifest = Manifest(id_, dict(zip(nodes, [table, ChunkTable.of(1, many)], strict=True)))

    payload = encode_manifest_payload(manifest, compression)

    has_dictionary = root_of(payload).find(ManifestSlot.LOCATION_DICTIONARY) is not None
    assert has_dictionary is (compression is not None)
    assert decode_manifest_payload(b"".join(map(bytes, payload))) == manifest


many_virtual_refs = st.lists(
    st.builds(
        replace,
        v2.virtual_refs,
        location=st.integers(0, 10**6).map("s3://bucket/folder/file-{:07}.nc".format),
    ),
    min_size=20,
    max_size=30,
    unique_by=lambda ref: ref.location,
)


@few_examples
@given(v2.snapshots(2))
def test_nodes_decoded_one_by_one_are_those_decoded_together(snapshot: Snapshot) -> None:
    payload = b"".join(map(bytes, encode_snapshot_payload(snapshot, 2)))

    with patch("frazil.format.v2.snapshot_codec._FEW_NODES", -1):
        one_by_one = decode_snapshot_payload(payload, 2).nodes
        together = decode_snapshot_payload(payload, 2).nodes

    assert isinstance(one_by_one, EncodedNodes)
    assert list(one_by_one) == list(decode_snapshot_payload(payload, 2).nodes)
    assert {path: one_by_one[path] for path in one_by_one} == snapshot.nodes
    assert dict(together.items()) == snapshot.nodes
    assert [node.path for node in together.values()] == list(one_by_one)
    assert "/absent" not in one_by_one


# The order that readers search by


@versions
@few_examples
@given(data=st.data())
def test_nodes_stand_in_the_order_of_their_paths_bytes(version: int, data: st.DataObject) -> None:
    snapshot = data.draw(v2.snapshots(version))

    root = root_of(encode_snapshot_payload(snapshot, version))

    paths = [node.text(NodeSlot.PATH, "path") for node in root.tables(SnapshotSlot.NODES)]
    assert paths == sorted(snapshot.nodes, key=byte_order)
    assert list(decode_snapshot_payload(root.buffer.data, version).nodes) == paths
    names = [item.text(MetadataSlot.NAME, "name") for item in root.tables(SnapshotSlot.METADATA)]
    assert names == sorted(snapshot.metadata, key=str.encode)


@versions
@few_examples
@given(data=st.data())
def test_manifest_files_stand_in_the_order_of_their_ids(version: int, data: st.DataObject) -> None:
    snapshot = data.draw(v2.snapshots(version))
    shuffled = replace(snapshot, manifest_files=snapshot.manifest_files[::-1])

    root = root_of(encode_snapshot_payload(shuffled, version))

    old = [item[:12] for item in root.structs(SnapshotSlot.MANIFEST_FILES, 32)]
    new = [
        table.struct(ManifestFileSlot.ID, 12, "id")
        for table in root.tables(SnapshotSlot.MANIFEST_FILES_V2)
    ]
    assert (old if version == 1 else new) == [file.id for file in snapshot.manifest_files]
    assert (new if version == 1 else old) == []


@few_examples
@given(v2.manifests())
def test_arrays_stand_in_the_order_of_their_ids_and_references_in_that_of_coordinates(
    manifest: Manifest,
) -> None:
    root = root_of(encode_manifest_payload(manifest, None))

    arrays = list(root.tables(ManifestSlot.ARRAYS))
    ids = [array.struct(ArrayManifestSlot.NODE_ID, 8, "id") for array in arrays]
    assert ids == sorted(manifest.arrays)
    for node_id, array in zip(ids, arrays, strict=True):
        refs = array.tables(ArrayManifestSlot.REFS)
        indexes = [read_numbers(ref, ChunkRefSlot.INDEX) for ref in refs]
        assert indexes == sorted(manifest.arrays[NodeId(node_id)].table().refs())


@versions
@few_examples
@given(data=st.data())
def test_a_transaction_log_lists_ids_coordinates_and_moves_in_order(
    version: int, data: st.DataObject
) -> None:
    log = data.draw(v2.transaction_logs(version))
    shuffled = replace(log, moves=log.moves[::-1])

    root = root_of(encode_transaction_log_payload(shuffled, version))

    assert root.structs(TransactionLogSlot.NEW_ARRAYS, 8) == sorted(log.new_arrays)
    assert root.structs(TransactionLogSlot.UPDATED_GROUPS, 8) == sorted(log.updated_groups)
    updated = list(root.tables(TransactionLogSlot.UPDATED_CHUNKS))
    ids = [table.struct(UpdatedChunksSlot.NODE_ID, 8, "id") for table in updated]
    assert ids == sorted(log.updated_chunks)
    for table in updated:
        rows = [read_numbers(row, 0) for row in table.tables(UpdatedChunksSlot.CHUNKS)]
        assert rows == sorted(rows)
    targets = [move.text(MoveSlot.TO, "to") for move in root.tables(TransactionLogSlot.MOVED_NODES)]
    assert targets == sorted((move.to_path for move in log.moves), key=segment_order)


@few_examples
@given(v2.repo_infos())
def test_a_repo_info_lists_refs_snapshots_and_flags_in_order(info: RepoInfo) -> None:
    root = root_of(encode_repo_info_payload(info))

    for slot, names in ((RepoSlot.BRANCHES, info.branches), (RepoSlot.TAGS, info.tags)):
        written = [ref.text(RefSlot.NAME, "name") for ref in root.tables(slot)]
        assert written == sorted(names, key=str.encode)
    assert root.texts(RepoSlot.DELETED_TAGS) == sorted(info.deleted_tags, key=str.encode)
    snapshots = root.tables(RepoSlot.SNAPSHOTS)
    ids = [snapshot.struct(SnapshotInfoSlot.ID, 12, "id") for snapshot in snapshots]
    assert ids == sorted(info.snapshots)
    flags = root.structs(RepoSlot.ENABLED_FEATURE_FLAGS, 2)
    numbers = [int.from_bytes(flag, "little") for flag in flags]
    assert numbers == sorted(info.enabled_feature_flags or ())


def read_numbers(table: Table, slot: int) -> tuple[int, ...]:
    data = b"".join(table.structs(slot, 4))
    return tuple(np.frombuffer(data, "<u4").tolist())


@given(v2.manifests(), st.sampled_from([Dialect.V1, Dialect.V2]))
def test_native_chunks_are_found_without_decoding_the_rest(
    manifest: Manifest, dialect: Dialect
) -> None:
    decoded = decode_manifest(encode_manifest(manifest, dialect)).value

    for node_id, table in manifest.tables().items():
        found, expected = decoded.arrays[node_id].natives(), table.natives()
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.lengths.tolist() == expected.lengths.tolist()


# Other writers' files


@few_examples
@given(st.data(), manifest_ids)
def test_a_manifest_of_another_writer_reads_the_same(data: st.DataObject, id_: ManifestId) -> None:
    tables = data.draw(st.dictionaries(node_ids, v2.chunk_tables(), max_size=3))
    arrays = {node_id: rows_of(table) for node_id, table in tables.items()}
    chance = random.Random(data.draw(st.integers(0, 2**32)))

    payload = ForeignWriter(chance).manifest(id_, arrays)

    assert decode_manifest_payload(payload) == Manifest(id_, tables)


def rows_of(table: ChunkTable) -> Rows:
    extras = [table.extras[code] if code >= 0 else None for code in table.extra.tolist()]
    return dict(zip(table.refs(), zip(table.refs().values(), extras, strict=True), strict=True))


@few_examples
@given(v2.snapshots(2), st.integers(0, 2**32))
def test_a_snapshot_of_another_writer_reads_the_same(snapshot: Snapshot, seed: int) -> None:
    expected = replace(snapshot, metadata=NO_METADATA, manifest_files=(), extra=None)

    payload = ForeignWriter(random.Random(seed)).snapshot(snapshot)

    assert decode_snapshot_payload(payload, 2) == expected
    with patch("frazil.format.v2.snapshot_codec._FEW_NODES", -1):
        assert dict(decode_snapshot_payload(payload, 2).nodes.items()) == expected.nodes
