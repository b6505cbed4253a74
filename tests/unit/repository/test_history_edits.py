"""Edits of the history, protection and retention as users call them."""

import asyncio
import inspect
from datetime import timedelta

import pytest
import zarr

from frazil import InvalidInputError, ReadOnlyError, Repository, RetentionPolicy
from frazil.ops import RepoAvailability, RepoStatus
from tests.repositories import create, keys_of


def commit_group(repository: Repository, branch: str, path: str) -> str:
    session = repository.writable_session(branch)
    zarr.create_group(session.store, path=path)
    return session.commit(f"made {path}", {"path": path})


def messages(repository: Repository, branch: str) -> list[str]:
    return [info.message for info in repository.ancestry(branch=branch)]


def test_work_on_a_branch_becomes_one_commit_of_a_protected_one() -> None:
    repository = create()
    start = commit_group(repository, "main", "first")
    repository.protect_branch("main", by="everybody")
    repository.create_branch("work", start)
    for path in ("second", "third"):
        commit_group(repository, "work", path)

    repository.squash("work", start, message="second and third")
    repository.fast_forward("main", "work")

    assert messages(repository, "main") == [
        "second and third",
        "made first",
        "Repository initialized",
    ]
    keys = keys_of(repository.readonly_session("main"))
    assert {"first/zarr.json", "second/zarr.json", "third/zarr.json"} <= keys


def test_default_metadata_lies_under_that_of_squashed_and_picked_commits(
    repository: Repository,
) -> None:
    start = commit_group(repository, "main", "first")
    repository.create_branch("side", start)
    picked = commit_group(repository, "side", "second")
    repository.set_default_commit_metadata({"by": "me", "path": "none"})

    onto = repository.cherry_pick(picked, onto="main")
    squashed = repository.squash("side", start, metadata={"n": 1})

    assert repository.lookup_snapshot(onto).metadata == {
        "by": "me",
        "path": "second",
        "__frazil": {"cherry_picked_from": picked},
    }
    assert repository.lookup_snapshot(squashed).metadata == {"by": "me", "path": "none", "n": 1}


def test_what_a_library_said_of_how_a_commit_was_made_is_not_picked(
    repository: Repository,
) -> None:
    repository.create_branch("side", commit_group(repository, "main", "first"))
    once = repository.cherry_pick(commit_group(repository, "side", "second"), onto="main")
    repository.create_branch("third", repository.lookup_branch("side"))
    repository.reset_branch("third", next(repository.ancestry(branch="main")).parent_id or "")

    twice = repository.cherry_pick(once, onto="third")

    origin = repository.lookup_snapshot(twice).metadata["__frazil"]
    assert origin == {"cherry_picked_from": once}


def test_text_that_is_no_snapshot_id_is_refused(repository: Repository) -> None:
    with pytest.raises(InvalidInputError, match="no snapshot id"):
        repository.squash("main", "main")
    with pytest.raises(InvalidInputError, match="no snapshot id"):
        repository.cherry_pick("main", onto="main")


def test_a_repository_that_is_only_to_be_read_is_not_edited() -> None:
    repository = create()
    start = commit_group(repository, "main", "first")
    repository.create_branch("side", start)
    picked = commit_group(repository, "side", "second")
    repository.set_status(RepoStatus(RepoAvailability.read_only))
    before = {info.key for info in repository.storage.list()}

    for act in (
        lambda: repository.squash("side", start),
        lambda: repository.cherry_pick(picked, onto="main"),
        lambda: repository.fast_forward("main", "side"),
        lambda: repository.protect_branch("main"),
        lambda: repository.set_retention({}),
    ):
        with pytest.raises(ReadOnlyError):
            act()

    assert {info.key for info in repository.storage.list()} == before


def test_everything_can_be_awaited() -> None:
    names = {name for name, _ in inspect.getmembers(Repository, callable)}
    public = {name for name in names if not name.startswith("_") and "async" not in name}
    without = {"ancestry", "default_commit_metadata", "find_expired_snapshots", "shown_items",
               "shown_title", "set_default_commit_metadata", "transaction"}  # fmt: skip

    assert {f"{name}_async" for name in public - without} <= names


def test_awaiting_does_the_same() -> None:
    repository = create()
    start = commit_group(repository, "main", "first")
    repository.create_branch("work", start)
    commit_group(repository, "work", "second")

    async def edit() -> None:
        await repository.protect_branch_async("main")
        await repository.set_retention_async({"*": RetentionPolicy(keep_for=timedelta(days=1))})
        await repository.squash_async("work", start, message="awaited")
        await repository.fast_forward_async("main", "work")

    asyncio.run(edit())

    assert messages(repository, "main")[0] == "awaited"
    assert repository.protected_branches() == {"main": None}
    assert repository.expire(dry_run=True).released_snapshots == set()
