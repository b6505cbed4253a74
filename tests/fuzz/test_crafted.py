"""Small files that ask for much: what chance would hardly find, laid out by hand.

Each one refers to the same bytes over and over. Whether it is refused or read does not matter; it
must not take memory or time beyond what a file of its size may.
"""

import struct

import pytest

from frazil.format.header import FileType, Header, encode_file
from frazil.format.v2.schema import (
    ArrayManifestSlot,
    ChunkRefSlot,
    ManifestSlot,
    RepoSlot,
    SnapshotInfoSlot,
    SnapshotSlot,
    TransactionLogSlot,
    UpdatedChunksSlot,
)
from tests.fuzz import corpus
from tests.fuzz.assembly import Assembly
from tests.fuzz.mutations import rle_bomb
from tests.fuzz.target import decode_frugally

HEADERS = {
    corpus.SNAPSHOT: FileType.SNAPSHOT,
    corpus.MANIFEST: FileType.MANIFEST,
    corpus.TRANSACTION_LOG: FileType.TRANSACTION_LOG,
    corpus.REPO_INFO: FileType.REPO_INFO,
}


def file_of(kind: str, assembly: Assembly, root: int) -> bytes:
    return encode_file(Header("by hand", 2, HEADERS[kind]), [assembly.payload(root)])


def manifest_of_arrays_that_share(slot: int, size: int, arrays: int) -> bytes:
    """Arrays with one and the same reference, which has a vector of many bytes."""
    file = Assembly()
    root_vtable = file.vtable(20, {ManifestSlot.ID: 4, ManifestSlot.ARRAYS: 16})
    array_vtable = file.vtable(16, {ArrayManifestSlot.NODE_ID: 4, ArrayManifestSlot.REFS: 12})
    ref_vtable = file.vtable(12, {ChunkRefSlot.INDEX: 4, slot: 8})
    root = file.table(root_vtable, bytes(16))
    vector = file.vector(arrays)
    file.point(root + 16, vector)
    tables = [file.table(array_vtable, struct.pack("<QI", number, 0)) for number in range(arrays)]
    refs = file.vector(1)
    ref = file.table(ref_vtable, bytes(8))
    file.point(refs + 4, ref)
    file.point(ref + 4, file.vector(1))
    file.point(ref + 8, file.vector(size, 1))
    for number, table in enumerate(tables):
        file.point(vector + 4 + 4 * number, table)
        file.point(table + 12, refs)
    return file_of(corpus.MANIFEST, file, root)


def log_of_arrays_that_share_coordinates(axes: int, arrays: int) -> bytes:
    """Arrays with one and the same coordinate, which has very many axes."""
    file = Assembly()
    root_vtable = file.vtable(20, {TransactionLogSlot.ID: 4, TransactionLogSlot.UPDATED_CHUNKS: 16})
    array_vtable = file.vtable(16, {UpdatedChunksSlot.NODE_ID: 4, UpdatedChunksSlot.CHUNKS: 12})
    chunk_vtable = file.vtable(8, {0: 4})
    root = file.table(root_vtable, bytes(16))
    vector = file.vector(arrays)
    file.point(root + 16, vector)
    tables = [file.table(array_vtable, struct.pack("<QI", number, 0)) for number in range(arrays)]
    chunks = file.vector(1)
    chunk = file.table(chunk_vtable, bytes(4))
    file.point(chunks + 4, chunk)
    file.point(chunk + 4, file.vector(axes))
    for number, table in enumerate(tables):
        file.point(vector + 4 + 4 * number, table)
        file.point(table + 12, chunks)
    return file_of(corpus.TRANSACTION_LOG, file, root)


