"""Branches and tags of a V2 repository."""

import pytest

from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.format import repo_info as model
from frazil.format.ids import FIRST_SNAPSHOT_ID as FIRST
from frazil.protocols.protocol import MAIN
from frazil.protocols.repo_changes import CREATE_TAG, DELETE_TAG
from frazil.protocols.v2_protocol import V2Protocol
from frazil.storage.interface import Storage
from tests.protocol_repositories import UNKNOWN_ID, commit, create_repository, open_repository


@pytest.fixture
def repository(storage: Storage) -> V2Protocol:
    return create_repository(storage)


def latest(repository: V2Protocol) -> model.UpdateType:
    return next(repository.ops_log()).kind


# Branches


def test_a_branch_is_created_and_found_by_others(storage: Storage, repository: V2Protocol) -> None:
    repository.create_branch("spring", FIRST)

    other = open_repository(storage)
    assert other.list_branches() == {MAIN, "spring"}
    assert other.lookup_branch("spring") == FIRST
    assert latest(other) == model.BranchCreated("spring")


@pytest.mark.parametrize("name", ["", "/", "a/b", "..", "a b", "é☃", "a\0b", "x" * 300])
def test_a_ref_may_have_almost_any_name(repository: V2Protocol, name: str) -> None:
    repository.create_branch(name, FIRST)
    repository.create_tag(name, FIRST)

    assert repository.lookup_branch(name) == FIRST
    assert repository.lookup_tag(name) == FIRST


def test_a_name_that_is_no_text_is_refused(repository: V2Protocol) -> None:
    for create in (repository.create_branch, repository.create_tag):
        with pytest.raises(InvalidInputError) as refusal:
            create("half \ud800", FIRST)
        assert refusal.value.kind == "invalid-ref-name"


def test_a_branch_that_exists_is_not_created(repository: V2Protocol) -> None:
    with pytest.raises(AlreadyExistsError, match=str(FIRST)) as refusal:
        repository.create_branch(MAIN, FIRST)

    assert refusal.value.kind == "branch-already-exists"


def test_a_ref_to_an_unknown_snapshot_is_refused_before_its_name_is_looked_at(
    repository: V2Protocol,
) -> None:
    repository.create_tag("v1", FIRST)
    repository.create_tag("v0", FIRST)
    repository.delete_tag("v0")

    for create, name in (
        (repository.create_branch, MAIN),
        (repository.create_tag, "v1"),
        (repository.create_tag, "v0"),
    ):
        with pytest.raises(SnapshotNotFoundError, match=str(UNKNOWN_ID)) as refusal:
            create(name, UNKNOWN_ID)
        assert refusal.value.kind == "snapshot-not-found"


def test_a_branch_is_deleted_and_its_name_is_free(repository: V2Protocol) -> None:
    repository.create_branch("spring", FIRST)

    repository.delete_branch("spring")

    assert latest(repository) == model.BranchDeleted("spring", FIRST)
    assert repository.list_branches() == {MAIN}
    repository.create_branch("spring", FIRST)


def test_main_is_not_deleted(repository: V2Protocol) -> None:
    with pytest.raises(SessionStateError) as refusal:
        repository.delete_branch(MAIN)

    assert refusal.value.kind == "cannot-delete-main"


def test_refs_that_are_not_there_are_not_found(repository: V2Protocol) -> None:
    for ask in (
        repository.lookup_branch,
        repository.lookup_tag,
        repository.delete_branch,
        repository.delete_tag,
        lambda name: repository.reset_branch(name, UNKNOWN_ID),
    ):
        with pytest.raises(RefNotFoundError, match="`nowhere`") as refusal:
            ask("nowhere")
        assert refusal.value.kind == "ref-not-found"


# Reset


def test_a_branch_is_reset(repository: V2Protocol) -> None:
    tip = commit(repository)

    repository.reset_branch(MAIN, FIRST)

    assert repository.lookup_branch(MAIN) == FIRST
    assert latest(repository) == model.BranchReset(MAIN, tip)


def test_a_branch_is_reset_if_its_tip_is_the_expected_one(repository: V2Protocol) -> None:
    tip = commit(repository)

    repository.reset_branch(MAIN, FIRST, expected=tip)

    assert repository.lookup_branch(MAIN) == FIRST


def test_a_branch_with_another_tip_is_not_reset(repository: V2Protocol) -> None:
    tip = commit(repository)

    with pytest.raises(ConflictError) as conflict:
        repository.reset_branch(MAIN, UNKNOWN_ID, expected=FIRST)

    assert conflict.value.kind == "branch-update-conflict"
    assert conflict.value.expected_parent == str(FIRST)
    assert conflict.value.actual_parent == str(tip)
    assert repository.lookup_branch(MAIN) == tip


def test_a_branch_is_not_reset_to_an_unknown_snapshot(repository: V2Protocol) -> None:
    with pytest.raises(SnapshotNotFoundError):
        repository.reset_branch(MAIN, UNKNOWN_ID)


def test_a_missing_branch_of_which_a_tip_is_expected_has_a_kind_of_its_own(
    repository: V2Protocol,
) -> None:
    with pytest.raises(RefNotFoundError) as refusal:
        repository.reset_branch("nowhere", FIRST, expected=FIRST)

    assert refusal.value.kind == "branch-not-found"


# Tags


def test_a_tag_is_created_once(repository: V2Protocol) -> None:
    repository.create_tag("v1", FIRST)

    assert latest(repository) == model.TagCreated("v1")
    assert repository.list_tags() == {"v1"}
    with pytest.raises(AlreadyExistsError) as refusal:
        repository.create_tag("v1", commit(repository))
    assert refusal.value.kind == "tag-already-exists"
    assert repository.lookup_tag("v1") == FIRST


def test_the_name_of_a_deleted_tag_stays_taken(repository: V2Protocol) -> None:
    repository.create_tag("v1", FIRST)

    repository.delete_tag("v1")

    assert latest(repository) == model.TagDeleted("v1", FIRST)
    assert repository.list_tags() == set()
    with pytest.raises(AlreadyExistsError) as refusal:
        repository.create_tag("v1", FIRST)
    assert refusal.value.kind == "tag-previously-deleted"
    for ask in (repository.lookup_tag, repository.delete_tag):
        with pytest.raises(RefNotFoundError):
            ask("v1")


def test_tags_are_not_created_or_deleted_where_that_is_switched_off(
    repository: V2Protocol,
) -> None:
    repository.set_feature_flag(CREATE_TAG.id, False)
    repository.set_feature_flag(DELETE_TAG.id, False)

    with pytest.raises(SessionStateError, match="create_tag") as creation:
        repository.create_tag("v1", FIRST)
    with pytest.raises(SessionStateError, match="delete_tag") as deletion:
        repository.delete_tag("v1")

    assert creation.value.kind == deletion.value.kind == "feature-flag-disabled"
