"""What the files and nodes of old repositories are called in V2."""

from frazil.format.header import Dialect
from frazil.format.ids import ChunkId, NodeId, SnapshotId
from frazil.format.manifest import ChunkRef, ChunkTable, ETag, InlineRef, NativeRef, VirtualRef
from frazil.format.snapshot import ArrayData, Node
from frazil.maintenance.migrate_legacy import name_chunk, name_manifest, name_node, name_snapshot

NODE = NodeId(b"the node")
NUMBER = NodeId.from_number(7)
REFS: dict[tuple[int, ...], ChunkRef] = {
    (0,): NativeRef(ChunkId(b"twelve bytes"), 0, 4),
    (1,): VirtualRef("s3://a/1", 0, 4, ETag("x")),
    (2,): VirtualRef("s3://a/2", 0, 4),
    (3,): InlineRef(b"1234"),
}


def node(path: str, *, is_array: bool = False, id: NodeId = NUMBER) -> Node:
    return Node(id, path, b"{}", ArrayData(()) if is_array else None)


def table(refs: dict[tuple[int, ...], ChunkRef]) -> ChunkTable:
    return ChunkTable.of(1, refs).compact()


def test_ids_follow_from_the_old_ones_and_are_others() -> None:
    old = SnapshotId(b"twelve bytes")

    assert name_snapshot(old) == name_snapshot(old) != old
    assert bytes(name_chunk(ChunkId(old))) != bytes(name_snapshot(old))
    assert len(name_chunk(ChunkId(b"sixteen bytes ok"))) == 12


def test_a_numbered_node_is_its_number_its_path_and_its_kind() -> None:
    nodes = [
        node("/a"),
        node("/b"),
        node("/a", is_array=True),
        node("/a", id=NodeId.from_number(8)),
    ]

    for dialect in (Dialect.DRAFT, Dialect.ALPHA_A):
        ids = [name_node(each, dialect) for each in nodes]
        assert len(set(ids)) == len(nodes)
        assert ids == [name_node(each, dialect) for each in nodes]


def test_a_node_that_has_an_id_keeps_it() -> None:
    assert name_node(node("/a", id=NODE), Dialect.ALPHA_B) == NODE


def test_equal_references_have_one_manifest_however_their_texts_are_numbered() -> None:
    other_order = dict(reversed(REFS.items()))

    assert name_manifest(NODE, table(REFS)) == name_manifest(NODE, table(other_order))


def test_other_references_have_other_manifests() -> None:
    others: list[dict[tuple[int, ...], ChunkRef]] = [
        REFS,
        REFS | {(3,): InlineRef(b"1235")},
        REFS | {(1,): VirtualRef("s3://a/1", 0, 4)},
        REFS | {(2,): VirtualRef("s3://a/3", 0, 4)},
        REFS | {(4,): REFS[(0,)]},
        {place: ref for place, ref in REFS.items() if place != (3,)},
    ]

    ids = {name_manifest(NODE, table(refs)) for refs in others}

    assert len(ids | {name_manifest(NUMBER, table(REFS))}) == len(others) + 1
