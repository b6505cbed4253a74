"""Garbage is found wherever it is listed, by the ids in the names of files."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from frazil.format.ids import ChunkId
from frazil.maintenance.gc import Folder, list_garbage
from frazil.maintenance.reachability import IdSet, column_of, in_batches, read_ahead
from frazil.storage import interface
from frazil.storage.memory import MemoryStorage
from tests.unit.maintenance.repositories import later

CHUNKS = Folder("chunks", 12)
DRAFT_SNAPSHOTS = Folder("s", 16, (".json", "", ".msgpack"))
IDS = [ChunkId(bytes([number]) * 12) for number in range(0, 250, 7)]


@pytest.mark.parametrize("compared_at_once", [1, 5, 10_000])
def test_what_is_not_kept_is_found(monkeypatch: pytest.MonkeyPatch, compared_at_once: int) -> None:
    monkeypatch.setattr(interface, "KEYS_PER_BATCH", compared_at_once)
    storage = MemoryStorage()
    for id in IDS:
        storage.put(f"chunks/{id}", b"")
    kept = IdSet(column_of(IDS[::2], 12))

    found = {info.key for info in list_garbage(storage, CHUNKS, kept, later())}

    assert found == {f"chunks/{id}" for id in IDS[1::2]}


def test_what_is_young_is_not_found() -> None:
    storage = MemoryStorage()
    storage.put(f"chunks/{IDS[0]}", b"")

    assert not list(list_garbage(storage, CHUNKS, IdSet(), datetime(2024, 1, 1, tzinfo=UTC)))


@pytest.mark.parametrize("ending", ["", ".json", ".msgpack"])
def test_files_of_the_draft_have_endings(ending: str) -> None:
    assert DRAFT_SNAPSHOTS.find_stem(f"s/NAME{ending}") == "NAME"
    assert CHUNKS.find_stem(f"chunks/NAME{ending}") == f"NAME{ending}"


def test_items_come_in_batches() -> None:
    assert list(in_batches(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(in_batches([], 2)) == []


@pytest.mark.parametrize("items", [[], [None], [0, 1, 2]])
def test_reading_ahead_changes_no_item(items: list[object]) -> None:
    assert list(read_ahead(iter(items))) == items
    assert Counter(read_ahead(iter(items), iter(()), iter(items))) == Counter([*items, *items])


def test_what_goes_wrong_ahead_is_reported() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    ahead = read_ahead(broken())

    assert next(ahead) == 1
    with pytest.raises(OSError, match="no more"):
        next(ahead)
