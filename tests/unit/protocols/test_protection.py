"""Protected branches move by fast-forward only."""

from collections.abc import Callable

import pytest
import zarr

from frazil import FormatError, ReadOnlyError, RefNotFoundError, Repository
from frazil.protocols.repo_changes import read_protected, with_protection, without_protection
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import CountingStorage
from tests.repositories import create


@pytest.fixture
def repository() -> Repository:
    """Two commits, and a branch beside `main` that is one ahead; `main` is protected."""
    created = create()
    commit_group(created, "main", "first")
    commit_group(created, "main", "second")
    created.create_branch("side", created.lookup_branch("main"))
    commit_group(created, "side", "third")
    created.protect_branch("main", by="the release team")
    return created


def commit_group(repository: Repository, branch: str, path: str) -> str:
    session = repository.writable_session(branch)
    zarr.create_group(session.store, path=path)
    return session.commit(f"made {path}")


def amend_group(repository: Repository) -> None:
    session = repository.writable_session("main")
    zarr.create_group(session.store, path="amended")
    session.amend("no")


def reset(repository: Repository) -> None:
    repository.reset_branch("main", repository.lookup_branch("side"))


def squash(repository: Repository) -> None:
    *_, first = repository.ancestry(branch="main")
    repository.squash("main", first.id)


def pick(repository: Repository) -> None:
    repository.cherry_pick(repository.lookup_branch("side"), onto="main")


def rewrite(repository: Repository) -> None:
    repository.rewrite_manifests("no", branch="main")


WAYS: dict[str, Callable[[Repository], object]] = {
    "commit": lambda repository: commit_group(repository, "main", "no"),
    "amend": amend_group,
    "reset": reset,
    "squash": squash,
    "cherry-pick": pick,
    "rewritten manifests": rewrite,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_protected_branch_is_not_changed_and_nothing_is_written(
    repository: Repository, way: str
) -> None:
    tip = repository.lookup_branch("main")
    before = {info.key for info in repository.storage.list()}

    with pytest.raises(ReadOnlyError, match=r"'main' is protected by the release team: .*fast_fo"):
        WAYS[way](repository)

    assert repository.lookup_branch("main") == tip
    assert {info.key for info in repository.storage.list()} == before


def test_a_protected_branch_is_not_deleted(repository: Repository) -> None:
    repository.protect_branch("side")

    with pytest.raises(ReadOnlyError, match="'side' is protected:") as refused:
        repository.delete_branch("side")

    assert refused.value.kind == "read-only-repository"
    assert repository.list_branches() == {"main", "side"}


def test_an_expiry_deletes_no_protected_branch(repository: Repository) -> None:
    repository.protect_branch("side")
    session = repository.readonly_session("side")
    repository.create_branch("old", repository.lookup_branch("main"))
    last = next(repository.ancestry(snapshot_id=session.snapshot_id))

    repository.expire_snapshots(
        last.written_at.replace(year=last.written_at.year + 1), delete_expired_branches=True
    )

    assert repository.list_branches() == {"main", "side"}


def test_a_protected_branch_is_fast_forwarded(repository: Repository) -> None:
    assert repository.fast_forward("main", "side") == repository.lookup_branch("side")

    assert repository.lookup_branch("main") == repository.lookup_branch("side")


def test_other_branches_are_free(repository: Repository) -> None:
    commit_group(repository, "side", "more")
    repository.reset_branch("side", repository.lookup_branch("main"))
    repository.delete_branch("side")


def test_a_session_was_open_before_its_branch_was_protected(repository: Repository) -> None:
    session = repository.writable_session("side")
    zarr.create_group(session.store, path="late")
    Repository.open(repository.storage).protect_branch("side")

    with pytest.raises(ReadOnlyError):
        session.commit("too late")

    repository.unprotect_branch("side")
    session.commit("in time")


def test_protection_is_listed_changed_and_lifted(repository: Repository) -> None:
    repository.protect_branch("side")
    assert repository.protected_branches() == {"main": "the release team", "side": None}

    repository.protect_branch("side", by="me")
    repository.unprotect_branch("main")

    assert repository.protected_branches() == {"side": "me"}
    commit_group(repository, "main", "free")
    with pytest.raises(RefNotFoundError):
        repository.unprotect_branch("main")
    with pytest.raises(RefNotFoundError):
        repository.protect_branch("none")


def test_protection_outlives_other_metadata(repository: Repository) -> None:
    repository.set_metadata({"title": "data"})
    repository.update_metadata({"more": 1})

    assert repository.protected_branches() == {"main": "the release team"}
    assert repository.metadata.keys() == {"title", "more", "__frazil"}
    repository.unprotect_branch("main")
    assert repository.metadata == {"title": "data", "more": 1}


def test_repositories_before_v2_have_no_place_for_it() -> None:
    repository = create(spec_version=1)

    with pytest.raises(FormatError, match="protected branches"):
        repository.protect_branch("main")
    with pytest.raises(FormatError, match="protected branches"):
        repository.unprotect_branch("main")


def test_a_commit_asks_the_storage_no_more_than_without_protection() -> None:
    def count_requests(*, protects: bool) -> int:
        storage = CountingStorage(MemoryStorage())
        repository = create(storage)
        repository.create_branch("other", repository.lookup_branch("main"))
        if protects:
            repository.protect_branch("other")
        session = repository.writable_session("main")
        zarr.create_group(session.store, path="group")
        storage.reset()
        session.commit("a group")
        return storage.counts.total

    assert count_requests(protects=True) == count_requests(protects=False)


# The metadata itself


@pytest.mark.parametrize("found", [None, 3, "text", [], {}, {"protected_branches": 7}])
def test_what_frazil_never_wrote_protects_nothing(found: object) -> None:
    assert read_protected({"__frazil": found}) == {}
    assert read_protected(with_protection({"__frazil": found}, "main", "me")) == {"main": "me"}


def test_a_strange_entry_still_protects() -> None:
    assert read_protected({"__frazil": {"protected_branches": {"main": 7}}}) == {"main": None}


def test_other_sections_stay() -> None:
    metadata = {"a": 1, "__frazil": {"other": {"b": 2}}}

    protected = with_protection(metadata, "main", None)

    assert without_protection(protected, "main") == metadata
