"""Collecting garbage in repositories of V1 and V2."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import zarr

from frazil import GCSummary, ReadOnlyError, RepoAvailability, Repository, RepoStatus, StorageError
from frazil.errors import IcechunkError
from frazil.storage.interface import Storage
from frazil.storage.wrappers import NO_FAULT, ForwardingStorage, Injection, Request, Verb
from tests.repositories import dangling_files, values_of
from tests.unit.maintenance.repositories import (
    keys,
    later,
    messages,
    write,
    write_chunk,
)

JUNK = "not an id"


class Distant(ForwardingStorage):
    """A storage that is listed and read concurrently, as over a network."""

    @property
    def is_local(self) -> bool:
        return False


@pytest.fixture(params=["local", "distant"])
def garbage(repository: Repository, request: pytest.FixtureRequest) -> Repository:
    """A repository with a snapshot, a log, a manifest and four chunks that nothing leads to."""
    kept = write(repository, 1)
    write(repository, 2)
    repository.reset_branch("main", kept)
    if request.param == "local":
        return repository
    return Repository.open(Distant(repository.storage))


class Interrupted(ForwardingStorage):
    """A storage where something happens right before the first request for a manifest."""

    def __init__(self, inner: Storage, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self._act: Callable[[], object] | None = act

    def _begin(self, request: Request) -> Injection:
        act = self._act
        is_read = request.verb in (Verb.GET, Verb.GET_MANY)
        if is_read and request.keys[0].startswith("manifests/") and act:
            self._act = None
            act()
        return NO_FAULT


def test_what_nothing_leads_to_is_deleted(garbage: Repository) -> None:
    before = {info.key: info.size_bytes for info in garbage.storage.list()}

    summary = garbage.garbage_collect(later())

    gone = before.keys() - {info.key for info in garbage.storage.list()}
    assert summary == GCSummary(
        bytes_deleted=sum(before[key] for key in gone),
        chunks_deleted=4,
        manifests_deleted=1,
        snapshots_deleted=1,
        transaction_logs_deleted=1,
    )
    assert len(gone) == 7
    assert dangling_files(garbage) == set()


def test_a_second_collection_finds_nothing(garbage: Repository) -> None:
    garbage.garbage_collect(later())

    assert garbage.garbage_collect(later()) == GCSummary()


def test_what_is_not_old_enough_stays(garbage: Repository) -> None:
    before = keys(garbage)

    summary = garbage.garbage_collect(datetime.now(UTC) - timedelta(hours=1))

    assert summary == GCSummary()
    assert keys(garbage) == before


def test_a_dry_run_counts_what_the_run_deletes_and_writes_nothing(garbage: Repository) -> None:
    before = {info.key for info in garbage.storage.list()}

    dry = garbage.garbage_collect(later(), dry_run=True)

    assert {info.key for info in garbage.storage.list()} == before
    assert dry == garbage.garbage_collect(later())


def test_a_dry_run_knows_the_logs_that_stay_for_others(v2_repository: Repository) -> None:
    kept = write(v2_repository, 1)
    write_chunk(v2_repository, 0, 2)
    cutoff = datetime.now(UTC)
    write_chunk(v2_repository, 0, 3)
    v2_repository.reset_branch("main", kept)

    dry = v2_repository.garbage_collect(cutoff, dry_run=True)

    assert dry == v2_repository.garbage_collect(cutoff)
    assert (dry.snapshots_deleted, dry.transaction_logs_deleted) == (1, 0)


def test_chunks_of_an_abandoned_session_are_garbage(repository: Repository) -> None:
    write(repository, 1)
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="numbers")[:] = 2

    assert repository.garbage_collect(later()).chunks_deleted == 4


def test_chunks_that_other_snapshots_use_stay(repository: Repository) -> None:
    write(repository, 1)
    kept = write_chunk(repository, 0, 2)
    write_chunk(repository, 1, 3)
    repository.reset_branch("main", kept)

    summary = repository.garbage_collect(later())

    assert summary.chunks_deleted == 1
    assert values_of(repository.readonly_session("main"), "numbers") == [2, 2, *[1] * 6]


def test_files_with_other_names_are_not_ours_to_delete(garbage: Repository) -> None:
    others = {
        f"{folder}/{name}"
        for folder in ("snapshots", "manifests", "chunks", "transactions", "attributes", "refs")
        for name in (JUNK, "0" * 19, f"{'0' * 20}/deeper")
    }
    for key in others:
        garbage.storage.put(key, b"something")

    garbage.garbage_collect(later())

    assert others <= keys(garbage)


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_manifest_that_cannot_be_read_stops_it_before_anything_is_deleted(
    garbage: Repository, dry_run: bool
) -> None:
    tip = garbage.lookup_branch("main")
    (manifest,) = garbage.list_manifest_files(tip)
    garbage.storage.put(f"manifests/{manifest.id}", b"damaged")
    repository = Repository.open(garbage.storage)
    before = {info.key for info in garbage.storage.list()}

    with pytest.raises(IcechunkError):
        repository.garbage_collect(later(), dry_run=dry_run)

    assert {info.key for info in garbage.storage.list()} == before


def test_a_snapshot_that_was_flushed_lately_keeps_its_data(v2_repository: Repository) -> None:
    kept = write(v2_repository, 1)
    between = write_chunk(v2_repository, 0, 2)
    cutoff = datetime.now(UTC)
    last = write_chunk(v2_repository, 1, 3)
    v2_repository.reset_branch("main", kept)

    summary = v2_repository.garbage_collect(cutoff)

    # Its parent is too old to stay, but the log of that is still part of its history.
    assert (summary.snapshots_deleted, summary.transaction_logs_deleted) == (1, 0)
    assert [info.id for info in v2_repository.ancestry(snapshot_id=last)][:2] == [last, kept]
    session = v2_repository.readonly_session(snapshot_id=last)
    assert values_of(session, "numbers") == [2, 2, 3, 3, 1, 1, 1, 1]
    assert f"transactions/{between}" in keys(v2_repository)


def test_it_starts_again_when_a_branch_takes_up_what_was_garbage(garbage: Repository) -> None:
    kept = garbage.lookup_branch("main")
    id = write(garbage, 3)
    garbage.reset_branch("main", kept)
    storage = Interrupted(garbage.storage, lambda: garbage.create_branch("rescue", id))

    summary = Repository.open(storage).garbage_collect(later())

    assert summary.snapshots_deleted == 1
    assert dangling_files(garbage) == set()
    assert values_of(garbage.readonly_session("rescue"), "numbers") == [3] * 8


def test_a_commit_in_the_meantime_is_no_reason_to_start_again(garbage: Repository) -> None:
    storage = Interrupted(garbage.storage, lambda: write_chunk(garbage, 0, 9))
    cutoff = datetime.now(UTC)

    summary = Repository.open(storage).garbage_collect(cutoff)

    assert summary.snapshots_deleted == 1
    assert dangling_files(garbage) == set()
    assert messages(garbage, branch="main")[0] == "chunk 0 is 9"


def test_a_read_only_repository_refuses(v2_repository: Repository) -> None:
    v2_repository.set_status(RepoStatus(RepoAvailability.read_only))

    with pytest.raises(ReadOnlyError):
        v2_repository.garbage_collect(later(), dry_run=True)


@pytest.mark.parametrize(
    "limit",
    [
        "max_snapshots_in_memory",
        "max_compressed_manifest_mem_bytes",
        "max_decoded_manifest_mem_bytes",
        "max_concurrent_manifest_fetches",
        "max_concurrent_deletes",
        "max_consecutive_delete_failures",
        "max_concurrent_listings",
    ],
)
def test_limits_change_how_and_not_what(garbage: Repository, limit: str) -> None:
    with pytest.raises(ValueError, match=limit):
        garbage.garbage_collect(later(), **{limit: 0})  # type: ignore[arg-type]

    summary = garbage.garbage_collect(later(), **{limit: 1})  # type: ignore[arg-type]

    assert summary.chunks_deleted == 4


def test_a_time_without_a_zone_is_refused(repository: Repository) -> None:
    with pytest.raises(TypeError, match="time zone"):
        repository.garbage_collect(datetime(2024, 1, 1))


def test_an_event_loop_can_wait_for_it(garbage: Repository) -> None:
    assert asyncio.run(garbage.garbage_collect_async(later())).chunks_deleted == 4


class Undeletable(ForwardingStorage):
    """A storage that refuses to delete the objects of one folder."""

    def __init__(self, inner: Storage, folder: str) -> None:
        super().__init__(inner)
        self._folder = folder

    def _begin(self, request: Request) -> Injection:
        is_there = any(key.startswith(f"{self._folder}/") for key in request.keys)
        if request.verb is Verb.DELETE_MANY and is_there:
            raise StorageError("these stay")
        return NO_FAULT


def test_what_comes_after_a_failure_waits_for_the_next_run(garbage: Repository) -> None:
    repository = Repository.open(Undeletable(garbage.storage, "manifests"))

    summary = repository.garbage_collect(later())

    assert summary.objects_failed_to_delete == 1
    assert summary.delete_errors == ["these stay"]
    assert summary.skipped_phases == ["chunks"]
    assert (summary.snapshots_deleted, summary.manifests_deleted) == (1, 0)
    rest = garbage.garbage_collect(later())
    assert (rest.manifests_deleted, rest.chunks_deleted, rest.skipped_phases) == (1, 4, [])


def test_it_gives_up_when_too_many_requests_fail_in_a_row(garbage: Repository) -> None:
    repository = Repository.open(Undeletable(garbage.storage, "snapshots"))

    with pytest.raises(StorageError, match="these stay") as raised:
        repository.garbage_collect(later(), max_consecutive_delete_failures=1)

    assert raised.value.kind == "gc-deletes-failing"
