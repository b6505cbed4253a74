"""Old generations written to through Zarr, and read by a second reader that knows nothing of Frazil."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from frazil import Repository, Session, create_legacy
from frazil.format.header import Dialect
from frazil.storage.local import Durability, LocalStorage
from tests.alpha_reader import OldRepository
from tests.protocol_repositories import SEQUENCED
from tests.repositories import dangling_files, keys_of

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
BIG = np.random.default_rng(0).normal(size=(4, 300))


def on_disk(folder: Path) -> LocalStorage:
    return LocalStorage(folder, durability=Durability.NONE)


def write_everything(session: Session, dialect: Dialect) -> None:
    """Groups, arrays of every type, chunks of both kinds, and an array without axes."""
    root = zarr.create_group(session.store, attributes={"title": "everything", "n": [1, None, 2.5]})
    group = root.create_group("group", attributes={"deep": {"er": True}})
    root.create_group("doomed").create_array("a", shape=(2,), chunks=(1,), dtype="i4")[:] = 1
    for dtype in DTYPES:
        array = group.create_array(dtype, shape=(5,), chunks=(2,), dtype=dtype, fill_value=1)
        array[1:4] = np.arange(3).astype(dtype)
    big = root.create_array(
        "big",
        shape=BIG.shape,
        chunks=(2, 100),
        dtype="float64",
        fill_value=np.nan,
        dimension_names=["y", None],
        attributes={"units": "m"},
    )
    big[:] = BIG
    root.create_array("scalar", shape=(), dtype="float32", fill_value=-np.inf)[...] = 4.5
    root.create_array("empty", shape=(3, 3), chunks=(1, 1), dtype="int16")
    if dialect is not Dialect.DRAFT:
        words = root.create_array("words", shape=(3,), chunks=(2,), dtype="str", fill_value="-")
        words[:2] = np.array(["ä", "☀"], dtype=object)


def change_something(session: Session) -> None:
    """Chunks and nodes that go, come and change; arrays that grow and shrink."""
    root = zarr.open_group(session.store)
    del root["doomed"]
    root.update_attributes({"title": "less"})
    open_array(session, "group/int32").resize((2,))
    open_array(session, "group/float32").resize((9,))
    open_array(session, "group/float32")[7] = 7
    open_array(session, "big")[0, :100] = 0
    session.store.delete_sync("big/c/1/1")
    root.create_array("new", shape=(2,), chunks=(1,), dtype="uint8")[:] = 200


def open_array(session: Session, path: str) -> "zarr.Array[Any]":
    return zarr.open_array(session.store, path=path)


def everything_in(session: Session) -> dict[str, bytes]:
    """All keys with their bytes."""
    found = {key: session.store.get_sync(key) for key in keys_of(session)}
    return {key: data.to_bytes() for key, data in found.items() if data is not None}


def everything_seen_by_the_second_reader(folder: Path, branch: str) -> dict[str, Any]:
    """The same, with metadata taken apart."""
    nodes = OldRepository(folder).read_branch(branch).nodes
    metadata = {f"{path}/zarr.json".lstrip("/"): node.metadata for path, node in nodes.items()}
    chunks = {
        "/".join([f"{path}/c".lstrip("/"), *map(str, where)]): data
        for path, node in nodes.items()
        for where, data in node.chunks.items()
    }
    return metadata | chunks


def take_apart(contents: dict[str, bytes]) -> dict[str, Any]:
    return {
        key: simplify(json.loads(data)) if key.endswith("zarr.json") else data
        for key, data in contents.items()
    }


def simplify(metadata: dict[str, Any]) -> dict[str, Any]:
    """Without members that say nothing."""
    return {
        key: value
        for key, value in metadata.items()
        if value is not None and (key != "storage_transformers" or value)
    }


@pytest.mark.parametrize("dialect", SEQUENCED)
def test_what_zarr_writes_is_what_the_second_reader_reads(tmp_path: Path, dialect: Dialect) -> None:
    repository = create_legacy(on_disk(tmp_path), dialect.value)
    session = repository.writable_session("main")
    write_everything(session, dialect)
    pending = everything_in(session)

    first = session.commit("everything", {"n": 1})

    found = everything_seen_by_the_second_reader(tmp_path, "main")
    assert found == take_apart(pending)
    assert everything_in(repository.readonly_session("main")).keys() == pending.keys()

    repository.create_branch("other", first)
    repository.create_tag("first", first)
    changing = repository.writable_session("other")
    change_something(changing)
    pending = everything_in(changing)
    second = changing.commit("something", {"n": 2})

    assert everything_seen_by_the_second_reader(tmp_path, "other") == take_apart(pending)
    assert everything_seen_by_the_second_reader(tmp_path, "main") == found
    known = OldRepository(tmp_path)
    assert known.branches() == {"main": first, "other": second}
    assert known.tags() == {"first": first}
    history = known.read_branch("other").history
    assert [each.message for each in history][:2] == ["something", "everything"]
    assert [each.metadata for each in history][:2] == [{"n": 2}, {"n": 1}]


@pytest.mark.parametrize("dialect", SEQUENCED)
def test_what_zarr_wrote_is_read_by_every_opener_of_the_repository(
    tmp_path: Path, dialect: Dialect
) -> None:
    repository = create_legacy(on_disk(tmp_path), dialect.value)
    session = repository.writable_session("main")
    write_everything(session, dialect)
    session.commit("everything")

    again = Repository.open(on_disk(tmp_path))
    reader = again.readonly_session("main")

    assert np.array_equal(np.asarray(open_values(reader, "big")), BIG)
    assert open_values(reader, "scalar") == 4.5
    for dtype in DTYPES:
        expected = np.array([1, 0, 1, 2, 1]).astype(dtype)
        values = open_values(reader, f"group/{dtype}")
        assert values.dtype == np.dtype(dtype)
        assert np.array_equal(values, expected)
    if dialect is not Dialect.DRAFT:
        assert open_values(reader, "words").tolist() == ["ä", "☀", "-"]
    kinds = {
        path: reader.chunk_type(path, [0] * axes).name
        for path, axes in {"/big": 2, "/scalar": 0, "/group/int8": 1, "/empty": 2}.items()
    }
    assert kinds == {
        "/big": "native",
        "/scalar": "inline",
        "/group/int8": "inline",
        "/empty": "uninitialized",
    }
    assert dangling_files(again) == set()


def open_values(session: Session, path: str) -> Any:
    return np.asarray(zarr.open_array(session.store, path=path, mode="r")[...])


@pytest.mark.parametrize("dialect", SEQUENCED)
def test_a_repository_that_was_opened_anew_is_committed_to(
    tmp_path: Path, dialect: Dialect
) -> None:
    session = create_legacy(on_disk(tmp_path), dialect.value).writable_session("main")
    write_everything(session, dialect)
    session.commit("everything")

    for number in range(3):
        session = Repository.open(on_disk(tmp_path)).writable_session("main")
        open_array(session, "group/int64")[number] = 10 + number
        session.commit(f"commit {number}")

    values = open_values(Repository.open(on_disk(tmp_path)).readonly_session("main"), "group/int64")
    assert values.tolist() == [10, 11, 12, 2, 1]
    messages = [each.message for each in OldRepository(tmp_path).read_branch("main").history]
    assert messages[:4] == ["commit 2", "commit 1", "commit 0", "everything"]
