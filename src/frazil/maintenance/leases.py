"""Leases: a job that runs says so, and garbage collection spares what it has written.

A lease is a folder of small objects in the repository's storage. The first one is written when the job
begins, so that it is as old as the job by the storage's clock; another one is written again and again
while the job goes on. Both are deleted at its end; those of a killed job expire.
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
LEASE_SECONDS = 3600.0
"""How long a lease holds after it was last renewed."""
_RENEWALS_PER_LEASE = 6
_BEGUN, _RENEWED = "begun", "renewed"


@dataclass(frozen=True, slots=True)
class LeaseInfo:
    """A job that runs, or that was killed not long ago."""

    id: str
    job: str
    begun_at: datetime
    """By the storage's clock."""
    expires_at: datetime

    def holds_at(self, now: datetime) -> bool:
        """Whether it has not expired."""
        return now < self.expires_at


class Lease:
    """Held while a job writes."""

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
        with suppress(IcechunkError):  # it expires in any case
            self._storage.delete_many([f"{self._folder}/{each}" for each in (_RENEWED, _BEGUN)])

    def refuse_if_lost(self) -> None:
        """Raise LeaseLostError if it may have expired: what was written may be gone since."""
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
    """A lease for as long as the job runs; none is written where nothing can be."""
    lease = Lease(storage, id, job)
    if storage.is_read_only:
        yield lease
        return
    with lease:
        yield lease


def list_leases(storage: Storage) -> list[LeaseInfo]:
    """All leases, also those that have expired and nobody has taken away."""
    found: dict[str, list[ObjectInfo]] = {}
    for info in storage.list(f"{LEASES}/"):
        found.setdefault(info.key.split("/")[-2], []).append(info)
    leases = (_read(storage, id, infos) for id, infos in sorted(found.items()))
    return [each for each in leases if each is not None]


def spare(cutoff: datetime, leases: Iterable[LeaseInfo], now: datetime) -> datetime:
    """The cutoff, or when the oldest job began that runs."""
    return min([cutoff, *(each.begun_at for each in leases if each.holds_at(now))])


def delete_expired(storage: Storage, leases: Iterable[LeaseInfo], now: datetime) -> None:
    """Take away what killed jobs have left."""
    expired = [each.id for each in leases if not each.holds_at(now)]
    with suppress(StorageError):
        storage.delete_many(
            f"{LEASES}/{id}/{name}" for id in expired for name in (_RENEWED, _BEGUN)
        )


def _read(storage: Storage, id: str, infos: list[ObjectInfo]) -> LeaseInfo | None:
    begun = next((each for each in infos if each.key.endswith(_BEGUN)), None)
    newest = max(each.created_at for each in infos).astimezone(UTC)
    if begun is None:  # its job is over, or it never was one
        return LeaseInfo(id, "", newest, newest)
    try:
        body = json.loads(bytes(storage.get(begun.key)))
        job, seconds = str(body["job"]), float(body["seconds"])
    except (KeyError, TypeError, ValueError):
        job, seconds = "", LEASE_SECONDS
    except ObjectNotFoundError:  # it ended meanwhile
        return None
    return LeaseInfo(id, job, begun.created_at.astimezone(UTC), newest + timedelta(seconds=seconds))
