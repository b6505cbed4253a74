"""Commits, refs and transaction logs that Frazil encodes, as the official library reads them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from frazil.format.header import Dialect
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.manifest import InlineRef
from frazil.format.snapshot import Move, Node, NodeType, Snapshot, TransactionLog, nodes_by_path
from tests.interop.building import (
    DIALECTS,
    FIRST_SNAPSHOT,
    Contents,
    RepositoryFiles,
    make_array,
    make_group,
    make_id,
    make_manifest,
    make_repo_info,
    make_snapshot,
    make_snapshot_info,
    manifest_ref,
)
from tests.interop.descriptions import (
    describe_ancestor,
    describe_snapshot,
    describe_transaction_log,
)
from tests.interop.official_library import OfficialLibrary, OfficialRepository

METADATA: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "negative": -(2**63),
    "large": 2**64 - 1,
    "float": 0.1,
    "whole float": 3.0,
    "negative zero": -0.0,
    "huge": 1.7e308,
    "text": "été ☃ 𝄞",
    "empty text": "",
    "empty list": [],
    "empty map": {},
    "numbers": [1, 2, 300, -70_000],
    "floats": [0.5, 1.25],
    "texts": ["a", "β", ""],
    "booleans": [True, False],
    "nulls": [None, None],
    "mixed": [1, 2.5, "three", None, True, [], {}],
    "deep": {"er": {"and": [{"deeper": [[["still"]]]}]}},
    "clé ☃": {"ключ": "значение"},
    "": "a name without letters",
}


@pytest.fixture(params=DIALECTS, ids=lambda dialect: f"v{dialect.value}")
def files(request: pytest.FixtureRequest, tmp_path: Path) -> RepositoryFiles:
    return RepositoryFiles(tmp_path, request.param)


@pytest.fixture
def files_v2(tmp_path: Path) -> RepositoryFiles:
    return RepositoryFiles(tmp_path, Dialect.V2)


def make_line(names: Sequence[str], nodes: Sequence[Node] = ()) -> list[Snapshot]:
    """The first snapshot and then one for each name, each the parent of the next."""
    line = [FIRST_SNAPSHOT]
    for name in names:
        line.append(make_snapshot(name, line[-1], nodes))
    return line


def describe_line(line: Sequence[Snapshot]) -> list[dict[str, Any]]:
    """What ancestry from the end of a line must be."""
    return [describe_ancestor(make_snapshot_info(snapshot)) for snapshot in reversed(line)]


def read_log(repository: OfficialRepository, snapshot_id: SnapshotId) -> dict[str, Any]:
    """A log as the official library sees it, without the header."""
    log: dict[str, Any] = repository.call("inspect_transaction_log", snapshot_id=str(snapshot_id))
    del log["header"]
    return log


def ids_of(*paths: str) -> frozenset[NodeId]:
    return frozenset(make_id(NodeId, path) for path in paths)


# Refs and ancestry


def test_branches_and_tags_lead_to_their_snapshots(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    line = make_line(["one", "two ☃", "three\nlines\n", ""])
    side = [*line[:2], make_snapshot("on the side", line[1], [])]
    branches = {"main": line[-1].id, "side": side[-1].id, "a-b": line[1].id, "a.b": line[0].id}
    tags = {"v1": line[1].id, "with, spaces!": line[2].id}

    files.write(Contents([*line, side[-1]], branches, tags))

    repository = official.open(files.root)
    assert repository.call("read_refs") == {
        "branches": {name: str(id_) for name, id_ in branches.items()},
        "tags": {name: str(id_) for name, id_ in tags.items()},
    }
    assert repository.call("read_ancestry", branch="main") == describe_line(line)
    assert repository.call("read_ancestry", branch="side") == describe_line(side)
    assert repository.call("read_ancestry", tag="with, spaces!") == describe_line(line[:3])


def test_refs_may_have_names_beyond_ascii(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    line = make_line(["one", "two"])

    files.write(Contents(line, {"main": line[2].id, "dév ☃": line[1].id}, {"été": line[0].id}))

    repository = official.open(files.root)
    assert repository.call("read_ancestry", branch="dév ☃") == describe_line(line[:2])
    assert repository.call("read_ancestry", tag="été") == describe_line(line[:1])


def test_deleted_tags_are_gone(files: RepositoryFiles, official: OfficialLibrary) -> None:
    line = make_line(["one"])

    files.write(
        Contents(line, {"main": line[-1].id}, {"kept": line[1].id}, frozenset({"gone", "fort ☃"}))
    )

    assert official.open(files.root).call("read_refs")["tags"] == {"kept": str(line[1].id)}


def test_metadata_of_every_json_type_survives(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    commit = make_snapshot("metadata", FIRST_SNAPSHOT, [], metadata=METADATA)

    files.write(Contents([FIRST_SNAPSHOT, commit], {"main": commit.id}))

    repository = official.open(files.root)
    found = repository.call("read_ancestry", branch="main")[0]["metadata"]
    in_file = repository.call("inspect_snapshot", snapshot_id=str(commit.id))["metadata"]
    assert found == in_file == METADATA
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in METADATA.items()
    }


def test_a_long_history_is_walked_to_its_start(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    line = make_line([f"commit {number}" for number in range(300)])

    files.write(Contents(line, {"main": line[-1].id}))

    ancestry = official.open(files.root).call("read_ancestry", branch="main")
    assert ancestry == describe_line(line)


def test_amended_and_detached_snapshots_can_be_read(
    files_v2: RepositoryFiles, official: OfficialLibrary
) -> None:
    line = make_line(["one", "amended"])
    replaced = make_snapshot("to be amended", line[1], [make_group("/")])
    detached = make_snapshot("detached", line[2], [make_group("/"), make_group("/more")])

    files_v2.write(Contents([*line, replaced, detached], {"main": line[-1].id}))

    repository = official.open(files_v2.root)
    for tip, ancestors in ((replaced, line[:2]), (detached, line)):
        id_ = str(tip.id)
        ancestry = repository.call("read_ancestry", snapshot_id=id_)
        assert ancestry == describe_line([*ancestors, tip])
        inspected = repository.call("inspect_snapshot", snapshot_id=id_)
        assert describe_snapshot(tip).items() <= inspected.items()


# Transaction logs


def test_a_log_lists_every_kind_of_change(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    before = [
        make_group("/"),
        make_group("/old"),
        make_group("/changed"),
        make_array("/old/array", [4], [2]),
        make_array("/resized", [4], [2]),
        make_array("/scalar", [], []),
    ]
    after = [
        *(node for node in before if not node.path.startswith("/old")),
        make_group("/new"),
        make_array("/new/array", [4, 4], [2, 2]),
    ]
    parent = make_snapshot("before", FIRST_SNAPSHOT, before)
    commit = make_snapshot("after", parent, after)
    log = TransactionLog(
        commit.id,
        new_groups=ids_of("/new"),
        new_arrays=ids_of("/new/array"),
        deleted_groups=ids_of("/old"),
        deleted_arrays=ids_of("/old/array"),
        updated_groups=ids_of("/changed"),
        updated_arrays=ids_of("/resized"),
        updated_chunks={
            make_id(NodeId, "/new/array"): np.array([[0, 0], [0, 1], [1, 1]], np.uint32),
            make_id(NodeId, "/resized"): np.array([[1]], np.uint32),
            make_id(NodeId, "/scalar"): np.empty((1, 0), np.uint32),
        },
    )

    files.write(Contents([FIRST_SNAPSHOT, parent, commit], {"main": commit.id}, logs=[log]))

    repository = official.open(files.root)
    assert read_log(repository, commit.id) == describe_transaction_log(log)
    assert repository.call(
        "read_diff", from_snapshot_id=str(parent.id), to_snapshot_id=str(commit.id)
    ) == {
        "new_groups": ["/new"],
        "new_arrays": ["/new/array"],
        "deleted_groups": ["/old"],
        "deleted_arrays": ["/old/array"],
        "updated_groups": ["/changed"],
        "updated_arrays": ["/resized"],
        "updated_chunks": {
            "/new/array": [[0, 0], [0, 1], [1, 1]],
            "/resized": [[1]],
            "/scalar": [[]],
        },
        "moved_nodes": [],
    }


def test_a_diff_lists_many_changed_chunks(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    grid = np.indices((40, 30, 20), np.uint32).reshape(3, -1).T
    changed = grid[np.random.default_rng(7).random(len(grid)) < 0.7]
    nodes = [make_group("/"), make_array("/cube", [40, 30, 20], [1, 1, 1])]
    parent = make_snapshot("before", FIRST_SNAPSHOT, nodes)
    commit = make_snapshot("after", parent, nodes)
    log = TransactionLog(commit.id, updated_chunks={make_id(NodeId, "/cube"): changed})

    files.write(Contents([FIRST_SNAPSHOT, parent, commit], {"main": commit.id}, logs=[log]))

    repository = official.open(files.root)
    diff = repository.call(
        "read_diff", from_snapshot_id=str(parent.id), to_snapshot_id=str(commit.id)
    )
    assert len(changed) > 15_000
    assert diff["updated_chunks"] == {"/cube": changed.tolist()}


def test_a_diff_over_several_commits_is_the_union_of_their_logs(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    nodes = [make_group("/"), make_array("/line", [100], [1])]
    line = make_line([f"commit {number}" for number in range(10)], nodes)
    logs = [
        TransactionLog(
            snapshot.id, updated_chunks={make_id(NodeId, "/line"): np.array([[n]], np.uint32)}
        )
        for n, snapshot in enumerate(line)
    ]

    files.write(Contents(line, {"main": line[-1].id}, logs=logs))

    diff = official.open(files.root).call(
        "read_diff", from_snapshot_id=str(line[3].id), to_branch="main"
    )
    assert diff["updated_chunks"] == {"/line": [[n] for n in range(4, 11)]}


def test_moves_are_listed_from_where_to_where(
    files_v2: RepositoryFiles, official: OfficialLibrary
) -> None:
    old = [make_group("/"), make_group("/a"), make_group("/a/b"), make_array("/a/leaf", [2], [1])]
    targets = {"/": "/", "/a": "/z", "/a/b": "/z/b", "/a/leaf": "/z-leaf"}
    new = nodes_by_path(replace(node, path=targets[node.path]) for node in old)
    parent = make_snapshot("before", FIRST_SNAPSHOT, old)
    commit = replace(make_snapshot("after", parent, []), nodes=new)
    # By segments `/z/b` comes before `/z-leaf`, by bytes behind it.
    moves = (
        Move("/a", "/z", make_id(NodeId, "/a"), NodeType.GROUP),
        Move("/a/b", "/z/b", make_id(NodeId, "/a/b"), NodeType.GROUP),
        Move("/a/leaf", "/z-leaf", make_id(NodeId, "/a/leaf"), NodeType.ARRAY),
    )
    shuffled = TransactionLog(commit.id, moves=(moves[2], moves[0], moves[1]))

    files_v2.write(Contents([FIRST_SNAPSHOT, parent, commit], {"main": commit.id}, logs=[shuffled]))

    repository = official.open(files_v2.root)
    assert read_log(repository, commit.id) == describe_transaction_log(
        TransactionLog(commit.id, moves=moves)
    )
    diff = repository.call("read_diff", from_snapshot_id=str(parent.id), to_branch="main")
    assert diff["moved_nodes"] == [[move.from_path, move.to_path] for move in moves]


def test_logs_of_pruned_ancestors_count_as_part_of_a_commit(
    files_v2: RepositoryFiles, official: OfficialLibrary
) -> None:
    nodes = [make_group("/"), make_array("/line", [100], [1])]
    line = make_line(["expired 1", "expired 2", "kept"], nodes)
    logs = [
        TransactionLog(
            snapshot.id, updated_chunks={make_id(NodeId, "/line"): np.array([[n]], np.uint32)}
        )
        for n, snapshot in enumerate(line)
    ]
    contents = Contents(line, {"main": line[-1].id}, logs=logs)
    info = make_repo_info(contents)
    kept = replace(
        info.snapshots[line[3].id],
        parent_id=FIRST_SNAPSHOT.id,
        pruned_ancestor_tx_logs=(line[1].id, line[2].id),
    )
    pruned = replace(
        info, snapshots={FIRST_SNAPSHOT.id: info.snapshots[FIRST_SNAPSHOT.id], kept.id: kept}
    )

    files_v2.write(contents)
    files_v2.write_repo_info(pruned)

    repository = official.open(files_v2.root)
    composite = repository.call("inspect_transaction_log", snapshot_id=str(kept.id))
    diff = repository.call("read_diff", from_snapshot_id=str(FIRST_SNAPSHOT.id), to_branch="main")
    assert composite["synthetic_composite"]["merged_pruned_ancestor_tx_logs"] == [
        str(line[1].id),
        str(line[2].id),
    ]
    assert composite["synthetic_composite"]["missing_tx_logs"] == []
    assert diff["updated_chunks"] == {"/line": [[1], [2], [3]]}


def test_the_official_library_commits_on_top_of_what_frazil_wrote(
    files: RepositoryFiles, official: OfficialLibrary
) -> None:
    line = make_line(["one"], [make_group("/", {"by": "frazil"})])
    files.write(Contents(line, {"main": line[-1].id}))
    repository = official.open(files.root)

    new_id = repository.call("write_group", branch="main", path="added ☃", message="on top")

    ancestry = repository.call("read_ancestry", branch="main")
    assert ancestry[0]["id"] == new_id
    assert ancestry[1:] == describe_line(line)
    assert set(repository.call("read_nodes", snapshot_id=new_id)) == {"/", "/added ☃"}


def test_extra_bytes_in_all_files_are_passed_over(
    files_v2: RepositoryFiles, official: OfficialLibrary
) -> None:
    manifest = make_manifest("extra", {"/array": {(0,): InlineRef(b"ab")}})
    listed = replace(files_v2.write_manifest(manifest), extra=b"of a manifest file")
    array = make_array("/array", [2], [2], manifests=[manifest_ref(manifest, "/array")])
    nodes = [replace(node, extra=b"of a node") for node in (make_group("/"), array)]
    commit = replace(make_snapshot("extra", FIRST_SNAPSHOT, nodes, [listed]), extra=b"of it all")
    log = TransactionLog(commit.id, new_arrays=ids_of("/array"), extra=b"of a log")
    contents = Contents([FIRST_SNAPSHOT, commit], {"main": commit.id}, logs=[log])

    files_v2.write(contents)
    files_v2.write_repo_info(replace(make_repo_info(contents), extra=b"of the repo info"))

    repository = official.open(files_v2.root)
    id_ = str(commit.id)
    inspected = repository.call("inspect_snapshot", snapshot_id=id_)
    assert describe_snapshot(commit).items() <= inspected.items()
    assert read_log(repository, commit.id) == describe_transaction_log(log)
    assert repository.call("read_array", snapshot_id=id_, path="array")["data"] == b"ab"
    assert repository.call("read_ancestry", branch="main") == describe_line(
        [FIRST_SNAPSHOT, commit]
    )
