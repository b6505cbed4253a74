"""How sessions end: commit, amend, flush, and what is left of a session afterwards."""

from datetime import UTC, datetime, timedelta

import pytest
import zarr

import frazil
from frazil import (
    ConflictError,
    FormatError,
    ReadOnlyError,
    Repository,
    SessionMode,
    SessionStateError,
)
from tests.repositories import create, keys_of


def add_group(session: frazil.Session, path: str) -> None:
    zarr.create_group(session.store, path=path)


def commit_group(repository: Repository, path: str, branch: str = "main") -> str:
    session = repository.writable_session(branch)
    add_group(session, path)
    return session.commit(f"made {path}")


def messages(repository: Repository, branch: str = "main") -> list[str]:
    return [info.message for info in repository.ancestry(branch=branch)]


def test_a_committed_session_reads_the_new_version_and_writes_nothing(
    repository: Repository,
) -> None:
    session = repository.writable_session("main")
    assert (session.mode, session.branch) == (SessionMode.writable, "main")
    add_group(session, "group")

    id = session.commit("a group")

    assert (session.snapshot_id, session.branch, session.read_only) == (id, None, True)
    assert session.mode is SessionMode.readonly
    assert not session.has_uncommitted_changes
    assert keys_of(session) == {"zarr.json", "group/zarr.json"}
    with pytest.raises(ReadOnlyError):
        session.store.delete_sync("group/zarr.json")
    with pytest.raises(SessionStateError) as caught:
        session.commit("again")
    assert caught.value.kind == "commit-not-allowed"


def test_a_commit_of_nothing_is_refused_unless_it_is_wanted(repository: Repository) -> None:
    session = repository.writable_session("main")

    with pytest.raises(SessionStateError) as caught:
        session.commit("nothing")
    assert caught.value.kind == "no-changes-to-commit"

    id = session.commit("nothing", allow_empty=True)
    assert messages(repository) == ["nothing", "Repository initialized"]
    assert repository.lookup_branch("main") == id


def test_a_commit_is_refused_once_somebody_else_committed_and_nothing_is_lost(
    repository: Repository,
) -> None:
    start = commit_group(repository, "first")
    session = repository.writable_session("main")
    add_group(session, "ours")
    theirs = commit_group(repository, "theirs")

    with pytest.raises(ConflictError) as caught:
        session.commit("too late")

    assert caught.value.kind == "commit-conflict"
    assert (caught.value.expected_parent, caught.value.actual_parent) == (start, theirs)
    assert session.has_uncommitted_changes
    session.rebase(frazil.ConflictDetector())
    session.commit("on top")
    assert {"ours/zarr.json", "theirs/zarr.json"} <= keys_of(repository.readonly_session("main"))


def test_a_refused_commit_writes_nothing(repository: Repository) -> None:
    session = repository.writable_session("main")
    add_group(session, "ours")
    commit_group(repository, "theirs")
    before = {info.key for info in repository.storage.list()}

    with pytest.raises(ConflictError):
        session.commit("too late")

    assert {info.key for info in repository.storage.list()} == before


def test_default_metadata_lies_under_that_of_a_commit(repository: Repository) -> None:
    repository.set_default_commit_metadata({"by": "everybody", "where": {"room": 1}})
    session = repository.writable_session("main")
    add_group(session, "group")

    session.commit("a group", {"by": "me", "where": {}})

    assert repository.default_commit_metadata() == {"by": "everybody", "where": {"room": 1}}
    assert next(repository.ancestry(branch="main")).metadata == {"by": "me", "where": {}}
    commit_group(repository, "other")
    assert next(repository.ancestry(branch="main")).metadata == {
        "by": "everybody",
        "where": {"room": 1},
    }


def test_an_amended_commit_takes_the_place_of_the_last_one() -> None:
    repository = create()
    first = commit_group(repository, "first")
    replaced = commit_group(repository, "second")
    session = repository.writable_session("main")
    add_group(session, "third")

    id = session.amend("second and third", metadata={"n": 3})

    assert messages(repository) == ["second and third", "made first", "Repository initialized"]
    info = repository.lookup_snapshot(id)
    assert (info.parent_id, info.metadata) == (first, {"n": 3})
    changes = repository.diff(from_snapshot_id=first, to_branch="main")
    assert changes.new_groups == {"/second", "/third"}
    assert (session.branch, session.read_only) == (None, True)
    assert repository.lookup_snapshot(replaced).message == "made second"


