"""What a session sees of its own edits, and what of them a commit keeps."""

import json
from typing import Any

import numpy as np
import pytest
import zarr

from frazil import AlreadyExistsError, InvalidInputError, NodeNotFoundError, Repository, Session
from frazil.config import RepositoryConfig
from frazil.storage import ChunkType
from tests.repositories import create, keys_of, values_of

NATIVE = ChunkType.native
INLINE = ChunkType.inline


def make_array(session: Session, path: str = "numbers", length: int = 6) -> "zarr.Array[Any]":
    array = zarr.create_array(
        session.store, name=path, shape=(length,), chunks=(2,), dtype="i4", fill_value=-1
    )
    array[:] = np.arange(length)
    return array


def values(session: Session, path: str = "numbers") -> Any:
    return values_of(session, path)


def commit_array(repository: Repository, path: str = "numbers") -> None:
    session = repository.writable_session("main")
    make_array(session, path)
    session.commit("an array")


def test_a_session_reads_its_own_edits_and_nobody_else_does(repository: Repository) -> None:
    commit_array(repository)
    session = repository.writable_session("main")

    zarr.open_array(session.store, path="numbers")[2:4] = 70

    assert values(session) == [0, 1, 70, 70, 4, 5]
    assert values(repository.readonly_session("main")) == [0, 1, 2, 3, 4, 5]
    session.commit("more")
    assert values(repository.readonly_session("main")) == [0, 1, 70, 70, 4, 5]


def test_a_deleted_chunk_reads_as_nothing_before_and_after_the_commit(
    repository: Repository,
) -> None:
    commit_array(repository)
    session = repository.writable_session("main")

    session.store.delete_sync("numbers/c/1")

    assert values(session) == [0, 1, -1, -1, 4, 5]
    session.commit("less")
    assert values(repository.readonly_session("main")) == [0, 1, -1, -1, 4, 5]
    assert "numbers/c/1" not in keys_of(repository.readonly_session("main"))


def test_a_node_that_is_deleted_and_made_again_is_another_node(repository: Repository) -> None:
    commit_array(repository)
    session = repository.writable_session("main")
    before = session.get_node_id("/numbers")

    session.store.delete_sync("numbers/zarr.json")
    zarr.create_array(session.store, name="numbers", shape=(2,), chunks=(2,), dtype="i4")

    after = session.get_node_id("/numbers")
    assert before != after
    assert keys_of(session) == {"zarr.json", "numbers/zarr.json"}
    status = session.status()
    assert (status.deleted_arrays, status.new_arrays) == ({"/numbers"}, {"/numbers"})
    session.commit("another one")
    assert repository.readonly_session("main").get_node_id("/numbers") == after
    assert values(repository.readonly_session("main")) == [0, 0]


def test_a_node_that_is_made_and_deleted_again_leaves_no_trace(repository: Repository) -> None:
    session = repository.writable_session("main")
    make_array(session)

    session.store.sync_clear()

    assert not session.has_uncommitted_changes
    assert session.status().is_empty()


def test_deleting_a_group_deletes_everything_below_it_and_nothing_beside(
    repository: Repository,
) -> None:
    commit_array(repository, "group/deep/numbers")
    commit_array(repository, "group-2/numbers")
    session = repository.writable_session("main")
    make_array(session, "group/new")

    session.store.delete_sync("group/zarr.json")

    assert not any(key.startswith("group/") for key in keys_of(session))
    assert values(session, "group-2/numbers") == [0, 1, 2, 3, 4, 5]
    session.commit("a group less")
    status = repository.diff(
        from_snapshot_id=str(repository.lookup_snapshot(session.snapshot_id).parent_id),
        to_branch="main",
    )
    assert status.deleted_groups == {"/group", "/group/deep"}
    assert status.deleted_arrays == {"/group/deep/numbers"}


