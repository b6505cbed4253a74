"""Files that are lost, cut, or not what they say; in every generation that has them."""

from dataclasses import replace

import numpy as np
import pytest

from frazil.format.header import Dialect
from frazil.format.ids import ChunkId, ManifestId, SnapshotId
from frazil.format.manifest import ChunkTable, InlineRef, Manifest, NativeRef
from frazil.format.snapshot import Snapshot
from frazil.format.v2 import snapshot_codec as snapshot_encoding
from frazil.maintenance.check import check_storage
from frazil.maintenance.check_chunks import Place, check_native
from frazil.maintenance.findings import Severity
from frazil.maintenance.inventory import Listed
from frazil.maintenance.reachability import column_of
from tests.damages import (
    ALL_DIALECTS,
    NATIVE,
    SMALL,
    Refs,
    ancestor,
    chunk_keys,
    create_sample,
    cut,
    delete,
    find_only,
    flip,
    manifest_key,
    manifest_of,
    read_node,
    reopen,
    rewrite_manifest,
    rewrite_snapshot,
    snapshot_key,
    tip,
    what_matters,
    with_refs,
)

FLATBUFFERS = [Dialect.V1, Dialect.V2]


def _id_size(dialect: Dialect) -> int:
    return 16 if dialect is Dialect.DRAFT else 12


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_a_truncated_manifest_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    damaged = manifest_key(repository, NATIVE)
    cut(repository, damaged)

    problem = find_only(repository)

    assert problem.object == damaged
    assert "can't be read" in problem.what
    assert not check_storage(repository.storage).has_counted_orphans


