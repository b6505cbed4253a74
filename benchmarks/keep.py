"""Garbage collection on Spark: beside the official library, and as repositories grow.

    python -m benchmarks.keep [--rounds 3] [--snapshots 200] [--millions 1 3 10] [--only garbage growth]

- *garbage* goes through 200 snapshots, 2,000 manifests and 200,000 chunk files on a local disk, of
  which half is garbage and is deleted. Each works on copies of the same repository.
- *growth* is a dry run over so many native references and a third as many listed objects, half of which
  are garbage: a storage tells of files that nobody has written. The first run marks all manifests, the
  second finds them marked.
- *start-up* is Spark's, and is not part of the seconds. *driver* is the most memory of the user's own
  process, *worker* that of the largest process that runs tasks.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.support.measuring import Figures, medians, print_table, run_child

WORKLOADS = "benchmarks.support.keep_workloads"
PREPARING = "benchmarks.support.upkeep_preparing"
COLUMNS = ("how", "s", "Frazil is faster by", "start-up s", "driver MB", "worker MB")
GROWTH_COLUMNS = (
    "references", "listed", "first s", "µs a reference", "next s", "driver MB", "worker MB",
)  # fmt: skip
WAYS = {
    "Frazil on Spark": {"workload": "collect", "run_on": "spark"},
    "Frazil in one process": {"workload": "collect", "run_on": "driver"},
    "icechunk": {"workload": "collect_official"},
}


def compare(snapshots: int, rounds: int) -> Iterator[list[str]]:
    """Rows of the first table."""
    found: dict[str, list[Figures]] = {}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "made")
        run_child(
            sys.executable, PREPARING, workload="history", folder=str(made), snapshots=snapshots
        )
        for _ in range(rounds):
            for way, arguments in WAYS.items():
                copy = Path(folder, "copy")
                # Links are enough: neither library writes into a file that is there.
                shutil.copytree(made, copy, copy_function=os.link)
                figures = run_child(sys.executable, WORKLOADS, folder=str(copy), **arguments)
                found.setdefault(way, []).append(figures)
                shutil.rmtree(copy)
    deleted = {way: figures[0]["deleted"] for way, figures in found.items()}
    assert len(set(deleted.values())) == 1, f"not the same was deleted: {deleted}"
    ours = medians(found["Frazil on Spark"])
    for way, all_figures in found.items():
        figures = medians(all_figures)
        ratio = figures["seconds"] / ours["seconds"]
        yield [
            way, f"{figures['seconds']:.2f}", f"{ratio:.1f} ×", f"{figures['startup_seconds']:.1f}",
            f"{figures['driver_bytes'] / 1e6:.0f}", f"{figures['worker_bytes'] / 1e6:.0f}",
        ]  # fmt: skip


def measure_growth(millions: Sequence[int]) -> Iterator[list[str]]:
    """Rows of the second table."""
    for count in (each * 1_000_000 for each in millions):
        with tempfile.TemporaryDirectory() as folder:
            run_child(sys.executable, WORKLOADS, workload="grow", folder=folder, count=count)
            figures = run_child(
                sys.executable, WORKLOADS, workload="collect_grown", folder=folder, count=count
            )
        yield [
            f"{count:,}", f"{figures['listed']:,.0f}", f"{figures['seconds']:.1f}",
            f"{figures['seconds'] / count * 1e6:.2f}", f"{figures['next_seconds']:.1f}",
            f"{figures['driver_bytes'] / 1e6:.0f}", f"{figures['worker_bytes'] / 1e6:.0f}",
        ]  # fmt: skip


def main() -> None:
    """Measure everything and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--snapshots", type=int, default=200, help="with a thousand chunks each")
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--only", nargs="+", choices=("garbage", "growth"), default=None)
    options = parser.parse_args()
    wanted = options.only or ("garbage", "growth")
    if "garbage" in wanted:
        rows = list(compare(options.snapshots, options.rounds))
        print_table(f"Garbage among {options.snapshots * 1000:,} chunks", COLUMNS, rows)
    if "growth" in wanted:
        rows = list(measure_growth(options.millions))
        print_table("Garbage as repositories grow", GROWTH_COLUMNS, rows)


if __name__ == "__main__":
    main()