def snapshot_of_nodes_with_vtables_of_their_own(nodes: int) -> bytes:
    """Nodes whose vtables lie on top of each other, each with ten thousands of slots."""
    file = Assembly()
    root_vtable = file.vtable(24, {SnapshotSlot.ID: 4, SnapshotSlot.NODES: 16,
                                   SnapshotSlot.MESSAGE: 20})  # fmt: skip
    # Wherever a vtable starts in this, it says that it has 30,000 bytes.
    vtables = file.put(struct.pack("<H", 30_000) * (nodes * 2 + 20_000))
    root = file.table(root_vtable, bytes(20))
    vector = file.vector(nodes)
    file.point(root + 16, vector)
    tables = [file.table(vtables + 4 * number, b"") for number in range(nodes)]
    file.point(root + 20, file.vector(0))
    for number, table in enumerate(tables):
        file.point(vector + 4 + 4 * number, table)
    file.put(bytes(30_004))
    return file_of(corpus.SNAPSHOT, file, root)


def manifest_of_references_with_vtables_of_their_own(refs: int, table_size: int) -> bytes:
    """References whose vtables are all different and whose tables lie on top of each other."""
    file = Assembly()
    root_vtable = file.vtable(20, {ManifestSlot.ID: 4, ManifestSlot.ARRAYS: 16})
    array_vtable = file.vtable(16, {ArrayManifestSlot.NODE_ID: 4, ArrayManifestSlot.REFS: 12})
    vtables = [
        file.put(struct.pack("<HHHHHHHH", 16, table_size, 4, number, 0, 0, 0, 0))
        for number in range(refs)
    ]
    root = file.table(root_vtable, bytes(16))
    arrays = file.vector(1)
    file.point(root + 16, arrays)
    array = file.table(array_vtable, bytes(12))
    file.point(arrays + 4, array)
    vector = file.vector(refs)
    file.point(array + 12, vector)
    for number, vtable in enumerate(vtables):
        file.point(vector + 4 + 4 * number, file.table(vtable, bytes(4)))
    file.put(bytes(table_size))
    return file_of(corpus.MANIFEST, file, root)


def manifest_of_references_to_one_wide_vtable(refs: int) -> bytes:
    """References whose vtables lie on top of each other, each with ten thousands of slots."""
    file = Assembly()
    root_vtable = file.vtable(20, {ManifestSlot.ID: 4, ManifestSlot.ARRAYS: 16})
    array_vtable = file.vtable(16, {ArrayManifestSlot.NODE_ID: 4, ArrayManifestSlot.REFS: 12})
    vtables = file.put(struct.pack("<H", 30_000) * (refs * 2 + 20_000))
    root = file.table(root_vtable, bytes(16))
    arrays = file.vector(1)
    file.point(root + 16, arrays)
    array = file.table(array_vtable, bytes(12))
    file.point(arrays + 4, array)
    vector = file.vector(refs)
    file.point(array + 12, vector)
    for number in range(refs):
        file.point(vector + 4 + 4 * number, file.table(vtables + 4 * number, b""))
    file.put(bytes(30_004))
    return file_of(corpus.MANIFEST, file, root)


def repo_info_of_snapshots_that_share(slot: int, item_size: int, size: int) -> bytes:
    """Snapshots with one and the same vector of many items."""
    file = Assembly()
    root_vtable = file.vtable(12, {RepoSlot.SNAPSHOTS: 4, RepoSlot.STATUS: 8})
    slots: dict[int, int] = {SnapshotInfoSlot.ID: 4, SnapshotInfoSlot.PARENT_OFFSET: 16}
    vtable = file.vtable(28, {**slots, SnapshotInfoSlot.MESSAGE: 20, slot: 24})
    status_vtable = file.vtable(4, {})
    root = file.table(root_vtable, bytes(8))
    snapshots = file.vector(5_000)
    file.point(root + 4, snapshots)
    tables = [
        file.table(vtable, number.to_bytes(12, "big") + struct.pack("<iII", -1, 0, 0))
        for number in range(5_000)
    ]
    message, shared = file.vector(0), file.vector(size, item_size)
    file.point(root + 8, file.table(status_vtable, b""))
    for number, table in enumerate(tables):
        file.point(snapshots + 4 + 4 * number, table)
        file.point(table + 20, message)
        file.point(table + 24, shared)
    return file_of(corpus.REPO_INFO, file, root)


