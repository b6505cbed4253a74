"""Damages of the nodes of a snapshot and of their extents."""

import json
from dataclasses import replace

import pytest
from zarr.core.buffer import cpu

from frazil import Repository
from frazil.format.header import Dialect
from frazil.format.ids import NodeId
from frazil.format.manifest import InlineRef
from frazil.format.snapshot import ArrayData, ManifestRef, Node, Snapshot
from frazil.maintenance.findings import Severity
from tests.damages import (
    NATIVE,
    SMALL,
    Refs,
    create_sample,
    find_only,
    manifest_key,
    manifest_of,
    read_node,
    reopen,
    rewrite_manifest,
    rewrite_node,
    rewrite_snapshot,
    snapshot_key,
    tip,
    what_matters,
    with_refs,
)

WITH_EXTENTS = [Dialect.ALPHA_G, Dialect.ALPHA_H, Dialect.V1, Dialect.V2]
FLATBUFFERS = [Dialect.V1, Dialect.V2]


def test_a_zarr_json_that_can_not_be_parsed_is_found() -> None:
    repository = create_sample()
    rewrite_node(repository, SMALL, lambda node, _: replace(node, user_data=b'{"node_type": '))

    problem = find_only(repository)

    assert problem.path == SMALL
    assert "it is no JSON" in problem.what


def _change_document(node: Node, **changes: object) -> Node:
    document = json.loads(node.user_data) | changes
    return replace(node, user_data=json.dumps(document).encode())


@pytest.mark.parametrize("dialect", FLATBUFFERS)
def test_a_shape_that_is_not_that_of_zarr_json_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    rewrite_node(repository, SMALL, lambda node, _: _change_document(node, shape=[5]))

    assert "the shape is [5] by zarr.json, [6] by the snapshot" in find_only(repository).what


def test_a_number_of_chunks_that_is_wrong_is_found() -> None:
    repository = create_sample()

    def widen(node: Node, array: ArrayData) -> Node:
        shape = tuple(replace(each, num_chunks=7) for each in array.shape)
        return replace(node, array=replace(array, shape=shape))

    rewrite_node(repository, SMALL, widen)

    assert "the number of chunks is [3] by zarr.json, [7]" in find_only(repository).what


def test_names_of_dimensions_that_differ_are_found() -> None:
    repository = create_sample()
    rewrite_node(repository, SMALL, lambda node, _: _change_document(node, dimension_names=["t"]))

    assert "the dimension names is ['t']" in find_only(repository).what


def test_a_group_that_zarr_json_takes_for_an_array_is_found() -> None:
    repository = create_sample()
    group = b'{"zarr_format": 3, "node_type": "group"}'
    rewrite_node(repository, SMALL, lambda node, _: replace(node, user_data=group))

    assert "zarr.json says group, the snapshot array" in find_only(repository).what


def test_a_group_that_is_only_implied_is_a_warning() -> None:
    repository = create_sample()
    rewrite_snapshot(
        repository,
        tip(repository),
        lambda snapshot: replace(
            snapshot, nodes={p: node for p, node in snapshot.nodes.items() if p != "/group"}
        ),
    )

    problem = find_only(repository)

    assert (problem.severity, problem.path) == (Severity.WARNING, "/group")


def test_a_node_in_an_array_is_allowed_and_noted() -> None:
    repository = create_sample()

    def nest(snapshot: Snapshot) -> Snapshot:
        inner = replace(snapshot.nodes["/group"], path=f"{SMALL}/in", id=NodeId(b"an other"))
        return replace(snapshot, nodes={**snapshot.nodes, inner.path: inner})

    rewrite_snapshot(repository, tip(repository), nest)

    report = repository.check()
    (problem,) = (each for each in report.problems if each.path == f"{SMALL}/in")
    assert problem.severity is Severity.NOTE
    assert "which is an array" in problem.what
    assert report.is_healthy


