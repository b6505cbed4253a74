"""Small work is cheap: calls are counted, and don't grow with what is there already."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import zarr
from zarr.core.buffer import default_buffer_prototype

import frazil
from frazil.format.v2 import snapshot_codec

_COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>")


class Calls:
    """Number of calls of Python functions."""

    number = 0


@contextmanager
def counted() -> Iterator[Calls]:
    """Count the calls of Python functions in this thread, but for comprehensions.

    Before Python 3.12 each comprehension is a call. The garbage collector rests: it calls
    what others have registered with it, whenever it runs.
    """
    calls = Calls()

    def count(frame: FrameType, event: str, _: object) -> None:
        calls.number += event == "call" and frame.f_code.co_name not in _COMPREHENSIONS

    former = sys.getprofile()
    gc.disable()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(former)
        gc.enable()
    calls.number -= 1  # the end of this function


def split_by(size: int) -> frazil.RepositoryConfig:
    """Return a configuration with so many chunks in a manifest."""
    sizes: dict[Any, int] = {frazil.ManifestSplitDimCondition.Any(): size}
    splitting = frazil.ManifestSplittingConfig.from_dict(
        {frazil.ManifestSplitCondition.AnyArray(): sizes}
    )
    return frazil.RepositoryConfig(manifest=frazil.ManifestConfig(splitting=splitting))


def new_repository(chunks: int, arrays: int = 1, *, per_manifest: int = 1000) -> frazil.Repository:
    """Return a repository with arrays of so many chunks, each in a manifest with others."""
    repo = frazil.Repository.create(frazil.in_memory_storage(), split_by(per_manifest))
    session = repo.writable_session("main")
    group = zarr.group(session.store)
    for number in range(arrays):
        group.create_array(f"a{number}", shape=(chunks,), chunks=(1,), dtype="f8")
    session.commit("arrays")
    return repo


def read_calls(manifests: int) -> int:
    """Return the number of calls of one warm read of an array with so many manifests."""
    repo = new_repository(manifests, per_manifest=1)
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a0")[:] = 1.0
    session.commit("chunks")
    store = repo.readonly_session("main").store
    key, prototype = f"a0/c/{manifests - 1}", default_buffer_prototype()
    store.get_sync(key, prototype=prototype)
    with counted() as calls:
        assert store.get_sync(key, prototype=prototype) is not None
    return calls.number


def test_a_warm_read_takes_as_many_calls_with_a_hundred_manifests_as_with_two() -> None:
    read_calls(2)  # which makes what is made when it is first used

    assert read_calls(100) == read_calls(2)


def history_calls(commits: int) -> list[int]:
    """Return the number of calls that list the ancestry and the ops log of so many commits."""
    repo = new_repository(1)
    for number in range(commits):
        repo.writable_session("main").commit(f"commit {number}", allow_empty=True)
    opened = frazil.Repository.open(repo.storage)
    next(opened.ancestry(branch="main"))
    with counted() as ancestry:
        assert len(list(opened.ancestry(branch="main"))) == commits + 2
    with counted() as log:
        assert len(list(opened.ops_log())) == commits + 2
    return [ancestry.number, log.number]


def test_an_entry_of_the_history_or_the_ops_log_is_listed_with_few_calls() -> None:
    more, fewer = history_calls(60), history_calls(20)

    for a, b in zip(more, fewer, strict=True):
        assert a - b <= 4 * 40


def commit_calls(repo: frazil.Repository, changes: dict[str, list[int]]) -> int:
    """Return the number of calls of a commit that changes some chunks of some arrays."""
    session = repo.writable_session("main")
    for path, chunks in changes.items():
        array = zarr.open_array(session.store, path=path)
        for chunk in chunks:
            array[chunk] = 1.0
    with counted() as calls:
        session.commit("change")
    return calls.number


def test_a_commit_of_one_chunk_takes_at_most_400_calls() -> None:
    repo = new_repository(4)
    commit_calls(repo, {"a0": [0]})

    assert commit_calls(repo, {"a0": [1]}) <= 400


def test_one_more_manifest_in_a_commit_takes_at_most_35_calls() -> None:
    repo = new_repository(400, per_manifest=1)
    commit_calls(repo, {"a0": [399]})
    one, many = commit_calls(repo, {"a0": [0]}), commit_calls(repo, {"a0": [*range(1, 302)]})

    assert many - one <= 300 * 35


def test_a_commit_of_one_chunk_takes_as_many_calls_with_more_arrays() -> None:
    few, many = new_repository(4, arrays=5), new_repository(4, arrays=50)
    for repo in (few, many):
        commit_calls(repo, {"a0": [0], "a4": [0]})

    assert commit_calls(many, {"a0": [1]}) <= commit_calls(few, {"a0": [1]})


def test_a_commit_of_one_chunk_takes_as_many_calls_with_more_manifests() -> None:
    few, many = (new_repository(count, per_manifest=1) for count in (5, 100))
    commit_calls(few, {"a0": [*range(5)]})
    commit_calls(many, {"a0": [*range(100)]})

    assert commit_calls(many, {"a0": [1]}) <= commit_calls(few, {"a0": [1]})


def test_a_commit_of_one_chunk_takes_as_many_calls_after_more_commits() -> None:
    repo = new_repository(4)
    calls = [commit_calls(repo, {"a0": [0]}) for _ in range(160)]

    assert max(calls[20:]) <= max(calls[5:20]) + 5


def cold_commit_calls(arrays: int) -> int:
    """Return the number of calls of a commit over so many arrays that nothing was read of before."""
    repo = frazil.Repository.open(new_repository(4, arrays=arrays).storage)
    return commit_calls(repo, {"a0": [0]})


def test_a_commit_over_arrays_that_were_not_read_before_takes_few_calls_for_each() -> None:
    assert cold_commit_calls(170) - cold_commit_calls(70) <= 100 * 6


def ref_calls(refs: int) -> list[int]:
    """Return the numbers of calls that create a tag and a branch, and move it, among so many."""
    repo = new_repository(1)
    tip = repo.lookup_branch("main")
    former = next(iter(repo.ancestry(branch="main"))).parent_id
    for number in range(refs):
        repo.create_tag(f"tag {number}", tip)
        repo.create_branch(f"branch {number}", tip)
    repo.reset_branch("branch 0", str(former))
    with counted() as tag:
        repo.create_tag("late", tip)
    with counted() as branch:
        repo.create_branch("late", tip)
    with counted() as reset:
        repo.reset_branch("late", str(former))
    return [tag.number, branch.number, reset.number]


def test_a_ref_is_created_and_moved_with_as_many_calls_among_more_refs() -> None:
    for more, fewer in zip(ref_calls(100), ref_calls(10), strict=True):
        assert more <= fewer + 5 <= 130


def rebase_calls(commits: int) -> int:
    """Return the number of calls of a commit that is rebased over so many."""
    repo = new_repository(200)
    commit_calls(repo, {"a0": [0]})
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="a0")[199] = 1.0
    for number in range(commits):
        commit_calls(repo, {"a0": [number]})
    with counted() as calls:
        session.commit("late", rebase_with=frazil.ConflictDetector())
    return calls.number


def test_one_more_commit_to_rebase_over_takes_at_most_75_calls() -> None:
    rebase_calls(2)  # which loads modules

    assert rebase_calls(60) - rebase_calls(20) <= 40 * 75


def test_logs_that_others_wrote_do_not_make_a_rebase_slower() -> None:
    rebase_calls(2)
    other = snapshot_codec._LogForm(lambda _: (b"", b""), (b"other",), lambda _: ())
    for key in snapshot_codec._forms:
        snapshot_codec._forms[key] = other

    assert rebase_calls(60) - rebase_calls(20) <= 40 * 75
