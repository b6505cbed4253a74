"""What was read is kept, as much as is allowed and not a bit more."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zarr

from frazil import Repository
from frazil.config import CachingConfig, RepositoryConfig
from frazil.protocols.assets import WeightedCache
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import CountingStorage
from tests.repositories import create, split_every, values_of


def test_the_values_used_last_are_kept() -> None:
    cache: WeightedCache[str, str] = WeightedCache(10, len)
    for value in ("aaaa", "bbbb"):
        cache.put(value[0], value)

    cache.find("a")
    cache.put("c", "cccc")

    assert cache.weight == 8
    assert [cache.find(key) for key in "abc"] == ["aaaa", None, "cccc"]


def test_a_value_that_outweighs_the_cache_is_not_kept_and_drives_nothing_out() -> None:
    cache: WeightedCache[str, str] = WeightedCache(5, len)
    cache.put("a", "aa")

    loaded = cache.get("b", lambda: "b" * 6)

    assert loaded == "b" * 6
    assert (cache.find("b"), cache.find("a"), cache.weight) == (None, "aa", 2)


def test_a_value_put_twice_weighs_once() -> None:
    cache: WeightedCache[str, str] = WeightedCache(10, len)
    cache.put("a", "aaaa")
    cache.put("a", "aa")

    assert cache.weight == 2
    cache.drop("a")
    cache.drop("a")
    assert cache.weight == 0


def test_a_value_that_many_want_is_loaded_once() -> None:
    cache: WeightedCache[str, str] = WeightedCache(10, len)
    loads: list[int] = []

    def load() -> str:
        loads.append(threading.get_ident())
        time.sleep(0.01)
        return "value"

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: cache.get("a", load), range(32)))

    assert found == ["value"] * 32
    assert len(loads) == 1


def test_a_load_that_fails_is_tried_again() -> None:
    cache: WeightedCache[str, str] = WeightedCache(10, len)

    def fail() -> str:
        raise OSError("not now")

    with pytest.raises(OSError, match="not now"):
        cache.get("a", fail)

    assert cache.get("a", lambda: "value") == "value"


def test_a_cache_stays_within_its_bounds_whatever_many_threads_do() -> None:
    cache: WeightedCache[int, bytes] = WeightedCache(100, len)
    seen: list[int] = []

    def use(number: int) -> None:
        cache.get(number % 37, lambda: bytes(number % 23 + 1))
        seen.append(cache.weight)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(2000)))

    assert max(seen) <= 100
    assert cache.weight == sum(len(cache.find(key) or b"") for key in range(37))


def make_history(storage: MemoryStorage) -> None:
    repository = create(storage, split_every(10, inline_up_to=0))
    with repository.transaction("main", message="an array") as store:
        array = zarr.create_array(store, name="a", shape=(60,), chunks=(1,), dtype="u1")
        array[:] = np.arange(60)
    for number in range(20):
        with repository.transaction("main", message="a group") as store:
            zarr.create_group(store, path=f"group-{number}")


def test_a_repository_keeps_no_more_than_its_configuration_allows() -> None:
    storage = MemoryStorage()
    make_history(storage)
    small = CachingConfig(num_snapshot_nodes=30, num_chunk_refs=25, num_bytes_chunks=100)
    repository = Repository.open(storage, RepositoryConfig(caching=small))

    values = [
        values_of(repository.readonly_session(snapshot_id=info.id), "a")
        for info in list(repository.ancestry(branch="main"))[:10]
    ]

    assert values == [list(range(60))] * 10
    assets = repository.context.assets
    assert 0 < assets._snapshots.weight <= 30
    assert 0 < assets._manifests.weight <= 25
    assert 0 < assets._chunks.weight <= 100
    assert assets._logs.weight == 0


def test_what_is_in_the_cache_needs_no_request() -> None:
    storage = MemoryStorage()
    make_history(storage)
    watched = CountingStorage(storage)
    caching = CachingConfig(num_bytes_chunks=1_000_000)
    repository = Repository.open(watched, RepositoryConfig(caching=caching))
    reader = repository.readonly_session("main")
    first = values_of(reader, "a")
    before = watched.counts.total

    again = values_of(reader, "a")

    assert again == first
    assert watched.counts.total == before
