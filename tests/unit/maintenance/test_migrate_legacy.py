"""Repositories of the draft and of the alphas become V2 repositories that say the same."""

from itertools import pairwise

import pytest
import zarr

from frazil import ConflictError, Diff, Repository, SessionStateError, upgrade_icechunk_repository
from frazil.errors import ObjectNotFoundError
from frazil.format.files import encode_snapshot
from frazil.format.header import Dialect
from frazil.format.ids import FIRST_SNAPSHOT_ID, SnapshotId
from frazil.format.snapshot import Snapshot
from frazil.maintenance.migrate_legacy import name_snapshot
from frazil.protocols.detection import detect_dialect
from frazil.storage.interface import NO_OPTIONS, Buffer, PutOptions, Storage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import CountingStorage, Verb
from tests.repositories import dangling_files
from tests.unit.maintenance.legacy_repositories import OLD, create_old, describe, fill, listing
from tests.unit.maintenance.repositories import keys, later, messages, write, write_chunk

FIRST = "Repository initialized"
WITH_LOGS = [dialect for dialect in OLD if dialect not in (Dialect.DRAFT, Dialect.ALPHA_A)]


@pytest.fixture(params=OLD, ids=lambda dialect: dialect.value)
def old_repository(request: pytest.FixtureRequest) -> Repository:
    """A repository of each old generation, with a bit of everything."""
    return fill(create_old(request.param))


def migrate(repository: Repository, *, deletes: bool = True) -> Repository:
    return upgrade_icechunk_repository(repository, dry_run=False, delete_unused_v1_files=deletes)


def folders(storage: Storage) -> set[str]:
    return {info.key.split("/")[0] for info in storage.list()}


# What comes along


def test_all_refs_histories_and_contents_come_along(old_repository: Repository) -> None:
    before = describe(old_repository)

    migrated = migrate(old_repository)

    assert migrated.spec_version == 2
    assert describe(migrated) == before
    assert describe(Repository.open(migrated.storage)) == before
    assert dangling_files(migrated) == set()


def test_diffs_report_the_same(old_repository: Repository) -> None:
    before = diffs_of(old_repository)

    migrated = migrate(old_repository)

    assert diffs_of(migrated) == before


def diffs_of(repository: Repository) -> list[Diff]:
    """What each commit of `main` changed, newest first."""
    return [
        repository.diff(from_snapshot_id=parent.id, to_snapshot_id=child.id)
        for child, parent in pairwise(repository.ancestry(branch="main"))
    ]


def test_commits_remember_their_old_ids(old_repository: Repository) -> None:
    ids = [info.id for info in old_repository.ancestry(branch="main")]

    migrated = migrate(old_repository)

    infos = list(migrated.ancestry(branch="main"))
    assert [info.metadata["__frazil"]["migrated_from"] for info in infos] == ids
    assert infos[-1].id == str(FIRST_SNAPSHOT_ID)


def test_deleted_tags_stay_taken() -> None:
    migrated = migrate(fill(create_old(Dialect.ALPHA_H)))

    assert migrated.list_tags() == {"first"}
    assert migrated.inspect_repo_info()["deleted_tags"] == ["gone"]


def test_the_repository_goes_on(old_repository: Repository) -> None:
    migrated = migrate(old_repository)

    write(migrated, 1)
    migrated.expire_snapshots(later())
    migrated.garbage_collect(later())

    assert messages(migrated, branch="main") == ["numbers are 1", FIRST]
    assert dangling_files(migrated) == set()


def test_a_node_keeps_its_id_through_history() -> None:
    repository = create_old(Dialect.ALPHA_A)
    write(repository, 1)
    write_chunk(repository, 0, 2)

    migrated = migrate(repository)

    infos = list(migrated.ancestry(branch="main"))[:2]
    sessions = [migrated.readonly_session(snapshot_id=info.id) for info in infos]
    assert len({session.get_node_id("/numbers") for session in sessions}) == 1


# What is written and deleted


def test_old_files_are_deleted(old_repository: Repository) -> None:
    migrated = migrate(old_repository)

    assert folders(migrated.storage) == {"chunks", "manifests", "repo", "snapshots", "transactions"}
    assert migrated.garbage_collect(later()).bytes_deleted == 0


def test_old_files_can_stay_and_go_later(old_repository: Repository) -> None:
    before = listing(old_repository.storage)

    migrated = migrate(old_repository, deletes=False)

    assert before.items() <= listing(migrated.storage).items()
    with pytest.raises(SessionStateError):
        migrate(migrated, deletes=False)
    again = migrate(Repository.open(migrated.storage))
    assert folders(again.storage) == {"chunks", "manifests", "repo", "snapshots", "transactions"}


def test_there_is_nothing_to_do_twice(old_repository: Repository) -> None:
    migrated = migrate(old_repository)

    with pytest.raises(SessionStateError) as raised:
        migrate(migrated)

    assert raised.value.kind == "invalid-repository-migration"


def test_a_dry_run_changes_nothing(old_repository: Repository) -> None:
    before = listing(old_repository.storage)

    same = upgrade_icechunk_repository(old_repository, dry_run=True)

    assert same.dialect is detect_dialect(old_repository.storage)
    assert listing(old_repository.storage) == before


