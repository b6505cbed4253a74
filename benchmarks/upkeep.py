"""Upkeep of large repositories, beside the official library.

    python -m benchmarks.upkeep [--rounds 3] [--scale 1]

- *garbage* and *stats* go through 200 snapshots, 2,000 manifests and 200,000 chunks on a local disk;
  half of all is garbage, and collecting it deletes it.
- *diff* tells the million chunks of a commit, as lists, and as Frazil's columns beside official lists;
  *rebase* puts a session of a million references on top of it, and no chunk is in both.
- *rewrite* brings the two million references of one manifest into a hundred, with the commit.
- Either library works on copies of the same repository. Processor seconds are those of all threads.
- Peak memory is by how much the work raised the process's memory.
"""

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.support.measuring import (
    Figures,
    find_official_python,
    medians,
    print_table,
    run_child,
)

WORKLOADS = "benchmarks.support.upkeep_workloads"
PREPARING = "benchmarks.support.upkeep_preparing"
OURS, OFFICIAL = "frazil", "icechunk"
SNAPSHOTS, ROWS = 200, 1000
COLUMNS = (
    "what", "Frazil s", "official s", "faster by", "Frazil CPU s", "official CPU s", "peak MB",
    "official MB",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One workload over rounds."""

    title: str
    workload: str
    repository: str
    arguments: dict[str, int | str] = field(default_factory=dict)
    rounds: dict[str, list[Figures]] = field(default_factory=dict)

    def measure(self, library: str, python: str, folder: Path) -> None:
        """Run it once, on a copy of its repository."""
        with tempfile.TemporaryDirectory(dir=folder) as copies:
            copy = f"{copies}/repo"
            # Links are enough: neither library writes into a file that is there.
            shutil.copytree(folder / self.repository, copy, copy_function=os.link)
            figures = run_child(
                python, WORKLOADS, workload=self.workload, library=library, folder=copy,
                **self.arguments,
            )  # fmt: skip
        self.rounds.setdefault(library, []).append(figures)

    def cells(self) -> list[str]:
        """A row of the table: seconds, their ratio, memory."""
        ours, official = medians(self.rounds[OURS]), medians(self.rounds[OFFICIAL])
        return [
            self.title,
            f"{ours['seconds']:.2f}",
            f"{official['seconds']:.2f}",
            f"{official['seconds'] / ours['seconds']:.1f} ×",
            f"{ours['cpu_seconds']:.2f}",
            f"{official['cpu_seconds']:.2f}",
            f"{ours['peak_bytes'] / 1e6:.0f}",
            f"{official['peak_bytes'] / 1e6:.0f}",
        ]


def plan_lines(snapshots: int, rows: int) -> list[Line]:
    """What is measured."""
    chunks = snapshots * 1000
    references = rows * 1000
    return [
        Line(f"garbage, {chunks:,} chunks", "garbage_collect", "history"),
        Line(f"stats, {chunks:,} chunks", "chunk_storage_stats", "history"),
        *(
            Line(
                f"diff, {references:,} chunks as {form}",
                "diff",
                "references",
                {"rows": rows, "form": form},
            )
            for form in ("lists", "columns")
        ),
        Line(f"rebase, {references:,} chunks", "rebase", "references", {"rows": rows}),
        Line(f"rewrite, {2 * references:,} references", "rewrite_manifests", "references"),
    ]


def prepare(folder: Path, snapshots: int, rows: int) -> None:
    """The two repositories that all copies are of."""
    for repository, size in (("history", {"snapshots": snapshots}), ("references", {"rows": rows})):
        where = str(folder / repository)
        run_child(sys.executable, PREPARING, workload=repository, folder=where, **size)


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    snapshots, rows = int(SNAPSHOTS * options.scale), int(ROWS * options.scale)
    pythons = {OURS: sys.executable, OFFICIAL: find_official_python()}
    lines = plan_lines(snapshots, rows)
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name), snapshots, rows)
        for _ in range(options.rounds):
            for line in lines:
                for library, python in pythons.items():
                    line.measure(library, python, Path(name))
    print_table("Upkeep", COLUMNS, [line.cells() for line in lines])


if __name__ == "__main__":
    main()
