"""Jobs with many references, in a fresh process: many small files with many chunks each, and tasks."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import zarr

import frazil
import frazil.spark
from benchmarks.support import grib_archive
from benchmarks.support.measuring import Figures, answer
from benchmarks.support.spark_starting import (
    CLUSTER,
    MASTER,
    kill_executor,
    measure_memory,
    start,
    watch_workers,
)
from frazil.spark.ingestion.discovery import discover, list_files
from frazil.spark.ingestion.ledger import Entry, read_ledger, write_ledger
from frazil.spark.runtime import Runner
from frazil.spark.transaction import committing, write_regions
from frazil.storage.wrappers import NO_FAULT, ForwardingStorage, Injection, Request
from frazil.virtual.source_formats import SourceStores

STEPS, CHUNKS_A_STEP = 5, 100
REFERENCES_A_FILE = STEPS * CHUNKS_A_STEP
REFERENCES_A_STEP = 10_000


def make_files(folder: str, count: int) -> Figures:
    """Files that follow each other in time: copies of one with other times in it."""
    begin = time.perf_counter()
    template = Path(folder, "template")
    offset = _write_template(template)
    data = bytearray(template.read_bytes())
    archive = Path(folder, "archive")
    archive.mkdir(exist_ok=True)
    for number in range(count):
        times = np.arange(number * STEPS, (number + 1) * STEPS, dtype="<i8").tobytes()
        data[offset : offset + len(times)] = times
        (archive / f"file-{number:06}.nc").write_bytes(data)
    return {"seconds": time.perf_counter() - begin}


def _write_template(path: Path) -> int:
    """A file as the library of NetCDF lays it out; gives the place of its times."""
    side = round(CHUNKS_A_STEP**0.5)
    scales = {"time": np.arange(STEPS), "y": np.arange(side) * 1.0, "x": np.arange(side) * 1.0}
    with h5py.File(path, "w") as file:
        for name, values in scales.items():
            file[name] = values
            file[name].make_scale(name)
        file["time"].attrs["units"] = "days since 2000-01-01"
        made = file.create_dataset("t", (STEPS, side, side), "f4", chunks=(1, 1, 1))
        made[...] = np.arange(made.size).reshape(made.shape)
        made.attrs["units"] = "K"
        for axis, name in enumerate(scales):
            made.dims[axis].attach_scale(file[name])
        return int(file["time"].id.get_offset())


def ingest(folder: str, count: int) -> Figures:
    """One job over the first so many files."""
    spark, startup_seconds = start()
    archive = sorted(Path(folder, "archive").iterdir())[:count]
    repository = frazil.Repository.create(
        frazil.local_filesystem_storage(f"{folder}/repository-{count}-{time.time_ns()}")
    )
    begin = time.perf_counter()
    report = frazil.spark.ingest(
        repository, [str(each) for each in archive], append_dim="time", spark=spark
    )
    seconds = time.perf_counter() - begin
    memory = measure_memory()
    _verify(repository, report.snapshot_id, count)
    spark.stop()
    return {"seconds": seconds, "startup_seconds": startup_seconds, **memory}


def make_forecasts(folder: str, count: int, members: int = grib_archive.MEMBERS) -> Figures:
    """Files of forecasts with their indexes; see `grib_archive`."""
    begin = time.perf_counter()
    grib_archive.write_archive(f"{folder}/forecasts-of-{members}", count, members)
    return {"seconds": time.perf_counter() - begin}


def ingest_forecasts(
    folder: str,
    count: int,
    members: int = grib_archive.MEMBERS,
    kill_after: float = 0.0,
    kill_executor_after: float = 0.0,
    has_executors: float = 0.0,
) -> Figures:
    """One job over so many files of forecasts; an executor or the driver may be killed meanwhile."""
    spark, startup_seconds = start(CLUSTER if has_executors else MASTER)
    paths = grib_archive.write_archive(f"{folder}/forecasts-of-{members}", count, members)
    storage = frazil.local_filesystem_storage(_place_of(folder, count, members))
    kept = sum(int(each.key.rpartition("-")[2]) for each in storage.list("_frazil/parsed/"))
    repository = frazil.Repository.open_or_create(storage)
    with watch_workers() as workers:
        if kill_after:
            threading.Timer(kill_after, os.kill, (os.getpid(), signal.SIGKILL)).start()
        if kill_executor_after:
            threading.Timer(kill_executor_after, kill_executor).start()
        begin = time.perf_counter()
        report = frazil.spark.ingest(
            repository, paths, append_dim=["time", "step"], mode="virtual", spark=spark
        )
        seconds = time.perf_counter() - begin
    memory = measure_memory()
    spark.stop()
    assert report.metrics["references"] == count * grib_archive.FIELDS * members
    return {
        "seconds": seconds, "startup_seconds": startup_seconds, "worker_bytes": max(workers),
        "tasks": report.tasks, "kept_files": kept, **memory,
    }  # fmt: skip


def _place_of(folder: str, count: int, members: int) -> str:
    return f"{folder}/forecasts-{count}-of-{members}"


def read_forecasts(
    folder: str, count: int, samples: int, members: int = grib_archive.MEMBERS
) -> Figures:
    """Read values of random files and fields with the official library; all must be right."""
    icechunk: Any = import_module("icechunk")  # the other workloads don't need it

    begin = time.perf_counter()
    storage = icechunk.local_filesystem_storage(_place_of(folder, count, members))
    config = icechunk.Repository.fetch_config(storage)
    access = icechunk.containers_credentials(
        dict.fromkeys(config.virtual_chunk_containers, icechunk.credentials.LocalFileSystemAccess)
    )
    repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access)
    group: Any = zarr.open_group(repository.readonly_session("main").store, mode="r")
    fields = [(name, level) for name in grib_archive.VARIABLES.values()
              for level in grib_archive.LEVELS]  # fmt: skip
    levels, leads = group["isobaricInhPa"][:].tolist(), group["step"][:].tolist()
    times = group["time"][:].tolist()
    steps, inits = min(count, grib_archive.LEADS), -(-count // grib_archive.LEADS)
    assert (len(leads), len(times)) == (steps, inits)
    assert group["number"].size == members
    random = np.random.default_rng(0)
    for number in random.choice(count, samples).tolist():
        place, field = grib_archive.Place(number), int(random.integers(len(fields)))
        name, level = fields[field]
        values = group[name][place.init, place.lead, 0, levels.index(level)]
        assert values.ravel()[0] == np.float32(place.value(field)), (number, field, values)
    return {"seconds": time.perf_counter() - begin}


def keep_forecasts(folder: str, count: int, verb: str) -> Figures:
    """Maintain the repository of so many files of forecasts, in one process."""
    where = _place_of(folder, count, grib_archive.MEMBERS)
    storage, job = frazil.local_filesystem_storage(where), frazil.spark.Job(run_on="driver")
    repository = frazil.Repository.open(storage)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    if verb == "stats":
        found = frazil.spark.stats(repository, job=job)
        assert found.virtual_bytes > 0
    elif verb == "check":
        assert frazil.spark.check(repository, deep=True, job=job).is_healthy
    elif verb == "gc":
        frazil.spark.collect_garbage(repository, timedelta(0), dry_run=True, job=job)
    else:
        target = frazil.local_filesystem_storage(f"{where}-copy")
        frazil.spark.copy(storage, target, job=job)
        shutil.rmtree(f"{where}-copy")
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    return {"seconds": seconds, "cpu": cpu, **measure_memory()}


def _verify(repository: frazil.Repository, snapshot_id: str | None, count: int) -> None:
    assert snapshot_id is not None
    (commit, *_) = repository.ancestry(branch="main")
    assert commit.metadata["frazil_job"]["references"] == count * REFERENCES_A_FILE


def set_references(folder: str, count: int, returned: int) -> Figures:
    """One job whose tasks set so many references, of which they return some to the driver."""
    spark, startup_seconds = start()
    storage = frazil.local_filesystem_storage(f"{folder}/set-{count}-{returned}-{time.time_ns()}")
    repository = frazil.Repository.create(storage)
    steps = count // REFERENCES_A_STEP
    side = round(REFERENCES_A_STEP**0.5)
    with committing("set references", repository, "main", None, spark) as run:
        session = run.open_session()
        zarr.create_array(
            session.store, name="a", shape=(steps, side, side), chunks=(1, 1, 1), dtype="f4"
        )
        runner = Runner(run.job, spark, returned_references=returned)
        groups = [[(start, min(start + 5, steps))] for start in range(0, steps, 5)]
        begin = time.perf_counter()
        write_regions(runner, session, _set_steps, groups)
        report = run.commit(session, None)
        seconds = time.perf_counter() - begin
    memory = measure_memory()
    assert report.chunks == count
    spark.stop()
    return {"seconds": seconds, "startup_seconds": startup_seconds, **memory}


def _set_steps(session: frazil.Session, steps: tuple[int, int]) -> None:
    side = round(REFERENCES_A_STEP**0.5)
    places = np.indices((steps[1] - steps[0], side, side)).reshape(3, -1).T
    places[:, 0] += steps[0]
    numbers = np.arange(len(places))
    session.store.set_virtual_columns(
        "a", places, (numbers % 100, [f"s3://bucket/file-{steps[0]}-{n}" for n in range(100)]),
        numbers * 1000, np.full(len(places), 1000), validate_containers=False,
    )  # fmt: skip


FOLDER_FILES = 1000
SIDE = 32


def make_ledger(folder: str, count: int) -> Figures:
    """Write a repository with a step of each of so many files, and the files, empty but the first."""
    begin = time.perf_counter()
    archive = Path(folder, "days")
    for number in range(count):
        path = archive / f"{number // FOLDER_FILES:05}" / f"{number:07}.nc"
        if number % FOLDER_FILES == 0:
            path.parent.mkdir(parents=True)
        path.touch()
    first = archive / "00000" / "0000000.nc"
    _write_day(first, 0)
    repository = frazil.Repository.create(frazil.local_filesystem_storage(f"{folder}/ledger"))
    frazil.ingest(repository, first, append_dim="time")
    # Opened again with the splits that the first ingest has configured.
    session = frazil.open_repository(f"{folder}/ledger").writable_session("main")
    group = zarr.open_group(session.store, mode="r+")
    time_array, data = group["time"], group["t"]
    assert isinstance(time_array, zarr.Array)
    assert isinstance(data, zarr.Array)
    time_array.resize((count,))
    time_array[:] = np.arange(count)
    data.resize((count, SIDE, SIDE))
    files = list_files(discover([archive], SourceStores()))
    places = np.zeros((count, 3), int)
    places[:, 0] = np.arange(count)
    session.store.set_virtual_columns(
        "t", places, (places[:, 0], [each.location for each in files]), places[:, 1],
        np.full(count, 4 * SIDE**2), validate_containers=False,
    )  # fmt: skip
    names = frozenset({"t", "time", "x", "y"})
    entries = [
        Entry(each.location, "", each.version, {"time": (number, number + 1)}, "job", names)
        for number, each in enumerate(files)
    ]
    write_ledger(session.store, read_ledger(session.store), entries)
    session.commit("as if they were ingested")
    return {"seconds": time.perf_counter() - begin}


def _write_day(path: Path, number: int) -> None:
    with h5py.File(path, "w") as file:
        for name, values in (("time", [number]), ("y", range(SIDE)), ("x", range(SIDE))):
            file[name] = np.array(values, "i8")
            file[name].make_scale(name)
        file["time"].attrs["units"] = "hours since 1900-01-01"
        data = np.full((1, SIDE, SIDE), number, "f4")
        made = file.create_dataset("t", data=data, chunks=data.shape, compression="gzip")
        for axis, name in enumerate(("time", "y", "x")):
            made.dims[axis].attach_scale(file[name])


def ingest_known(folder: str, count: int, new: int) -> Figures:
    """Ingest all files of an archive, of which so many are new."""
    archive = Path(folder, "days")
    (archive / "new").mkdir(exist_ok=True)
    for number in range(count, count + new):
        _write_day(archive / "new" / f"{number:07}.nc", number)
    repository = frazil.open_repository(f"{folder}/ledger")
    begin = time.perf_counter()
    report = frazil.ingest(repository, f"{archive}/**/*.nc", append_dim="time")
    seconds = time.perf_counter() - begin
    assert (len(report.files), len(report.known)) == (new, count)
    assert (report.snapshot_id is None) == (new == 0)
    return {"seconds": seconds, **measure_memory()}


WRITERS = 4
"""Writers of arrays of their own; one more appends to the array of the ingest."""


def prepare_beside(folder: str, count: int) -> Figures:
    """A repository with the first file, all steps laid out, and an array for each writer."""
    repository = frazil.Repository.create(_storage_beside(folder))
    first = str(Path(folder, "archive", "file-000000.nc"))
    expected = {"time": np.datetime64("2000-01-01", "D") + np.arange(count * STEPS)}
    frazil.ingest(repository, [first], append_dim="time", expected=expected)
    session = repository.writable_session("main")
    for number in range(WRITERS):
        zarr.create_array(
            session.store, name=f"w{number}", shape=(10_000,), chunks=(1,), dtype="i4"
        )
    session.commit("arrays of the writers")
    return {}


def write_beside(folder: str, number: int, seconds: float) -> Figures:
    """Commit once a second: a chunk of an own array, or one more step of the ingest's array."""
    storage = _Recording(_storage_beside(folder), Path(folder, f"writer-{number}"))
    repository = frazil.Repository.open(storage)
    latencies: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and not Path(folder, "done").exists():
        begin = time.monotonic()
        session = repository.writable_session("main")
        if number < WRITERS:
            zarr.open_array(session.store, path=f"w{number}")[len(latencies)] = 1
        else:
            _append_step(session)
        session.commit("beside", rebase_with=frazil.ConflictDetector(), rebase_tries=100)
        latencies.append(time.monotonic() - begin)
        time.sleep(max(0.0, begin + 1 - time.monotonic()))
    return {
        "commits": len(latencies),
        "p50_ms": float(np.percentile(latencies, 50)) * 1e3,
        "p99_ms": float(np.percentile(latencies, 99)) * 1e3,
    }


