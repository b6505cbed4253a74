"""Leases of running jobs, and what garbage collection makes of them."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import zarr

from frazil import Repository
from frazil.errors import LeaseLostError, StorageError
from frazil.maintenance.leases import LEASES, Lease, delete_expired, leased, list_leases, spare
from frazil.storage import Storage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import (
    NO_FAULT,
    ForwardingStorage,
    Injection,
    ReadOnlyStorage,
    Request,
    Verb,
)
from tests.unit.maintenance.repositories import keys, later, write


def begin(storage: Storage, id: str, seconds: float = 3600) -> None:
    """What a job leaves that is killed when it has just begun."""
    storage.put(f"{LEASES}/{id}/begun", json.dumps({"job": "ingest", "seconds": seconds}).encode())


def leave_chunk(repository: Repository) -> str:
    """Write a chunk that no commit refers to; gives its key."""
    before = keys(repository, "chunks/")
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="numbers")[:2] = 7
    (key,) = keys(repository, "chunks/") - before
    return key


def test_a_lease_is_there_while_its_job_runs() -> None:
    storage = MemoryStorage()

    with leased(storage, "job-1", "ingest"):
        (lease,) = list_leases(storage)

    assert (lease.id, lease.job) == ("job-1", "ingest")
    assert lease.holds_at(lease.begun_at)
    assert lease.expires_at - lease.begun_at == timedelta(hours=1)
    assert list_leases(storage) == []
    assert list(storage.list()) == []


def test_the_lease_of_a_failed_job_goes() -> None:
    storage = MemoryStorage()

    with pytest.raises(ZeroDivisionError), leased(storage, "job-1", "ingest"):
        raise ZeroDivisionError

    assert list_leases(storage) == []


def test_a_renewed_lease_holds_longer_and_is_as_old_as_before() -> None:
    storage = MemoryStorage()
    begin(storage, "job-1")
    (before,) = list_leases(storage)

    storage.put(f"{LEASES}/job-1/renewed", b"")

    (after,) = list_leases(storage)
    assert after.begun_at == before.begun_at
    assert after.expires_at > before.expires_at


def test_the_cutoff_is_when_the_oldest_running_job_began() -> None:
    storage = MemoryStorage()
    begin(storage, "a")
    begin(storage, "b")
    leases = list_leases(storage)
    oldest = min(each.begun_at for each in leases)

    assert spare(oldest + timedelta(days=1), leases, oldest) == oldest
    assert spare(oldest - timedelta(days=1), leases, oldest) == oldest - timedelta(days=1)
    assert spare(oldest + timedelta(days=1), leases, oldest + timedelta(hours=2)) == (
        oldest + timedelta(days=1)
    )


def test_expired_leases_are_taken_away_and_others_stay() -> None:
    storage = MemoryStorage()
    begin(storage, "short", 10)
    begin(storage, "long", 1000)
    leases = list_leases(storage)

    delete_expired(storage, leases, leases[0].begun_at + timedelta(seconds=100))

    assert [each.id for each in list_leases(storage)] == ["long"]


def test_a_lease_that_says_nothing_sensible_holds_for_the_usual_time() -> None:
    storage = MemoryStorage()
    storage.put(f"{LEASES}/odd/begun", b"no json")

    (lease,) = list_leases(storage)

    assert lease.expires_at - lease.begun_at == timedelta(hours=1)


def test_what_is_left_of_an_ended_lease_protects_nothing() -> None:
    storage = MemoryStorage()
    storage.put(f"{LEASES}/ended/renewed", b"")

    (lease,) = list_leases(storage)

    assert not lease.holds_at(lease.begun_at)


def test_a_lease_that_was_not_renewed_for_its_time_is_lost() -> None:
    lease = Lease(MemoryStorage(), "job-1", "ingest", seconds=0)

    with pytest.raises(LeaseLostError, match="run it again"):
        lease.refuse_if_lost()


def test_a_lease_that_holds_is_not_refused() -> None:
    Lease(MemoryStorage(), "job-1", "ingest").refuse_if_lost()


def test_nothing_is_written_where_nothing_can_be() -> None:
    storage = ReadOnlyStorage(MemoryStorage())

    with leased(storage, "job-1", "ingest"):
        assert list_leases(storage) == []


class Unreadable(ForwardingStorage):
    """A storage that gives nothing that was written."""

    def _begin(self, request: Request) -> Injection:
        if request.verb is Verb.GET:
            raise StorageError("the storage is overloaded")
        return NO_FAULT


def test_a_lease_that_can_not_be_read_stops_a_collection() -> None:
    storage = MemoryStorage()
    begin(storage, "job-1")

    with pytest.raises(StorageError, match="overloaded"):
        list_leases(Unreadable(storage))


def test_what_a_running_job_wrote_is_no_garbage(repository: Repository) -> None:
    write(repository, 1)
    before = leave_chunk(repository)

    with leased(repository.storage, "job-1", "ingest"):
        during = leave_chunk(repository)
        repository.garbage_collect(later())
        left = keys(repository, "chunks/")

    assert before not in left
    assert during in left
    repository.garbage_collect(later())
    assert during not in keys(repository, "chunks/")


def test_a_dry_run_honours_leases_and_leaves_them(repository: Repository) -> None:
    write(repository, 1)
    begin(repository.storage, "job-1")
    leave_chunk(repository)

    assert repository.garbage_collect(later(), dry_run=True).chunks_deleted == 0
    assert len(list_leases(repository.storage)) == 1


def test_what_a_killed_job_wrote_goes_once_its_lease_expired(repository: Repository) -> None:
    write(repository, 1)
    begin(repository.storage, "job-1", 0)
    left = leave_chunk(repository)

    repository.garbage_collect(later())

    assert left not in keys(repository, "chunks/")
    assert list_leases(repository.storage) == []


def test_what_a_failed_job_had_parsed_is_deleted_after_a_day() -> None:
    storage = MemoryStorage()
    storage.put("_frazil/parsed/a", b"")
    now = datetime.now(UTC)

    delete_expired(storage, [], now + timedelta(hours=23))
    kept = [each.key for each in storage.list("_frazil/")]
    delete_expired(storage, [], now + timedelta(hours=25))

    assert kept == ["_frazil/parsed/a"]
    assert not list(storage.list("_frazil/"))
