"""Refs, history and ops log of V2 repositories that both libraries write to."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import IcechunkError
from frazil.format.ids import FIRST_SNAPSHOT_ID, SnapshotId
from frazil.format.repo_info import Availability, RepoStatus
from frazil.protocols.protocol import MAIN, UpdatePolicy, read_clock
from frazil.protocols.repo_changes import feature_flag_named
from frazil.protocols.v2_protocol import V2Protocol
from frazil.storage.local import Durability, LocalStorage
from tests.interop.descriptions import (
    describe_ancestor,
    describe_repo_info,
    describe_status,
    describe_updates,
)
from tests.interop.official_library import OfficialLibrary, OfficialRepository
from tests.protocol_repositories import (
    UNKNOWN_ID,
    commit,
    create_repository,
    open_repository,
    write_snapshot,
)

FIRST = str(FIRST_SNAPSHOT_ID)


def local(path: Path) -> LocalStorage:
    return LocalStorage(path, durability=Durability.NONE)


def pages_of(count: int) -> UpdatePolicy:
    return UpdatePolicy(num_updates_per_repo_info_file=count)


def assert_both_see_the_same(ours: V2Protocol, theirs: OfficialRepository) -> None:
    info = ours.read_repo_info()
    inspected = theirs.call("inspect_repo_info")
    del inspected["header"]
    assert inspected == describe_repo_info(info)
    assert theirs.call("read_ops_log") == describe_updates(ours.ops_log())
    assert theirs.call("read_refs") == {
        "branches": {name: str(ours.lookup_branch(name)) for name in ours.list_branches()},
        "tags": {name: str(ours.lookup_tag(name)) for name in ours.list_tags()},
    }
    for name in ours.list_branches():
        ancestry = ours.ancestry(ours.lookup_branch(name))
        assert theirs.call("read_ancestry", branch=name) == list(map(describe_ancestor, ancestry))
    state = theirs.call("read_state")
    assert state["metadata"] == dict(info.metadata)
    assert state["status"] == describe_status(info.status)


# One after the other


def test_a_new_repository_is_one_to_both(tmp_path: Path, official: OfficialLibrary) -> None:
    ours = create_repository(local(tmp_path))
    theirs = official.open(tmp_path)

    assert theirs.call("read_spec_version") == 2
    assert_both_see_the_same(ours, theirs)
    log = theirs.call("inspect_transaction_log", snapshot_id=FIRST)
    assert not any(log[name] for name in ("new_groups", "new_arrays", "updated_chunks"))


@pytest.mark.parametrize("page", [1, 3, 1000])
def test_both_commit_in_turn(tmp_path: Path, official: OfficialLibrary, page: int) -> None:
    ours = create_repository(local(tmp_path), pages_of(page))
    ours.write_config({"num_updates_per_repo_info_file": page})
    theirs = official.open(tmp_path)

    for number in range(4):
        theirs.call("write_group", branch=MAIN, path=f"group {number}", message=f"theirs {number}")
        commit(ours, message=f"ours {number}")
        ours.create_tag(f"tag {number}", ours.lookup_branch(MAIN))
        assert_both_see_the_same(ours, theirs)

    assert len(ours.read_repo_info().latest_updates) == min(page, 14)
    assert len(list(ours.ops_log())) == 14


def test_amended_and_detached_snapshots_are_read(tmp_path: Path, official: OfficialLibrary) -> None:
    ours = create_repository(local(tmp_path))
    below, tip = commit(ours, message="below"), commit(ours, message="tip")

    ours.amend(MAIN, write_snapshot(ours, below, "amended"), tip)
    ours.register(write_snapshot(ours, tip, "flushed"), tip)

    assert_both_see_the_same(ours, official.open(tmp_path))


@pytest.mark.parametrize("seed", range(3))
def test_what_the_official_library_did_is_read(
    tmp_path: Path, official: OfficialLibrary, seed: int
) -> None:
    official.call(
        "write_random_repository",
        path=str(tmp_path / "repo"), spec_version=2, seed=seed, virtual_path=str(tmp_path / "v"),
    )  # fmt: skip
    ours = open_repository(local(tmp_path / "repo"))
    theirs = official.open(tmp_path / "repo")

    assert_both_see_the_same(ours, theirs)
    commit(ours)
    assert_both_see_the_same(ours, theirs)


# Step by step


NAMES = st.sampled_from([MAIN, "dev", "a/b", "", "é"])
SNAPSHOTS = st.sampled_from([FIRST, "tip", str(UNKNOWN_ID)])
STEPS = st.one_of(
    st.tuples(st.sampled_from(["create_branch", "create_tag"]), NAMES, SNAPSHOTS),
    st.tuples(
        st.sampled_from(["delete_branch", "delete_tag", "lookup_branch", "lookup_tag"]), NAMES
    ),
    st.tuples(st.just("reset_branch"), NAMES, SNAPSHOTS, st.none() | SNAPSHOTS),
    st.tuples(st.just("lookup_snapshot"), SNAPSHOTS),
    st.tuples(
        st.just("set_feature_flag"),
        st.sampled_from(["create_tag", "delete_tag", "move_node", "fly"]),
        st.sampled_from([True, False, None]),
    ),
    # Mostly online: a read-only repository refuses everything else.
    st.tuples(st.just("set_status"), st.sampled_from(["online", "online", "read_only"])),
    st.tuples(st.just("set_metadata"), st.dictionaries(st.text("xyz"), st.integers(-9, 9))),
)

METHODS: dict[str, Callable[..., object]] = {
    "create_branch": lambda r, name, id: r.create_branch(name, parse(id)),
    "delete_branch": lambda r, name: r.delete_branch(name),
    "lookup_branch": lambda r, name: r.lookup_branch(name),
    "reset_branch": lambda r, name, id, expected: r.reset_branch(
        name, parse(id), None if expected is None else parse(expected)
    ),
    "create_tag": lambda r, name, id: r.create_tag(name, parse(id)),
    "delete_tag": lambda r, name: r.delete_tag(name),
    "lookup_tag": lambda r, name: r.lookup_tag(name),
    "lookup_snapshot": lambda r, id: r.lookup_snapshot(parse(id)),
    "set_feature_flag": lambda r, name, setting: r.set_feature_flag(
        feature_flag_named(name).id, setting
    ),
    "set_status": lambda r, name: r.set_status(
        RepoStatus(Availability[name.upper()], read_clock())
    ),
    "set_metadata": lambda r, metadata: r.update_metadata(lambda _: metadata),
}


def parse(id: str) -> SnapshotId:
    return SnapshotId.parse(id)


def operate(repository: V2Protocol, steps: list[list[Any]]) -> list[list[str] | None]:
    """As the child's `operate`."""
    outcomes: list[list[str] | None] = []
    for name, *arguments in steps:
        try:
            METHODS[name](repository, *arguments)
        except IcechunkError as error:
            outcomes.append([type(error).__name__, error.kind])
        else:
            outcomes.append(None)
    return outcomes


