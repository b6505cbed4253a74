"""Manifests written anew, by the rules that hold now."""

import pytest

from frazil import ConflictError, FormatError, RefNotFoundError, Repository, SessionStateError
from tests.repositories import manifest_ids, split_every, values_of
from tests.unit.maintenance.repositories import messages, write, write_chunk


def split(repository: Repository, chunks: int) -> Repository:
    return repository.reopen(split_every(chunks, inline_up_to=0))


def manifests(repository: Repository) -> list[str]:
    return manifest_ids(repository.readonly_session("main"), "/numbers")


@pytest.fixture
def written(repository: Repository) -> Repository:
    """A repository with an array of four chunks, in manifests of one chunk each."""
    fine = split(repository, 1)
    write(fine, 1)
    return fine


@pytest.mark.parametrize(("chunks", "count"), [(1, 4), (2, 2), (3, 2), (100, 1)])
def test_each_split_region_gets_one_manifest(written: Repository, chunks: int, count: int) -> None:
    before = manifests(written)

    split(written, chunks).rewrite_manifests("rewritten", branch="main")

    assert len(before) == 4
    assert len(manifests(written)) == count
    assert not set(before) & set(manifests(written))
    assert values_of(written.readonly_session("main"), "numbers") == [1] * 8


def test_it_is_a_commit_that_changes_nothing_else(written: Repository) -> None:
    before = written.lookup_branch("main")

    id = split(written, 2).rewrite_manifests("rewritten", branch="main", metadata={"by": "me"})

    assert id == written.lookup_branch("main")
    assert messages(written, branch="main")[:2] == ["rewritten", "numbers are 1"]
    assert written.diff(from_snapshot_id=before, to_branch="main").is_empty()


def test_its_metadata_reports_the_rules(written: Repository) -> None:
    metadata = {"by": "me", "__icechunk": {"more": 1}}

    id = split(written, 2).rewrite_manifests("rewritten", branch="main", metadata=metadata)

    rules = [["any_array", [{"condition": "Any", "num_chunks": 2}]]]
    assert written.lookup_snapshot(id).metadata == {
        "by": "me",
        "__icechunk": {"more": 1, "splitting_config": {"split_sizes": rules}},
    }


def test_default_metadata_is_under_it(written: Repository) -> None:
    written.set_default_commit_metadata({"by": "default", "__icechunk": {"gone": 1}})

    id = written.rewrite_manifests("rewritten", branch="main")

    metadata = written.lookup_snapshot(id).metadata
    assert metadata["by"] == "default"
    assert set(metadata["__icechunk"]) == {"splitting_config"}


def test_an_amend_takes_the_place_of_the_last_commit(v2_repository: Repository) -> None:
    write(v2_repository, 1)
    write_chunk(v2_repository, 0, 2)

    split(v2_repository, 2).rewrite_manifests("rewritten", branch="main", commit_method="amend")

    assert messages(v2_repository, branch="main") == [
        "rewritten", "numbers are 1", "Repository initialized",
    ]  # fmt: skip
    diff = v2_repository.diff(
        from_snapshot_id=list(v2_repository.ancestry(branch="main"))[1].id, to_branch="main"
    )
    assert diff.updated_chunks == {"/numbers": [[0]]}


def test_an_amend_needs_v2(repository: Repository) -> None:
    write(repository, 1)

    if repository.spec_version == 2:
        repository.rewrite_manifests("rewritten", branch="main", commit_method="amend")
        return
    with pytest.raises(FormatError) as raised:
        repository.rewrite_manifests("rewritten", branch="main", commit_method="amend")
    assert raised.value.kind == "unsupported-operation-for-version"


def test_a_repository_without_arrays_gets_a_commit(repository: Repository) -> None:
    repository.rewrite_manifests("rewritten", branch="main")

    assert messages(repository, branch="main") == ["rewritten", "Repository initialized"]


def test_the_first_commit_cannot_be_amended(v2_repository: Repository) -> None:
    with pytest.raises(SessionStateError) as raised:
        v2_repository.rewrite_manifests("rewritten", branch="main", commit_method="amend")

    assert raised.value.kind == "no-amend-for-initial-commit"


def test_what_is_not_there_is_refused(repository: Repository) -> None:
    with pytest.raises(RefNotFoundError):
        repository.rewrite_manifests("rewritten", branch="nowhere")
    with pytest.raises(ValueError, match="invalid commit_method"):
        repository.rewrite_manifests("rewritten", branch="main", commit_method="x")  # type: ignore[arg-type]


def test_a_session_that_began_before_is_in_conflict(written: Repository) -> None:
    session = written.writable_session("main")

    written.rewrite_manifests("rewritten", branch="main")

    with pytest.raises(ConflictError):
        session.commit("late", allow_empty=True)
