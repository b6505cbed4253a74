"""Opening and updating repositories with short and long histories, beside the official library.

    python -m benchmarks.repo_info [--rounds 5] [--largest 10000]

- *open* is opening a repository on a local disk and looking up a branch.
- *commit* is an empty commit to it: a snapshot, a transaction log, a copy of `repo` and its successor.
- Both work on copies of one repository. Neither waits for the disk: the official library never does,
  ours is told not to.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence

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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    options = parser.parse_args()
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
