"""Whatever happens to a repository, a copy follows; however chunks are listed, each is copied once."""

import json
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import numpy as np
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import frazil
from frazil import Repository, RepositoryConfig
from frazil.format.header import Dialect
from frazil.format.ids import ChunkId
from frazil.maintenance.reachability import WalkLimits, column_of, find_manifests, name_slice
from frazil.protocols.assets import Assets
from frazil.spark.copy_plan import (
    SLICES,
    Choice,
    ChunkList,
    CopyChunks,
    ListChunks,
    Passage,
    cut_slices,
    find_starts,
    select_refs,
)
from frazil.spark.zarr_export import ChunkKeys, find_keys
from frazil.storage import MemoryStorage
from tests.spark.copied_samples import contents, create, fill, history, objects, refs, values

IDS = st.binary(min_size=12, max_size=12).map(ChunkId)

STEPS = st.lists(
    st.sampled_from(
        [
            "commit",
            "commit",
            "branch",
            "tag",
            "untag",
            "reset",
            "delete",
            "expire",
            "collect",
            "copy",
        ]
    ),
    max_size=12,
)


def act(repo: Repository, step: str, number: int) -> None:
    branches = sorted(repo.list_branches())
    branch = branches[number % len(branches)]
    tip = repo.lookup_branch(branch)
    if step == "commit":
        fill(repo, slice(number % 20, number % 20 + 2), number + 1, branch)
    elif step == "branch":
        repo.create_branch(f"b{number}", tip)
    elif step == "tag":
        repo.create_tag(f"t{number}", tip)
    elif step == "untag" and repo.list_tags():
        repo.delete_tag(min(repo.list_tags()))
    elif step == "reset" and len(history(repo, branch)) > 2:
        repo.reset_branch(branch, history(repo, branch)[1])
    elif step == "delete" and branch != "main":
        repo.delete_branch(branch)
    elif step == "expire":
        repo.expire_snapshots(datetime.now(UTC) + timedelta(hours=1))
    elif step == "collect":
        repo.garbage_collect(datetime.now(UTC) + timedelta(hours=1))


@settings(max_examples=15, deadline=None)
@given(STEPS, st.sampled_from([1, 2]))
def test_a_copy_follows_its_source(steps: list[str], spec_version: int) -> None:
    source, target = create(MemoryStorage(), spec_version), MemoryStorage()
    frazil.copy(source, target)
    numbers = count()

    for step in steps:
        number = next(numbers)
        if step != "copy":
            act(source, step, number)
        elif spec_version == 2 or "expire" not in steps:
            frazil.copy(source, target)

    if spec_version == 1 and "expire" in steps:
        target = MemoryStorage()
    frazil.copy(source, target)
    found = Repository.open(target)
    assert refs(found) == refs(source)
    for branch in source.list_branches():
        assert history(found, branch) == history(source, branch)
        np.testing.assert_array_equal(values(found, branch=branch), values(source, branch=branch))
    assert found.check(deep=True).is_healthy
    assert not frazil.copy(source, target).has_changed
    for repo in (source, found):
        repo.garbage_collect(datetime.now(UTC) + timedelta(hours=1))
    assert objects(target) == objects(source.storage)


@given(st.lists(IDS, unique=True), st.integers(1, 50))
def test_each_chunk_is_in_one_slice(ids: list[ChunkId], most: int) -> None:
    column = column_of(ids, 12)
    listed = ChunkList(column.tobytes(), None, find_starts(column, 12), 12, 0)
    assets = Assets(MemoryStorage(), Dialect.V2)

    found = [
        (number, ChunkId(bytes(row)))
        for number in range(SLICES)
        for row in listed.read(assets, number).view("u1").reshape(-1, 12)
    ]
    tasks = cut_slices([listed], most)

    assert sorted(id for _, id in found) == sorted(ids)
    assert all(str(id).startswith(name_slice(number, SLICES)) for number, id in found)
    covered = [number for task in tasks for number in task]
    assert len(covered) == len(set(covered))
    assert {number for number, _ in found} <= set(covered)


