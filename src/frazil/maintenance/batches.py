"""Items a few at a time, and some before they are asked for."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def in_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of a size; the last one may be shorter."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """The items, each found while its predecessor is in use."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(lambda: list(islice(items, 1)))
        while found := coming.result():
            coming = pool.submit(lambda: list(islice(items, 1)))
            yield from found
