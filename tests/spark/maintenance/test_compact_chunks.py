"""Small chunks become parts of larger objects, and nothing else changes."""

from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import frazil
from frazil import Repository
from frazil.errors import NodeNotFoundError, RebaseFailedError
from frazil.format.manifest import InlineRef, NativeRef
from frazil.repository.store_io import set_ref
from frazil.spark.maintenance import compact_chunks as compacting
from frazil.spark.maintenance.compact_ranges import plan_ranges
from frazil.spark.runtime import Runner
from frazil.spark.transaction import Run
from tests.repositories import create, dangling_files
from tests.spark.clusters.faults import Meanwhile
from tests.spark.maintenance.contents import (
    VALUES,
    change,
    chunk_keys,
    messages,
    objects_of,
    read_values,
    references,
    set_values,
    stored_bytes,
)

SMALL, TARGET = 200, 2000


def pack(repo: Repository, **options: Any) -> frazil.spark.CompactReport:
    sizes = {"smaller_than": SMALL, "target_size": TARGET}
    return frazil.compact(repo, **{**sizes, **options})


def test_small_chunks_are_packed_and_all_values_stay(repo: Repository) -> None:
    before = repo.readonly_session("main")
    expected = stored_bytes(before)

    report = pack(repo, message="packed")

    after = repo.readonly_session("main")
    assert stored_bytes(after) == expected
    assert messages(repo) == ["packed", "written", "Repository initialized"]
    assert report.chunks == report.objects_before == 200
    assert report.objects == len(objects_of(after)) < 20
    assert report.requests_saved == 200 - report.objects
    sizes = [len(bytes(repo.storage.get(key))) for key in objects_of(after)]
    assert sum(sizes) == report.bytes_written
    assert all(TARGET / 2 < size < 2 * TARGET for size in sizes)
    kept = {place: ref for place, ref in references(before).items() if place[0] == "/small"}
    assert len(kept) == 20
    assert kept.items() <= references(after).items()
    metrics = repo.lookup_snapshot(str(report.snapshot_id)).metadata["frazil_job"]
    assert (metrics["objects_before"], metrics["objects"]) == (200, report.objects)
    assert f"requests saved  {report.requests_saved}" in str(report)


def test_neighbours_lie_behind_each_other(repo: Repository) -> None:
    pack(repo)

    found = references(repo.readonly_session("main"))
    refs = [ref for place, ref in sorted(found.items()) if place[0] == "/data/a"]
    follow = [
        (one.chunk_id, one.offset + one.length) == (other.chunk_id, other.offset)
        for one, other in pairwise(refs)
        if isinstance(one, NativeRef) and isinstance(other, NativeRef)
    ]
    assert (
        follow.count(False) == len({ref.chunk_id for ref in refs if isinstance(ref, NativeRef)}) - 1
    )


def test_a_second_time_there_is_nothing_to_do(repo: Repository) -> None:
    pack(repo)
    objects = chunk_keys(repo)

    report = pack(repo)

    assert report.snapshot_id is None
    assert (report.chunks, report.objects, report.bytes_written) == (0, 0, 0)
    assert chunk_keys(repo) == objects


def test_new_chunks_are_packed_with_what_is_small(path: Path, repo: Repository) -> None:
    pack(repo)
    changed = slice(0, 9), slice(0, 9)
    change(path, "changed", set_values("data/a", changed, VALUES[changed] + 1))

    report = pack(repo)

    assert report.chunks == 9
    assert report.objects == 1
    expected = VALUES.copy()
    expected[changed] += 1
    np.testing.assert_array_equal(read_values(repo.readonly_session("main")), expected)
    assert pack(repo).snapshot_id is None


def test_only_arrays_that_are_named(repo: Repository) -> None:
    before = references(repo.readonly_session("main"))

    assert pack(repo, arrays=["data/b", "small"]).chunks == 100

    after = references(repo.readonly_session("main"))
    assert {place[0] for place in before if before[place] != after[place]} == {"/data/b"}
    assert pack(repo, arrays=["data"]).chunks == 100
    with pytest.raises(NodeNotFoundError):
        pack(repo, arrays=["nowhere"])


@pytest.mark.parametrize("spec_version", [1, 2])
def test_the_official_library_reads_what_was_packed_and_what_was_before(
    tmp_path: Path, spec_version: int
) -> None:
    icechunk = pytest.importorskip("icechunk")
    storage = icechunk.local_filesystem_storage(str(tmp_path / "theirs"))
    theirs = icechunk.Repository.create(
        storage, icechunk.RepositoryConfig(inline_chunk_threshold_bytes=0),
        spec_version=spec_version,
    )  # fmt: skip
    session = theirs.writable_session("main")
    zarr.create_array(session.store, name="data/a", data=VALUES, chunks=(3, 3))
    former = session.commit("written")

    report = pack(Repository.open(frazil.local_filesystem_storage(str(tmp_path / "theirs"))))

    assert (report.objects_before, report.chunks) == (100, 100)
    opened = icechunk.Repository.open(storage)
    np.testing.assert_array_equal(read_values(opened.readonly_session("main")), VALUES)
    np.testing.assert_array_equal(read_values(opened.readonly_session(snapshot_id=former)), VALUES)
    session = opened.writable_session("main")
    zarr.open_array(session.store, path="data/a", mode="r+")[0, 0] = 1
    session.commit("theirs")
    assert read_values(opened.readonly_session("main"))[0, 0] == 1


