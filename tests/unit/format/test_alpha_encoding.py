"""What the alpha layouts write, byte by byte, and what they refuse."""

import json
from dataclasses import replace
from typing import Any

import msgpack
import pytest

from frazil.errors import InvalidInputError
from frazil.format import alpha
from frazil.format.alpha import (
    LAYOUTS,
    Single,
    open_envelope,
    pack,
    pack_with_singles,
    unpack,
)
from frazil.format.header import (
    ZSTD_MAGIC,
    Dialect,
    FileType,
    has_header,
    is_messagepack_payload,
)
from frazil.format.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.format.manifest import ChunkTable, ETag, InlineRef, Manifest, NativeRef, VirtualRef
from frazil.format.snapshot import (
    ArrayData,
    Dimension,
    History,
    ManifestFileInfo,
    ManifestRef,
    Move,
    Node,
    Snapshot,
    TransactionLog,
    nodes_by_path,
)

NAME = "frazil-test"
NODE = NodeId.from_number(1)
MANIFEST_ID = ManifestId(bytes(12))
GROUP = b'{"zarr_format":3,"node_type":"group"}'

dialects = pytest.mark.parametrize("dialect", list(LAYOUTS), ids=lambda dialect: dialect.name)


def make_snapshot(dialect: Dialect, **changes: Any) -> Snapshot:
    """A snapshot without nodes."""
    values: dict[str, Any] = {
        "id": SnapshotId(bytes(12)),
        "parent_id": None,
        "flushed_at": 0,
        "message": "first",
        "history": History(0, 0, (), 0) if LAYOUTS[dialect].has_history else None,
    }
    return Snapshot(**values | changes)


def array_node(**changes: Any) -> Node:
    """An array of four elements in two chunks."""
    document: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.5,
        "codecs": [{"name": "bytes"}],
    }
    return Node(NODE, "/a", json.dumps(document | changes).encode(), ArrayData((Dimension(4, 2),)))


def fill_bytes(data_type: str, value: Any) -> bytes:
    """How a fill value is stored, found between its neighbours."""
    node = array_node(data_type=data_type, fill_value=value)
    encoded = alpha.encode_snapshot(
        make_snapshot(Dialect.ALPHA_A, nodes=nodes_by_path([node])), Dialect.ALPHA_A, NAME
    )
    _, behind = encoded.split(msgpack.packb("Slash"))
    stored, _ = behind.split(msgpack.packb([["bytes", None]]))
    return stored


@pytest.mark.parametrize(
    ("data_type", "value", "stored"),
    [
        ("bool", True, "81a4426f6f6cc3"),
        ("int16", 300, "81a5496e743136cd012c"),
        ("float16", 1.5, "81a7466c6f61743136ca3fc00000"),
        ("float32", "NaN", "81a7466c6f61743332ca7fc00000"),
        ("float64", 1.5, "81a7466c6f61743634cb3ff8000000000000"),
        ("complex64", [1.0, -2.0], "81a9436f6d706c6578363492ca3f800000cac0000000"),
        ("string", "n/a", "81a6537472696e67a36e2f61"),
        ("bytes", [0, 200, 255], "81a542797465739300ccc8ccff"),
    ],
)
def test_fill_values_are_stored_as_the_official_library_stored_them(
    data_type: str, value: Any, stored: str
) -> None:
    assert fill_bytes(data_type, value).hex() == stored


def test_nodes_are_ordered_by_segment() -> None:
    nodes = nodes_by_path(Node(NODE, path, GROUP) for path in ("/a-b", "/a/b", "/a", "/"))
    snapshot = make_snapshot(Dialect.ALPHA_H, nodes=nodes)

    encoded = alpha.encode_snapshot(snapshot, Dialect.ALPHA_H, NAME)

    assert list(alpha.decode_snapshot(encoded).value.nodes) == ["/", "/a", "/a/b", "/a-b"]


def test_attributes_are_ordered_and_codec_configurations_are_not() -> None:
    configuration = {"z": 1, "a": {"y": 2, "b": 3}}
    node = array_node(
        attributes=configuration, codecs=[{"name": "x", "configuration": configuration}]
    )
    snapshot = make_snapshot(Dialect.ALPHA_H, nodes=nodes_by_path([node]))

    encoded = alpha.encode_snapshot(snapshot, Dialect.ALPHA_H, NAME)

    document = json.loads(alpha.decode_snapshot(encoded).value.nodes["/a"].user_data)
    assert json.dumps(document["attributes"]) == '{"a": {"b": 3, "y": 2}, "z": 1}'
    assert document["codecs"] == [{"name": "x", "configuration": configuration}]
    assert json.dumps(document["codecs"][0]["configuration"]) == json.dumps(configuration)


