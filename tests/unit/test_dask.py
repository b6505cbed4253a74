"""Dask arrays, written through forks and merged."""

from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import zarr
from dask.array import Array
from numpy.typing import NDArray
from zarr.storage import MemoryStore

from frazil.dask import session_merge_reduction, store_dask
from frazil.distributed import extract_session, merge_sessions
from frazil.repository import Repository
from frazil.repository.session import Session
from frazil.storage import local_filesystem_storage


@pytest.fixture
def session(tmp_path: Path) -> Session:
    repository = Repository.create(local_filesystem_storage(str(tmp_path / "repository")))
    return repository.writable_session("main")


def create_array(session: Session, name: str, shape: tuple[int, ...]) -> "zarr.Array[Any]":
    chunks = tuple(2 for _ in shape)
    return zarr.create_array(session.store, name=name, shape=shape, chunks=chunks, dtype="i4")


def read(session: Session, name: str) -> NDArray[Any]:
    return np.asarray(zarr.open_array(session.store, path=name)[...])


def numbers(shape: tuple[int, ...]) -> NDArray[Any]:
    return np.arange(np.prod(shape), dtype="i4").reshape(shape)


def lazily(data: NDArray[Any]) -> Array:
    array: Array = dask.array.from_array(data, chunks=2)  # type: ignore[no-untyped-call]
    return array


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
@pytest.mark.parametrize("split_every", [None, 2])
def test_arrays_of_several_shapes_are_written_at_once(
    session: Session, scheduler: str, split_every: int | None
) -> None:
    shapes = {"line": (10,), "plane": (6, 5)}
    for name, shape in shapes.items():
        create_array(session, name, shape)
    fork = session.fork()
    targets = [zarr.open_array(fork.store, path=name) for name in shapes]
    sources = [lazily(numbers(shape)) for shape in shapes.values()]

    with dask.config.set(scheduler=scheduler):
        session.merge(store_dask(sources=sources, targets=targets, split_every=split_every))

    for name, shape in shapes.items():
        np.testing.assert_array_equal(read(session, name), numbers(shape))


def test_a_scheduler_can_be_named_in_the_call(session: Session) -> None:
    create_array(session, "line", (10,))
    target = zarr.open_array(session.fork().store, path="line")

    session.merge(
        store_dask(sources=[lazily(numbers((10,)))], targets=[target], scheduler="threads")
    )

    assert read(session, "line").tolist() == list(range(10))


def test_regions_are_written_and_the_rest_is_left(session: Session) -> None:
    create_array(session, "line", (10,))[:] = -1
    target = zarr.open_array(session.fork().store, path="line")

    merged = store_dask(sources=[lazily(numbers((4,)))], targets=[target], regions=[(slice(2, 6),)])
    session.merge(merged)

    found = read(session, "line").tolist()
    assert found == [-1, -1, 0, 1, 2, 3, -1, -1, -1, -1]


def test_one_array_can_be_reduced_without_a_list(session: Session) -> None:
    create_array(session, "line", (10,))
    target = zarr.open_array(session.fork().store, path="line")
    stored = dask.array.store(
        lazily(numbers((10,))),
        target,  # type: ignore[arg-type]
        compute=False,
        return_stored=True,
        load_stored=False,
        lock=False,
    )

    session.merge(session_merge_reduction(stored, split_every=None))

    assert read(session, "line").tolist() == list(range(10))


def test_the_session_of_an_array_is_found(session: Session) -> None:
    array = create_array(session, "line", (10,))

    assert extract_session(array) == session


def test_an_array_of_another_store_has_no_session() -> None:
    array = zarr.create_array(MemoryStore(), shape=(4,), dtype="i4")

    with pytest.raises(TypeError, match="MemoryStore has no session"):
        extract_session(array)


def test_forks_are_merged_whatever_the_lists_they_come_in(session: Session) -> None:
    create_array(session, "line", (6,))
    forks = [session.fork() for _ in range(3)]
    for number, fork in enumerate(forks):
        zarr.open_array(fork.store, path="line")[2 * number : 2 * number + 2] = number + 1

    merged = merge_sessions(forks[0], forks[:2], [forks[1:]])
    session.merge(merged)

    assert merged is forks[0]
    assert read(session, "line").tolist() == [1, 1, 2, 2, 3, 3]


def test_only_forks_can_be_merged(session: Session) -> None:
    with pytest.raises(TypeError, match="Received 'Session'"):
        merge_sessions(session.fork(), session)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no sessions"):
        merge_sessions()
