"""References to chunks in other files, beside the official library.

    python -m benchmarks.virtual [--rounds 3] [--millions 1 10]

- *set + commit* gives an array a million references and more, over 10,000 files, and commits them to
  a local disk; once through the call that both libraries have, once through Frazil's columns.
- *find one* is from opening the repository to the size of one chunk.
- Peak memory is by how much the work raised the process's memory.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.support.measuring import (
    Figures,
    find_official_python,
    medians,
    print_table,
    run_child,
)

WORKLOADS = "benchmarks.support.virtual_workloads"
OURS, OFFICIAL = "frazil", "icechunk"
COLUMNS = (
    "what", "Frazil s", "official s", "faster by", "peak MB", "official MB", "of its memory",
)  # fmt: skip
ARR, BY_COLUMNS, FIND = "set_virtual_refs_arr + commit", "columns + commit", "find one"


def measure(millions: int, rounds: int, pythons: dict[str, str]) -> dict[str, list[Figures]]:
    """The figures of all rounds, by workload and library."""
    found: dict[str, list[Figures]] = {}
    references = millions * 1_000_000
    for _ in range(rounds):
        for library, python in pythons.items():
            with tempfile.TemporaryDirectory() as folder:
                what = {"library": library, "folder": folder, "references": references}
                forms = {ARR: "arr"} | ({BY_COLUMNS: "columns"} if library == OURS else {})
                for title, form in forms.items():
                    figures = run_child(
                        python, WORKLOADS, workload="set_references", form=form, **what
                    )
                    found.setdefault(f"{library} {title}", []).append(figures)
                figures = run_child(python, WORKLOADS, workload="find_reference", **what)
                found.setdefault(f"{library} {FIND}", []).append(figures)
    return found


def rows_of(millions: int, found: dict[str, list[Figures]]) -> Iterator[list[str]]:
    """Rows of the table: seconds, ratios, memory."""
    for title, peer in ((ARR, ARR), (BY_COLUMNS, ARR), (FIND, FIND)):
        ours, official = medians(found[f"{OURS} {title}"]), medians(found[f"{OFFICIAL} {peer}"])
        yield [
            f"{millions} M: {title}",
            f"{ours['seconds']:.3f}",
            f"{official['seconds']:.3f}",
            f"{official['seconds'] / ours['seconds']:.1f} ×",
            f"{ours['peak_bytes'] / 1e6:.0f}",
            f"{official['peak_bytes'] / 1e6:.0f}",
            f"{ours['peak_bytes'] / official['peak_bytes']:.2f} ×",
        ]


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 10])
    options = parser.parse_args()
    pythons = {OURS: sys.executable, OFFICIAL: find_official_python()}
    rows = [
        row
        for millions in options.millions
        for row in rows_of(millions, measure(millions, options.rounds, pythons))
    ]
    print_table("Virtual references", COLUMNS, rows)


if __name__ == "__main__":
    main()