def test_the_first_commit_can_not_be_amended() -> None:
    session = create().writable_session("main")
    add_group(session, "group")

    with pytest.raises(SessionStateError) as caught:
        session.amend("no")

    assert caught.value.kind == "no-amend-for-initial-commit"
    assert session.has_uncommitted_changes


def test_what_only_v2_can_do_is_refused_by_v1_before_anything_is_written() -> None:
    repository = create(spec_version=1)
    commit_group(repository, "first")
    session = repository.writable_session("main")
    add_group(session, "second")
    before = {info.key for info in repository.storage.list()}

    with pytest.raises(FormatError, match="no such thing"):
        session.amend("no")
    with pytest.raises(FormatError, match="no such thing"):
        repository.rearrange_session("main")

    assert {info.key for info in repository.storage.list()} == before


def test_a_flushed_version_has_an_id_and_no_branch(repository: Repository) -> None:
    tip = repository.lookup_branch("main")
    session = repository.writable_session("main")
    add_group(session, "group")

    id = session.flush("aside", metadata={"n": 1})

    assert repository.lookup_branch("main") == tip
    assert (session.snapshot_id, session.branch, session.read_only) == (id, None, True)
    reader = repository.readonly_session(snapshot_id=id)
    assert keys_of(reader) == {"zarr.json", "group/zarr.json"}
    info = repository.lookup_snapshot(id)
    assert (info.parent_id, info.message, info.metadata) == (tip, "aside", {"n": 1})
    repository.create_branch("aside", id)
    assert messages(repository, "aside")[0] == "aside"


def test_a_transaction_commits_only_if_nothing_went_wrong(repository: Repository) -> None:
    with repository.transaction("main", message="good", metadata={"n": 1}) as store:
        zarr.create_group(store, path="good")
    with pytest.raises(RuntimeError, match="wrong"):
        fail_halfway(repository)

    assert messages(repository) == ["good", "Repository initialized"]
    assert next(repository.ancestry(branch="main")).metadata == {"n": 1}
    assert "bad/zarr.json" not in keys_of(repository.readonly_session("main"))


def fail_halfway(repository: Repository) -> None:
    with repository.transaction("main", message="bad") as store:
        zarr.create_group(store, path="bad")
        raise RuntimeError("wrong")


def test_as_of_gives_the_last_version_that_was_there(repository: Repository) -> None:
    commit_group(repository, "first")
    commit_group(repository, "second")
    second, first, root = repository.ancestry(branch="main")
    moments = [second.written_at, first.written_at, second.written_at - timedelta(microseconds=1)]

    found = [repository.readonly_session("main", as_of=each).snapshot_id for each in moments]

    assert found == [second.id, first.id, first.id]
    late = repository.readonly_session("main", as_of=datetime.now(UTC) + timedelta(days=1))
    assert late.snapshot_id == second.id
    with pytest.raises(frazil.SnapshotNotFoundError):
        repository.readonly_session("main", as_of=root.written_at - timedelta(seconds=1))
    with pytest.raises(ValueError, match="as_of"):
        repository.readonly_session(tag="t", as_of=first.written_at)


def test_a_session_needs_just_one_place_to_start_from(repository: Repository) -> None:
    with pytest.raises(ValueError, match="one of"):
        repository.readonly_session()
    with pytest.raises(ValueError, match="one of"):
        repository.readonly_session("main", tag="t")


def test_sessions_on_two_branches_do_not_disturb_each_other(repository: Repository) -> None:
    tip = commit_group(repository, "shared")
    repository.create_branch("other", tip)
    here, there = repository.writable_session("main"), repository.writable_session("other")
    add_group(here, "here")
    add_group(there, "there")

    here.commit("here")
    there.commit("there")

    assert messages(repository)[:2] == ["here", "made shared"]
    assert messages(repository, "other")[:2] == ["there", "made shared"]
    assert "there/zarr.json" not in keys_of(repository.readonly_session("main"))
    assert "here/zarr.json" not in keys_of(repository.readonly_session("other"))
