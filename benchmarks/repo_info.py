"""Opening and updating repositories with short and long histories, beside the official library.

    python -m benchmarks.repo_info [--rounds 5] [--largest 10000] [--explorer]

- *open* is opening a repository on a local disk and looking up a branch.
- *commit* is an empty commit to it: a snapshot, a transaction log, a copy of `repo` and its successor.
- Both work on copies of one repository. Neither waits for the disk: the official library never does,
  ours is told not to.
- *explorer* is the first contentful paint of pages of `frazil serve` in Chromium, of a repository with
  10,000 commits and 2,000 arrays: of a new server as its first page (cold), and later (warm).
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.support.measuring import (
    Figures,
    find_official_python,
    medians,
    print_table,
    run_child,
)

SIZES = (10, 1_000, 10_000)
WORKLOADS = {"open": "open, look up a branch", "commit": "commit"}

OURS, OFFICIAL = "benchmarks.support.repo_info_ours", "benchmarks.support.repo_info_official"


def measure(
    snapshots: int, rounds: int, official_python: str
) -> dict[str, tuple[Figures, Figures]]:
    """Ours and the official library's figures of each workload, in alternation."""
    found: dict[str, tuple[list[Figures], list[Figures]]] = {name: ([], []) for name in WORKLOADS}
    sides = ((sys.executable, OURS), (official_python, OFFICIAL))
    for _ in range(rounds):
        for workload, figures in found.items():
            for (python, module), side in zip(sides, figures, strict=True):
                with tempfile.TemporaryDirectory() as folder:
                    run_child(
                        sys.executable, OURS, workload="make", folder=folder, snapshots=snapshots
                    )
                    side.append(run_child(python, module, workload=workload, folder=folder))
    return {name: (medians(ours), medians(official)) for name, (ours, official) in found.items()}


def describe(
    snapshots: int, figures: dict[str, tuple[Figures, Figures]]
) -> Sequence[Sequence[str]]:
    """A row a workload."""
    return [
        [
            f"{snapshots:,}",
            WORKLOADS[name],
            f"{ours['seconds'] * 1000:.2f}",
            f"{official['seconds'] * 1000:.2f}",
            f"{ours['seconds'] / official['seconds']:.2f}",
        ]
        for name, (ours, official) in figures.items()
    ]


PAGES = {
    "overview": "", "data": "data", "array": "array?path=/group-01/array-01", "history": "history",
    "storage": "storage",
}  # fmt: skip


@contextmanager
def serve(folder: str) -> Iterator[str]:
    """Serve the pages of a repository in a process of its own."""
    command = [sys.executable, "-u", "-m", "frazil.cli", "serve", folder, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        yield server.stderr.readline().split()[0]
        server.terminate()


@contextmanager
def start_browser(profile: str) -> Iterator[Any]:
    """Start Chromium, without a window and with its cache in a folder."""
    from selenium import webdriver  # noqa: PLC0415 (only for these figures)

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium-browser"
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


def measure_paint(browser: Any, address: str) -> float:
    """Return the milliseconds from the request of a page to its first contentful paint."""
    script = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    browser.get(address)
    for _ in range(200):
        found = browser.execute_script(script)
        if found is not None:
            return float(found)
        time.sleep(0.05)
    raise RuntimeError(f"{address} painted nothing")


def measure_explorer(rounds: int) -> None:
    """Print the first paint of pages, each as the first one of a new server and once more."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in PAGES}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as profile:
        run_child(sys.executable, OURS, workload="make", folder=folder, snapshots=SIZES[-1])
        run_child(sys.executable, OURS, workload="arrays", folder=folder, count=2000)
        with start_browser(profile) as browser:
            browser.get("data:text/html,<p>a page, so that the browser has started</p>")
            for _ in range(rounds):
                for name, page in PAGES.items():
                    with serve(folder) as site:
                        cold, warm = (measure_paint(browser, site + page) for _ in range(2))
                    found[name].append((cold, warm))
    rows = [
        [name, *(f"{statistics.median(each):.0f}" for each in zip(*times, strict=True))]
        for name, times in found.items()
    ]
    title = "First paint of the explorer, 10,000 commits and 2,000 arrays: milliseconds"
    print_table(title, ["page", "cold", "warm"], rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--explorer", action="store_true", help="only the pages, in Chromium")
    options = parser.parse_args()
    if options.explorer:
        measure_explorer(options.rounds)
        return
    official_python = find_official_python()
    rows: list[Sequence[str]] = []
    for snapshots in (size for size in SIZES if size <= options.largest):
        rows += describe(snapshots, measure(snapshots, options.rounds, official_python))
        print(f"measured {snapshots:,} snapshots", file=sys.stderr)
    print_table(
        "Repositories with long histories: milliseconds (ratio: ours to the official library's)",
        ["snapshots", "work", "ours", "official", "ratio"],
        rows,
    )


if __name__ == "__main__":
    main()