def test_a_dry_run_finds_a_lost_manifest(old_repository: Repository) -> None:
    folder = "m/" if old_repository.dialect is Dialect.DRAFT else "manifests/"
    storage = old_repository.storage
    storage.delete_many([next(info.key for info in storage.list(folder))])
    before = listing(storage)

    for is_dry in (True, False):
        with pytest.raises(ObjectNotFoundError):
            upgrade_icechunk_repository(Repository.open(storage), dry_run=is_dry)

    assert before.items() <= listing(storage).items()


def test_chunks_of_alphas_stay_where_they_are() -> None:
    storage = CountingStorage(MemoryStorage())
    old = fill(create_old(Dialect.ALPHA_C, storage))
    before = keys(old, "chunks/")
    storage.reset()

    migrated = migrate(old)

    assert keys(migrated, "chunks/") == before
    assert Verb.COPY not in storage.counts.requests


def test_chunks_of_the_draft_are_copied_once() -> None:
    storage = CountingStorage(MemoryStorage())
    old = fill(create_old(Dialect.DRAFT, storage))
    chunks = len(keys(old, "c/"))
    storage.reset()

    migrated = migrate(old)

    assert len(keys(migrated, "chunks/")) == chunks
    assert storage.counts.requests[Verb.COPY] == chunks


def test_an_array_that_a_commit_left_alone_keeps_its_manifest() -> None:
    repository = create_old(Dialect.ALPHA_B)
    write(repository, 1, path="still")
    write(repository, 1)
    for at in range(3):
        write_chunk(repository, at, at)

    migrated = migrate(repository)

    assert len(keys(migrated, "manifests/")) == 1 + 4


# What may be in the way


class MovedMeanwhile(MemoryStorage):
    """Somebody resets a branch while files are written."""

    def put(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        super().put(key, data, options)
        if key == f"snapshots/{FIRST_SNAPSHOT_ID}":
            other = Repository.open(self)
            other.reset_branch("side", other.lookup_branch("main"))


def test_a_branch_that_moves_meanwhile_stops_the_migration() -> None:
    old = fill(create_old(Dialect.ALPHA_G, MovedMeanwhile()))

    with pytest.raises(ConflictError):
        migrate(old)

    assert Repository.open(old.storage).dialect is Dialect.ALPHA_G


def test_the_id_of_the_first_snapshot_may_be_taken() -> None:
    old = fill(create_old(Dialect.ALPHA_H))
    stray = Snapshot(FIRST_SNAPSHOT_ID, None, 0, "stray")
    key = f"snapshots/{FIRST_SNAPSHOT_ID}"
    old.storage.put(key, encode_snapshot(stray, Dialect.ALPHA_H))
    *_, first = old.ancestry(branch="main")
    before = listing(old.storage)

    migrated = migrate(old, deletes=False)

    *_, root = migrated.ancestry(branch="main")
    assert root.id == str(name_snapshot(SnapshotId.parse(first.id)))
    assert listing(migrated.storage)[key] == before[key]


def test_a_snapshot_whose_file_is_gone_leaves_the_history() -> None:
    old = fill(create_old(Dialect.ALPHA_D))
    _, second, *_ = old.ancestry(branch="main")
    old.storage.delete_many([f"snapshots/{second.id}"])

    migrated = migrate(Repository.open(old.storage))

    assert messages(migrated, branch="main") == ["clear", "begin", FIRST]
    tip, before, _ = (info.id for info in migrated.ancestry(branch="main"))
    diff = migrated.diff(from_snapshot_id=before, to_snapshot_id=tip)
    assert "/small" in diff.deleted_arrays


def test_a_first_snapshot_whose_file_is_gone_is_empty() -> None:
    old = fill(create_old(Dialect.ALPHA_D))
    *_, first = old.ancestry(branch="main")
    old.storage.delete_many([f"snapshots/{first.id}"])

    migrated = migrate(Repository.open(old.storage))

    assert messages(migrated, branch="main") == ["clear", "change", "begin", FIRST]
    root = migrated.readonly_session(snapshot_id=str(FIRST_SNAPSHOT_ID))
    assert not list(root.state.view.nodes())


@pytest.mark.parametrize("dialect", WITH_LOGS, ids=lambda dialect: dialect.value)
def test_a_lost_transaction_log_is_made_anew(dialect: Dialect) -> None:
    old = fill(create_old(dialect))
    *_, first_commit, _ = old.ancestry(branch="main")
    old.storage.delete_many([f"transactions/{first_commit.id}"])

    migrated = migrate(old)

    *_, commit, root = migrated.ancestry(branch="main")
    diff = migrated.diff(from_snapshot_id=root.id, to_snapshot_id=commit.id)
    assert diff.new_arrays == {"/numbers", "/small", "/scalar", "/group/empty"}
    assert diff.updated_chunks["/scalar"] == [[]]


def test_a_lost_chunk_of_the_draft_stays_lost() -> None:
    old = fill(create_old(Dialect.DRAFT))
    old.storage.delete_many([next(info.key for info in old.storage.list("c/"))])

    migrated = migrate(old)

    assert len(dangling_files(migrated)) == 1


def test_chunks_outside_of_a_shrunken_array_come_back_only_where_they_did() -> None:
    old = create_old(Dialect.ALPHA_A)
    write(old, 1)
    for length in (4, 8):
        session = old.writable_session("main")
        zarr.open_array(session.store, path="numbers").resize((length,))
        session.commit(f"{length}")
    before = describe(old)

    assert describe(migrate(old)) == before