def test_extents_are_left_out_where_the_layout_has_none() -> None:
    node = array_node()
    assert node.array is not None
    array = replace(node.array, manifests=(ManifestRef(MANIFEST_ID, ((0, 2),)),))
    nodes = nodes_by_path([replace(node, array=array)])

    def extents(dialect: Dialect) -> Any:
        encoded = alpha.encode_snapshot(make_snapshot(dialect, nodes=nodes), dialect, NAME)
        read = alpha.decode_snapshot(encoded).value.nodes["/a"].array
        return read.manifests[0].extents if read else None

    assert extents(Dialect.ALPHA_F) == ()
    assert extents(Dialect.ALPHA_G) == ((0, 2),)


@dialects
def test_a_file_has_the_envelope_of_its_layout(dialect: Dialect) -> None:
    manifest = alpha.encode_manifest(Manifest(MANIFEST_ID), dialect, NAME)
    snapshot = alpha.encode_snapshot(make_snapshot(dialect), dialect, NAME)

    layout = LAYOUTS[dialect]
    assert has_header(manifest) == has_header(snapshot) == layout.has_header
    assert manifest.startswith(ZSTD_MAGIC) == layout.has_bare_zstd_manifests
    if layout.has_header:
        header = open_envelope(snapshot, FileType.SNAPSHOT).header
        assert header is not None
        assert header.implementation == NAME


def test_messagepack_is_distinguished_from_flatbuffers() -> None:
    assert is_messagepack_payload(pack((1, 2)))
    assert not is_messagepack_payload(b"\x94\x00\x00\x00Ichk")
    assert not is_messagepack_payload(b"\x18\x00\x00\x00Ichk")
    assert not is_messagepack_payload(b"")


def test_packing_with_singles_equals_plain_packing_where_there_are_none() -> None:
    tree = (1, {"a": (2.5, None, b"x"), "b": [1, {"c": -1}]}, {"d": ()}, "text", 2**64 - 1)

    assert pack_with_singles(tree) == pack(tree)
    assert pack_with_singles((Single(0.1),)) == bytes.fromhex("91ca3dcccccd")
    assert unpack(pack_with_singles((Single(0.5), 0.1))) == (0.5, 0.1)


# Refusals


@dialects
@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (array_node(data_type="datetime64"), "data_type: 'datetime64' is not known"),
        (array_node(data_type="r16", fill_value=[0, 0]), "data_type: 'r16' is not known"),
        (array_node(fill_value="0x7fc00000"), "fill_value"),
        (array_node(fill_value=None), "fill_value"),
        (array_node(fill_value=1e300), "does not fit 32 bits"),
        (array_node(chunk_grid={"name": "rectilinear"}), "'rectilinear' is not regular"),
        (array_node(chunk_key_encoding={"name": "v2"}), "chunk_key_encoding"),
        (array_node(codecs=["bytes"]), "codecs"),
        (array_node(codecs=[{"name": "x", "must_understand": False}]), "must_understand"),
        (array_node(extra={}), "no place for 'extra'"),
        (array_node(shape=[5]), "its array data and its zarr.json differ"),
        (array_node(dimension_names=["x"]), "its array data and its zarr.json differ"),
        (Node(NODE, "/a", array_node().user_data), "has no array data"),
        (Node(NODE, "/a", GROUP, ArrayData(())), "zarr.json is a group's"),
        (Node(NODE, "/a", b"{"), "not JSON"),
        (Node(NODE, "/a", b'{"zarr_format":2}'), "zarr_format"),
        (Node(NODE, "/a", GROUP, extra=b"x"), "extra"),
    ],
)
def test_a_node_that_no_layout_can_hold_is_refused_by_name(
    dialect: Dialect, node: Node, reason: str
) -> None:
    snapshot = make_snapshot(dialect, nodes=nodes_by_path([node]))

    with pytest.raises(InvalidInputError, match=f"alpha snapshot .*: node '/a': .*{reason}"):
        alpha.encode_snapshot(snapshot, dialect, NAME)


