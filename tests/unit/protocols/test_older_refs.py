"""Branches and tags of the generations that keep them in files."""

import pickle

import pytest

from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    FormatError,
    InvalidInputError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.format.header import Dialect
from frazil.protocols.detection import create_repository
from frazil.protocols.protocol import MAIN, CommitProtocol
from frazil.storage.interface import Storage
from tests.protocol_repositories import OLDER, commit, messages, open_as, unknown_id

WITH_DELETED_TAGS = [Dialect.ALPHA_H, Dialect.V1]
WITHOUT_DELETED_TAGS = [dialect for dialect in OLDER if dialect not in WITH_DELETED_TAGS]


@pytest.fixture(params=OLDER, ids=lambda dialect: dialect.name)
def repository(request: pytest.FixtureRequest, storage: Storage) -> CommitProtocol:
    return create_repository(storage, request.param)


@pytest.fixture
def other(storage: Storage, repository: CommitProtocol) -> CommitProtocol:
    """The same repository, opened by somebody else."""
    return open_as(storage, repository.dialect)


# Branches


def test_a_branch_is_created_and_found_by_others(
    repository: CommitProtocol, other: CommitProtocol
) -> None:
    tip = commit(repository)

    repository.create_branch("spring", tip)

    assert other.list_branches() == {MAIN, "spring"}
    assert other.lookup_branch("spring") == tip


@pytest.mark.parametrize("name", ["a b", "é☃", "a%b", "%20", "a~b", "a:b", "a.b", "ref.json.x"])
def test_unusual_names_are_kept(
    repository: CommitProtocol, other: CommitProtocol, name: str
) -> None:
    first = repository.lookup_branch(MAIN)

    repository.create_branch(name, first)
    repository.create_tag(name, first)

    assert other.list_branches() == {MAIN, name}
    assert other.list_tags() == {name}
    assert other.lookup_branch(name) == first
    assert other.lookup_tag(name) == first
    other.delete_branch(name)
    assert repository.list_branches() == {MAIN}


@pytest.mark.parametrize("name", ["a/b", "/a", "a/", "half \ud800"])
def test_a_name_that_can_be_no_folder_is_refused(repository: CommitProtocol, name: str) -> None:
    first = repository.lookup_branch(MAIN)

    for refused in (
        lambda: repository.create_branch(name, first),
        lambda: repository.create_tag(name, first),
        lambda: repository.lookup_branch(name),
        lambda: repository.lookup_tag(name),
        lambda: repository.delete_branch(name),
        lambda: repository.reset_branch(name, first),
    ):
        with pytest.raises(InvalidInputError) as refusal:
            refused()
        assert refusal.value.kind == "invalid-ref-name"


def test_a_branch_that_exists_is_a_conflict(repository: CommitProtocol) -> None:
    tip = commit(repository)

    with pytest.raises(ConflictError) as refusal:
        repository.create_branch(MAIN, tip)

    assert refusal.value.kind == "branch-update-conflict"
    assert refusal.value.expected_parent is None
    assert refusal.value.actual_parent == str(tip)


def test_a_ref_to_no_snapshot_is_refused_before_all_else(repository: CommitProtocol) -> None:
    nowhere = unknown_id(repository.dialect)
    for refused in (
        lambda: repository.create_branch(MAIN, nowhere),
        lambda: repository.create_tag("release", nowhere),
        lambda: repository.reset_branch("no such branch", nowhere),
        lambda: repository.lookup_snapshot(nowhere),
        lambda: repository.ancestry(nowhere),
    ):
        with pytest.raises(SnapshotNotFoundError, match=str(nowhere)) as refusal:
            refused()
        # To the official library it is an object that is missing.
        assert isinstance(refusal.value, StorageError)
        assert refusal.value.kind == "object-not-found"
        assert pickle.loads(pickle.dumps(refusal.value)).kind == refusal.value.kind