def test_chunks_outside_of_a_smaller_grid_are_hidden_in_the_session_and_gone_after_the_commit(
    repository: Repository,
) -> None:
    commit_array(repository)
    session = repository.writable_session("main")
    metadata = json.loads(session.store.get_sync("numbers/zarr.json").to_bytes())  # type: ignore[union-attr]

    set_metadata(session, {**metadata, "shape": [3]})
    smaller = keys_of(session)
    set_metadata(session, {**metadata, "shape": [6]})
    again = keys_of(session)
    set_metadata(session, {**metadata, "shape": [2]})
    session.commit("smaller")
    after = repository.writable_session("main")
    set_metadata(after, {**metadata, "shape": [6]})

    assert {key for key in smaller if "/c/" in key} == {"numbers/c/0", "numbers/c/1"}
    assert {key for key in again if "/c/" in key} == {"numbers/c/0", "numbers/c/1", "numbers/c/2"}
    assert values(after) == [0, 1, -1, -1, -1, -1]


def set_metadata(session: Session, metadata: dict[str, Any]) -> None:
    data = json.dumps(metadata).encode()
    session.store.set_sync("numbers/zarr.json", zarr.core.buffer.cpu.Buffer.from_bytes(data))


def test_the_same_metadata_is_no_change(repository: Repository) -> None:
    commit_array(repository)
    session = repository.writable_session("main")
    data = session.store.get_sync("numbers/zarr.json")
    assert data is not None

    session.store.set_sync("numbers/zarr.json", data)

    assert not session.has_uncommitted_changes


def test_a_node_can_not_become_one_of_the_other_kind(repository: Repository) -> None:
    commit_array(repository)
    session = repository.writable_session("main")
    group = zarr.core.buffer.cpu.Buffer.from_bytes(b'{"zarr_format": 3, "node_type": "group"}')

    with pytest.raises(AlreadyExistsError, match="an array already"):
        session.store.set_sync("numbers/zarr.json", group)


@pytest.mark.parametrize("threshold", [0, 1, 8, 512])
def test_chunks_up_to_the_threshold_are_kept_in_the_manifest(threshold: int) -> None:
    repository = create(config=RepositoryConfig(inline_chunk_threshold_bytes=threshold))
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="a", shape=(3,), chunks=(1,), dtype="u1")
    sizes = {0: max(threshold - 1, 1), 1: max(threshold, 1), 2: threshold + 1}

    for chunk, size in sizes.items():
        data = zarr.core.buffer.cpu.Buffer.from_bytes(b"x" * size)
        session.store.set_sync(f"a/c/{chunk}", data)
    before = [session.chunk_type("/a", [chunk]) for chunk in sizes]
    session.commit("three chunks")

    assert before == [INLINE if size <= threshold else NATIVE for size in sizes.values()]
    reader = repository.readonly_session("main")
    assert [reader.chunk_type("/a", [chunk]) for chunk in sizes] == before
    for chunk, size in sizes.items():
        found = reader.store.get_sync(f"a/c/{chunk}")
        assert found is not None
        assert found.to_bytes() == b"x" * size


def test_discarded_changes_are_forgotten(repository: Repository) -> None:
    commit_array(repository)
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="numbers")[:] = 9
    zarr.create_group(session.store, path="group")

    session.discard_changes()

    assert not session.has_uncommitted_changes
    assert values(session) == [0, 1, 2, 3, 4, 5]
    zarr.open_array(session.store, path="numbers")[0] = 8
    session.commit("one value")
    assert values(repository.readonly_session("main")) == [8, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("key", ["numbers/c/3", "numbers/c/0/0", "numbers/c"])
def test_a_chunk_without_a_place_is_refused(repository: Repository, key: str) -> None:
    commit_array(repository)
    session = repository.writable_session("main")

    with pytest.raises(InvalidInputError, match="and so no chunk"):
        session.store.set_sync(key, zarr.core.buffer.cpu.Buffer.from_bytes(b"12345678"))
    session.store.delete_sync(key)

    assert session.store.get_sync(key) is None
    assert not session.has_uncommitted_changes


def test_a_chunk_without_an_array_is_refused(repository: Repository) -> None:
    session = repository.writable_session("main")

    with pytest.raises(NodeNotFoundError):
        session.store.set_sync("nowhere/c/0", zarr.core.buffer.cpu.Buffer.from_bytes(b"1"))
