"""Questions that people ask of weather data, beside other ways to ask them, on two cores.

    python -m benchmarks.questions [--rounds 3] [--steps 1024] [--only climatology points] [--folder F]

- *climatology* is the mean of each month, *zonal mean* that of each latitude, of a 1 GiB array;
  *polygons* the mean of each of 60 polygons at each time, *points* the values at 100,000 points.
- Xarray, with Dask, and xarray-sql start from the same chunks; DuckDB and Spark from the same cells as
  Parquet. Ways whose package is not installed are left out. Sessions and workers are started before.
- Processor seconds are of all threads and processes, the garbage collector of Java included.
- A way that fails, or takes longer than `--seconds` in its process, is shown with the reason. All
  answers are compared.
"""

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.measuring import kept_folder, medians, print_table, run_child

WORKLOADS = "benchmarks.support.question_workloads"
COLUMNS = ("question", "how", "s", "of Frazil's", "processor s")
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


def measure(
    steps: int, rounds: int, questions: list[str], seconds: float, kept: str | None
) -> Iterator[list[str]]:
    """Yield the rows of the table."""
    with kept_folder(kept) as folder:
        if not Path(folder, "parquet", "_SUCCESS").exists():
            size = {"steps": steps, "height": _HEIGHT, "width": _WIDTH, "chunk_steps": _CHUNK_STEPS}
            run_child(sys.executable, WORKLOADS, workload="make", folder=folder, **size)
        for question in questions:
            found: dict[str, list[Any]] = {}
            for _ in range(rounds):
                for title in QUESTIONS[question]:
                    package = _PACKAGES.get(title)
                    if package is None or importlib.util.find_spec(package) is not None:
                        found.setdefault(title, []).append(
                            _ask(folder, WAYS[title], question, seconds)
                        )
            yield from _compare(question, found)


def _ask(folder: str, way: str, question: str, seconds: float) -> Any:
    """Return the figures of a way, or the reason why there are none."""
    how = {"workload": way, "folder": folder, "question": question}
    try:
        return run_child(sys.executable, WORKLOADS, seconds, **how)
    except subprocess.TimeoutExpired:
        return f"over {seconds:.0f}"
    except subprocess.CalledProcessError:
        return "failed"


def _compare(question: str, found: dict[str, list[Any]]) -> Iterator[list[str]]:
    """Yield the rows of a question, whose answers must be equal."""
    done = {
        title: each for title, each in found.items() if not any(isinstance(e, str) for e in each)
    }
    answers = {title: each[0].pop("answer") for title, each in done.items()}
    first, *_ = answers.values()
    for title, answer in answers.items():
        np.testing.assert_allclose(answer, first, rtol=1e-6, err_msg=f"{question}: {title}")
    figures = {
        title: medians([{name: e[name] for name in ("seconds", "processor")} for e in each])
        for title, each in done.items()
    }
    for title, each in found.items():
        if title in figures:
            seconds, processor = figures[title].values()
            ratio = f"{seconds / figures['frazil.spark']['seconds']:.2f} ×"
            yield [question, title, f"{seconds:.2f}", ratio, f"{processor:.1f}"]
        else:
            yield [question, title, next(e for e in each if isinstance(e, str)), "", ""]


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1024, help="of 1 MiB each")
    parser.add_argument("--seconds", type=float, default=60, help="of each process, start included")
    parser.add_argument("--folder", help="of the array, which is made unless it is there, and kept")
    parser.add_argument("--only", nargs="+", choices=list(QUESTIONS), default=list(QUESTIONS))
    options = parser.parse_args()
    print_table(
        "Questions",
        COLUMNS,
        list(measure(options.steps, options.rounds, options.only, options.seconds, options.folder)),
    )


if __name__ == "__main__":
    main()
