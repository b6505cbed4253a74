"""Items a few at a time, and some before they are asked for."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def in_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of a size; the last one may be shorter."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def pack(items: Sequence[T], sizes: Sequence[int], most: int) -> list[list[T]]:
    """Neighbours together as long as they are no more than so much; an item is never cut."""
    groups: list[list[T]] = []
    filled = 0
    for item, size in zip(items, sizes, strict=True):
        if not groups or filled + size > most:
            groups.append([])
            filled = 0
        groups[-1].append(item)
        filled += size
    return groups


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """The items, each found while its predecessor is in use."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(lambda: list(islice(items, 1)))
        while found := coming.result():
            coming = pool.submit(lambda: list(islice(items, 1)))
            yield from found
