"""A year of scheduled runs on an archive that people work on: the repository ends as the archive."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.archives.files import DAYS, create, ingest, read

DAYS_A_RUN = 1 if os.environ.get("FRAZIL_DEEP") else 14
SHAPE = (16, 36)


def values_of(day: int, version: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng([day, version]).normal(280, 5, SHAPE).astype("f4")


def save_day(path: Path, day: int, version: int = 0) -> None:
    """Write one day; every version has other values."""
    with h5py.File(path, "w") as file:
        for name, values in (("time", [float(day)]), ("y", range(16)), ("x", range(36))):
            file[name] = np.array(values, "f8")
            file[name].make_scale(name)
        file["time"].attrs["units"] = "days since 2020-01-01"
        data = values_of(day, version)[None]
        found = file.create_dataset("t", data=data, chunks=(1, *SHAPE), compression="gzip")
        for axis, name in enumerate(("time", "y", "x")):
            found.dims[axis].attach_scale(file[name])


class Archive:
    """Files that come late, broken, twice or corrected, one day each."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.random = random.Random(20)
        self.versions: dict[int, int] = {}
        self.waiting: dict[int, list[int]] = {}
        self.broken: set[int] = set()

    def path(self, day: int) -> Path:
        return self.folder / f"{day:03d}.h5"

    def receive(self, run: int, days: range) -> None:
        """Let the files of a run arrive."""
        for day in sorted(self.broken):
            save_day(self.path(day), day, self.versions[day])
        self.broken = set()
        if self.versions:
            twice = self.random.choice(sorted(self.versions))
            shutil.copy(self.path(twice), self.folder / f"copy_of_{twice}.h5")
            corrected = self.random.choice(sorted(self.versions))
            self.versions[corrected] += 1
            save_day(self.path(corrected), corrected, self.versions[corrected])
        for day in [*days, *self.waiting.pop(run, [])]:
            if day in days and self.random.random() < 0.15:
                self.waiting.setdefault(run + self.random.randint(1, 3), []).append(day)
                continue
            self.versions[day] = 0
            save_day(self.path(day), day)
            if self.random.random() < 0.05:
                self.path(day).write_bytes(self.path(day).read_bytes()[:3000])
                self.broken.add(day)


@pytest.mark.parametrize(
    ("days", "options"),
    [(364, {}), (84, {"mode": "native", "chunks": {"time": 1}, "expected": {"time": DAYS[:91]}})],
    ids=["virtual", "native and laid out ahead"],
)
def test_a_year_of_runs_ends_as_the_archive(
    tmp_path: Path, days: int, options: dict[str, Any]
) -> None:
    archive, repo = Archive(tmp_path / "files"), create(tmp_path / "repo")
    runs = days // DAYS_A_RUN
    commits = len(list(repo.ancestry(branch="main")))

    for run in range(runs + 4):
        coming = range(run * DAYS_A_RUN, (run + 1) * DAYS_A_RUN) if run < runs else range(0)
        archive.receive(run, coming)
        report = ingest(repo, archive.folder, append_dim="time", on_bad_file="skip", **options)
        commits += report.snapshot_id is not None
        left_out = {Path(each.location).name for each in report.bad}
        assert {archive.path(day).name for day in archive.broken} <= left_out
        assert all(name.startswith("copy") or int(name[:3]) in archive.broken for name in left_out)
        # One chunk a file, virtual or native: nothing else is written again.
        counts = report.metrics
        written = sum(int(str(counts.get(each, 0))) for each in ("references", "chunks_written"))
        assert written <= len(report.files)

    assert len(list(repo.ancestry(branch="main"))) == commits
    found = read(repo)["t"]
    assert sorted(archive.versions) == list(range(days))
    for day, version in archive.versions.items():
        assert (found.sel(time=DAYS[day]).values == values_of(day, version)).all()
    assert found.sizes["time"] == len(options.get("expected", {}).get("time", range(days)))
