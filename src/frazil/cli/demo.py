"""The demo: an archive becomes a repository, grows, is asked, computed with and kept, in a minute.

`archive` makes the files, and `tour` does the rest, which takes Spark.
"""

import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr
from rich.console import Console
from rich.table import Table

import frazil
import frazil.spark
from frazil.errors import InvalidInputError
from frazil.spark import checks
from frazil.web.report import render_report

HOURS = (0, 6, 12, 18)
LATITUDES = np.arange(88.0, -89.0, -4.0)
LONGITUDES = np.arange(0.0, 360.0, 4.0)


def make_day(day: np.datetime64) -> xr.Dataset:
    """Return temperature and rain of a day, with seasons and with waves that move to the east."""
    times = day.astype("datetime64[ns]") + np.array(HOURS) * np.timedelta64(1, "h")
    number = int((day - np.datetime64("2024-01-01")).astype(int)) + np.array(HOURS) / 24
    latitude, longitude = np.deg2rad(LATITUDES)[:, None], np.deg2rad(LONGITUDES)[None, :]
    season = np.cos(2 * np.pi * (number - 196) / 366)[:, None, None] * np.sin(latitude)
    passed = number[:, None, None]
    tilt = np.abs(latitude)
    wave = np.sin(3 * longitude - 3 * tilt - passed / 3) * np.cos(latitude) ** 2
    eddy = np.sin(7 * longitude + 6 * tilt - passed / 1.5) * np.sin(2 * latitude) ** 2
    temperature = 243 + 58 * np.cos(latitude) ** 2 + 14 * season + 4 * wave + 5 * eddy
    band = np.exp(-(((latitude - 0.12 * np.sin(2 * longitude - passed / 9)) / 0.15) ** 2))
    showers = band * (0.6 + 0.4 * np.sin(5 * longitude - passed))
    fronts = np.maximum(0, eddy) ** 2 * np.exp(-(((tilt - 0.85) / 0.25) ** 2))
    rain = 16 * np.maximum(0, showers - 0.2) + 14 * np.maximum(0, fronts - 0.2)
    dims = ("time", "lat", "lon")
    return xr.Dataset(
        {
            "t2m": (dims, temperature, {"units": "K", "long_name": "temperature at 2 metres"}),
            "rain": (dims, rain, {"units": "mm", "long_name": "rain in 6 hours"}),
        },
        {"time": times, "lat": LATITUDES, "lon": LONGITUDES},
        {"title": "made-up weather", "Conventions": "CF-1.11"},
    )


def write_archive(folder: Path, first: str, days: int) -> list[Path]:
    """Write the files of some days."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for day in np.datetime64(first) + np.arange(days):
        path = folder / f"weather_{day}.nc"
        make_day(day).to_netcdf(path, engine="h5netcdf", encoding=_ENCODING)
        written.append(path)
    return written


_CHUNKS = (1, len(LATITUDES), len(LONGITUDES))
_PACKED: dict[str, Any] = {
    "dtype": "i2",
    "_FillValue": -32768,
    "zlib": True,
    "complevel": 4,
    "shuffle": True,
}
_ENCODING: dict[str, dict[str, Any]] = {
    "t2m": {**_PACKED, "scale_factor": 0.01, "add_offset": 270.0, "chunksizes": _CHUNKS},
    "rain": {**_PACKED, "scale_factor": 0.01, "add_offset": 0.0, "chunksizes": _CHUNKS},
    "time": {"units": "hours since 2024-01-01", "dtype": "i8"},
}

_WARM = """
SELECT month(time) AS month, round(avg(t2m) - 273.15, 1) AS celsius, count(*) AS cells
FROM t2m WHERE time >= '2024-02-01' AND lat > 60 GROUP BY month(time) ORDER BY month
"""


def run_demo(folder: Path, console: Console | None = None, spark: Any = None) -> None:
    """Run the demo in a folder, which is emptied first, on a session of its own or on the given one."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "archive").is_dir():
        raise InvalidInputError(f"{folder} has files of its own: name another folder for the demo")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tour = Tour(folder.absolute(), console or Console(highlight=False), spark)
    for title, step in (
        ("write an archive of 60 daily NetCDF files", tour.write_files),
        ("start Spark", tour.start),
        ("ingest it by reference, in one commit", tour.ingest),
        ("append 30 more files", tour.append),
        ("ingest again: nothing to do", tour.ingest_again),
        ("query with SQL, reading only the chunks needed", tour.ask),
        ("read an earlier version", tour.travel),
        ("two writers, one chunk: resolve the conflict", tour.disagree),
        ("monthly means of 90 days, computed by tasks", tour.compute),
        ("check everything", tour.check),
        ("write a report", tour.report),
        ("expire old versions, collect garbage", tour.clean),
    ):
        tour.step(title, step)
    tour.end()


