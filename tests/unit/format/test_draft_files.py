"""The draft repository at file level, and the draft's own JSON schemas."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from frazil.errors import InvalidInputError
from frazil.format import draft
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.manifest import ChunkTable, ETag, InlineRef, Manifest, VirtualRef
from frazil.format.snapshot import (
    ArrayData,
    Dimension,
    History,
    ManifestFileInfo,
    ManifestRef,
    Node,
    Snapshot,
    nodes_by_path,
)
from frazil.format.text_files import Ref, encode_ref
from tests.legacy_files import DRAFT_NAMES, assert_reads_as_expected, files_in, read_draft
from tests.strategies import legacy

SCHEMAS = Path(__file__).parents[2] / "data" / "draft-schemas"
NODE = NodeId.from_number(3)

repositories = pytest.mark.parametrize("name", DRAFT_NAMES)


def validate(data: bytes, schema: str) -> None:
    """Raise if the draft's own schema does not allow this file."""
    jsonschema.Draft7Validator(json.loads((SCHEMAS / f"{schema}.json").read_bytes())).validate(
        json.loads(data)
    )


def make_snapshot(**changes: Any) -> Snapshot:
    """A snapshot without nodes."""
    values: dict[str, Any] = {
        "id": SnapshotId(bytes(16)),
        "parent_id": None,
        "flushed_at": 0,
        "message": "first",
        "history": History(0, 0, (), 0),
    }
    return Snapshot(**values | changes)


def array_node(**changes: Any) -> Node:
    """An array of four bytes in two chunks."""
    document: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "attributes": {},
        "shape": [4],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.5,
        "codecs": [{"name": "bytes"}],
    }
    manifests = (ManifestRef(ManifestId(bytes(16)), ()),)
    array = ArrayData((Dimension(4, 2),), manifests=manifests)
    return Node(NODE, "/a", json.dumps(document | changes).encode(), array)


def with_node(node: Node) -> Snapshot:
    """A snapshot with one array."""
    files = (ManifestFileInfo(ManifestId(bytes(16))),)
    return make_snapshot(nodes=nodes_by_path([node]), manifest_files=files)


@repositories
def test_the_repository_reads_as_expected(name: str, generations: Path) -> None:
    repository = read_draft(generations / name)

    assert repository.dialect is Dialect.DRAFT
    assert_reads_as_expected(repository, generations / name / "repo" / "c")


@repositories
def test_files_are_written_again_with_the_same_bytes(name: str, generations: Path) -> None:
    for path in files_in(generations / name, "s"):
        data = path.read_bytes()
        again = draft.encode_snapshot(draft.decode_snapshot(data).value)
        assert again == data or (
            # Properties are written in order.
            len(again) == len(data) and json.loads(again) == json.loads(data)
        )

    for path in files_in(generations / name, "m"):
        data = path.read_bytes()
        assert draft.encode_manifest(draft.decode_manifest(data).value) == data


@repositories
def test_rewritten_files_follow_the_drafts_schemas(name: str, generations: Path) -> None:
    for path in files_in(generations / name, "s"):
        snapshot = draft.decode_snapshot(path.read_bytes()).value
        validate(draft.encode_snapshot(snapshot), "snapshot")
        validate(encode_ref(Ref(snapshot.id, snapshot.flushed_at)), "ref")

    for path in files_in(generations / name, "m"):
        manifest = draft.decode_manifest(path.read_bytes()).value
        validate(draft.encode_manifest(manifest), "manifest")


@given(legacy.manifests(Dialect.DRAFT))
def test_manifests_follow_the_drafts_schema(manifest: Manifest) -> None:
    validate(draft.encode_manifest(manifest), "manifest")


@given(legacy.snapshots(Dialect.DRAFT))
def test_snapshots_with_finite_fill_values_follow_the_drafts_schema(snapshot: Snapshot) -> None:
    encoded = draft.encode_snapshot(snapshot)
    document = json.loads(encoded)

    for node in document["nodes"].values():
        if node["node_data"] != "Group":
            metadata, _ = node["node_data"]["Array"]
            # The schema has no NaN, no infinity, and no chunk of length 0.
            metadata["fill_value"] = {"Int8": 0}
            metadata["chunk_shape"] = [length or 1 for length in metadata["chunk_shape"]]
    validate(json.dumps(document).encode(), "snapshot")


def test_a_snapshot_lists_the_manifests_that_arrays_point_to() -> None:
    decoded = draft.decode_snapshot(draft.encode_snapshot(with_node(array_node())))

    assert decoded.value.manifest_files == (ManifestFileInfo(ManifestId(bytes(16))),)


