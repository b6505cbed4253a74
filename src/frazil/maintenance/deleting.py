"""Deleting garbage: some requests at once, with patience for a storage that asks for it."""

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from frazil.errors import (
    IncompleteResponseError,
    StorageError,
    StorageUnreachableError,
    ThrottledError,
)
from frazil.maintenance.batches import in_batches
from frazil.maintenance.limits import SweepLimits
from frazil.storage.interface import ObjectInfo, Storage
from frazil.watching import count, find_length

_OBJECTS_PER_REQUEST = 1000
_PAUSES_SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_MOST_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Deleted:
    """What became of some objects."""

    count: int = 0
    size_bytes: int = 0
    failed: int = 0
    throttled: int = 0
    """Requests that had to be made again, because the storage was overloaded."""
    errors: tuple[str, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Whether not a single object was deleted, and some were to be."""
        return self.failed > 0 and self.count == 0

    def __add__(self, other: "Deleted") -> "Deleted":
        return Deleted(
            self.count + other.count,
            self.size_bytes + other.size_bytes,
            self.failed + other.failed,
            self.throttled + other.throttled,
            (*self.errors, *other.errors)[:_MOST_ERRORS],
        )


def count_objects(objects: Iterable[ObjectInfo]) -> Deleted:
    """What deleting would give, if nothing failed."""
    total = Deleted()
    for batch in in_batches(objects, _OBJECTS_PER_REQUEST):
        total += Deleted(len(batch), _size_bytes(batch))
    return total


def delete_objects(
    storage: Storage, objects: Iterable[ObjectInfo], limits: SweepLimits, what: str
) -> Deleted:
    """Delete objects, and say how that went.

    Raises StorageError kind `gc-deletes-failing` when as many requests have failed one after the other
    as the limits allow.
    """
    total, failures = Deleted(), 0
    done = count(f"deleting {what.replace('_', ' ')}", "files", find_length(objects))
    for report in _delete_batches(storage, objects, limits):
        total += report
        done.add(report.count + report.failed)
        failures = failures + 1 if report.has_failed else 0
        if failures >= limits.max_consecutive_delete_failures:
            raise StorageError(
                f"{failures} requests to delete {what} failed one after the other: "
                f"{report.errors[0]}",
                kind="gc-deletes-failing",
            )
    return total


def _delete_batches(
    storage: Storage, objects: Iterable[ObjectInfo], limits: SweepLimits
) -> Iterator[Deleted]:
    concurrency, per_second = limits.max_concurrent_deletes, limits.max_deletes_per_second
    batches = _paced(in_batches(objects, _OBJECTS_PER_REQUEST), per_second)
    if storage.is_local:  # where files of one folder are deleted one after the other in any case
        yield from (_delete_batch(storage, batch) for batch in batches)
        return
    with ThreadPoolExecutor(concurrency) as pool:
        # No more than are under way at once: who gives up leaves the rest alone.
        for wave in in_batches(batches, concurrency):
            yield from pool.map(lambda batch: _delete_batch(storage, batch), wave)


def _paced(
    batches: Iterator[list[ObjectInfo]], per_second: float | None
) -> Iterator[list[ObjectInfo]]:
    """The batches, no sooner than their objects may be deleted."""
    due = time.monotonic()
    for batch in batches:
        if per_second is not None:
            time.sleep(max(0.0, due - time.monotonic()))
            due = max(due, time.monotonic()) + len(batch) / per_second
        yield batch


def _delete_batch(storage: Storage, batch: Sequence[ObjectInfo]) -> Deleted:
    throttled = 0
    for pause in (*_PAUSES_SECONDS, None):
        try:
            report = storage.delete_many([each.key for each in batch])
        except (ThrottledError, StorageUnreachableError, IncompleteResponseError) as error:
            if pause is None:
                return _failure(batch, error, throttled)
            throttled += isinstance(error, ThrottledError)
            time.sleep(pause)
        except StorageError as error:
            return _failure(batch, error, throttled)
        else:
            break
    gone = [each for each in batch if each.key not in report.failed]
    reasons = tuple(f"{key}: {reason}" for key, reason in report.failed.items())
    return Deleted(len(gone), _size_bytes(gone), len(reasons), throttled, reasons[:_MOST_ERRORS])


def _failure(batch: Sequence[ObjectInfo], error: StorageError, throttled: int) -> Deleted:
    return Deleted(failed=len(batch), throttled=throttled, errors=(str(error),))


def _size_bytes(objects: Iterable[ObjectInfo]) -> int:
    return sum(each.size_bytes for each in objects)