class Tour:
    """State that the steps of the demo share."""

    def __init__(self, folder: Path, console: Console, spark: Any = None) -> None:
        self._folder = folder
        self._archive = folder / "archive"
        self._console = console
        self._repo = frazil.Repository.create(
            frazil.local_filesystem_storage(str(folder / "repository"))
        )
        self._spark = spark
        self._is_ours = spark is None
        self._first: str | None = None
        self._history = ""
        self._table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for name in ("seconds", "step", "result"):
            self._table.add_column(name, justify="right" if name == "seconds" else "left")

    def step(self, title: str, work: Callable[[], str]) -> None:
        """Do something, say what it was, and keep it for the table at the end."""
        self._console.print(f"… {title}", style="dim")
        start = time.perf_counter()
        result = work()
        self._table.add_row(f"{time.perf_counter() - start:.1f}", title, result)

    def end(self) -> None:
        """Show what was done."""
        if self._is_ours:
            self._spark.stop()
        self._console.print()
        self._console.print(self._table)
        self._console.print("\nThe history, before old versions expired:\n")
        self._console.print(self._history, markup=False)
        self._console.print(
            f"Look at {self._folder / 'report.html'}, or type: "
            f"frazil serve {self._folder / 'repository'} --authorize '*'",
            markup=False, soft_wrap=True,
        )  # fmt: skip

    def write_files(self) -> str:
        """Write the archive, as a weather service would have it."""
        files = write_archive(self._archive, "2024-01-01", 60)
        return f"{sum(each.stat().st_size for each in files) / 2**20:.1f} MiB"

    def start(self) -> str:
        """Start Spark, with nothing configured."""
        self._spark = frazil.spark.session(self._spark, app_name="frazil demo")
        if self._is_ours:
            self._spark.sparkContext.setLogLevel("ERROR")
        return f"Spark {self._spark.version}, {self._spark.sparkContext.master}"

    def ingest(self) -> str:
        """Ingest the archive as one group."""
        report = self._ingest(checks=[checks.monotonic(), checks.complete()])
        self._authorize()
        self._first = report.snapshot_id
        return f"{self._count()} time steps, nothing copied, checked before publishing"

    def append(self) -> str:
        """Append the files that arrived since."""
        write_archive(self._archive, "2024-03-01", 30)
        report = self._ingest()
        self._repo.create_tag("v1", str(report.snapshot_id))
        return f"{self._count()} time steps, tagged v1"

    def ingest_again(self) -> str:
        """Ingest again; files in the ledger are skipped."""
        assert self._ingest().snapshot_id is None
        return "all 90 files are in the ledger, no commit"

    def _ingest(self, **options: Any) -> Any:
        files = str(self._archive / "*.nc")
        return frazil.spark.ingest(
            self._repo,
            files,
            append_dim="time",
            job=frazil.spark.Job(run_on="spark"),
            spark=self._spark,
            **options,
        )

    def ask(self) -> str:
        """Query the whole dataset."""
        rows = frazil.spark.sql(self._repo, _WARM, spark=self._spark, authorize=["*"]).collect()
        return ", ".join(f"month {row.month}: {row.celsius} °C" for row in rows) + " north of 60°"

    def travel(self) -> str:
        """Read an older version."""
        before = self._count(snapshot_id=self._first)
        return f"{before} steps in the first version, {self._count()} now"

    def disagree(self) -> str:
        """Let two writers conflict, and resolve it in favour of the second."""
        with self._repo.transaction("main", message="Somebody's notes") as store:
            zarr.create_array(store, name="notes/quality", shape=(90,), chunks=(30,), dtype="i1")
        ours, theirs = (self._repo.writable_session("main") for _ in range(2))
        for session, value in ((theirs, 1), (ours, 2)):
            zarr.open_array(session.store, path="notes/quality")[:30] = value
        theirs.commit("Theirs")
        try:
            ours.commit("Ours")
        except frazil.ConflictError as error:
            solver = frazil.BasicConflictSolver(on_chunk_conflict=frazil.VersionSelection.UseOurs)
            ours.commit("Ours", rebase_with=solver)
            return f"{type(error).__name__}, then rebased with our version"
        return "nobody noticed"

    def compute(self) -> str:
        """Compute an array from virtual chunks."""
        frazil.spark.transform(
            self._repo,
            ["t2m"],
            "climatology/t2m",
            reduce="mean",
            groupby="time.month",
            job=frazil.spark.Job(run_on="spark"),
            spark=self._spark,
        )
        store = self._repo.readonly_session("main").store
        found = xr.open_zarr(store, group="climatology", consolidated=False)["t2m"]
        means = np.asarray(found.mean(("lat", "lon"))) - 273.15
        return "global means " + ", ".join(f"{each:.1f} °C" for each in means)

    def check(self) -> str:
        """Check every chunk and every source file."""
        report = self._repo.check(deep=True, virtual=True)
        state = "healthy" if report.is_healthy else "damaged"
        counts = report.counts
        return f"{state}: {counts.virtual_refs} virtual references in {counts.snapshots} snapshots"

    def clean(self) -> str:
        """Expire old versions and collect garbage."""
        self._history = str(self._repo.ancestry_graph(branch="main", plain=True))
        now = datetime.now(UTC)
        released = self._repo.expire_snapshots(now)
        done = self._repo.garbage_collect(now)
        objects = done.chunks_deleted + done.manifests_deleted + done.snapshots_deleted
        return f"{len(released)} snapshots expired, {objects} objects deleted"

    def report(self) -> str:
        """Write a report with pictures."""
        path = self._folder / "report.html"
        path.write_text(render_report(self._repo, str(self._folder / "repository")), "utf-8")
        return f"{path.name}: a map of each array, the history, the chunks"

    def _authorize(self) -> None:
        """Authorize access to the containers that the ingest declared."""
        self._repo = frazil.Repository.open(self._repo.storage).authorize("*")

    def _count(self, **version: Any) -> int:
        session = self._repo.readonly_session(**(version or {"branch": "main"}))
        return len(xr.open_zarr(session.store, consolidated=False)["time"])