@pytest.mark.parametrize(("stored", "plain"), [(None, "NaN"), ("NaN", "NaN"), (1, 1.0)])
def test_nan_is_read_from_null_and_from_zarrs_word(stored: object, plain: object) -> None:
    encoded = json.loads(draft.encode_snapshot(with_node(array_node(fill_value="NaN"))))
    metadata, _ = encoded["nodes"]["/a"]["node_data"]["Array"]
    metadata["fill_value"] = {"Float32": stored}

    decoded = draft.decode_snapshot(json.dumps(encoded).encode())

    assert json.loads(decoded.value.nodes["/a"].user_data)["fill_value"] == plain


def test_raw_bits_are_spelled_as_zarr_spells_them() -> None:
    snapshot = with_node(array_node(data_type="r16", fill_value=[1, 2]))

    encoded = json.loads(draft.encode_snapshot(snapshot))

    metadata, _ = encoded["nodes"]["/a"]["node_data"]["Array"]
    assert metadata["data_type"] == {"rawbits": 16}
    assert metadata["fill_value"] == {"RawBits": [1, 2]}


@pytest.mark.parametrize(
    ("key", "coordinates"), [("[3,[1,2]]", (1, 2)), ("3/1/2", (1, 2)), ("3", ()), ("3/", ())]
)
def test_both_spellings_of_chunk_keys_are_read(key: str, coordinates: tuple[int, ...]) -> None:
    data = json.dumps({"chunks": {key: {"Inline": [7]}}}).encode()

    manifest = draft.decode_manifest(data).value

    assert manifest.find(NODE, coordinates) == InlineRef(b"\x07")


def test_references_with_different_numbers_of_axes_are_kept_apart() -> None:
    data = b'{"chunks":{"[3,[0]]":{"Inline":[1]},"[3,[0,0]]":{"Inline":[2]}}}'

    manifest = draft.decode_manifest(data).value

    assert manifest.table(NODE, 1) == ChunkTable.of(1, {(0,): InlineRef(b"\x01")}, 16)
    assert manifest.table(NODE, 2) == ChunkTable.of(2, {(0, 0): InlineRef(b"\x02")}, 16)
    assert draft.encode_manifest(manifest) == data


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (make_snapshot(history=None), "needs a history"),
        (make_snapshot(parent_id=SnapshotId(bytes(16))), "the history says None"),
        (make_snapshot(id=SnapshotId(bytes(12))), "16 are needed"),
        (make_snapshot(extra=b"x"), "no place for extra"),
        (make_snapshot(flushed_at=10**30), "not in the years"),
        (make_snapshot(message="\ud800"), "is no text"),
        (make_snapshot(metadata={"a": object()}), "no JSON value"),
        (make_snapshot(nodes=nodes_by_path([array_node()])), "not those that arrays point to"),
        (
            make_snapshot(
                nodes=nodes_by_path([array_node()]),
                manifest_files=(ManifestFileInfo(ManifestId(bytes(16)), size_bytes=1),),
            ),
            "no place for its size",
        ),
        (with_node(array_node(data_type="string", fill_value="")), "no place for 'string'"),
        (with_node(array_node(data_type="datetime64")), "'datetime64' is not known"),
    ],
)
def test_a_snapshot_that_the_draft_cannot_hold_is_refused(snapshot: Snapshot, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        draft.encode_snapshot(snapshot)


def test_a_refusal_names_the_node() -> None:
    with pytest.raises(InvalidInputError, match=r"draft snapshot: node '/a': .*string"):
        draft.encode_snapshot(with_node(array_node(data_type="string", fill_value="")))


@pytest.mark.parametrize(
    "manifest",
    [
        Manifest(None, {NodeId(b"\xff" * 8): ChunkTable.of(0, {(): InlineRef(b"")}, 16)}),
        Manifest(None, {NODE: ChunkTable.of(0, {(): VirtualRef("s3://b/k", 0, 1, ETag("x"))}, 16)}),
        Manifest(None, {}, extra=b"x"),
        Manifest(None, {}, array_extras={NODE: b"x"}),
    ],
    ids=["node id", "checksum", "extra", "array extra"],
)
def test_a_manifest_that_the_draft_cannot_hold_is_refused(manifest: Manifest) -> None:
    with pytest.raises(InvalidInputError, match="draft manifest"):
        draft.encode_manifest(manifest)
