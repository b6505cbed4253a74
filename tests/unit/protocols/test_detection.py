"""Which generation a repository has, found with few requests."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.errors import FormatError, RepositoryNotFoundError, StorageError
from frazil.format.header import Dialect
from frazil.format.manifest import ChunkTable, InlineRef, Manifest
from frazil.protocols.assets import new_manifest_id, new_node_id
from frazil.protocols.detection import create_repository, detect_dialect, open_protocol
from frazil.protocols.protocol import MAIN
from frazil.protocols.sequence_protocol import SequenceProtocol
from frazil.protocols.v2_protocol import V2Protocol
from frazil.storage.interface import ObjectInfo, Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import CountingStorage, ReadOnlyStorage, Verb
from tests.protocol_repositories import OLDER, commit


class UnlistableStorage(ReadOnlyStorage):
    """What a web server is: something to read from, without a list of what there is."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        raise StorageError(f"there is no list of {prefix!r} here")


def test_where_nothing_is_no_repository_is_found(storage: Storage) -> None:
    assert detect_dialect(storage) is None
    with pytest.raises(RepositoryNotFoundError) as refusal:
        open_protocol(storage)
    assert refusal.value.kind == "repository-not-found"


@pytest.mark.parametrize("key", ["s/readme.txt", "r/readme.json", "refs/branch.main/readme.json"])
def test_other_things_are_no_repository(storage: Storage, key: str) -> None:
    storage.put(key, b"something else")

    assert detect_dialect(storage) is None


def test_what_can_not_be_listed_is_read_as_far_as_it_goes() -> None:
    newest, older, nothing = MemoryStorage(), MemoryStorage(), MemoryStorage()
    create_repository(newest, Dialect.V2)
    create_repository(older, Dialect.V1)

    assert detect_dialect(UnlistableStorage(newest)) is Dialect.V2
    assert open_protocol(UnlistableStorage(older)).lookup_branch(MAIN)
    assert detect_dialect(UnlistableStorage(nothing)) is None


@pytest.mark.parametrize("dialect", Dialect)
def test_a_repository_that_can_only_be_read_is_opened(storage: Storage, dialect: Dialect) -> None:
    create_repository(storage, dialect)

    repository = open_protocol(ReadOnlyStorage(storage))

    assert len(list(repository.ancestry(repository.lookup_branch(MAIN)))) == 1


def test_a_v2_repository_is_opened_with_one_request() -> None:
    storage = CountingStorage(MemoryStorage())
    create_repository(storage, Dialect.V2)
    storage.reset()

    open_protocol(storage)

    assert storage.counts.requests == {Verb.GET_VERSIONED: 1}


def test_a_v1_repository_is_opened_with_two_requests() -> None:
    storage = CountingStorage(MemoryStorage())
    create_repository(storage, Dialect.V1)
    storage.reset()

    open_protocol(storage)

    assert storage.counts.total == 2


def test_a_migration_that_was_left_unfinished_is_v2(generations: Path, tmp_path: Path) -> None:
    shutil.copytree(generations / "v1-1.1.21" / "repo", tmp_path / "repo")
    migrated = generations / "v2-migrated-from-v1-1.1.21" / "repo" / "repo"
    shutil.copy(migrated, tmp_path / "repo" / "repo")

    repository = open_protocol(LocalStorage(tmp_path / "repo"))

    assert isinstance(repository, V2Protocol)
    assert "main" in repository.list_branches()


def test_a_damaged_repo_object_is_not_taken_for_an_older_repository(storage: Storage) -> None:
    create_repository(storage, Dialect.V1)
    storage.put("repo", b"damaged")

    with pytest.raises(FormatError, match="repo"):
        open_protocol(storage)


@pytest.mark.parametrize("dialect", OLDER)
def test_a_repository_stays_what_it_is_when_it_is_committed_to(
    storage: Storage, dialect: Dialect
) -> None:
    create_repository(storage, dialect)
    before = detect_dialect(storage)

    commit(open_protocol(storage))

    assert detect_dialect(storage) is before


@pytest.mark.parametrize("dialect", [Dialect.ALPHA_D, Dialect.ALPHA_G])
def test_a_manifest_reports_where_the_tip_has_none(storage: Storage, dialect: Dialect) -> None:
    repository = create_repository(storage, dialect)
    id = new_manifest_id(dialect)
    table = ChunkTable.of(1, {(0,): InlineRef(b"chunk")})
    repository.assets.write_manifest(Manifest(id, {new_node_id(): table}), id)
    commit(repository)

    assert detect_dialect(storage) is dialect


def test_v1_files_with_the_branches_of_an_alpha_are_read(storage: Storage) -> None:
    created = create_repository(storage, Dialect.V1)
    first = created.lookup_branch(MAIN)
    storage.put("refs/branch.main/ZZZZZZZZ.json", storage.get("refs/branch.main/ref.json"))
    storage.delete_many(["refs/branch.main/ref.json"])

    repository = open_protocol(storage)

    assert isinstance(repository, SequenceProtocol)
    assert repository.dialect is Dialect.V1
    assert repository.lookup_branch(MAIN) == first
