"""Manifests are read as many at once as limits allow, and all of them."""

from frazil.format.files import decode_used_manifests, encode_snapshot
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.snapshot import (
    ArrayData,
    ManifestFileInfo,
    ManifestRef,
    Node,
    Snapshot,
    nodes_by_path,
)
from frazil.maintenance.reachability import WalkLimits, plan_batches


def manifest(number: int, size_bytes: int | None = 10, refs: int | None = 1) -> ManifestFileInfo:
    return ManifestFileInfo(ManifestId(bytes([number]) * 12), size_bytes, refs)


def sizes(manifests: list[ManifestFileInfo], limits: WalkLimits) -> list[int]:
    batches = list(plan_batches(manifests, limits))
    assert [each for batch in batches for each in batch] == manifests
    return list(map(len, batches))


def test_so_many_at_once() -> None:
    limits = WalkLimits(max_concurrent_manifest_fetches=3)

    assert sizes([manifest(n) for n in range(7)], limits) == [3, 3, 1]
    assert sizes([], limits) == []


def test_so_many_bytes_at_once() -> None:
    limits = WalkLimits(max_compressed_manifest_mem_bytes=25)

    assert sizes([manifest(n) for n in range(5)], limits) == [2, 2, 1]


def test_so_many_references_at_once() -> None:
    limits = WalkLimits(max_decoded_manifest_mem_bytes=1000)

    assert sizes([manifest(n, refs=10) for n in range(3)], limits) == [1, 1, 1]


def test_one_that_is_too_large_is_alone() -> None:
    limits = WalkLimits(max_compressed_manifest_mem_bytes=25)

    assert sizes([manifest(0), manifest(1, 99), manifest(2)], limits) == [1, 1, 1]


def test_old_generations_do_not_say_how_large() -> None:
    assert sizes([manifest(n, None, None) for n in range(3)], WalkLimits()) == [3]


def test_manifests_that_only_nodes_name_count_as_well() -> None:
    refs = tuple(ManifestRef(manifest(n).id, ()) for n in (0, 1))
    node = Node(NodeId(bytes(8)), "/a", b"{}", ArrayData((), manifests=refs))
    snapshot = Snapshot(
        SnapshotId(bytes(12)), None, 0, "", nodes=nodes_by_path([node]),
        manifest_files=(manifest(0),),
    )  # fmt: skip

    alone = decode_used_manifests(encode_snapshot(snapshot, Dialect.V2))

    assert alone == snapshot.used_manifests()
    assert {info.id for info in alone} == {ref.id for ref in refs}
