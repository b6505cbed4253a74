"""Reading, writing and committing on a disk and on an S3 server, beside what others do there.

    python -m benchmarks.storage [--rounds 5] [--only disk commits s3]

- *plain* is what `os` does with the fewest calls that could be right: open, fstat, pread, close to
  read; a temporary file and a rename to write. What is read is in the system's memory.
- *official* commits are those of the official library's processes to one local repository; ours add a
  line to one object with `get_versioned` and `replace`. A commit is lost if somebody was told that it
  is in place and it is not in the history. A *blind* writer renames over whatever is there.
- The S3 server is SeaweedFS on the loopback interface; obstore and s3fs are used directly.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.measuring import (
    Figures,
    find_bench_python,
    find_official_python,
    medians,
    print_table,
    run_child,
)
from benchmarks.support.storage_servers import run_s3_server

KIB, MIB = 1 << 10, 1 << 20
SIZES = {KIB: "1 KiB", MIB: "1 MiB", 16 * MIB: "16 MiB"}
AT_ONCE = (1, 16, 64)

DISK = "benchmarks.support.storage_disk"
COMMITS = "benchmarks.support.storage_commits"
OFFICIAL = "benchmarks.support.storage_official"
S3 = "benchmarks.support.storage_s3"
S3FS = "benchmarks.support.storage_s3fs"


@dataclass(frozen=True)
class Case:
    """One thing that is done, at a size and so many times at once."""

    name: str
    workload: str
    size: int
    at_once: int
    operations: int

    @property
    def moved_bytes(self) -> int:
        """How much of an object an operation reads or writes."""
        return KIB if self.workload == "read_range" else self.size


def plan_cases(workloads: dict[str, str], operations: dict[int, int]) -> list[Case]:
    """Every workload at every size and number at once."""
    return [
        Case(name, workload, size, at_once, max(operations[size], at_once))
        for workload, name in workloads.items()
        for size in SIZES
        for at_once in AT_ONCE
    ]


def measure(
    cases: Sequence[Case], rounds: int, run: Callable[[Case], Figures]
) -> list[tuple[Case, Figures]]:
    """The medians of all cases; a round takes each of them once."""
    figures: dict[Case, list[Figures]] = {case: [] for case in cases}
    for number in range(rounds):
        for case in cases:
            figures[case].append(run(case))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return [(case, medians(found)) for case, found in figures.items()]


def print_cases(title: str, base: str, measured: Sequence[tuple[Case, Figures]]) -> None:
    """A row a case; what ours is compared with is the base."""
    others = [side for side in measured[0][1] if side not in (base, "ours")]
    print_table(
        f"{title}: µs an operation",
        ["", "size", "at once", base, "ours", f"ours / {base}", "ours MB/s", *others],
        [
            [
                case.name, SIZES[case.size], str(case.at_once), f"{figures[base] * 1e6:,.1f}",
                f"{figures['ours'] * 1e6:,.1f}", f"{figures['ours'] / figures[base]:.2f}",
                f"{case.moved_bytes / figures['ours'] / 1e6:,.0f}",
                *(f"{figures[side] * 1e6:,.1f}" for side in others),
            ]
            for case, figures in measured
        ],
    )  # fmt: skip


def compare_disk(rounds: int) -> None:
    """Our storage beside plain calls."""
    workloads = {"read": "get", "read_many": "get_many", "write": "put, delete"}
    cases = plan_cases(workloads, {KIB: 1_000, MIB: 64, 16 * MIB: 8})
    ranges = {"read_range": "get 1 KiB of"}
    cases += plan_cases(ranges, dict.fromkeys(SIZES, 1_000))
    print_cases("Disk", "plain", measure(cases, rounds, _run_on_disk))


def _run_on_disk(case: Case) -> Figures:
    return run_child(
        sys.executable,
        DISK,
        workload=case.workload,
        size=case.size,
        at_once=case.at_once,
        operations=case.operations,
    )


def compare_commits(rounds: int) -> None:
    """What a commit costs, and how many of those that processes were told of are lost."""
    costs = {
        size: medians(
            [
                run_child(sys.executable, DISK, workload="commit", size=size, operations=100)
                for _ in range(rounds)
            ]
        )
        for size in (2 * KIB, 200 * KIB)
    }
    print_table(
        "Commit points on a disk: µs an operation",
        ["size", "plain write, fsync, rename, fsync", "replace", "replace, not durable", "create"],
        [
            [f"{size // KIB} KiB", *(f"{seconds * 1e6:,.0f}" for seconds in figures.values())]
            for size, figures in costs.items()
        ],
    )
    _print_losses()
    _print_mixes()


def _print_losses() -> None:
    common = {"processes": 8, "commits": 200}
    ours = {"workload": "commit_ours", **common}
    runs = {
        "ours": run_child(sys.executable, COMMITS, durability="safe", **ours),
        "ours, not durable": run_child(sys.executable, COMMITS, durability="none", **ours),
        "official": run_child(
            find_official_python(), OFFICIAL, workload="commit_official", **common
        ),
    }
    print_table(
        "8 processes × 200 commits to one disk",
        ["", "acknowledged", "lost", "lost %", "commits a second"],
        [
            [
                name, f"{run['acknowledged']:,.0f}", f"{run['lost']:,.0f}",
                f"{100 * run['lost'] / run['acknowledged']:.1f}",
                f"{run['acknowledged'] / run['seconds']:,.0f}",
            ]
            for name, run in runs.items()
        ],
    )  # fmt: skip


def _print_mixes() -> None:
    rows = []
    for ours, blind, think_seconds in ((1, 1, 0.001), (4, 1, 0.001), (1, 4, 0.001), (4, 4, 0.001)):
        mix = {"ours": ours, "blind": blind, "commits": 250, "think_seconds": think_seconds}
        found = run_child(sys.executable, COMMITS, workload="commit_mixed", **mix)
        kept = {side: found[side] - found[f"lost of {side}"] for side in ("ours", "blind")}
        rows.append(
            [
                str(ours), str(blind), f"{kept['ours']:.0f} of {found['ours']:.0f}",
                f"{kept['blind']:.0f} of {found['blind']:.0f}",
            ]
        )  # fmt: skip
    print_table(
        "Commits beside blind writers, each with 1 ms between reading and writing",
        ["Frazil processes", "unconditional writers", "Frazil's kept", "theirs kept"],
        rows,
    )


def compare_s3(rounds: int) -> None:
    """Our storage beside obstore and s3fs."""
    cases = plan_cases({"read": "get", "write": "put"}, {KIB: 100, MIB: 16, 16 * MIB: 2})
    s3fs_python = find_bench_python()
    with tempfile.TemporaryDirectory() as folder, run_s3_server(Path(folder)) as server:

        def run(case: Case) -> Figures:
            arguments = {"workload": case.workload, "size": case.size, "at_once": case.at_once}
            common = {"server": server, "operations": case.operations, **arguments}
            ours = run_child(sys.executable, S3, **common)
            return {**ours, **run_child(s3fs_python, S3FS, **common)}

        print_cases("S3 server on loopback", "obstore", measure(cases, rounds, run))


COMPARISONS = {"disk": compare_disk, "commits": compare_commits, "s3": compare_s3}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(COMPARISONS), choices=list(COMPARISONS))
    options = parser.parse_args()
    for name in options.only:
        COMPARISONS[name](options.rounds)


if __name__ == "__main__":
    main()
