"""Time from a new file to its commit, and of derived datasets after one more step.

python -m benchmarks.loop [--rounds N] [--days N] [--steps N] [--side N]
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import xarray as xr

import frazil
from frazil.datasets import run
from frazil.spark import Derivation, Job, derive
from tests.datasets.forecasts import DECLARATION, LEADS, MEMBERS, START, Centre, save

LAYOUTS: dict[str, dict[str, Any]] = {
    "another layout": {"chunks": {"time": 500, "y": 16, "x": 16}},
    "daily means": {"by": {"time": "1D"}},
    "pyramid of 2 levels": {"by": {"y": 2, "x": 2}, "levels": 2},
    "function": {"function": np.sqrt},
    "climatology, mean": {"groupby": "time.month"},
    "climatology, max": {"groupby": "time.month", "how": "max"},
}


def send(centre: Centre, day: int) -> None:
    for lead in LEADS:
        for member in MEMBERS:
            save(centre.path((day, lead, member)), day, lead, member)


def measure(function: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    result = function()
    return time.perf_counter() - begun, result


def count_processor() -> float:
    """Return the processor time of this process and of those that it started."""
    used = [resource.getrusage(e) for e in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def time_runs(rounds: int, days: int) -> None:
    """Print the time from new files to their commit, in a resident process and in a new one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        centre = Centre(folder / "in")
        text = DECLARATION.format(repository="repo", mode="native", engine="auto", more="")
        (folder / "dataset.toml").write_text(text.replace('lookback = "5d"', 'lookback = "900d"'))
        for day in range(days):
            send(centre, day)
        now = START + timedelta(days=days + 2 * rounds)
        run(folder / "dataset.toml", now=lambda: now)
        command = [sys.executable, "-m", "frazil.cli", "run", "dataset.toml", "--no-progress"]
        # An installed package is compiled; the first process compiles this one.
        own = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        own["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        day, resident, cold = days, [], []
        for turn in range(2 * rounds + 1):
            send(centre, day + turn)
            before = count_processor()
            if turn < rounds:
                seconds, report = measure(lambda: run(folder / "dataset.toml", now=lambda: now))
                assert report.outcome == "published", report
                resident.append((seconds, count_processor() - before))
            else:
                seconds, _ = measure(
                    lambda: subprocess.run(
                        command, cwd=folder, check=True, capture_output=True, env=own
                    )
                )
                cold.append((seconds, count_processor() - before))
    for title, found in (("in a resident process", resident), ("with `frazil run`", cold[1:])):
        seconds, processor = map(median, zip(*found, strict=True))
        print(f"new files to commit, {title:22} {seconds:5.2f} s, processor {processor:5.2f} s")


def time_derivations(steps: int, side: int) -> None:
    """Print the time of derived datasets of an array, whole and after one more step."""
    with tempfile.TemporaryDirectory() as name:
        repo = frazil.Repository.create(frazil.local_filesystem_storage(f"{name}/repo"))
        times = np.datetime64("2020-01-01", "ns") + np.arange(steps + 1) * np.timedelta64(1, "h")
        values = np.random.default_rng(1).random((steps + 1, side, side), np.float32)
        whole = xr.Dataset({"v": (("time", "y", "x"), values)}, {"time": times})
        encoding = {"v": {"chunks": (1, side, side)}, "time": {"chunks": (512,)}}
        with repo.transaction("main", message="source") as store:
            whole.isel(time=slice(0, steps)).to_zarr(
                store, group="source", encoding=encoding, consolidated=False
            )
        found = {}
        job = Job(run_on="driver", progress=False)
        for number, (title, options) in enumerate(LAYOUTS.items()):
            what = Derivation(output=f"derived-{number}", source="source", **options)
            begun = time.process_time()
            full, before = measure(partial(derive, repo, what, job=job))
            found[title] = what, full, time.process_time() - begun, before
        with repo.transaction("main", message="one more") as store:
            whole.isel(time=slice(steps, None)).to_zarr(
                store, group="source", append_dim="time", consolidated=False
            )
        print(f"\n{'derived, ' + str(steps) + ' steps':26}  whole     one more step")
        for title, (what, full, processor, before) in found.items():
            begun = time.process_time()
            seconds, after = measure(partial(derive, repo, what, job=job))
            ratio, work = seconds / full, after.elements / before.elements
            used = (time.process_time() - begun) / processor
            print(
                f"{title:26} {full:6.2f} s  {seconds:6.2f} s  {ratio:6.1%}  processor {used:.1%}"
                f"  elements {work:.2%}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--days", type=int, default=60, help="days that are published before")
    parser.add_argument("--steps", type=int, default=10_000, help="steps of the derived array")
    parser.add_argument("--side", type=int, default=64, help="cells of a step along y and x")
    options = parser.parse_args()
    if options.rounds:
        time_runs(options.rounds, options.days)
    if options.steps:
        time_derivations(options.steps, options.side)


if __name__ == "__main__":
    main()
