"""Reading the files of a check: a few at a time, and a damaged one is a finding."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from frazil.assets import Assets
from frazil.errors import FormatError, ObjectNotFoundError, StorageError
from frazil.maintenance.batches import in_batches
from frazil.maintenance.checking.problems import Problem, Repair, error

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Failed:
    """A file that can't be read."""

    problem: Problem


def read_files(
    pool: ThreadPoolExecutor, items: Iterable[T], read: Callable[[T], R]
) -> Iterator[tuple[T, R]]:
    """Each item with what reading it gives, in their order; no more are in memory than must be."""
    for batch in in_batches(items, _AT_ONCE):
        yield from zip(batch, pool.map(read, batch), strict=True)


def read_or_fail(
    assets: Assets, key: str, check: Callable[[bytes], R], repair: Repair | None = None
) -> R | Failed:
    """What a check makes of a file's bytes."""
    try:
        data = get_metadata_file(assets, key)
    except ObjectNotFoundError:
        return Failed(error(key, "there is no such file, though it was listed", repair))
    except StorageError as failure:
        return Failed(error(key, f"the storage does not give it: {failure.message}"))
    try:
        return check(data)
    except FormatError as failure:
        return Failed(error(key, f"it can't be read: {failure.message}", repair))


def get_metadata_file(assets: Assets, key: str) -> bytes:
    """The bytes of a metadata file under any of its spellings; raises StorageError."""
    *first, last = assets.layout.spellings(key)
    for spelling in first:
        try:
            return bytes(assets.storage.get(spelling))
        except ObjectNotFoundError:
            continue
    return bytes(assets.storage.get(last))
