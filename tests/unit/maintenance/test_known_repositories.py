"""Upkeep of every known repository leaves all that its refs lead to."""

import shutil
from pathlib import Path

import pytest

import frazil
from frazil import Repository, Session
from frazil.format.manifest import ChunkTable
from frazil.storage.local import Durability, LocalStorage
from tests.generations import REPOSITORY_NAMES
from tests.known_repositories import read_expectations
from tests.repositories import dangling_files
from tests.unit.maintenance.repositories import keys, later

V1_NAMES = [name for name in REPOSITORY_NAMES if name.startswith("v1")]

Contents = dict[str, tuple[bytes, ChunkTable | None]]


@pytest.fixture
def known(request: pytest.FixtureRequest, generations: Path, tmp_path: Path) -> Repository:
    """A copy of the repository that the test's parameter names."""
    shutil.copytree(generations / request.param / "repo", tmp_path / "repo")
    return Repository.open(LocalStorage(tmp_path / "repo", durability=Durability.NONE))


def read(repository: Repository) -> dict[str, Contents]:
    """All nodes and references that branches and tags lead to."""
    branches, tags = repository.list_branches(), repository.list_tags()
    return {
        **{f"branch {name}": read_session(repository.readonly_session(name)) for name in branches},
        **{f"tag {name}": read_session(repository.readonly_session(tag=name)) for name in tags},
    }


def read_session(session: Session) -> Contents:
    view = session.state.view
    return {
        node.path: (node.user_data, None if node.array is None else view.table(node))
        for node in view.nodes()
    }


def open_again(repository: Repository) -> Repository:
    return Repository.open(repository.storage)


@pytest.mark.parametrize("known", REPOSITORY_NAMES, indirect=True)
def test_garbage_collection_deletes_nothing_that_is_needed(known: Repository) -> None:
    before, missing = read(known), dangling_files(known)

    known.garbage_collect(later())

    again = open_again(known)
    assert again.dialect is known.dialect
    assert read(again) == before
    assert dangling_files(again) == missing
    assert again.garbage_collect(later()).bytes_deleted == 0


@pytest.mark.parametrize("known", REPOSITORY_NAMES, indirect=True)
def test_expiry_keeps_what_refs_point_to(known: Repository) -> None:
    before = read(known)

    known.expire_snapshots(later())
    open_again(known).garbage_collect(later())

    again = open_again(known)
    assert again.dialect is known.dialect
    assert read(again) == before
    tips = {*map(again.lookup_branch, again.list_branches())}
    tips |= {*map(again.lookup_tag, again.list_tags())}
    for tip in tips:
        *others, _ = again.ancestry(snapshot_id=tip)
        assert {info.id for info in others} <= tips


@pytest.mark.parametrize("known", REPOSITORY_NAMES, indirect=True)
def test_rewritten_manifests_have_the_same_references(known: Repository) -> None:
    before = read_session(known.readonly_session("main"))

    known.rewrite_manifests("rewritten", branch="main")

    assert read_session(open_again(known).readonly_session("main")) == before


@pytest.mark.parametrize("name", V1_NAMES)
def test_a_migrated_repository_is_what_it_was(generations: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(generations / name / "repo", tmp_path / "repo")
    storage = LocalStorage(tmp_path / "repo", durability=Durability.NONE)
    old = Repository.open(storage)
    before, history = read(old), [*old.ancestry(branch="main")]
    missing = dangling_files(old)

    migrated = frazil.upgrade_icechunk_repository(old, dry_run=False)

    assert migrated.spec_version == 2
    assert read(migrated) == before
    assert [*migrated.ancestry(branch="main")] == history
    assert dangling_files(migrated) <= missing
    assert not keys(migrated, "refs/")
    for tag in read_expectations(generations / name).get("deleted_tags", []):
        with pytest.raises(frazil.AlreadyExistsError):
            migrated.create_tag(tag, migrated.lookup_branch("main"))
