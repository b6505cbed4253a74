"""Time from a new file to its commit with `frazil run`, in a process of its own and in a resident one.

python -m benchmarks.loop [--rounds N] [--days N]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from statistics import median

from frazil.datasets import run
from tests.datasets.forecasts import DECLARATION, LEADS, MEMBERS, START, Centre, save


def send(centre: Centre, day: int) -> None:
    for lead in LEADS:
        for member in MEMBERS:
            save(centre.path((day, lead, member)), day, lead, member)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--days", type=int, default=60, help="days that are published before")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        centre = Centre(folder / "in")
        text = DECLARATION.format(repository="repo", mode="native", engine="auto", more="")
        (folder / "dataset.toml").write_text(text.replace('lookback = "5d"', 'lookback = "900d"'))
        for day in range(options.days):
            send(centre, day)
        now = START + timedelta(days=options.days + 2 * options.rounds)
        run(folder / "dataset.toml", now=lambda: now)
        day, resident, cold = options.days, [], []
        for _ in range(options.rounds):
            send(centre, day)
            begun = time.perf_counter()
            report = run(folder / "dataset.toml", now=lambda: now)
            resident.append(time.perf_counter() - begun)
            assert report.outcome == "published", report
            day += 1
        command = [sys.executable, "-m", "frazil.cli", "run", "dataset.toml", "--no-progress"]
        for _ in range(options.rounds):
            send(centre, day)
            begun = time.perf_counter()
            subprocess.run(command, cwd=folder, check=True, capture_output=True, env={**os.environ})
            cold.append(time.perf_counter() - begun)
            day += 1
    print(f"new files to commit, in a resident process  {median(resident):5.2f} s")
    print(f"new files to commit, with `frazil run`      {median(cold):5.2f} s")


if __name__ == "__main__":
    main()