def test_what_a_store_accepts_is_healthy() -> None:
    repository = create_sample()
    session = repository.writable_session("main")
    group = cpu.Buffer.from_bytes(b'{"zarr_format":3,"node_type":"group"}')
    for path in (f"{SMALL}/in", f"{SMALL}/in/deeper", "nowhere/below"):
        session.store.set_sync(f"{path.strip('/')}/zarr.json", group)
    session.commit("nodes in an array")

    report = repository.check()

    assert report.is_healthy
    assert [each.path for each in report.problems if each.severity is Severity.NOTE] == [
        f"{SMALL}/in"
    ]


def _change_extents(repository: Repository, path: str, *extents: tuple[int, int]) -> None:
    def change(node: Node, array: ArrayData) -> Node:
        (ref,) = array.manifests
        return replace(node, array=replace(array, manifests=(replace(ref, extents=extents),)))

    rewrite_node(repository, path, change)


@pytest.mark.parametrize("dialect", WITH_EXTENTS)
def test_a_chunk_outside_of_its_extents_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    _change_extents(repository, SMALL, (0, 2))

    problem = find_only(repository)

    assert (problem.path, problem.coordinate) == (SMALL, (2,))
    assert "outside of the extents" in problem.what


@pytest.mark.parametrize("dialect", WITH_EXTENTS)
def test_extents_that_are_too_large_are_a_warning(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    node, _ = read_node(repository, SMALL)
    refs: Refs = {(0,): InlineRef(b"ab"), (1,): InlineRef(b"cd")}
    rewrite_manifest(repository, SMALL, lambda manifest: with_refs(manifest, node, refs))

    problem = find_only(repository)

    assert problem.severity is Severity.WARNING
    assert "larger than its references need" in problem.what


@pytest.mark.parametrize("dialect", FLATBUFFERS)
def test_a_chunk_outside_of_the_grid_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    node, _ = read_node(repository, SMALL)
    refs: Refs = {(n,): InlineRef(b"ab") for n in range(4)}
    rewrite_manifest(repository, SMALL, lambda manifest: with_refs(manifest, node, refs))
    _change_extents(repository, SMALL, (0, 4))

    problem = find_only(repository)

    assert (problem.object, problem.path) == (snapshot_key(repository, tip(repository)), SMALL)
    assert "reach to 4 on an axis of 3 chunks" in problem.what


@pytest.mark.parametrize("extents", [((0, 3), (0, 1)), ((2, 2),)])
def test_extents_that_fit_no_array_are_found(extents: tuple[tuple[int, int], ...]) -> None:
    repository = create_sample()
    _change_extents(repository, SMALL, *extents)

    assert what_matters(reopen(repository).check())[0].what.startswith("the extents of manifest")


def test_extents_that_overlap_are_found() -> None:
    repository = create_sample()

    def repeat(node: Node, array: ArrayData) -> Node:
        (ref,) = array.manifests
        return replace(node, array=replace(array, manifests=(ref, ref)))

    rewrite_node(repository, SMALL, repeat)

    problem = find_only(repository)

    assert problem.path == SMALL
    assert "overlap" in problem.what


def test_a_manifest_without_references_of_its_array_is_found() -> None:
    repository = create_sample()
    wrong = manifest_of(repository, NATIVE)

    def confuse(node: Node, array: ArrayData) -> Node:
        (ref,) = array.manifests
        return replace(node, array=replace(array, manifests=(ManifestRef(wrong, ref.extents),)))

    rewrite_node(repository, SMALL, confuse)

    problem = find_only(repository)

    assert (problem.object, problem.path) == (manifest_key(repository, NATIVE), SMALL)
    assert "no references of this array" in problem.what


def test_an_inline_chunk_is_not_empty() -> None:
    repository = create_sample()
    node, _ = read_node(repository, SMALL)
    refs: Refs = {(0,): InlineRef(b"ab"), (1,): InlineRef(b""), (2,): InlineRef(b"cd")}
    rewrite_manifest(repository, SMALL, lambda manifest: with_refs(manifest, node, refs))

    problem = find_only(repository)

    assert (problem.path, problem.coordinate) == (SMALL, (1,))
    assert "no bytes" in problem.what