class _Recording(ForwardingStorage):
    """Notes the keys of the manifests that are written through it in a file."""

    def __init__(self, inner: frazil.Storage, file: Path) -> None:
        super().__init__(inner)
        self._file = file

    def _begin(self, request: Request) -> Injection:
        keys = [each for each in request.keys if each.startswith("manifests/")]
        if request.verb.is_write and keys:
            with self._file.open("a") as file:
                file.writelines(f"{key}\n" for key in keys)
        return NO_FAULT


def _append_step(session: frazil.Session) -> None:
    for name in ("time", "t"):
        array = zarr.open_array(session.store, path=name)
        array.resize((array.shape[0] + 1, *array.shape[1:]))
        array[-1] = array.shape[0] - 1


def ingest_beside(folder: str, count: int) -> Figures:
    """One job over the other files, while writers commit; gives what it wrote more than once.

    It yields the cores to the writers, which would have machines of their own.
    """
    os.nice(15)
    spark, _ = start()
    repository = frazil.Repository.open(_storage_beside(folder))
    archive = sorted(Path(folder, "archive").iterdir())[1:count]
    before = _sizes(repository)
    begin = time.perf_counter()
    report = frazil.spark.ingest(
        repository, [str(each) for each in archive], append_dim="time", spark=spark
    )
    seconds = time.perf_counter() - begin
    assert report.snapshot_id is not None
    Path(folder, "done").touch()
    sizes = {key: size for key, size in _sizes(repository).items() if key not in before}
    parts = report.metrics["references"]
    assert parts == len(archive) * REFERENCES_A_FILE
    used = _used_manifests(repository)
    theirs = {key for each in Path(folder).glob("writer-*") for key in each.read_text().split()}
    manifests = {
        key: size for key, size in sizes.items()
        if key.startswith("manifests/") and key not in theirs
    }  # fmt: skip
    needed = sum(size for key, size in manifests.items() if key.removeprefix("manifests/") in used)
    conflicts = repository.lookup_snapshot(report.snapshot_id).metadata["__icechunk"]
    assert isinstance(conflicts, dict)
    return {
        "seconds": seconds, "amplification": sum(manifests.values()) / needed,
        "rebases": float(conflicts["rebase_attempts"]), **measure_memory(),
    }  # fmt: skip


def _sizes(repository: frazil.Repository) -> dict[str, int]:
    return {each.key: each.size_bytes for each in repository.storage.list("")}


def _used_manifests(repository: frazil.Repository) -> set[str]:
    session = repository.readonly_session("main")
    return {str(each.id) for each in session.state.view.snapshot.manifest_files}


def _storage_beside(folder: str) -> frazil.Storage:
    return frazil.local_filesystem_storage(f"{folder}/beside")


WORKLOADS: dict[str, Callable[..., Figures]] = {
    "make_forecasts": make_forecasts, "ingest_forecasts": ingest_forecasts,
    "read_forecasts": read_forecasts, "keep_forecasts": keep_forecasts,
    "make_files": make_files, "ingest": ingest, "set_references": set_references,
    "make_ledger": make_ledger, "ingest_known": ingest_known,
    "prepare_beside": prepare_beside, "write_beside": write_beside, "ingest_beside": ingest_beside,
}  # fmt: skip

if __name__ == "__main__":
    answer(WORKLOADS)
