"""How many bytes chunks have: each once, inline ones wherever they are."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers, lists, sampled_from, tuples

from frazil import Repository
from frazil.format.ids import ChunkId
from frazil.format.manifest import ChunkRef, ChunkTable, InlineRef, NativeRef, VirtualRef
from frazil.maintenance import stats
from frazil.maintenance.reachability import ids_of
from frazil.maintenance.stats import Tally, find_first, measure_refs
from frazil.ops import ChunkStorageStats
from tests.repositories import create
from tests.unit.maintenance.repositories import write, write_chunk

IDS = [ChunkId(bytes([number]) * 12) for number in range(3)]


def measure(*refs: ChunkRef) -> tuple[int, int, int]:
    sizes = measure_refs(ChunkTable.of(1, {(at,): ref for at, ref in enumerate(refs)}))
    native, virtual = Tally(), Tally()
    native.add(sizes.native)
    virtual.add(sizes.virtual)
    return native.total_bytes(), virtual.total_bytes(), sizes.inlined_bytes


def test_a_native_chunk_counts_once_by_its_id() -> None:
    refs = [NativeRef(IDS[0], 0, 5), NativeRef(IDS[1], 0, 7), NativeRef(IDS[0], 0, 5)]

    assert measure(*refs) == (12, 0, 0)


def test_a_virtual_chunk_counts_once_by_its_place() -> None:
    refs = [
        VirtualRef("s3://bucket/a", 0, 10),
        VirtualRef("s3://bucket/a", 0, 10),
        VirtualRef("s3://bucket/a", 1, 10),
        VirtualRef("s3://bucket/a", 0, 11),
        VirtualRef("s3://bucket/b", 0, 10),
    ]

    assert measure(*refs) == (0, 41, 0)


def test_an_inline_chunk_counts_each_time() -> None:
    assert measure(InlineRef(b"same"), InlineRef(b"same")) == (0, 0, 8)


def test_an_array_without_chunks_has_no_bytes() -> None:
    assert measure() == (0, 0, 0)


def test_what_is_known_does_not_count_again() -> None:
    sizes = measure_refs(ChunkTable.of(1, {(0,): NativeRef(IDS[0], 0, 5)})).native
    tally = Tally()

    totals = []
    for _ in range(2):
        tally.add(sizes)
        totals.append(tally.total_bytes())

    assert totals == [5, 5]


@given(lists(tuples(integers(0, 5), integers(0, 400), integers(0, 2)), max_size=40), integers(1, 9))
def test_chunks_count_once_also_where_only_some_are_kept_in_memory(
    chunks: list[tuple[int, int, int]], at_once: int
) -> None:
    natives = {NativeRef(ChunkId(bytes(10) + at.to_bytes(2, "big")), 0, at) for _, at, _ in chunks}
    virtuals = {VirtualRef(f"s3://bucket/{file}", at, size) for file, at, size in chunks}

    with Tally(at_once) as native, Tally(at_once) as virtual:
        for _ in range(2):
            refs: list[ChunkRef] = [*natives, *virtuals]
            for ref in refs:
                sizes = measure_refs(ChunkTable.of(1, {(0,): ref}))
                native.add(sizes.native)
                virtual.add(sizes.virtual)
        found = native.total_bytes(), virtual.total_bytes()

    assert found == (sum(e.length for e in natives), sum(e.length for e in virtuals))


@given(lists(binary(min_size=12, max_size=12) | sampled_from([bytes(12), b"a" * 12]), max_size=40))
def test_first_rows_are_those_that_a_set_keeps(ids: list[bytes]) -> None:
    rows = np.frombuffer(b"".join(ids), np.uint8).reshape(-1, 12)

    assert find_first(ids_of(rows)).tolist() == [ids.index(each) for each in dict.fromkeys(ids)]


def test_ids_with_equal_hashes_are_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "_MIX", np.uint64(0))  # all hashes are zero
    rows = np.array([[2] * 12, [1] * 12, [2] * 12], np.uint8)

    assert find_first(ids_of(rows)).tolist() == [0, 1]


def test_all_that_refs_lead_to_is_measured(repository: Repository) -> None:
    first = write(repository, 1)
    write_chunk(repository, 0, 2)
    sizes = {info.key: info.size_bytes for info in repository.storage.list("chunks/")}

    assert repository.chunk_storage_stats() == ChunkStorageStats(sum(sizes.values()), 0, 0)

    repository.reset_branch("main", first)
    assert repository.chunk_storage_stats().native_bytes == 4 * next(iter(sizes.values()))


def test_inline_chunks_are_measured_in_every_manifest() -> None:
    repository = create()
    write(repository, 1)
    once = repository.chunk_storage_stats().inlined_bytes

    write_chunk(repository, 0, 2)

    assert repository.chunk_storage_stats() == ChunkStorageStats(0, 0, 2 * once)
    assert once > 0


def test_the_old_name_warns(repository: Repository) -> None:
    write(repository, 1)

    with pytest.warns(DeprecationWarning, match="chunk_storage_stats"):
        total = repository.total_chunks_storage()

    assert total == asyncio.run(repository.chunk_storage_stats_async()).native_bytes


def test_limits_of_nothing_are_refused(repository: Repository) -> None:
    with pytest.raises(ValueError, match="max_snapshots_in_memory"):
        repository.chunk_storage_stats(max_snapshots_in_memory=0)
