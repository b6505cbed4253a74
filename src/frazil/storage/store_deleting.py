"""Deleting many objects, a batch a request, and knowing which of them failed."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import obstore

from frazil.storage.client import Purpose
from frazil.storage.clients import Clients
from frazil.storage.interface import DeleteReport, validate_key
from frazil.storage.store_errors import Diagnosis, Failure

# What obstore has under way at once where a store deletes one by one.
_PLACES = 10


def delete_many(clients: Clients, keys: Iterable[str], concurrency: int) -> DeleteReport:
    """Delete objects; those that are not there count as deleted."""
    deleted, failed = 0, dict[str, str]()
    for batch in _batches(keys, clients.connection.traits.delete_batch_size):
        reasons = _delete_batch(clients, batch, concurrency)
        deleted += len(batch) - len(reasons)
        failed |= reasons
    return DeleteReport(deleted, failed)


def _delete_batch(clients: Clients, batch: Sequence[str], concurrency: int) -> dict[str, str]:
    outcome = clients.attempt(
        Purpose.WRITE, lambda store: obstore.delete(store, batch), places=_PLACES
    )
    if outcome is None:
        return {}
    # A batch fails as a whole, for one key among them or because the store knows no batches; one
    # by one they tell which.
    with ThreadPoolExecutor(min(concurrency, len(batch))) as pool:
        reasons = pool.map(lambda key: _delete_one(clients, key), batch)
        return {key: reason for key, reason in zip(batch, reasons, strict=True) if reason}


def _delete_one(clients: Clients, key: str) -> str:
    """Why an object could not be deleted, or nothing."""
    outcome = clients.attempt(Purpose.SINGLE_DELETE, lambda store: obstore.delete(store, key))
    if isinstance(outcome, Diagnosis) and outcome.failure is not Failure.ABSENT:
        return str(outcome.to_error("delete", key))
    return ""


def _batches(keys: Iterable[str], size: int) -> Iterator[list[str]]:
    remaining = iter([validate_key(key) for key in keys])
    while batch := list(islice(remaining, size)):
        yield batch
