"""Tables about a repository with very many chunk references, on two cores.

    python -m benchmarks.tables [--references 5000000] [--rounds 3] [--only chunks storage]

Each table is made whole, with all its columns; of `chunks` sizes, locations and bounds are looked at.
Sessions are started before, workers are not.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.support.measuring import Figures, medians, print_table, run_child

WORKLOADS = "benchmarks.support.table_workloads"
COLUMNS = ("table", "how", "rows", "s", "M references/s")
WAYS = {"frazil.spark.read": "frame", 'format("icechunk")': "data_source", "one process": "here"}
TABLES = ("chunks", "arrays", "virtual_sources", "storage")


def measure(references: int, rounds: int, tables: list[str]) -> Iterator[list[str]]:
    """Rows of the table."""
    with tempfile.TemporaryDirectory() as folder:
        run_child(sys.executable, WORKLOADS, workload="make", folder=folder, references=references)
        for table in tables:
            found: dict[str, list[Figures]] = {}
            for _ in range(rounds):
                for title, way in WAYS.items():
                    figures = run_child(
                        sys.executable, WORKLOADS, workload=way, folder=folder, table=table
                    )
                    found.setdefault(title, []).append(figures)
            for title, each in found.items():
                median = medians(each)
                speed = references / median["seconds"] / 1e6
                yield [
                    table,
                    title,
                    f"{median['rows']:.0f}",
                    f"{median['seconds']:.1f}",
                    f"{speed:.2f}",
                ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--references", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES)
    chosen = parser.parse_args()
    rows = list(measure(chosen.references, chosen.rounds, chosen.only))
    print_table(f"Tables of {chosen.references} references", COLUMNS, rows)


if __name__ == "__main__":
    main()
