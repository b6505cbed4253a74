"""The table of marks, and the lists to review."""

import os
from datetime import UTC, datetime

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.maintenance.reachability import Ids, IdSet, ids_of, split_ids
from frazil.spark.maintenance.gc_review import (
    Found,
    Part,
    Place,
    list_parts,
    read_review,
    read_shard,
    review,
    split_parts,
    summarize,
    write_part,
)
from frazil.storage.interface import ObjectInfo
from frazil.storage.memory import MemoryStorage


def ids(count: int, size: int = 12) -> Ids:
    """Sorted, distinct."""
    return np.unique(ids_of(np.frombuffer(os.urandom(size * count), np.uint8).reshape(-1, size)))


@pytest.fixture
def place() -> Place:
    return Place(MemoryStorage(), "marks")


@pytest.mark.parametrize("size", [12, 16])
@pytest.mark.parametrize("count", [0, 1, 3000])
def test_shards_of_a_part_are_all_of_it(place: Place, count: int, size: int) -> None:
    marked = ids(count, size)
    write_part(place, marked, ids(3, size))
    (part,) = list_parts(place)

    for shards in (1, 4, 64):
        read = [read_shard(place, part, shard) for shard in split_ids(shards)]
        np.testing.assert_array_equal(np.concatenate(read), marked)


def test_a_part_reports_whose_ids_it_has(place: Place) -> None:
    manifests = ids(5)
    written = write_part(place, ids(10), manifests)

    (part,) = list_parts(place)

    assert (part.key, part.size_bytes, part.count) == (written.key, written.size_bytes, 10)
    np.testing.assert_array_equal(part.manifests, manifests)


def test_ids_that_end_in_zeros_are_whole(place: Place) -> None:
    marked = ids_of(np.array([[7] + [0] * 11, [200] + [0] * 11], np.uint8))
    part = write_part(place, marked, marked)

    read = read_shard(place, part, split_ids(1)[0])

    assert read.tobytes() == marked.tobytes()
    assert list_parts(place)[0].manifests.tobytes() == marked.tobytes()


def test_what_is_no_part_is_named(place: Place) -> None:
    place.storage.put("marks/odd.parquet", b"not a table")

    with pytest.raises(FormatError, match=r"marks/odd\.parquet is no part of a mark table"):
        list_parts(place)


def test_a_part_is_stale_if_one_of_its_manifests_is_gone() -> None:
    manifests = ids(6)
    whole = Part("a", 1, 200_000, manifests[:3])
    half = Part("b", 1, 200_000, manifests[2:5])

    usable, stale = split_parts([whole, half], IdSet(manifests[:4]))

    assert ([each.key for each in usable], [each.key for each in stale]) == (["a"], ["b"])


def test_many_small_parts_are_marked_again_together() -> None:
    manifests = ids(40)
    parts = [Part(str(number), 1, 10, manifests[number : number + 1]) for number in range(40)]
    large = Part("large", 1, 200_000, manifests[:1])

    assert split_parts(parts[:32], IdSet(manifests)) == (parts[:32], [])
    assert split_parts([*parts, large], IdSet(manifests)) == ([large], parts)


def objects(*names: str) -> list[ObjectInfo]:
    return [
        ObjectInfo(name, number + 1, datetime(2030, 1, 3 - number, tzinfo=UTC))
        for number, name in enumerate(names)
    ]


def test_a_list_is_what_was_found(place: Place) -> None:
    found = objects("chunks/a", "chunks/b", "chunks/c")

    data = review(place, "list.parquet", "chunks", found, "nobody needs it")

    assert list(read_review(data)) == found
    assert summarize(data) == Found(3, 6, datetime(2030, 1, 1, tzinfo=UTC))


def test_the_list_of_an_earlier_run_counts(place: Place) -> None:
    first = review(place, "list.parquet", "chunks", objects("chunks/a", "chunks/b"), "why")

    second = review(place, "list.parquet", "chunks", objects("chunks/b"), "why")

    assert second == first


def test_nothing_is_a_list_too(place: Place) -> None:
    data = review(place, "list.parquet", "chunks", [], "why")

    assert list(read_review(data)) == []
    assert summarize(data) == Found()


def test_counts_add_up() -> None:
    old, new = datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 2, tzinfo=UTC)

    assert Found(1, 2, new) + Found(3, 4, old) + Found() == Found(4, 6, old)