def flexbuffers_of_keys_inside_each_other(keys: int) -> bytes:
    """A map whose keys start one byte after the other in the same long text."""
    text = b"a" * keys + b"\0"
    key_vector = struct.pack("<I", keys) + b"".join(
        struct.pack("<I", len(text) + 4 + 4 * number - number) for number in range(keys)
    )
    keys_start = len(text) + 4
    values_start = len(text) + len(key_vector) + 12
    values = struct.pack("<III", values_start - 12 - keys_start, 4, keys) + bytes(4 * keys)
    types = bytes(keys)
    body = text + key_vector + values + types
    root = struct.pack("<I", len(body) - values_start)
    return body + root + bytes([9 << 2 | 2, 4])


CRAFTED = {
    "arrays share inline bytes": (
        corpus.MANIFEST,
        manifest_of_arrays_that_share(ChunkRefSlot.INLINE, 500_000, 5_000),
    ),
    "arrays share a location": (
        corpus.MANIFEST,
        manifest_of_arrays_that_share(ChunkRefSlot.LOCATION, 500_000, 5_000),
    ),
    "arrays share coordinates of many axes": (
        corpus.TRANSACTION_LOG,
        log_of_arrays_that_share_coordinates(100_000, 5_000),
    ),
    "nodes have wide vtables on top of each other": (
        corpus.SNAPSHOT,
        snapshot_of_nodes_with_vtables_of_their_own(20_000),
    ),
    "few nodes have wide vtables on top of each other": (
        corpus.SNAPSHOT,
        snapshot_of_nodes_with_vtables_of_their_own(60),
    ),
    "references have tables on top of each other": (
        corpus.MANIFEST,
        manifest_of_references_with_vtables_of_their_own(30_000, 60_000),
    ),
    "references have small tables of many layouts": (
        corpus.MANIFEST,
        manifest_of_references_with_vtables_of_their_own(60_000, 8),
    ),
    "references have wide vtables on top of each other": (
        corpus.MANIFEST,
        manifest_of_references_to_one_wide_vtable(60_000),
    ),
    "snapshots share a message": (
        corpus.REPO_INFO,
        repo_info_of_snapshots_that_share(SnapshotInfoSlot.MESSAGE, 1, 500_000),
    ),
    "snapshots share metadata": (
        corpus.REPO_INFO,
        repo_info_of_snapshots_that_share(SnapshotInfoSlot.METADATA, 4, 100_000),
    ),
    "snapshots share logs of expired ancestors": (
        corpus.REPO_INFO,
        repo_info_of_snapshots_that_share(SnapshotInfoSlot.PRUNED_ANCESTOR_TX_LOGS, 12, 5_000),
    ),
    "keys lie inside each other": (
        corpus.FLEXBUFFERS,
        flexbuffers_of_keys_inside_each_other(40_000),
    ),
    "nested arrays claim to be long": (
        corpus.MESSAGEPACK,
        b"\xdd\x00\x01\x00\x00" * 400 + b"\xc0" * 70_000,
    ),
    "a frame without a size grows": (
        corpus.MANIFEST,
        Header("by hand", 2, FileType.MANIFEST).encode() + rle_bomb(2_000, None, 0x50),
    ),
    "a frame declares a gigabyte": (
        corpus.MANIFEST,
        Header("by hand", 2, FileType.MANIFEST).encode() + rle_bomb(2_000, 2**30, 0x50),
    ),
}


@pytest.mark.parametrize(("kind", "data"), CRAFTED.values(), ids=CRAFTED)
def test_a_small_file_cannot_ask_for_much(kind: str, data: bytes) -> None:
    decode_frugally(kind, data)
