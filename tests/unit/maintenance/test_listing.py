"""Garbage is found wherever it is listed, by the ids in the names of files."""

from datetime import UTC, datetime

import pytest

from frazil.format.ids import ChunkId
from frazil.maintenance.id_columns import IdSet, column_of
from frazil.maintenance.listing import Folder, list_garbage, plan_prefixes
from frazil.storage.memory import MemoryStorage
from tests.unit.maintenance.repositories import later

CHUNKS = Folder("chunks", 12)
DRAFT_SNAPSHOTS = Folder("s", 16, (".json", "", ".msgpack"))
IDS = [ChunkId(bytes([number]) * 12) for number in range(0, 250, 7)]


class Remote(MemoryStorage):
    """A storage at the other end of a network."""

    @property
    def is_local(self) -> bool:
        return False


@pytest.mark.parametrize("storage", [MemoryStorage(), Remote()], ids=["local", "remote"])
@pytest.mark.parametrize("concurrency", [1, 5])
def test_what_is_not_kept_is_found(storage: MemoryStorage, concurrency: int) -> None:
    for id in IDS:
        storage.put(f"chunks/{id}", b"")
    kept = IdSet(column_of(IDS[::2], 12))

    found = {info.key for info in list_garbage(storage, CHUNKS, kept, later(), concurrency)}

    assert found == {f"chunks/{id}" for id in IDS[1::2]}


def test_what_is_young_is_not_found() -> None:
    storage = MemoryStorage()
    storage.put(f"chunks/{IDS[0]}", b"")

    assert not list(list_garbage(storage, CHUNKS, IdSet(), datetime(2024, 1, 1, tzinfo=UTC), 1))


def test_folders_far_away_are_listed_in_parts() -> None:
    assert len(plan_prefixes(Remote(), CHUNKS)) == 32
    assert plan_prefixes(MemoryStorage(), CHUNKS) == ["chunks/"]


@pytest.mark.parametrize("ending", ["", ".json", ".msgpack"])
def test_files_of_the_draft_have_endings(ending: str) -> None:
    assert DRAFT_SNAPSHOTS.find_stem(f"s/NAME{ending}") == "NAME"
    assert CHUNKS.find_stem(f"chunks/NAME{ending}") == f"NAME{ending}"
