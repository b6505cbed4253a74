"""Opening source files, by Frazil's own reader and by VirtualiZarr's parser.

    python -m benchmarks.opening [--rounds 3]

- Processor time of one thread for a file that is in the page cache; nothing but the reading of it.
- *small* is a NetCDF4 file of five compressed variables with 20 chunks in all, *500 chunks* and *10,000
  chunks* are of one variable.
"""

import argparse
import sys
import tempfile

from benchmarks.support.measuring import medians, print_table, run_child

WORKLOADS = "benchmarks.support.opening_workloads"
COLUMNS = ("file", "Frazil ms", "VirtualiZarr ms", "faster by")
FILES = {"small": 0, "500 chunks": 500, "10,000 chunks": 10_000}


def row_of(title: str, chunks: int, rounds: int) -> list[str]:
    """A row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        found = {
            way: medians(
                [
                    run_child(sys.executable, WORKLOADS, workload=way, folder=folder, chunks=chunks)
                    for _ in range(rounds)
                ]
            )["cpu_seconds"]
            for way in ("ours", "theirs")
        }
    return [
        title,
        f"{found['ours'] * 1e3:.2f}",
        f"{found['theirs'] * 1e3:.2f}",
        f"{found['theirs'] / found['ours']:.1f} ×",
    ]


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = [row_of(title, chunks, options.rounds) for title, chunks in FILES.items()]
    print_table("Opening files", COLUMNS, rows)


if __name__ == "__main__":
    main()