@pytest.mark.parametrize("dialect", FLATBUFFERS)
def test_a_flipped_byte_in_a_snapshot_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    damaged = snapshot_key(repository, ancestor(repository, 1))
    flip(repository, damaged, 45)

    problems = what_matters(reopen(repository).check())

    assert problems[0].object == damaged
    assert problems[0].severity is Severity.ERROR


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_a_missing_manifest_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    gone = manifest_key(repository, SMALL)
    delete(repository, gone)

    problem = find_only(repository)

    assert problem.object == gone
    assert "there is no such file" in problem.what
    assert problem.path is not None


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_a_missing_chunk_is_found_with_its_place(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    node, array = read_node(repository, NATIVE)
    table = repository.protocol.assets.read_manifest(array.manifests[0].id).table(node.id, 2)
    gone = table.ref(2)
    assert isinstance(gone, NativeRef)
    key = repository.protocol.assets.layout.chunk_key(gone.chunk_id)
    delete(repository, key)

    found = what_matters(reopen(repository).check())

    # One for each manifest that refers to it: the one before the second commit does as well.
    assert {(each.object, each.path, each.coordinate) for each in found} == {(key, NATIVE, (2, 0))}
    assert len({each.what for each in found}) == len(found)


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_a_chunk_that_is_too_short_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    key = chunk_keys(repository)[0]
    cut(repository, key, 999)

    found = what_matters(reopen(repository).check())

    assert {each.object for each in found} == {key}
    assert "it has 999 bytes" in found[0].what


def test_many_missing_chunks_are_summed_up() -> None:
    refs: Refs = {(n,): NativeRef(ChunkId(bytes([n]) * 12), 0, 5) for n in range(50)}
    nothing = Listed(np.empty(0, "S12"), np.empty(0, np.uint64))

    found = list(
        check_native(ChunkTable.of(1, refs), nothing, Place("manifests/M", "/a", "chunks"))
    )

    assert len(found) == 21
    assert found[-1].what == "30 more: chunks have no file"


def test_a_chunk_that_ends_beyond_all_numbers_is_too_short() -> None:
    id = ChunkId(b"a chunk file")
    refs: Refs = {(0,): NativeRef(id, 2**64 - 1, 5)}
    listed = Listed(column_of([id], 12), np.array([100], np.uint64))

    (problem,) = check_native(ChunkTable.of(1, refs), listed, Place("m", "/a", "chunks"))

    assert "it has 100 bytes" in problem.what


@pytest.mark.parametrize("dialect", [Dialect.V1, Dialect.V2, Dialect.ALPHA_H])
def test_the_size_of_a_manifest_file_is_the_one_that_snapshots_have(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    id = manifest_of(repository, SMALL)

    def tell_less(snapshot: Snapshot) -> Snapshot:
        files = [
            replace(each, size_bytes=1) if each.id == id else each
            for each in snapshot.manifest_files
        ]
        return replace(snapshot, manifest_files=tuple(files))

    rewrite_snapshot(repository, tip(repository), tell_less)

    problem = find_only(repository)

    assert problem.object == snapshot_key(repository, tip(repository))
    assert "has 1 bytes" in problem.what


@pytest.mark.parametrize("dialect", [Dialect.V1, Dialect.V2, Dialect.ALPHA_G])
def test_the_number_of_references_is_the_one_that_snapshots_have(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    id = manifest_of(repository, SMALL)

    def tell_more(snapshot: Snapshot) -> Snapshot:
        files = [
            replace(each, num_chunk_refs=99) if each.id == id else each
            for each in snapshot.manifest_files
        ]
        return replace(snapshot, manifest_files=tuple(files))

    rewrite_snapshot(repository, tip(repository), tell_more)

    assert "has 99 references" in find_only(repository).what


def test_a_manifest_that_a_snapshot_does_not_list_is_found() -> None:
    repository = create_sample()
    id = manifest_of(repository, SMALL)
    rewrite_snapshot(
        repository,
        tip(repository),
        lambda snapshot: replace(
            snapshot, manifest_files=tuple(f for f in snapshot.manifest_files if f.id != id)
        ),
    )

    problem = find_only(repository)

    assert problem.path == SMALL
    assert "not in the list of manifest files" in problem.what


@pytest.mark.parametrize("dialect", [Dialect.V1, Dialect.V2, Dialect.ALPHA_H])
def test_two_manifests_that_were_swapped_are_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    rewrite_manifest(
        repository, SMALL, lambda manifest: replace(manifest, id=ManifestId(b"someone else"))
    )

    problem = find_only(repository)

    assert problem.object == manifest_key(repository, SMALL)
    assert str(ManifestId(b"someone else")) in problem.what


@pytest.mark.parametrize("dialect", [Dialect.V1, Dialect.V2, Dialect.ALPHA_F, Dialect.ALPHA_H])
def test_a_snapshot_under_the_name_of_another_is_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    newest = tip(repository)
    rewrite_snapshot(
        repository, newest, lambda snapshot: replace(snapshot, id=SnapshotId(b"someone else"))
    )

    problem = find_only(repository)

    assert problem.object == snapshot_key(repository, newest)
    assert str(SnapshotId(b"someone else")) in problem.what


def test_nodes_that_are_not_in_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = create_sample()
    monkeypatch.setattr(snapshot_encoding, "_node_order", lambda node: [-ord(c) for c in node.path])
    rewrite_snapshot(repository, tip(repository), lambda snapshot: snapshot)

    problem = find_only(repository)

    assert problem.object == snapshot_key(repository, tip(repository))
    assert "the nodes are not in order" in problem.what


@pytest.mark.parametrize("dialect", FLATBUFFERS)
def test_references_that_are_not_in_order_are_found(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    node, _ = read_node(repository, NATIVE)

    def turn_round(manifest: Manifest) -> Manifest:
        table = manifest.table(node.id, 2).take(slice(None, None, -1))
        return replace(manifest, arrays={node.id: table})

    rewrite_manifest(repository, NATIVE, turn_round)

    problem = find_only(repository)

    assert (problem.object, problem.path) == (manifest_key(repository, NATIVE), NATIVE)
    assert "the references are not in order" in problem.what


def test_two_nodes_of_one_id_are_found() -> None:
    repository = create_sample()

    def repeat(snapshot: Snapshot) -> Snapshot:
        root = snapshot.nodes["/"]
        copy = replace(snapshot.nodes["/group"], id=root.id)
        return replace(snapshot, nodes={**snapshot.nodes, "/group": copy})

    rewrite_snapshot(repository, tip(repository), repeat)

    assert "have one id" in find_only(repository).what


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_a_chunk_that_does_not_decode_is_found_by_a_deep_check(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    node, array = read_node(repository, NATIVE)
    refs = dict(
        repository.protocol.assets.read_manifest(array.manifests[0].id).table(node.id, 2).refs()
    )
    first = refs[0, 0]
    assert isinstance(first, NativeRef)
    refs[0, 0] = replace(first, length=998)
    size = _id_size(dialect)
    rewrite_manifest(repository, NATIVE, lambda manifest: with_refs(manifest, node, refs, size))

    assert what_matters(reopen(repository).check()) == []
    found = what_matters(reopen(repository).check(deep=True))

    assert [(each.path, each.coordinate) for each in found] == [(NATIVE, (0, 0))]
    assert "can't be decoded" in found[0].what


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_so_is_an_inline_one(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    node, array = read_node(repository, SMALL)
    refs = dict(
        repository.protocol.assets.read_manifest(array.manifests[0].id).table(node.id, 1).refs()
    )
    assert isinstance(refs[(1,)], InlineRef)
    refs[(1,)] = InlineRef(b"odd")
    size = _id_size(dialect)
    rewrite_manifest(repository, SMALL, lambda manifest: with_refs(manifest, node, refs, size))

    assert what_matters(reopen(repository).check()) == []
    (problem,) = what_matters(reopen(repository).check(deep=True))

    assert (problem.path, problem.coordinate) == (SMALL, (1,))
    assert problem.object == manifest_key(repository, SMALL)
