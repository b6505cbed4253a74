"""Leases of running jobs, which protect their objects from garbage collection.

A lease is a folder of two small objects in the repository's storage. The first is written when the
job starts, so that its age by the storage's clock is the age of the job. The second is rewritten
periodically while the job runs. Both are deleted when the job ends; leases of killed jobs expire.
"""

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType

from frazil.errors import IcechunkError, LeaseLostError, ObjectNotFoundError, StorageError
from frazil.storage.interface import ObjectInfo, Storage

LEASES = "_frazil/leases"
PARSED = "_frazil/parsed"
"""Folder of what running jobs have parsed, to continue with it if they are killed."""
_PARSED_AGE = timedelta(days=1)
LEASE_SECONDS = 3600.0
"""Validity of a lease after its last renewal, in seconds."""
_RENEWALS_PER_LEASE = 6
_BEGUN, _RENEWED = "begun", "renewed"


@dataclass(frozen=True, slots=True)
class LeaseInfo:
    """Lease of a running job, or of a job that was killed."""

    id: str
    job: str
    begun_at: datetime
    """Start of the job by the storage's clock."""
    expires_at: datetime

    def holds_at(self, now: datetime) -> bool:
        """Return whether the lease has not expired."""
        return now < self.expires_at


class Lease:
    """Lease held while a job writes. A context manager."""

    def __init__(self, storage: Storage, id: str, job: str, seconds: float = LEASE_SECONDS) -> None:
        self._storage = storage
        self._folder = f"{LEASES}/{id}"
        self._job = job
        self._seconds = seconds
        self._renewed_at = time.monotonic()
        self._is_over = threading.Event()

    def __enter__(self) -> "Lease":
        body = json.dumps({"job": self._job, "seconds": self._seconds})
        self._storage.put(f"{self._folder}/{_BEGUN}", body.encode())
        threading.Thread(target=self._renew, name="frazil-lease", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        with suppress(IcechunkError):  # it expires anyway
            self._storage.delete_many([f"{self._folder}/{each}" for each in (_RENEWED, _BEGUN)])

    def refuse_if_lost(self) -> None:
        """Raise LeaseLostError if the lease may have expired: written objects may be deleted."""
        silence = time.monotonic() - self._renewed_at
        if silence >= self._seconds:
            raise LeaseLostError(
                f"the lease of this job was not renewed for {silence:.0f} s, so that garbage "
                "collection may have deleted what it wrote: nothing was committed, run it again"
            )

    def _renew(self) -> None:
        while not self._is_over.wait(self._seconds / _RENEWALS_PER_LEASE):
            begun = time.monotonic()
            with suppress(IcechunkError):
                self._storage.put(f"{self._folder}/{_RENEWED}", b"")
                self._renewed_at = begun


@contextmanager
def leased(storage: Storage, id: str, job: str) -> Iterator[Lease]:
    """Hold a lease while a job runs; on read-only storage nothing is written."""
    lease = Lease(storage, id, job)
    if storage.is_read_only:
        yield lease
        return
    with lease:
        yield lease


def list_leases(storage: Storage) -> list[LeaseInfo]:
    """Return all leases, including expired ones that were not deleted."""
    found: dict[str, list[ObjectInfo]] = {}
    for info in storage.list(f"{LEASES}/"):
        found.setdefault(info.key.split("/")[-2], []).append(info)
    leases = (_read(storage, id, infos) for id, infos in sorted(found.items()))
    return [each for each in leases if each is not None]


def spare(cutoff: datetime, leases: Iterable[LeaseInfo], now: datetime) -> datetime:
    """Return the cutoff, or the start of the oldest running job if that is earlier."""
    return min([cutoff, *(each.begun_at for each in leases if each.holds_at(now))])


def delete_expired(storage: Storage, leases: Iterable[LeaseInfo], now: datetime) -> None:
    """Delete the leases of killed jobs, and what failed jobs had parsed if they were not run again."""
    expired = [each.id for each in leases if not each.holds_at(now)]
    with suppress(StorageError):
        old = [e.key for e in storage.list(f"{PARSED}/") if now - e.created_at > _PARSED_AGE]
        storage.delete_many(
            [f"{LEASES}/{id}/{name}" for id in expired for name in (_RENEWED, _BEGUN)] + old
        )


def _read(storage: Storage, id: str, infos: list[ObjectInfo]) -> LeaseInfo | None:
    begun = next((each for each in infos if each.key.endswith(_BEGUN)), None)
    newest = max(each.created_at for each in infos).astimezone(UTC)
    if begun is None:  # the job has ended, or this is no lease
        return LeaseInfo(id, "", newest, newest)
    try:
        body = json.loads(bytes(storage.get(begun.key)))
        job, seconds = str(body["job"]), float(body["seconds"])
    except (KeyError, TypeError, ValueError):
        job, seconds = "", LEASE_SECONDS
    except ObjectNotFoundError:  # the job has just ended
        return None
    return LeaseInfo(id, job, begun.created_at.astimezone(UTC), newest + timedelta(seconds=seconds))
