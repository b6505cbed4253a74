"""Questions that people ask of weather data, beside other ways to ask them, on two cores.

    python -m benchmarks.questions [--rounds 3] [--steps 1024] [--only climatology points] [--folder F]

- *climatology* is the mean of each month, *zonal mean* that of each latitude, of a 1 GiB array;
  *polygons* the mean of each of 60 polygons at each time, *points* the values at 100,000 points.
- Xarray, with Dask, and xarray-sql start from the same chunks; DuckDB and Spark from the same cells as
  Parquet. Ways whose package is not installed are left out. Sessions and workers are started before.
"""

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.support.measuring import Figures, kept_folder, medians, print_table, run_child

WORKLOADS = "benchmarks.support.question_workloads"
COLUMNS = ("question", "how", "s", "of Frazil's")
WAYS = {
    "frazil.spark": "frazil",
    "Xarray + Dask": "xarray",
    "xarray-sql": "xarray_sql",
    "DuckDB, Parquet": "duckdb",
    "Spark, Parquet": "parquet",
}
QUESTIONS = {
    "climatology": tuple(WAYS),
    "zonal_mean": tuple(WAYS),
    "polygons": ("frazil.spark", "Xarray + Dask", "DuckDB, Parquet", "Spark, Parquet"),
    "points": ("frazil.spark", "Xarray + Dask", "DuckDB, Parquet", "Spark, Parquet"),
}
_PACKAGES = {"xarray-sql": "xarray_sql", "DuckDB, Parquet": "duckdb"}
_HEIGHT, _WIDTH, _CHUNK_STEPS = 512, 512, 8


def measure(steps: int, rounds: int, questions: list[str], kept: str | None) -> Iterator[list[str]]:
    """Yield the rows of the table."""
    with kept_folder(kept) as folder:
        if not Path(folder, "parquet", "_SUCCESS").exists():
            size = {"steps": steps, "height": _HEIGHT, "width": _WIDTH, "chunk_steps": _CHUNK_STEPS}
            run_child(sys.executable, WORKLOADS, workload="make", folder=folder, **size)
        for question in questions:
            found: dict[str, list[Figures]] = {}
            for _ in range(rounds):
                for title in QUESTIONS[question]:
                    package = _PACKAGES.get(title)
                    if package is None or importlib.util.find_spec(package) is not None:
                        how = {"workload": WAYS[title], "folder": folder, "question": question}
                        found.setdefault(title, []).append(
                            run_child(sys.executable, WORKLOADS, **how)
                        )
            sums = {title: round(each[0]["total"], 1) for title, each in found.items()}
            assert max(sums.values()) - min(sums.values()) <= 1, f"the values differ: {sums}"
            seconds = {title: medians(each)["seconds"] for title, each in found.items()}
            for title, each in seconds.items():
                yield [question, title, f"{each:.2f}", f"{each / seconds['frazil.spark']:.2f} ×"]


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1024, help="of 1 MiB each")
    parser.add_argument("--folder", help="of the array, which is made unless it is there, and kept")
    parser.add_argument("--only", nargs="+", choices=list(QUESTIONS), default=list(QUESTIONS))
    options = parser.parse_args()
    print_table(
        "Questions",
        COLUMNS,
        list(measure(options.steps, options.rounds, options.only, options.folder)),
    )


if __name__ == "__main__":
    main()
