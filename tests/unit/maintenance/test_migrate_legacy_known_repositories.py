"""Every known repository of the draft and of the alphas, migrated, is what is known about it."""

import shutil
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil import Repository
from frazil.format.header import Dialect
from frazil.storage.local import Durability, LocalStorage
from tests.known_repositories import (
    check_arrays,
    check_nodes,
    check_virtual_refs,
    open_known,
    read_expectations,
)
from tests.legacy_files import ALPHA_NAMES, DRAFT_NAMES
from tests.repositories import dangling_files
from tests.unit.maintenance.legacy_repositories import listing

NAMES = [*ALPHA_NAMES, *DRAFT_NAMES]


@pytest.fixture(scope="module")
def migrated_before() -> dict[str, Repository]:
    """Repositories that need not be migrated again."""
    return {}


@pytest.fixture
def migrated(
    request: pytest.FixtureRequest,
    generations: Path,
    tmp_path_factory: pytest.TempPathFactory,
    migrated_before: dict[str, Repository],
) -> Repository:
    """A migrated copy of the repository that the test's parameter names."""
    name: str = request.getfixturevalue("name")
    if name not in migrated_before:
        storage = copy_repository(generations / name, tmp_path_factory.mktemp("migrated"))
        frazil.upgrade_icechunk_repository(Repository.open(storage), dry_run=False)
        migrated_before[name] = open_known(generations / name, storage)
    return migrated_before[name]


def copy_repository(folder: Path, target: Path) -> LocalStorage:
    shutil.copytree(folder / "repo", target / "repo")
    return LocalStorage(target / "repo", durability=Durability.NONE)


def new_ids(repository: Repository) -> dict[str, str]:
    """New ids by old ones."""
    infos = repository.protocol.read_repo_info().snapshots.values()
    origins: list[Any] = [info.metadata["__frazil"] for info in infos]
    return {
        origin["migrated_from"]: str(info.id) for info, origin in zip(infos, origins, strict=True)
    }


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("name", NAMES)
def test_its_refs_are_those_expected(generations: Path, migrated: Repository, name: str) -> None:
    expected, ids = read_expectations(generations / name), new_ids(migrated)

    branches = {each: migrated.lookup_branch(each) for each in migrated.list_branches()}
    tags = {each: migrated.lookup_tag(each) for each in migrated.list_tags()}

    assert branches == {each: ids[id] for each, id in expected["branches"].items()}
    assert tags == {each: ids[id] for each, id in expected["tags"].items()}
    assert migrated.inspect_repo_info()["deleted_tags"] == sorted(expected["deleted_tags"])


@pytest.mark.parametrize("name", NAMES)
def test_its_history_is_the_one_expected(
    generations: Path, migrated: Repository, name: str
) -> None:
    expected, ids = read_expectations(generations / name), new_ids(migrated)
    old_ids = {new: old for old, new in ids.items()}

    for ref, line in expected["history"].items():
        kind, _, value = ref.partition(":")
        infos = list(migrated.ancestry(**{kind: value}))

        assert [old_ids[info.id] for info in infos] == line
        for info in infos:
            known = expected["snapshots"][old_ids[info.id]]
            assert info.message == known["message"]
            assert info.written_at == moment(known["written_at"])
            origin = {"__frazil": {"migrated_from": old_ids[info.id]}}
            assert info.metadata == {**known["metadata"], **origin}


@pytest.mark.parametrize("name", NAMES)
def test_its_contents_are_those_expected(
    generations: Path, migrated: Repository, name: str
) -> None:
    expected, ids = read_expectations(generations / name), new_ids(migrated)

    for old_id, snapshot in expected["snapshots"].items():
        session = migrated.readonly_session(snapshot_id=ids[old_id])
        check_nodes(session, snapshot["nodes"], expected["node_states"])
        check_arrays(session, snapshot["nodes"], expected["node_states"])


@pytest.mark.parametrize("name", NAMES)
def test_its_virtual_references_are_those_expected(
    generations: Path, migrated: Repository, name: str
) -> None:
    expected, ids = read_expectations(generations / name), new_ids(migrated)
    id = expected.get("virtual_refs_in", expected["branches"]["main"])

    session = migrated.readonly_session(snapshot_id=ids[id])

    has_checksums = name not in DRAFT_NAMES
    check_virtual_refs(session, expected["virtual_refs"], has_checksums=has_checksums)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_it_refers_to_is_missing(migrated: Repository, name: str) -> None:
    assert migrated.dialect is Dialect.V2, name
    assert dangling_files(migrated) == set()


@pytest.mark.parametrize("name", NAMES)
def test_each_commit_changed_what_it_did(
    generations: Path, migrated: Repository, name: str
) -> None:
    ids, old = new_ids(migrated), open_known(generations / name)

    for branch in old.list_branches():
        for child, parent in pairwise(old.ancestry(branch=branch)):
            before = old.diff(from_snapshot_id=parent.id, to_snapshot_id=child.id)
            after = migrated.diff(from_snapshot_id=ids[parent.id], to_snapshot_id=ids[child.id])
            assert after == before


@pytest.mark.parametrize("name", NAMES)
def test_a_dry_run_changes_nothing(generations: Path, tmp_path: Path, name: str) -> None:
    storage = copy_repository(generations / name, tmp_path)
    before = listing(storage)

    frazil.upgrade_icechunk_repository(Repository.open(storage), dry_run=True)

    assert listing(storage) == before