def test_lists_that_are_too_long_lie_in_the_storage() -> None:
    source, target = create(MemoryStorage()), MemoryStorage()
    protocol = source.protocol
    passage = Passage(protocol.assets, Assets(target, Dialect.V2), is_empty=True)
    ids = [protocol.lookup_branch("main"), protocol.lookup_tag("v1")]
    manifests = list(find_manifests(protocol.assets, ids, WalkLimits()).values())
    task = ListChunks(protocol.assets, passage.target, WalkLimits(), 12, most_returned=0)

    lists = tuple(task([each]) for each in manifests)
    copied = CopyChunks(passage, lists, ())(range(SLICES))
    known = CopyChunks(passage, lists, lists)(range(SLICES))

    assert all(each.file is not None and not each.data for each in lists)
    chunks = {key for key in objects(source.storage) if key.startswith("chunks/")}
    assert copied.objects == len(chunks)
    assert objects(target).keys() - chunks == {f"chunks/{each.file}" for each in lists}
    assert known.objects == 0


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 5), st.integers(1, 4))
def test_the_last_snapshots_and_the_first_stay(commits: int, last: int) -> None:
    source = create(MemoryStorage())
    for number in range(commits):
        fill(source, slice(number, number + 1), number)
    info = source.protocol.read_repo_info()

    chosen = select_refs(info, Choice(("main",), (), last))

    line = history(source)
    wanted = {*line[:last], line[-1]}
    assert {str(id) for id in chosen.snapshots} == wanted
    logs = [log for each in chosen.snapshots.values() for log in each.pruned_ancestor_tx_logs]
    assert sorted(map(str, logs)) == sorted(set(line) - wanted)


@given(st.lists(st.integers(0, 99), max_size=3), st.sampled_from("./"), st.booleans())
def test_keys_are_those_of_zarr(coordinate: list[int], separator: str, is_default: bool) -> None:
    name = "default" if is_default else "v2"
    encoding = {"name": name, "configuration": {"separator": separator}}
    keys = find_keys({"chunk_key_encoding": encoding}, "a/")
    store: dict[str, object] = {}
    shape = tuple(each + 1 for each in coordinate)

    array = zarr.create_array(
        store, shape=shape, chunks=(1,) * len(shape), dtype="u1", chunk_key_encoding=encoding  # type: ignore[arg-type]
    )  # fmt: skip
    array[tuple(coordinate)] = 1

    (key,) = [key for key in store if key != "zarr.json"]
    assert keys == ChunkKeys("a/", separator, is_default)
    assert keys.spell(coordinate) == f"a/{key}"


@st.composite
def made_arrays(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of an array, and how much of it is written."""
    lengths: list[int] = draw(st.lists(st.integers(0, 9), max_size=3))
    shape = tuple(lengths)
    chunks = tuple(draw(st.integers(1, 5)) for _ in shape)
    is_sharded = bool(shape) and draw(st.booleans())
    shards = tuple(2 * each for each in chunks) if is_sharded else None
    dtype = draw(st.sampled_from(["u1", "<i4", "f8", "c8", "?", "M8[s]"]))
    return {
        "shape": shape, "chunks": chunks, "shards": shards, "dtype": dtype,
        "compressors": draw(st.sampled_from([None, "auto"])),
        "written": draw(st.integers(0, 9)), "inline": draw(st.sampled_from([0, 20, 500])),
    }  # fmt: skip


@settings(max_examples=10, deadline=None)
@given(st.lists(made_arrays(), max_size=3), st.booleans())
def test_what_goes_out_comes_in_again(arrays: list[dict[str, Any]], consolidated: bool) -> None:
    repo, place = Repository.create(MemoryStorage()), MemoryStorage()
    session = repo.writable_session("main")
    zarr.group(session.store, attributes={"a": 1})
    for number, array in enumerate(arrays):
        kind = {name: each for name, each in array.items() if name not in ("written", "inline")}
        made = zarr.create_array(session.store, name=f"g/x{number}", **kind)
        values = np.arange(made.size).reshape(made.shape).astype(array["dtype"])
        part = (slice(0, array["written"]),) if made.shape else ()
        made[part] = values[part]
    session.commit("made")
    threshold = max([0, *(each["inline"] for each in arrays)])
    other = Repository.create(
        MemoryStorage(), RepositoryConfig(inline_chunk_threshold_bytes=threshold)
    )

    out = frazil.export_zarr(repo, place, consolidated=consolidated)
    into = frazil.import_zarr(other, place)

    assert out.chunks == into.chunks
    found, wanted = (contents(each.readonly_session("main")) for each in (other, repo))
    # A root without what was consolidated is written anew.
    assert json.loads(found.pop("/")) == json.loads(wanted.pop("/"))  # type: ignore[arg-type]
    assert found == wanted
