"""Many processes of a real `distributed` cluster write one version, and read it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import xarray as xr
import zarr
from distributed import Client, LocalCluster

import frazil
from frazil.dask import store_dask
from frazil.distributed import merge_sessions
from frazil.xarray import to_icechunk

WORKERS = 2

# One cluster for all of them.
pytestmark = pytest.mark.xdist_group("distributed")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    cluster = LocalCluster(
        n_workers=WORKERS,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        local_directory=str(tmp_path_factory.mktemp("workers")),
    )  # type: ignore[no-untyped-call]
    with cluster, Client(cluster) as client:  # type: ignore[no-untyped-call]
        yield client


@pytest.fixture
def repository(tmp_path: Path) -> frazil.Repository:
    return frazil.Repository.create(frazil.storage_from_url(tmp_path))


def weather(first: int = 0, count: int = 12) -> xr.Dataset:
    hours = np.arange(first, first + count)
    return xr.Dataset(
        {"temperature": (("time", "place"), hours[:, None] * 10.0 + np.arange(4))},
        coords={"time": hours, "place": list("abcd")},
    )


def lazily(dataset: xr.Dataset) -> xr.Dataset:
    return dataset.chunk({"time": 2, "place": 2})


def test_the_workers_are_processes(client: Client) -> None:
    processes = set(client.run(os.getpid).values())

    assert len(processes) == WORKERS
    assert os.getpid() not in processes


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("split_every", [None, 2])
def test_a_dataset_is_written_by_all_workers_in_one_version(
    repository: frazil.Repository, split_every: int | None
) -> None:
    session = repository.writable_session("main")

    to_icechunk(lazily(weather()), session, split_every=split_every)
    session.commit("by the workers")

    found = xr.open_dataset(repository.readonly_session("main"))  # type: ignore[arg-type]
    xr.testing.assert_identical(found.load(), weather())


@pytest.mark.usefixtures("client")
def test_appending_and_regions_in_one_session(repository: frazil.Repository) -> None:
    session = repository.writable_session("main")
    to_icechunk(lazily(weather()), session)
    to_icechunk(lazily(weather(12, 4)), session, append_dim="time")
    part = lazily(weather(4, 4) + 1000).drop_vars("place")
    to_icechunk(part, session, region={"time": slice(4, 8)})
    session.commit("by the workers")

    found = xr.open_dataset(repository.readonly_session("main"))  # type: ignore[arg-type]
    expected = weather(0, 16)
    expected.temperature[4:8] += 1000
    xr.testing.assert_identical(found.load(), expected)


def test_dask_arrays_are_stored_by_all_workers(
    client: Client, repository: frazil.Repository
) -> None:
    assert client.status == "running"
    session = repository.writable_session("main")
    values = np.arange(60, dtype="i4").reshape(10, 6)
    zarr.create_array(session.store, name="plane", shape=(10, 6), chunks=(2, 3), dtype="i4")
    target = zarr.open_array(session.fork().store, path="plane")
    source: Any = dask.array.from_array(values, chunks=(2, 3))  # type: ignore[no-untyped-call]

    session.merge(store_dask(sources=[source], targets=[target]))
    session.commit("by the workers")

    found = zarr.open_array(repository.readonly_session("main").store, path="plane")
    np.testing.assert_array_equal(np.asarray(found[...]), values)


def write_rows(fork: frazil.ForkSession, row: int) -> frazil.ForkSession:
    zarr.open_array(fork.store, path="plane")[row] = os.getpid()
    return fork


@pytest.mark.parametrize("merges_at_once", [False, True])
def test_forks_travel_to_the_workers_and_back(
    client: Client, repository: frazil.Repository, merges_at_once: bool
) -> None:
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="plane", shape=(8, 2), chunks=(1, 2), dtype="i8")

    futures = [client.submit(write_rows, session.fork(), row, pure=False) for row in range(8)]
    forks = client.gather(futures)  # type: ignore[no-untyped-call]
    session.merge(merge_sessions(*forks)) if merges_at_once else session.merge(*forks)
    session.commit("by the workers")

    processes = set(client.run(os.getpid).values())
    found = zarr.open_array(repository.readonly_session("main").store, path="plane")
    assert set(np.asarray(found[...]).ravel().tolist()) <= processes


def test_a_worker_can_not_have_the_session_itself(
    client: Client, repository: frazil.Repository
) -> None:
    session = repository.writable_session("main")

    with pytest.raises(TypeError) as caught:
        client.submit(write_rows, session, 0)

    assert "Session.fork()" in str(caught.value.__cause__)


@pytest.mark.usefixtures("client")
def test_workers_read_what_was_opened_by_url(repository: frazil.Repository, tmp_path: Path) -> None:
    session = repository.writable_session("main")
    to_icechunk(lazily(weather()), session)
    session.commit("first")
    old = xr.open_dataset(f"icechunk+file://{tmp_path}", chunks={}).persist()
    session = repository.writable_session("main")
    to_icechunk(lazily(weather() + 1), session, mode="w")
    session.commit("second")

    new = xr.open_dataset(f"icechunk+file://{tmp_path}", chunks={})

    # What the workers keep of one version is not taken for the other.
    difference = (new.temperature.variable - old.temperature.variable).compute()
    assert (difference == 1).all()


@pytest.mark.usefixtures("client")
def test_the_official_library_writes_the_same(tmp_path: Path) -> None:
    icechunk = pytest.importorskip("icechunk", reason="the official library needs Python 3.12")
    theirs_xarray = pytest.importorskip("icechunk.xarray")
    theirs = icechunk.Repository.create(
        icechunk.local_filesystem_storage(str(tmp_path / "theirs"))
    ).writable_session("main")
    ours = frazil.Repository.create(frazil.storage_from_url(tmp_path / "ours")).writable_session(
        "main"
    )

    for session, write in ((theirs, theirs_xarray.to_icechunk), (ours, to_icechunk)):
        write(lazily(weather()), session)
        write(lazily(weather(12, 4)), session, append_dim="time")
        session.commit("by the workers")

    by_them = open_officially(icechunk, tmp_path / "ours")
    by_us = xr.open_dataset(tmp_path / "theirs", engine="frazil")
    xr.testing.assert_identical(by_them.load(), weather(0, 16))
    xr.testing.assert_identical(by_us.load(), weather(0, 16))
    assert read_metadata(tmp_path / "ours") == read_metadata(tmp_path / "theirs")


def open_officially(icechunk: Any, path: Path) -> xr.Dataset:
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(path)))
    store = repository.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, consolidated=False, chunks=None)
    return found


def read_metadata(path: Path) -> dict[str, Any]:
    group = zarr.open_group(frazil.open_session(path).store, mode="r")
    return {name: array.metadata.to_dict() for name, array in group.arrays()}
