"""A tour of Frazil on a local disk: write, append, travel in time, meet conflicts, refer to files.

make demo            # sets everything up, and runs this
python examples/demo.py [folder]
"""

import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import xarray as xr
import zarr

import frazil
import frazil.virtual

DAYS = 60
LATITUDES, LONGITUDES = np.arange(-90, 91, 2.0), np.arange(0, 360, 2.0)


def make_days(first: str, count: int) -> xr.Dataset:
    """Some days of made-up temperature: warm at the equator, cold at the poles, a wave to the east."""
    times = np.datetime64(first, "ns") + np.arange(count) * np.timedelta64(1, "D")
    wave = np.sin(np.deg2rad(LONGITUDES * 3)[None, None, :] + np.arange(count)[:, None, None] / 5)
    belt = 28 - 50 * np.abs(np.sin(np.deg2rad(LATITUDES)))[None, :, None]
    return xr.Dataset(
        {"temperature": (("time", "lat", "lon"), (belt + 5 * wave).astype("f4"))},
        {"time": times, "lat": LATITUDES, "lon": LONGITUDES},
    )


def step(title: str, work: Callable[[], str]) -> None:
    """Do something, and say what it was and how long it took."""
    start = time.perf_counter()
    result = work()
    print(f"{(time.perf_counter() - start) * 1000:7.0f} ms  {title:<44} {result}")


def fill_region(fork: frazil.ForkSession, band: int) -> frazil.ForkSession:
    """What a worker does: write its part of an array through its own fork."""
    array = zarr.open_array(fork.store, path="anomaly")
    array[:, band * 23 : (band + 1) * 23, :] = band
    return fork


class Tour:
    """The steps of the tour, in order."""

    def __init__(self, folder: Path) -> None:
        self.repo = frazil.Repository.create(frazil.local_filesystem_storage(str(folder / "repo")))
        self.folder = folder

    def write(self) -> str:
        """An xarray dataset as the first version."""
        session = self.repo.writable_session("main")
        encoding = {"temperature": {"chunks": (1, len(LATITUDES), len(LONGITUDES))}}
        make_days("2026-01-01", DAYS).to_zarr(session.store, encoding=encoding, consolidated=False)
        return session.commit("January and February")

    def append(self) -> str:
        """More days along the time axis."""
        session = self.repo.writable_session("main")
        make_days("2026-03-02", 30).to_zarr(session.store, append_dim="time", consolidated=False)
        return session.commit("March")

    def mark(self) -> str:
        """A tag stays where it is; a branch goes its own way."""
        tip = self.repo.lookup_branch("main")
        self.repo.create_tag("v1", tip)
        self.repo.create_branch("experiment", tip)
        return f"tags {self.repo.list_tags()}, branches {sorted(self.repo.list_branches())}"

    def travel(self) -> str:
        """Every version can be read for ever."""
        first = list(self.repo.ancestry(branch="main"))[-2]
        before = self.count_days(self.repo.readonly_session(snapshot_id=first.id))
        now = self.count_days(self.repo.readonly_session("main"))
        return f"{before} days in {first.message!r}, {now} now"

    def work_together(self) -> str:
        """Several processes write into one commit."""
        session = self.repo.writable_session("main")
        shape = (DAYS, len(LATITUDES), len(LONGITUDES))
        zarr.create_array(
            session.store, name="anomaly", shape=shape, chunks=(30, 23, 180), dtype="f4"
        )
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            forks = list(pool.map(fill_region, [session.fork() for _ in range(4)], range(4)))
        session.merge(*forks)
        return session.commit("An anomaly, written by two processes")

    def disagree(self) -> str:
        """Two writers of one chunk: the second learns of it, and decides."""
        ours, theirs = (self.repo.writable_session("main") for _ in range(2))
        for session, value in ((theirs, -1), (ours, 1)):
            zarr.open_array(session.store, path="anomaly")[:30, :23, :180] = value
        theirs.commit("Theirs")
        try:
            ours.commit("Ours")
        except frazil.ConflictError as error:
            solver = frazil.BasicConflictSolver(on_chunk_conflict=frazil.VersionSelection.UseOurs)
            ours.commit("Ours", rebase_with=solver)
            return f"{type(error).__name__}, then solved: ours counts"
        return "nobody noticed"

    def look_back(self) -> str:
        """A repository of a generation that no other library opens any more."""
        storage = frazil.local_filesystem_storage(str(self.folder / "old"))
        old = frazil.create_legacy(storage, "0.1.0a10")
        with old.transaction("main", message="as in 2025") as store:
            zarr.create_array(store, name="a", shape=(10,), chunks=(5,), dtype="i4")[:] = 7
        array = zarr.open_array(
            frazil.Repository.open(storage).readonly_session("main").store, path="a"
        )
        return f"{old.dialect.value}: {np.asarray(array[:3]).tolist()}…"

    def refer(self) -> str:
        """NetCDF files as one versioned array, without a copy of their bytes."""
        if sys.version_info < (3, 12):
            return "the readers of NetCDF need Python 3.12"
        archive = self.folder.absolute() / "archive"
        archive.mkdir()
        for month in range(1, 4):
            days = make_days(f"2020-{month:02}-01", 28)
            days.to_netcdf(archive / f"2020-{month:02}.nc", engine="h5netcdf")
        repo = self.create_for(archive)
        sources = [frazil.virtual.open(path) for path in sorted(archive.iterdir())]
        session = repo.writable_session("main")
        frazil.virtual.write(frazil.virtual.combine(sources, "time"), session.store, sources)
        session.commit("The archive")
        store = repo.readonly_session("main").store
        found = xr.open_zarr(store, consolidated=False)
        well = "well" if repo.doctor().is_well else "not well"
        return f"{len(sources)} files, {found.sizes['time']} days, containers are {well}"

    def create_for(self, archive: Path) -> frazil.Repository:
        """A repository that may refer to the files of a folder."""
        prefix = f"{archive.as_uri()}/"
        config = frazil.RepositoryConfig.default()
        store = frazil.local_filesystem_store(str(archive))
        config.set_virtual_chunk_container(frazil.VirtualChunkContainer(prefix, store))
        access = {prefix: frazil.credentials.LocalFileSystemAccess}
        storage = frazil.local_filesystem_storage(str(self.folder / "archive-repo"))
        return frazil.Repository.create(storage, config, access)

    def count_days(self, session: frazil.Session) -> int:
        """How many days a version has."""
        return len(xr.open_zarr(session.store, consolidated=False)["time"])


def main(folder: Path) -> None:
    """Run the tour in a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tour = Tour(folder)
    step("write a dataset with xarray, commit", tour.write)
    step("append a month, commit", tour.append)
    step("tag it, branch off", tour.mark)
    step("travel in time", tour.travel)
    step("write from two processes, one commit", tour.work_together)
    step("meet a conflict, resolve it", tour.disagree)
    step("commit to a repository of an old generation", tour.look_back)
    step("refer to NetCDF files, copy nothing", tour.refer)
    print(f"\nThe history of {folder / 'repo'}:\n")
    print(tour.repo.ancestry_graph(plain=True))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output"))
