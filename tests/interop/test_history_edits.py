"""What edits of the history, protection and policies leave, read by the official library."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import frazil
from frazil import Repository, RetentionPolicy
from tests.interop.official_library import OfficialLibrary, OfficialRepository
from tests.repositories import split_every, values_of


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    """`main` has an array, and `side` three commits more."""
    storage = frazil.local_filesystem_storage(str(tmp_path))
    created = Repository.create(storage, split_every(3), spec_version=request.param)
    session = created.writable_session("main")
    root = zarr.create_group(session.store)
    array = root.create_array("numbers", shape=(20,), chunks=(2,), dtype="i4", fill_value=-1)
    array[:] = np.arange(20)
    root.create_group("doomed")
    created.create_branch("side", session.commit("planted"))
    write(created, "side", 0, 6)
    add_and_delete(created)
    write(created, "side", 12, 16)
    return created


def write(repository: Repository, branch: str, start: int, stop: int, value: int = 99) -> str:
    session = repository.writable_session(branch)
    zarr.open_array(session.store, path="numbers")[start:stop] = value
    return session.commit(f"wrote {start} to {stop}")


def add_and_delete(repository: Repository) -> str:
    session = repository.writable_session("side")
    root = zarr.open_group(session.store)
    root.create_array("more", shape=(4,), chunks=(2,), dtype="i4")[:] = 5
    root.attrs["said"] = "something"
    del root["doomed"]
    return session.commit("added and deleted")


def read_array(theirs: OfficialRepository, repository: Repository, branch: str) -> list[int]:
    tip = repository.lookup_branch(branch)
    found = theirs.call("read_array", snapshot_id=tip, path="numbers")
    return [int(each) for each in np.frombuffer(found["data"], "<i4")]


def messages(theirs: OfficialRepository, branch: str) -> list[str]:
    return [info["message"] for info in theirs.call("read_ancestry", branch=branch)]


def read_diff(theirs: OfficialRepository, **ends: str) -> dict[str, Any]:
    return {name: sort_of(each) for name, each in theirs.call("read_diff", **ends).items()}


def sort_of(reported: Any) -> Any:
    """Paths in order, whether they came as a set or as a list; chunks as they are."""
    return reported if isinstance(reported, dict) else sorted(reported)


def assert_both_see_the_same(
    repository: Repository, theirs: OfficialRepository, branch: str
) -> None:
    """Ancestry, the last diff and the array of a branch; then a commit of theirs on top of it."""
    infos = list(repository.ancestry(branch=branch))
    found = theirs.call("read_ancestry", branch=branch)
    assert [(each["id"], each["parent_id"], each["message"]) for each in found] == [
        (info.id, info.parent_id, info.message) for info in infos
    ]
    assert [each["metadata"] for each in found] == [info.metadata for info in infos]
    ends: dict[str, Any] = {"from_snapshot_id": infos[1].id, "to_snapshot_id": infos[0].id}
    assert read_diff(theirs, **ends) == {
        name: sort_of(getattr(repository.diff(**ends), name)) for name in read_diff(theirs, **ends)
    }
    values = values_of(repository.readonly_session(branch), "/numbers")
    assert read_array(theirs, repository, branch) == values
    id = theirs.call("write_group", branch=branch, path="of/theirs", message="on top")
    assert repository.lookup_branch(branch) == id
    assert values_of(repository.readonly_session(branch), "/numbers") == values
    assert messages(theirs, branch)[0] == "on top"


def test_a_squashed_branch(
    repository: Repository, tmp_path: Path, official: OfficialLibrary
) -> None:
    since = repository.lookup_branch("main")

    repository.squash("side", since, metadata={"n": 3})

    theirs = official.open(tmp_path)
    assert len(messages(theirs, "side")) == 3
    diff = read_diff(theirs, from_snapshot_id=since, to_branch="side")
    assert (diff["new_arrays"], diff["deleted_groups"]) == (["/more"], ["/doomed"])
    assert diff["updated_chunks"]["/numbers"] == [[0], [1], [2], [6], [7]]
    assert_both_see_the_same(repository, theirs, "side")


def test_cherry_picked_commits(
    repository: Repository, tmp_path: Path, official: OfficialLibrary
) -> None:
    last, middle, *_ = repository.ancestry(branch="side")
    write(repository, "main", 8, 10, 7)

    for picked in (last, middle):
        repository.cherry_pick(picked.id, onto="main")

    theirs = official.open(tmp_path)
    assert messages(theirs, "main")[:2] == ["added and deleted", "wrote 12 to 16"]
    expected = [*range(8), 7, 7, 10, 11, 99, 99, 99, 99, *range(16, 20)]
    assert read_array(theirs, repository, "main") == expected
    assert_both_see_the_same(repository, theirs, "main")


def test_a_fast_forwarded_branch(
    repository: Repository, tmp_path: Path, official: OfficialLibrary
) -> None:
    repository.fast_forward("main", "side")

    theirs = official.open(tmp_path)
    refs = theirs.call("read_refs")["branches"]
    assert refs["main"] == refs["side"]
    assert_both_see_the_same(repository, theirs, "main")


def test_histories_edited_in_every_way_are_one_to_both(
    repository: Repository, tmp_path: Path, official: OfficialLibrary
) -> None:
    since = repository.lookup_branch("main")
    theirs = official.open(tmp_path)
    theirs.call("write_group", branch="side", path="between", message="between")

    repository.squash("side", since)
    theirs.call("write_group", branch="main", path="elsewhere", message="elsewhere")
    repository.cherry_pick(repository.lookup_branch("side"), onto="main")
    repository.create_branch("release", since)
    repository.fast_forward("release", "main")

    assert_both_see_the_same(repository, theirs, "release")
    if repository.spec_version == 2:
        logged = [each["kind"] for each in theirs.call("read_ops_log")[:7]]
        assert logged == [
            "NewCommit", "BranchReset", "BranchCreated", "NewCommit", "NewCommit", "CommitAmended",
            "NewCommit",
        ]  # fmt: skip


def test_protection_and_policies_are_metadata_to_the_official_library(
    tmp_path: Path, official: OfficialLibrary
) -> None:
    repository = Repository.create(frazil.local_filesystem_storage(str(tmp_path)))
    theirs = official.open(tmp_path)
    for path in ("a", "b", "c"):
        theirs.call("write_group", branch="main", path=path, message=path)
    repository.protect_branch("main", by="us")
    repository.set_retention({"*": RetentionPolicy(1, timedelta(days=1))})
    assert theirs.call("read_state")["metadata"] == repository.metadata

    released = repository.expire(now=datetime.now(UTC) + timedelta(days=2)).released_snapshots

    assert len(released) == 2
    assert messages(theirs, "main") == ["c", "Repository initialized"]
    *_, first = repository.ancestry(branch="main")
    diff = read_diff(theirs, from_snapshot_id=first.id, to_branch="main")
    assert diff["new_groups"] == ["/", "/a", "/b", "/c"]
    theirs.call("write_group", branch="main", path="d", message="d")
    assert repository.protected_branches() == {"main": "us"}
