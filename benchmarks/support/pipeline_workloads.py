"""Ingests and rechunkings by Frazil on Spark, and by what a user would take otherwise.

Every workload is run in a fresh process on two cores; Spark's start-up is told apart. Each gives the
sum of what it wrote, so that all can be seen to have done the same.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dask
import dask.array
import icechunk
import numpy as np
import xarray as xr
import zarr
from distributed import Client
from icechunk.dask import store_dask
from icechunk.xarray import to_icechunk
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr import open_virtual_mfdataset
from virtualizarr.parsers import HDFParser

import frazil
import frazil.spark
from benchmarks.support.measuring import Figures, answer, timed
from benchmarks.support.pipeline_files import (
    VARIABLES,
    list_archive,
    make_archive,
    make_forecasts,
)
from benchmarks.support.spark_starting import measure_memory, start
from frazil.virtual import from_path

_WORKERS = 2
# It has no types of its own for all that is called here.
_dask: Any = dask.array
_client: Any = Client


def ingest_frazil(folder: str, mode: str, chunk_steps: int, members: int = 0) -> Figures:
    """`frazil.spark.ingest`; natively with chunks of so many steps, or with members."""
    spark, startup_seconds = start()
    repository = frazil.Repository.create(frazil.local_filesystem_storage(_place(folder)))
    options: dict[str, Any] = {"mode": mode}
    if mode == "native":
        options["chunks"] = {"time": chunk_steps}
    options["append_dim"] = "time"
    if members:
        options["append_dim"] = ["member", "time"]
        options["coords"] = {"member": from_path(r"member(\d+)")}
    work = lambda: frazil.spark.ingest(  # noqa: E731
        repository, f"{folder}/archive/**/*.nc", spark=spark, **options
    )
    figures = timed(work)[1]
    spark.stop()
    return {**figures, "startup_seconds": startup_seconds, "sum": _sum(folder)}


def ingest_virtualizarr(
    folder: str,
    parallel: str,
    members: int = 0,
    loaded: tuple[str, ...] = ("time", "lat", "lon"),
    summed: str = VARIABLES[0],
) -> Figures:
    """VirtualiZarr's own way to many files, and the official library."""
    files: Any = [Path(each).as_uri() for each in list_archive(folder)]
    dims: Any = "time"
    if members:
        count = len(files) // members
        files = [files[count * each : count * (each + 1)] for each in range(members)]
        dims = ["member", "time"]
    repository = _create_official(folder)
    mode: Any = parallel or False

    def work() -> None:
        with dask.config.set(scheduler="processes", num_workers=_WORKERS):
            dataset = open_virtual_mfdataset(
                files,
                registry=ObjectStoreRegistry({"file://": LocalStore()}),
                parser=HDFParser(),
                parallel=mode,
                combine="nested",
                concat_dim=dims,
                coords="minimal",
                compat="override",
                loadable_variables=list(loaded),
                decode_times=False,
            )
        session = repository.writable_session("main")
        dataset.vz.to_icechunk(session.store)
        session.commit("virtual")

    figures = {**timed(work)[1], **measure_memory()}
    return {**figures, "startup_seconds": 0, "sum": _sum(folder, summed)}


def ingest_forecasts(folder: str, is_indexed: bool) -> Figures:
    """`frazil.spark.ingest` of GRIB, by its indexes or without."""
    place = Path(folder, "archive" if is_indexed else "without")
    if not place.exists():
        place.mkdir()
        for each in map(Path, list_archive(folder, "grib2")):
            (place / each.name).hardlink_to(each)
    spark, startup_seconds = start()
    repository = frazil.Repository.create(frazil.local_filesystem_storage(_place(folder)))
    work = lambda: frazil.spark.ingest(  # noqa: E731
        repository, f"{place}/*.grib2", append_dim="time", mode="virtual", spark=spark
    )
    report, figures = timed(work)
    spark.stop()
    count = sum(each.references for each in report.variables if each.name == "t")
    return {**figures, "startup_seconds": startup_seconds, "sum": count}


def ingest_dask(folder: str, chunk_steps: int) -> Figures:
    """Xarray, Dask and the official library."""
    repository = _create_official(folder)

    def work() -> None:
        with dask.config.set(scheduler="processes", num_workers=_WORKERS):
            dataset = xr.open_mfdataset(
                list_archive(folder),
                combine="nested",
                concat_dim="time",
                coords="minimal",
                compat="override",
                data_vars="minimal",
                decode_times=False,
                parallel=True,
            )
            for each in dataset.variables.values():
                each.encoding.clear()
            session = repository.writable_session("main")
            fork = session.fork()
            to_icechunk(dataset.chunk({"time": chunk_steps}), fork, mode="w")
            session.merge(fork)
            session.commit("native")

    return {**timed(work)[1], "startup_seconds": 0, "sum": _sum(folder)}


