"""Nodes and chunks committed to old generations, read back by the second reader."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import ChunkRef, ChunkTable, InlineRef, Manifest, NativeRef
from frazil.format.snapshot import (
    ArrayData,
    Dimension,
    ManifestFileInfo,
    ManifestRef,
    Node,
    Snapshot,
    nodes_by_path,
)
from frazil.protocols.assets import new_manifest_id, new_node_id
from frazil.protocols.detection import create_repository, detect_dialect
from frazil.protocols.protocol import MAIN, CommitProtocol
from frazil.storage.local import Durability, LocalStorage
from tests.alpha_reader import OldRepository
from tests.protocol_repositories import SEQUENCED, commit, plan_snapshot

_GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {"made by": "a test"}}
_ARRAY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "attributes": {},
    "shape": [4],
    "data_type": "int16",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": -1,
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    "dimension_names": ["x"],
}
_CHUNKS = {(0,): b"\1\0\2\0", (1,): b"\3\0\4\0"}
_NUMBERED = (Dialect.DRAFT, Dialect.ALPHA_A)
_WITH_SIZES = (Dialect.ALPHA_D, Dialect.ALPHA_E, Dialect.ALPHA_F, Dialect.ALPHA_G, Dialect.ALPHA_H)
_WITH_COUNTS = (Dialect.ALPHA_G, Dialect.ALPHA_H)


def node_id(number: int, dialect: Dialect) -> NodeId:
    return NodeId.from_number(number) if dialect in _NUMBERED else new_node_id()


def write_chunks(repository: CommitProtocol, node: NodeId) -> ManifestFileInfo:
    """A manifest with one inline and one native chunk, as a snapshot of this dialect lists it."""
    inline, native = _CHUNKS.values()
    chunk_id = repository.assets.write_chunk(native)
    refs: dict[tuple[int, ...], ChunkRef] = {
        (0,): InlineRef(inline),
        (1,): NativeRef(chunk_id, 0, len(native)),
    }
    id = new_manifest_id(repository.dialect)
    manifest = Manifest(id, {node: ChunkTable.of(1, refs, len(id))})
    info = repository.assets.write_manifest(manifest, id)
    has_size, has_count = repository.dialect in _WITH_SIZES, repository.dialect in _WITH_COUNTS
    return replace(
        info,
        size_bytes=info.size_bytes if has_size else None,
        num_chunk_refs=info.num_chunk_refs if has_count else None,
    )


def make_nodes(dialect: Dialect, array_id: NodeId, manifest_id: ManifestId) -> list[Node]:
    array = ArrayData((Dimension(4, 2, 2),), ("x",), (ManifestRef(manifest_id, ((0, 2),)),))
    return [
        Node(node_id(1, dialect), "/", json.dumps(_GROUP).encode()),
        Node(array_id, "/numbers", json.dumps(_ARRAY).encode(), array),
    ]


def plan_contents(repository: CommitProtocol) -> Snapshot:
    """A snapshot of a group and an array on top of `main`."""
    array_id = node_id(2, repository.dialect)
    info = write_chunks(repository, array_id)
    nodes = make_nodes(repository.dialect, array_id, info.id)
    snapshot = plan_snapshot(repository, repository.lookup_branch(MAIN), "with numbers")
    return replace(snapshot, nodes=nodes_by_path(nodes), manifest_files=(info,))


@pytest.mark.parametrize("dialect", SEQUENCED)
def test_what_is_committed_is_read_by_the_second_reader(tmp_path: Path, dialect: Dialect) -> None:
    storage = LocalStorage(tmp_path, durability=Durability.NONE)
    repository = create_repository(storage, dialect)
    commit(repository, message="nothing yet")
    snapshot = plan_contents(repository)

    repository.assets.write_snapshot(snapshot)
    repository.commit(MAIN, snapshot, repository.lookup_branch(MAIN))

    branch = OldRepository(tmp_path).read_branch(MAIN)
    infos = list(repository.ancestry(snapshot.id))
    assert [each.message for each in branch.history][:2] == ["with numbers", "nothing yet"]
    # The first alphas call the first snapshot otherwise inside its file; the text has its file's name.
    assert [each.id for each in branch.history] == [str(info.id) for info in infos]
    assert {path: node.metadata for path, node in branch.nodes.items()} == {
        "/": _GROUP,
        "/numbers": _ARRAY,
    }
    assert branch.nodes["/numbers"].chunks == _CHUNKS


@pytest.mark.parametrize("dialect", SEQUENCED)
def test_a_repository_with_chunks_is_recognised(tmp_path: Path, dialect: Dialect) -> None:
    storage = LocalStorage(tmp_path, durability=Durability.NONE)
    repository = create_repository(storage, dialect)
    snapshot = plan_contents(repository)

    repository.assets.write_snapshot(snapshot)
    repository.commit(MAIN, snapshot, repository.lookup_branch(MAIN))

    # Only virtual references tell 0.1.0a8 from the releases before it.
    expected = Dialect.ALPHA_B if dialect is Dialect.ALPHA_C else dialect
    assert detect_dialect(storage) is expected