@dialects
@pytest.mark.parametrize(
    "change",
    [
        {"id": SnapshotId(bytes(16))},
        {"parent_id": SnapshotId(bytes(16))},
        {"flushed_at": 10**30},
        {"message": "\ud800"},
        {"metadata": {"a": b"bytes"}},
        {"metadata": {"a": 2**64}},
        {"extra": b"x"},
        {"nodes": {"/a": Node(NODE, "/b", GROUP)}},
        {"nodes": {"a": Node(NODE, "a", GROUP)}},
        {"nodes": {"/\ud800": Node(NODE, "/\ud800", GROUP)}},
    ],
)
def test_a_snapshot_that_no_layout_can_hold_is_refused(
    dialect: Dialect, change: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError, match=r"^alpha snapshot"):
        alpha.encode_snapshot(make_snapshot(dialect, **change), dialect, NAME)


@dialects
def test_a_history_is_needed_or_refused(dialect: Dialect) -> None:
    wrong = None if LAYOUTS[dialect].has_history else History(0, 0, (), 0)

    with pytest.raises(InvalidInputError, match="history"):
        alpha.encode_snapshot(make_snapshot(dialect, history=wrong), dialect, NAME)


@dialects
def test_sizes_of_manifest_files_are_needed_or_refused(dialect: Dialect) -> None:
    sizes = dict.fromkeys(LAYOUTS[dialect].manifest_file_sizes, 1)
    too_many = {"size_bytes": 1} if not sizes else {"size_bytes": 1, "num_chunk_refs": 1}
    wrong: dict[str, int] = {} if len(sizes) == 2 else too_many

    def encode(sizes: dict[str, Any]) -> bytes:
        info = ManifestFileInfo(MANIFEST_ID, **sizes)
        return alpha.encode_snapshot(make_snapshot(dialect, manifest_files=(info,)), dialect, NAME)

    assert encode(sizes)
    with pytest.raises(InvalidInputError, match="manifest file"):
        encode(wrong)


def test_a_manifest_that_a_layout_cannot_hold_is_refused() -> None:
    checksum = VirtualRef("s3://bucket/key", 0, 1, ETag("x"))
    by_large_id = {NodeId(b"\xff" * 8): ChunkTable.of(0, {(): InlineRef(b"")})}
    long_id = NativeRef(ChunkId(bytes(16)), 0, 1)
    cases = [
        (Dialect.ALPHA_A, Manifest(None, {NODE: ChunkTable.of(0, {(): checksum})})),
        (Dialect.ALPHA_B, Manifest(None, {NODE: ChunkTable.of(0, {(): checksum})})),
        (Dialect.ALPHA_A, Manifest(None, by_large_id)),
        (Dialect.ALPHA_H, Manifest(MANIFEST_ID, {NODE: ChunkTable.of(0, {(): long_id}, 16)})),
        (Dialect.ALPHA_G, Manifest(None)),
        (Dialect.ALPHA_H, Manifest(ManifestId(bytes(16)))),
        (Dialect.ALPHA_H, Manifest(MANIFEST_ID, extra=b"x")),
        (Dialect.ALPHA_H, Manifest(MANIFEST_ID, array_extras={NODE: b"x"})),
    ]  # fmt: skip

    for dialect, manifest in cases:
        with pytest.raises(InvalidInputError, match=r"^alpha manifest"):
            alpha.encode_manifest(manifest, dialect, NAME)


def test_a_transaction_log_that_a_layout_cannot_hold_is_refused() -> None:
    log = TransactionLog(SnapshotId(bytes(12)))
    cases = [
        (Dialect.ALPHA_A, log),
        (Dialect.ALPHA_H, replace(log, moves=(Move("/a", "/b"),))),
        (Dialect.ALPHA_H, replace(log, updated_groups=frozenset({NODE}))),
        (Dialect.ALPHA_H, replace(log, extra=b"x")),
    ]

    for dialect, refused in cases:
        with pytest.raises(InvalidInputError, match=r"^alpha transaction log"):
            alpha.encode_transaction_log(refused, dialect, NAME)


def test_only_alpha_dialects_are_written() -> None:
    with pytest.raises(InvalidInputError, match="no dialect of the alpha"):
        alpha.encode_manifest(Manifest(MANIFEST_ID), Dialect.V1, NAME)