@given(st.lists(STEPS, min_size=1, max_size=25), st.integers(1, 5))
def test_both_do_and_refuse_the_same(
    official: OfficialLibrary, steps: list[tuple[Any, ...]], page: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root, copy = Path(directory, "ours"), Path(directory, "theirs")
        ours = create_repository(local(root), pages_of(page))
        ours.write_config({"num_updates_per_repo_info_file": page})
        tip = str(commit(ours))
        shutil.copytree(root, copy)
        script = [[tip if part == "tip" else part for part in step] for step in steps]

        theirs = official.open(copy)
        assert operate(ours, script) == theirs.call("operate", steps=script)

        assert_both_see_the_same(ours, official.open(root))
        twin = open_repository(local(copy), pages_of(page))
        assert_both_see_the_same(twin, theirs)
        assert without_times(ours) == without_times(twin)


def without_times(repository: V2Protocol) -> tuple[object, ...]:
    """All of a repo info that two writers of the same steps have in common."""
    info = repository.read_repo_info()
    kinds = [type(update.kind) for update in repository.ops_log()]
    flags = (info.enabled_feature_flags, info.disabled_feature_flags)
    refs = (info.branches, info.tags, info.deleted_tags)
    return (*refs, *flags, info.metadata, len(info.latest_updates), kinds)
