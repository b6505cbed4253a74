"""Small work and many small things, beside the official library.

    python -m benchmarks.shapes [--rounds 3] [--only "first value" ...] [--full] [--processor]

- *times* is the official library's time divided by Frazil's: above 1, Frazil is faster.
- Repositories are in memory except where it says *disk*, where Frazil's commits are durable and the
  official ones are left to the operating system.
- A process is new for every figure, and a line that starts with *new process* includes its start.
  What earlier ones have written is on the disk by then, and is deleted at the end: where many files
  were deleted, ext4 creates others slowly for minutes.
- `--processor` measures seconds of the processor, of all threads, where others use the machine, too.
- `--full` makes the histories and hierarchies as long as the longest that the format is used for.
"""

import argparse
import os
import sys
import tempfile
import time

from benchmarks.support.measuring import (
    Figures,
    find_official_python,
    medians,
    print_table,
    run_child,
)

WORKLOADS = "benchmarks.support.shape_workloads"
SIDES = {"frazil": sys.executable, "icechunk": ""}

Shape = tuple[str, dict[str, object]]

SHAPES: dict[str, Shape] = {
    "new process: import": ("import_library", {}),
    "new process: create, commit a group": ("commit_group", {}),
    "new process: open, first value, disk": ("first_value", {}),
    **{
        f"commit {count:,} new one-chunk arrays, {where}": (
            "commit_arrays",
            {"where": where, "count": count},
        )
        for count, where in ((600, "memory"), (600, "disk"), (5_760, "memory"))
    },
    **{
        f"commit over 600 arrays, {where}": (
            "commit_over_arrays",
            {"where": where, "count": 600, "changed": 600},
        )
        for where in ("memory", "disk")
    },
    "commit one chunk, disk": (
        "commit_over_arrays",
        {"where": "disk", "count": 1, "changed": 1},
    ),
    "commit one chunk among 2,000 arrays": (
        "commit_over_arrays",
        {"where": "memory", "count": 2_000, "changed": 1},
    ),
    **{
        f"{verb} {count:,} manifests": (f"{verb.split()[0]}_manifests", {"count": count})
        for verb in ("commit", "read a warm chunk of")
        for count in (10, 1_000, 4_000)
    },
    "commit 2,000 arrays without chunks": (
        "commit_arrays",
        {"where": "memory", "count": 2_000, "value": None},
    ),
    "commit 320 chunks in 8 variables": ("commit_variables", {"variables": 8, "chunks": 40}),
    "after 1,500 commits": ("long_history", {"commits": 1_500}),
    "walk 2,000 members": ("walk_members", {"count": 2_000}),
    "append a step with to_icechunk, commit": ("append_step", {}),
    "commit 100 groups in each other": ("deep_groups", {"depth": 100}),
    "rebase over 100 commits": ("rebase", {"commits": 100}),
    "create 50 tags and 50 branches": ("tags_and_branches", {"count": 50}),
}
FULL: dict[str, Shape] = {
    "commit one chunk among 20,000 arrays": (
        "commit_over_arrays",
        {"where": "memory", "count": 20_000, "changed": 1},
    ),
    "after 10,000 commits": ("long_history", {"commits": 10_000}),
}


def measure(shape: Shape, library: str, python: str, folder: str, processor: bool) -> Figures:
    """The figures of one process."""
    os.sync()  # or the disk is still busy with what the process before it has written
    repository = tempfile.mkdtemp(dir=folder)
    workload, arguments = shape
    if workload == "first_value":
        where = {"library": library, "folder": repository, "processor": processor}
        run_child(python, WORKLOADS, workload="prepare_value", **where)
        return run_child(python, WORKLOADS, workload=workload, started=time.time(), **where)
    if arguments.get("where") == "disk":
        arguments = arguments | {"where": repository}
    if workload in ("commit_group", "import_library"):
        arguments = {"started": time.time()}
    arguments = {"library": library, "processor": processor, **arguments}
    return run_child(python, WORKLOADS, workload=workload, **arguments)


def rows_of(name: str, shape: Shape, rounds: int, folder: str, processor: bool) -> list[list[str]]:
    """The rows of one shape: one, or one for each of its figures."""
    found: dict[str, list[Figures]] = {library: [] for library in SIDES}
    for _ in range(rounds):
        for library, python in SIDES.items():
            found[library].append(measure(shape, library, python, folder, processor))
    ours, official = (medians(figures) for figures in found.values())
    return [
        [
            name if figure == "seconds" else f"{figure} {name}",
            f"{ours[figure] * 1e3:,.3f}",
            f"{official[figure] * 1e3:,.3f}",
            f"{official[figure] / ours[figure]:.2f}",
        ]
        for figure in ours
    ]


def main() -> None:
    """Measure the shapes and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="shapes whose names contain a text")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--processor", action="store_true")
    options = parser.parse_args()
    SIDES["icechunk"] = find_official_python()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in (SHAPES | (FULL if options.full else {})).items():
            if not options.only or any(text in name for text in options.only):
                for row in rows_of(name, shape, options.rounds, folder, options.processor):
                    rows.append(row)
                    print("  ".join(row), file=sys.stderr)
    print_table("Shapes", ("work", "Frazil ms", "official ms", "times"), rows)


if __name__ == "__main__":
    main()
