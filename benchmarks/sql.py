"""SQL over arrays beside the same cells as Parquet, on two cores.

    python -m benchmarks.sql [--rounds 3] [--steps 1024] [--only first full selective rows] [--folder F]

- *full* sums a column of values and one of coordinates over all cells of a 1 GiB array; *selective*
  over 1 % of them, chosen by time. *first* is the selective one as the first query of a session.
  *rows* makes rows of all cells and columns, and drops them.
- Parquet is the table of the same cells, written and read by Spark; Xarray and pandas are one process;
  xarray-sql is there if it is installed.
- MB/s are of values as they are in the array. Sessions are started before, and but for *first* workers.
"""

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.support.measuring import Figures, kept_folder, medians, print_table, run_child

WORKLOADS = "benchmarks.support.sql_workloads"
COLUMNS = ("what", "how", "s", "M cells/s", "MB/s", "of Parquet's", "processor s", "chunks read")
WAYS = {
    "frazil.spark.sql": "frazil",
    'format("icechunk")': "data_source",
    "the same, columns named": "data_source_columns",
    "Parquet in Spark": "parquet",
    "Xarray + pandas": "pandas",
    "xarray-sql": "xarray_sql",
}
ROW_WAYS = {
    "frazil.spark.read": "frazil_rows",
    'format("icechunk")': "source_rows",
    "Parquet in Spark": "parquet_rows",
}
PARTS = ["first", "full", "selective", "rows"]
_ON_SPARK = ("frazil", "data_source", "parquet")
_HEIGHT, _WIDTH, _CHUNK_STEPS = 512, 512, 2
_FIRST = np.datetime64("2000-01-01")


def find_ways(what: str) -> dict[str, str]:
    """Those that are installed."""
    if what == "rows":
        return ROW_WAYS
    if what == "first":
        return {title: way for title, way in WAYS.items() if way in _ON_SPARK}
    is_there = importlib.util.find_spec("xarray_sql") is not None
    return {title: way for title, way in WAYS.items() if way != "xarray_sql" or is_there}


def find_part(what: str, steps: int) -> dict[str, str]:
    """The days to ask for: none means all."""
    if what not in ("first", "selective"):
        return {"start": "", "end": ""}
    first = _FIRST + steps // 2
    return {"start": str(first), "end": str(first + max(steps // 100, 1))}


def measure(steps: int, rounds: int, parts: list[str], kept: str | None) -> Iterator[list[str]]:
    """Rows of the table."""
    with kept_folder(kept) as folder:
        if not Path(folder, "parquet", "_SUCCESS").exists():
            size = {"steps": steps, "height": _HEIGHT, "width": _WIDTH, "chunk_steps": _CHUNK_STEPS}
            run_child(sys.executable, WORKLOADS, workload="make", folder=folder, **size)
        for what in parts:
            found: dict[str, list[Figures]] = {}
            for _ in range(rounds):
                for title, way in find_ways(what).items():
                    how = {**find_part(what, steps), "is_first": what == "first"}
                    figures = run_child(
                        sys.executable, WORKLOADS, workload=way, folder=folder, **how
                    )
                    found.setdefault(title, []).append(figures)
            sums = {title: round(each[0]["total"]) for title, each in found.items()}
            assert len(set(sums.values())) == 1, f"the values differ: {sums}"
            yield from rows_of(what, {title: medians(each) for title, each in found.items()})


def rows_of(what: str, found: dict[str, Figures]) -> Iterator[list[str]]:
    """Rows of one query."""
    parquet = found["Parquet in Spark"]["seconds"]
    for title, figures in found.items():
        seconds, cells = figures["seconds"], figures["cells"]
        chunks = ""
        if "chunks" in figures:
            chunks = f"{figures['chunks']:.0f} of {figures['chunks_in_all']:.0f}"
        yield [
            what,
            title,
            f"{seconds:.2f}",
            f"{cells / seconds / 1e6:.1f}",
            f"{cells * 4 / seconds / 1e6:.0f}",
            f"{parquet / seconds:.2f} ×",
            f"{figures['processor']:.1f}",
            chunks,
        ]


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1024, help="of 1 MiB each")
    parser.add_argument("--folder", help="of the array, which is made unless it is there, and kept")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    rows = list(measure(options.steps, options.rounds, options.only, options.folder))
    print_table("SQL over arrays", COLUMNS, rows)


if __name__ == "__main__":
    main()
