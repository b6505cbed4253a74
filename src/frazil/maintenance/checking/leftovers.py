"""Temporary files of writers that were killed, which a local disk keeps."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from frazil.maintenance.checking.problems import Problems, Repair, note, warning
from frazil.storage.interface import ObjectInfo, Storage

YOUNG = timedelta(hours=1)
"""So long a writer may take for one object: what is younger may be in use."""


@runtime_checkable
class KeepsLeftovers(Protocol):
    """A storage on which a killed process leaves something behind."""

    def list_leftovers(self) -> Iterator[ObjectInfo]:
        """Temporary files."""


def list_leftovers(storage: Storage) -> Iterator[ObjectInfo]:
    """What killed processes left in a storage, or running ones have not finished."""
    return storage.list_leftovers() if isinstance(storage, KeepsLeftovers) else iter(())


def check_leftovers(leftovers: Iterable[ObjectInfo], now: datetime) -> Problems:
    """A problem for each leftover; one that is young may be in use."""
    for each in leftovers:
        if now - each.created_at < YOUNG:
            yield note(each.key, "a temporary file, of a writer that is at work or was just killed")
        else:
            what = f"a temporary file of {each.size_bytes} bytes, of a writer that was killed"
            yield warning(each.key, what, Repair.REMOVE_LEFTOVER)