def make_array(folder: str, shape: list[int], chunks: list[int]) -> Figures:
    """An array to rechunk, which both libraries read."""
    repository = frazil.Repository.create(frazil.local_filesystem_storage(f"{folder}/array"))
    session = repository.writable_session("main")
    array = zarr.create_array(
        session.store, name="a", shape=tuple(shape), chunks=tuple(chunks), dtype="f4",
        dimension_names=("time", "lat", "lon"),
    )  # fmt: skip
    block = np.round(np.random.default_rng(1).normal(280, 9, (chunks[0], *shape[1:])), 1)
    for begin in range(0, shape[0], chunks[0]):
        array[begin : begin + chunks[0]] = (block + begin)[: shape[0] - begin].astype("f4")
    session.commit("array")
    return {"seconds": 0.0}


def rechunk_frazil(folder: str, chunks: list[int]) -> Figures:
    """`frazil.spark.rechunk`."""
    spark, startup_seconds = start()
    place = _copy_array(folder)
    repository = frazil.Repository.open(frazil.local_filesystem_storage(place))
    wanted = dict(zip(("time", "lat", "lon"), chunks, strict=True))
    work = lambda: frazil.spark.rechunk(repository, "a", wanted, output="b", spark=spark)  # noqa: E731
    figures = timed(work)[1]
    spark.stop()
    return {**figures, "startup_seconds": startup_seconds, "sum": _sum_of(repository, "b")}


def rechunk_dask(folder: str, chunks: list[int]) -> Figures:
    """Dask's own rechunking, in threads, and the official library."""
    place = _copy_array(folder)
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(place))

    def work() -> None:
        session = repository.writable_session("main")
        source = zarr.open_array(session.store, path="a", mode="r")
        target = zarr.create_array(
            session.store, name="b", shape=source.shape, chunks=tuple(chunks), dtype=source.dtype
        )
        with dask.config.set(scheduler="threads", num_workers=_WORKERS):
            lazy = _dask.from_zarr(source).rechunk(tuple(chunks))
            _dask.store(lazy, target, lock=False)
        session.commit("rechunked")

    figures = timed(work)[1]
    ours = frazil.Repository.open(frazil.local_filesystem_storage(place))
    return {**figures, "startup_seconds": 0, "sum": _sum_of(ours, "b")}


def rechunk_distributed(folder: str, chunks: list[int]) -> Figures:
    """Dask's own rechunking on a cluster of two processes, with the official library's forks."""
    place = _copy_array(folder)
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(place))

    def work() -> None:
        session = repository.writable_session("main")
        source = zarr.open_array(session.store, path="a", mode="r")
        zarr.create_array(
            session.store, name="b", shape=source.shape, chunks=tuple(chunks), dtype=source.dtype
        )
        session.commit("room")
        session = repository.writable_session("main")
        fork = session.fork()
        target = zarr.open_array(fork.store, path="b", mode="r+")
        lazy = _dask.from_zarr(source).rechunk(tuple(chunks))
        session.merge(store_dask(sources=[lazy], targets=[target]))
        session.commit("rechunked")

    begin = time.perf_counter()
    with _client(n_workers=_WORKERS, threads_per_worker=1, dashboard_address=None) as client:
        client.wait_for_workers(_WORKERS)
        startup_seconds = time.perf_counter() - begin
        figures = timed(work)[1]
    ours = frazil.Repository.open(frazil.local_filesystem_storage(place))
    return {**figures, "startup_seconds": startup_seconds, "sum": _sum_of(ours, "b")}


def _place(folder: str) -> str:
    place = f"{folder}/repository"
    shutil.rmtree(place, ignore_errors=True)
    return place


def _copy_array(folder: str) -> str:
    place = _place(folder)
    shutil.copytree(f"{folder}/array", place)
    return place


def _create_official(folder: str) -> icechunk.Repository:
    config = icechunk.RepositoryConfig.default()
    prefix = f"file://{folder}/"
    store = icechunk.local_filesystem_store(f"{folder}/")
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, store))
    return icechunk.Repository.create(
        icechunk.local_filesystem_storage(_place(folder)),
        config,
        authorize_virtual_chunk_access={prefix: icechunk.credentials.LocalFileSystemAccess},
    )


def _sum(folder: str, name: str = VARIABLES[0]) -> float:
    """The sum of one variable at some steps, by Frazil, whoever wrote it."""
    storage = frazil.local_filesystem_storage(f"{folder}/repository")
    containers: Mapping[str, Any] = (
        frazil.Repository.fetch_config(storage) or frazil.RepositoryConfig.default()
    ).virtual_chunk_containers or {}
    access = dict.fromkeys(containers, frazil.credentials.LocalFileSystemAccess)
    repository = frazil.Repository.open(storage, authorize_virtual_chunk_access=access)
    return _sum_of(repository, name)


def _sum_of(repository: frazil.Repository, name: str) -> float:
    array = zarr.open_array(repository.readonly_session("main").store, path=name, mode="r")
    steps = range(0, array.shape[0], max(1, array.shape[0] // 5))
    return float(sum(np.sum(np.asarray(array[step]), dtype="f8") for step in steps))


WORKLOADS: dict[str, Callable[..., Figures]] = {
    each.__name__: each
    for each in (
        make_archive, make_forecasts, make_array, ingest_frazil, ingest_virtualizarr, ingest_dask,
        ingest_forecasts, rechunk_frazil, rechunk_dask, rechunk_distributed,
    )
}  # fmt: skip

if __name__ == "__main__":
    answer(WORKLOADS)