def test_garbage_collection_frees_old_objects_and_keeps_packed_ones(
    path: Path, repo: Repository, tmp_path: Path
) -> None:
    icechunk = pytest.importorskip("icechunk")
    former = chunk_keys(repo)
    pack(repo)
    packed = objects_of(repo.readonly_session("main"))
    copytree(path, tmp_path / "copy")
    theirs = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path / "copy")))

    for each in (repo, theirs):
        now = datetime.now(UTC)
        assert each.garbage_collect(now).chunks_deleted == 0
        each.expire_snapshots(now)
        assert each.garbage_collect(datetime.now(UTC)).chunks_deleted == len(former)

    opened = Repository.open(frazil.local_filesystem_storage(str(tmp_path / "copy")))
    assert chunk_keys(repo) == chunk_keys(opened) == packed
    assert dangling_files(repo) == dangling_files(opened) == set()
    for session in (repo.readonly_session("main"), theirs.readonly_session("main")):
        np.testing.assert_array_equal(read_values(session), VALUES)


def test_commits_elsewhere_meanwhile_are_kept(path: Path, repo: Repository) -> None:
    changed = set_values("data/b", 0, 9)
    job = Meanwhile("packing chunks", lambda: change(path, "theirs", changed), at_end=True)

    pack(repo, arrays=["data/a"], job=job, message="ours")

    assert messages(repo)[:2] == ["ours", "theirs"]
    session = repo.readonly_session("main")
    np.testing.assert_array_equal(read_values(session), VALUES)
    assert (read_values(session, "data/b")[0] == 9).all()


def test_a_commit_of_the_same_chunks_meanwhile_is_a_conflict(path: Path, repo: Repository) -> None:
    changed = set_values("data/a", 0, 9)
    job = Meanwhile("packing chunks", lambda: change(path, "theirs", changed), at_end=True)

    with pytest.raises(RebaseFailedError):
        pack(repo, job=job)

    assert messages(repo)[0] == "theirs"
    assert pack(repo).snapshot_id is not None
    assert (read_values(repo.readonly_session("main"))[0] == 9).all()


# Chunks of all kinds

lengths = st.integers(1, 30)
kinds = st.one_of(
    st.tuples(st.just("own"), lengths),
    st.tuples(st.just("inline"), lengths),
    st.tuples(st.just("object"), st.integers(0, 3), st.integers(0, 40), lengths),
)
arrays = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 4)), kinds, max_size=20)


@given(
    st.lists(arrays, min_size=1, max_size=3), st.integers(1, 40), st.integers(4, 8),
    st.integers(2, 8), st.sampled_from([100_000, 10, 0]),
)  # fmt: skip
def test_whatever_chunks_share(
    found: list[Any], smaller_than: int, times: int, most: int, returned: int
) -> None:
    """With array ranges of few chunks, and marks that are returned or left in the storage."""
    repo = create()
    write_chunks(repo, found)
    before = repo.readonly_session("main")
    options: Any = {"smaller_than": smaller_than, "target_size": smaller_than * times}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compacting, "plan_ranges", partial(plan_ranges, most=most))
        patch.setattr(Run, "choose_runner", lambda run, *_, **__: Runner(run.job, None, returned))
        there = chunk_keys(repo)
        report = frazil.compact(repo, **options)
        again = frazil.compact(repo, **options)

    after = repo.readonly_session("main")
    assert stored_bytes(after) == stored_bytes(before)
    assert again.snapshot_id is None
    assert (report.snapshot_id is None) == (report.requests_saved == 0)
    new = objects_of(after) - objects_of(before)
    assert chunk_keys(repo) - there == new
    assert len(new) == report.objects
    check_each_piece_once(repo, before, after, new, report.bytes_written)


def write_chunks(repo: Repository, found: list[Any]) -> None:
    session = repo.writable_session("main")
    state = session.state
    objects = [
        state.assets.write_chunk(bytes(range(70 * each, 70 * each + 70))) for each in range(3)
    ]
    objects.append(state.assets.write_chunk(bytes(reversed(range(70)))))
    for number, chunks in enumerate(found):
        zarr.create_array(session.store, name=f"a{number}", shape=(4, 5), chunks=(1, 1), dtype="u1")
        for place, (kind, *rest) in chunks.items():
            data = bytes([number, *place, *range(rest[-1])])[-rest[-1] :]
            if kind == "own":
                ref: Any = NativeRef(state.assets.write_chunk(data), 0, len(data))
            elif kind == "inline":
                ref = InlineRef(data)
            else:
                ref = NativeRef(objects[rest[0]], rest[1], rest[2])
            set_ref(state, f"/a{number}", place, ref)
    session.commit("written")


def check_each_piece_once(
    repo: Repository, before: Any, after: Any, new: set[str], written: int
) -> None:
    """Where each range of an old object went, there is one place for it."""
    old, now = references(before), references(after)
    moved = {(old[place], now[place]) for place in old if old[place] != now[place]}
    assert len({one for one, _ in moved}) == len(moved) == len({other for _, other in moved})
    assert sum(len(bytes(repo.storage.get(key))) for key in new) == written
    assert written == sum(ref.length for _, ref in moved if isinstance(ref, NativeRef))