def test_a_deleted_branch_is_gone_and_can_begin_again(
    repository: CommitProtocol, other: CommitProtocol
) -> None:
    first = repository.lookup_branch(MAIN)
    repository.create_branch("spring", first)
    second = commit(repository, "spring")

    repository.delete_branch("spring")

    assert other.list_branches() == {MAIN}
    with pytest.raises(RefNotFoundError):
        other.lookup_branch("spring")
    other.create_branch("spring", second)
    assert repository.lookup_branch("spring") == second


def test_main_and_what_is_not_there_are_not_deleted(repository: CommitProtocol) -> None:
    with pytest.raises(SessionStateError) as refusal:
        repository.delete_branch(MAIN)
    assert refusal.value.kind == "cannot-delete-main"
    with pytest.raises(RefNotFoundError, match="spring"):
        repository.delete_branch("spring")


def test_a_branch_is_reset_and_goes_on_from_there(
    repository: CommitProtocol, other: CommitProtocol
) -> None:
    first = repository.lookup_branch(MAIN)
    commit(repository, message="to be forgotten")

    repository.reset_branch(MAIN, first)
    commit(other, message="instead")

    assert messages(repository) == ["instead"]


def test_a_branch_is_reset_only_from_where_it_is_expected(repository: CommitProtocol) -> None:
    first, second = repository.lookup_branch(MAIN), commit(repository)

    with pytest.raises(ConflictError) as refusal:
        repository.reset_branch(MAIN, first, expected=first)

    assert refusal.value.kind == "branch-update-conflict"
    assert refusal.value.expected_parent == str(first)
    assert refusal.value.actual_parent == str(second)
    repository.reset_branch(MAIN, first, expected=second)
    assert repository.lookup_branch(MAIN) == first


def test_a_branch_that_is_not_there_is_not_reset(repository: CommitProtocol) -> None:
    first = repository.lookup_branch(MAIN)

    with pytest.raises(RefNotFoundError):
        repository.reset_branch("spring", first)
    with pytest.raises(ConflictError) as refusal:
        repository.reset_branch("spring", first, expected=first)
    assert refusal.value.actual_parent is None


# Tags


def test_a_tag_stays_where_it_is(repository: CommitProtocol, other: CommitProtocol) -> None:
    first = repository.lookup_branch(MAIN)
    repository.create_tag("release", first)
    second = commit(repository)

    with pytest.raises(AlreadyExistsError) as refusal:
        other.create_tag("release", second)

    assert refusal.value.kind == "tag-already-exists"
    assert other.list_tags() == {"release"}
    assert other.lookup_tag("release") == first
    with pytest.raises(RefNotFoundError, match="no such tag"):
        other.lookup_tag("no such tag")


@pytest.mark.parametrize("repository", WITH_DELETED_TAGS, indirect=True)
def test_a_deleted_tag_is_gone_and_its_name_is_taken_for_ever(
    repository: CommitProtocol, other: CommitProtocol
) -> None:
    first = repository.lookup_branch(MAIN)
    repository.create_tag("release", first)

    repository.delete_tag("release")

    assert other.list_tags() == set()
    with pytest.raises(RefNotFoundError):
        other.lookup_tag("release")
    for name in ("release", "no such tag"):
        with pytest.raises(RefNotFoundError):
            other.delete_tag(name)
    with pytest.raises(AlreadyExistsError):
        other.create_tag("release", first)


@pytest.mark.parametrize("repository", WITHOUT_DELETED_TAGS, indirect=True)
def test_where_no_tag_can_be_deleted_that_is_refused(
    storage: Storage, repository: CommitProtocol
) -> None:
    repository.create_tag("release", repository.lookup_branch(MAIN))
    before = {info.key for info in storage.list()}

    with pytest.raises(FormatError) as refusal:
        repository.delete_tag("release")

    assert refusal.value.kind == "unsupported-spec-version"
    assert {info.key for info in storage.list()} == before
