"""Refs, history and configuration of V1 repositories that both libraries write to."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from frazil.errors import IcechunkError
from frazil.format.header import Dialect
from frazil.format.ids import FIRST_SNAPSHOT_ID, SnapshotId
from frazil.format.snapshot import TransactionLog
from frazil.protocols.detection import create_repository, open_protocol
from frazil.protocols.protocol import MAIN, CommitProtocol
from frazil.storage.local import Durability, LocalStorage
from tests.interop.descriptions import describe_ancestor
from tests.interop.official_library import OfficialLibrary, OfficialRepository
from tests.protocol_repositories import plan_snapshot, unknown_id

FIRST = str(FIRST_SNAPSHOT_ID)
NOWHERE = str(unknown_id(Dialect.V1))


def local(path: Path) -> LocalStorage:
    return LocalStorage(path, durability=Durability.NONE)


def commit(repository: CommitProtocol, message: str) -> SnapshotId:
    """Commit to `main` without a change to its nodes."""
    tip = repository.lookup_branch(MAIN)
    parent = repository.assets.read_snapshot(tip)
    snapshot = replace(
        plan_snapshot(repository, tip, message),
        nodes=parent.nodes,
        manifest_files=parent.manifest_files,
    )
    repository.assets.write_snapshot(snapshot)
    repository.assets.write_transaction_log(TransactionLog(snapshot.id))
    repository.commit(MAIN, snapshot, tip)
    return snapshot.id


def assert_both_see_the_same(ours: CommitProtocol, theirs: OfficialRepository) -> None:
    branches = {name: ours.lookup_branch(name) for name in ours.list_branches()}
    tags = {name: ours.lookup_tag(name) for name in ours.list_tags()}
    assert theirs.call("read_refs") == {
        "branches": {name: str(id) for name, id in branches.items()},
        "tags": {name: str(id) for name, id in tags.items()},
    }
    for name, id in branches.items():
        ancestry = list(map(describe_ancestor, ours.ancestry(id)))
        assert theirs.call("read_ancestry", branch=name) == ancestry
    for name, id in tags.items():
        ancestry = list(map(describe_ancestor, ours.ancestry(id)))
        assert theirs.call("read_ancestry", tag=name) == ancestry


def test_a_new_repository_is_one_to_both(tmp_path: Path, official: OfficialLibrary) -> None:
    ours = create_repository(local(tmp_path), Dialect.V1)
    theirs = official.open(tmp_path)

    assert theirs.call("read_spec_version") == 1
    assert theirs.call("read_config") is None
    assert_both_see_the_same(ours, theirs)


def test_both_commit_in_turn(tmp_path: Path, official: OfficialLibrary) -> None:
    ours = create_repository(local(tmp_path), Dialect.V1)
    theirs = official.open(tmp_path)

    for number in range(4):
        theirs.call("write_group", branch=MAIN, path=f"group {number}", message=f"theirs {number}")
        tip = commit(ours, f"ours {number}")
        ours.create_tag(f"tag {number}", tip)
        assert_both_see_the_same(ours, theirs)

    nodes = theirs.call("read_nodes", snapshot_id=str(tip))
    assert len(nodes) == 5


@pytest.mark.parametrize("seed", range(3))
def test_what_the_official_library_wrote_goes_on(
    tmp_path: Path, official: OfficialLibrary, seed: int
) -> None:
    path = tmp_path / "repository"
    official.call(
        "write_random_repository",
        path=str(path), spec_version=1, seed=seed, virtual_path=str(tmp_path / "virtual"),
    )  # fmt: skip
    ours, theirs = open_protocol(local(path)), official.open(path)
    assert_both_see_the_same(ours, theirs)

    commit(ours, "ours")
    ours.create_branch("our branch", ours.lookup_branch(MAIN))
    ours.reset_branch("dev", ours.lookup_branch(MAIN))
    theirs.call("write_group", branch="our branch", path="their group", message="theirs")

    assert_both_see_the_same(ours, theirs)


def test_both_change_refs_in_turn(tmp_path: Path, official: OfficialLibrary) -> None:
    ours = create_repository(local(tmp_path), Dialect.V1)
    theirs = official.open(tmp_path)
    tip = commit(ours, "ours")

    assert (
        theirs.call(
            "operate",
            steps=[
                ["create_branch", "theirs", FIRST],
                ["create_tag", "their tag", FIRST],
                ["create_tag", "their deleted tag", FIRST],
                ["delete_tag", "their deleted tag"],
                ["create_branch", "to delete", FIRST],
            ],
        )
        == [None] * 5
    )
    ours.reset_branch("theirs", tip)
    ours.create_tag("our deleted tag", tip)
    ours.delete_tag("our deleted tag")
    ours.create_tag("our tag", tip)
    ours.delete_branch("to delete")

    assert ours.list_branches() == {MAIN, "theirs"}
    assert ours.list_tags() == {"our tag", "their tag"}
    assert_both_see_the_same(ours, theirs)


@pytest.mark.parametrize("name", ["", "a b", "é☃", "a%b", "%20", "~", "a*b?", "a\nb", "..", "a:b"])
def test_both_find_refs_of_any_name(tmp_path: Path, official: OfficialLibrary, name: str) -> None:
    ours = create_repository(local(tmp_path), Dialect.V1)
    theirs = official.open(tmp_path)
    tip = commit(ours, "ours")

    ours.create_branch(name, tip)
    ours.create_tag(f"ours {name}", tip)
    outcomes = theirs.call(
        "operate",
        steps=[
            ["lookup_branch", name],
            ["lookup_tag", f"ours {name}"],
            ["create_branch", f"theirs {name}", str(tip)],
            ["create_tag", f"theirs {name}", str(tip)],
            ["reset_branch", name, FIRST, str(tip)],
        ],
    )

    assert outcomes == [None] * 5
    assert ours.lookup_branch(name) == FIRST_SNAPSHOT_ID
    assert ours.list_branches() == {MAIN, name, f"theirs {name}"}
    assert ours.list_tags() == {f"ours {name}", f"theirs {name}"}


@pytest.mark.parametrize("name", ["a/b", "/", "x/"])
def test_both_refuse_the_same_names(tmp_path: Path, official: OfficialLibrary, name: str) -> None:
    steps: list[list[Any]] = [
        ["create_branch", name, FIRST],
        ["lookup_branch", name],
        ["reset_branch", name, FIRST, None],
        ["delete_branch", name],
        ["create_tag", name, FIRST],
        ["lookup_tag", name],
        ["delete_tag", name],
    ]

    assert_both_do_the_same(tmp_path, official, steps)


def test_both_refuse_with_the_same_errors(tmp_path: Path, official: OfficialLibrary) -> None:
    steps: list[list[Any]] = [
        ["create_branch", MAIN, FIRST],
        ["create_branch", "b", FIRST],
        ["create_branch", "b", FIRST],
        ["create_branch", "b", NOWHERE],
        ["create_branch", "c", NOWHERE],
        ["lookup_branch", "c"],
        ["delete_branch", "c"],
        ["delete_branch", MAIN],
        ["reset_branch", "c", FIRST, None],
        ["reset_branch", "c", FIRST, FIRST],
        ["reset_branch", "c", NOWHERE, None],
        ["reset_branch", "b", NOWHERE, None],
        ["reset_branch", "b", FIRST, NOWHERE],
        ["reset_branch", "b", FIRST, FIRST],
        ["reset_branch", "b", FIRST, None],
        ["create_tag", "t", NOWHERE],
        ["create_tag", "t", FIRST],
        ["create_tag", "t", FIRST],
        ["delete_tag", "t"],
        ["delete_tag", "t"],
        ["create_tag", "t", FIRST],
        ["lookup_tag", "t"],
        ["lookup_tag", "u"],
        ["delete_tag", "u"],
        ["delete_branch", "b"],
        ["create_branch", "b", FIRST],
        ["lookup_snapshot", FIRST],
        ["lookup_snapshot", NOWHERE],
        ["set_feature_flag", "create_tag", False],
        ["set_metadata", {"a": 1}],
    ]

    assert_both_do_the_same(tmp_path, official, steps)


def assert_both_do_the_same(path: Path, official: OfficialLibrary, steps: list[list[Any]]) -> None:
    """Do the same on two copies of one repository: the same errors, and the same refs after it."""
    ours = create_repository(local(path / "ours"), Dialect.V1)
    shutil.copytree(path / "ours", path / "theirs")
    theirs = official.open(path / "theirs")

    expected = theirs.call("operate", steps=steps)

    for step, error in zip(steps, expected, strict=True):
        assert describe_outcome(ours, error, *step) == error, step
    assert_both_see_the_same(ours, theirs)


def describe_outcome(
    repository: CommitProtocol, expected: list[str] | None, name: str, *arguments: Any
) -> list[str] | None:
    """The kind of an error, with its class if that is not one of the class expected."""
    try:
        _METHODS[name](repository, *arguments)
    except IcechunkError as error:
        classes = [base.__name__ for base in type(error).__mro__]
        known = expected[0] if expected is not None and expected[0] in classes else classes[0]
        return [known, error.kind]
    return None


_METHODS: dict[str, Callable[..., object]] = {
    "create_branch": lambda repo, name, id: repo.create_branch(name, SnapshotId.parse(id)),
    "lookup_branch": lambda repo, name: repo.lookup_branch(name),
    "delete_branch": lambda repo, name: repo.delete_branch(name),
    "reset_branch": lambda repo, name, id, expected: repo.reset_branch(
        name, SnapshotId.parse(id), expected and SnapshotId.parse(expected)
    ),
    "create_tag": lambda repo, name, id: repo.create_tag(name, SnapshotId.parse(id)),
    "lookup_tag": lambda repo, name: repo.lookup_tag(name),
    "delete_tag": lambda repo, name: repo.delete_tag(name),
    "lookup_snapshot": lambda repo, id: repo.lookup_snapshot(SnapshotId.parse(id)),
    "set_feature_flag": lambda repo, _, setting: repo.set_feature_flag(4, setting),
    "set_metadata": lambda repo, metadata: repo.update_metadata(lambda _: metadata),
}


def test_a_saved_configuration_is_read_by_both(tmp_path: Path, official: OfficialLibrary) -> None:
    config = {"inline_chunk_threshold_bytes": 12}
    ours = create_repository(local(tmp_path), Dialect.V1, config=config)
    theirs = official.open(tmp_path)

    first = theirs.call("read_config")
    ours.write_config({"inline_chunk_threshold_bytes": 13})

    assert first["inline_chunk_threshold_bytes"] == 12
    assert theirs.call("read_config")["inline_chunk_threshold_bytes"] == 13
