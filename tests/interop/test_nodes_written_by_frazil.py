"""Snapshots that Frazil encodes, as the official library reads them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from frazil.format.files import IMPLEMENTATION
from frazil.format.header import Dialect
from frazil.format.manifest import ChunkRef, InlineRef
from frazil.format.snapshot import Node, Snapshot
from tests.interop.building import (
    DIALECTS,
    FIRST_SNAPSHOT,
    Contents,
    RepositoryFiles,
    make_array,
    make_group,
    make_manifest,
    make_rectilinear_array,
    make_snapshot,
    manifest_ref,
)
from tests.interop.descriptions import describe_snapshot
from tests.interop.official_library import OfficialLibrary, OfficialRepository

# By bytes `-`, `.` and the space stand before `/`; by segments `/a/b` comes right after `/a`.
ODD_PATHS = (
    "/", "/Z", "/a", "/a b", "/a-b", "/a.b", "/a/b", "/a/b-c", "/a/b/c", "/ab", "/é", "/é/x",
    "/é-x", "/☀", "/𝄞", "/\uffee",
)  # fmt: skip


@pytest.fixture(params=DIALECTS, ids=lambda dialect: f"v{dialect.value}")
def files(request: pytest.FixtureRequest, tmp_path: Path) -> RepositoryFiles:
    return RepositoryFiles(tmp_path, request.param)


def commit_nodes(
    files: RepositoryFiles, official: OfficialLibrary, nodes: Sequence[Node]
) -> tuple[Snapshot, OfficialRepository]:
    """A repository of one commit, and the official library's view of it."""
    snapshot = make_snapshot("nodes ☃", FIRST_SNAPSHOT, nodes)
    files.write(Contents([FIRST_SNAPSHOT, snapshot], {"main": snapshot.id}))
    return snapshot, official.open(files.root)


def inspect(repository: OfficialRepository, snapshot: Snapshot) -> dict[str, Any]:
    """The file as the official library sees it, without the header."""
    found: dict[str, Any] = repository.call("inspect_snapshot", snapshot_id=str(snapshot.id))
    del found["header"]
    return found


def test_the_header_names_frazil_and_the_version_of_the_file(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    snapshot, repository = commit_nodes(files, official, [])

    header = repository.call("inspect_snapshot", snapshot_id=str(snapshot.id))["header"]

    assert header["written_by"] == IMPLEMENTATION
    assert header["spec_version"] == f"{files.dialect.value}.0"
    assert repository.call("read_spec_version") == int(files.dialect.value)


def test_every_node_is_found_whatever_the_order_of_its_name(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    groups = [make_group(path, {"path": path}) for path in ODD_PATHS]
    arrays = [
        make_array(path.rstrip("/") + "/array", [4], [2])
        for path in ("/", "/a", "/a-b", "/a/b", "/é", "/𝄞")
    ]
    nodes = [*groups, *arrays]

    snapshot, repository = commit_nodes(files, official, nodes)

    found = repository.call("read_nodes", snapshot_id=str(snapshot.id))
    assert found == {node.path: node.user_data for node in nodes}
    assert inspect(repository, snapshot) == describe_snapshot(snapshot)


def test_arrays_of_every_rank_keep_their_shapes_and_dimension_names(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    nodes = [
        make_group("/"),
        make_array("/scalar", [], []),
        make_array("/line", [10], [3], names=["x"]),
        make_array("/unnamed", [10, 10], [3, 4]),
        make_array("/half-named", [5, 6, 7], [2, 2, 2], names=[None, "y ☃", None]),
        make_array("/four", [2, 3, 4, 5], [1, 2, 3, 4], names=["a", "b", "c", "d"]),
        make_array("/empty", [0, 4], [2, 2]),
        make_array("/large", [2**40], [2**30]),
    ]

    snapshot, repository = commit_nodes(files, official, nodes)

    assert inspect(repository, snapshot) == describe_snapshot(snapshot)


def test_arrays_without_chunks_read_as_their_fill_value(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    nodes = [make_group("/"), make_array("/scalar", [], []), make_array("/plane", [3, 2], [2, 2])]

    snapshot, repository = commit_nodes(files, official, nodes)

    id_ = str(snapshot.id)
    assert repository.call("read_array", snapshot_id=id_, path="scalar")["data"] == bytes(1)
    assert repository.call("read_array", snapshot_id=id_, path="plane")["data"] == bytes(6)
    assert repository.call("read_chunk_refs", snapshot_id=id_, path="/plane") == []


def test_a_rectilinear_array_is_read_chunk_by_chunk(
    official: OfficialLibrary, tmp_path: Path
) -> None:
    files = RepositoryFiles(tmp_path, Dialect.V2)
    rows, columns = [1, 2, 3], [2, 1]
    chunks: dict[tuple[int, ...], ChunkRef] = {
        (i, j): InlineRef(bytes([10 * i + j + 1]) * (rows[i] * columns[j]))
        for i in range(3)
        for j in range(2)
    }
    manifest = make_manifest("rectilinear", {"/r": chunks})
    array = make_rectilinear_array("/r", [rows, columns], manifests=[manifest_ref(manifest, "/r")])
    snapshot = make_snapshot(
        "rectilinear", FIRST_SNAPSHOT, [make_group("/"), array], [files.write_manifest(manifest)]
    )
    files.write(Contents([FIRST_SNAPSHOT, snapshot], {"main": snapshot.id}))

    repository = official.open(files.root)

    values = [1, 1, 2] + 2 * [11, 11, 12] + 3 * [21, 21, 22]
    found = repository.call("read_array", snapshot_id=str(snapshot.id), path="r")
    assert found["data"] == bytes(values)
    assert inspect(repository, snapshot) == describe_snapshot(snapshot)


def test_a_thousand_nodes_are_all_found(files: RepositoryFiles, official: OfficialLibrary) -> None:
    nodes = [
        make_group("/"),
        *(make_group(f"/g{number % 7}-{number}", {"n": number}) for number in range(1000)),
    ]

    snapshot, repository = commit_nodes(files, official, nodes)

    found = repository.call("read_nodes", snapshot_id=str(snapshot.id))
    attributes = {path: json.loads(data)["attributes"] for path, data in found.items()}
    assert attributes == {n.path: json.loads(n.user_data)["attributes"] for n in nodes}
