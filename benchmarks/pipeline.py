"""Jobs on Spark beside what a user would take otherwise, on two cores.

    python -m benchmarks.pipeline [--rounds 3] [--only virtual members grib …] [--files 1000]

- *virtual* is an ingest of 1,000 NetCDF4 files of five compressed variables as references: VirtualiZarr
  and the official library, file after file and with Dask in two processes.
- *members* is an ingest along two dimensions, from a folder of files per member.
- *grib* is an ingest of 100 files of 100 messages as references, by indexes and without: kerchunk,
  which only scans them, measured on a tenth of the files and multiplied by ten.
- *native* is an ingest of about 1 GiB with other chunks: Xarray, Dask and the official library.
- *rechunk* is 1 GiB from chunks of steps to chunks of places: Dask in threads, and on a cluster of
  two processes with the official library's forks.
- Spark's start-up, with what workers load, is told apart and is not part of the seconds. The others
  start in no time, but for processes of Dask's: a cluster's are told apart, too, and the rest start
  within their seconds.
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.support.measuring import (
    Figures,
    find_bench_python,
    medians,
    print_table,
    run_child,
)

WORKLOADS = "benchmarks.support.pipeline_workloads"
KERCHUNK = "benchmarks.support.pipeline_kerchunk"
COLUMNS = ("what", "how", "s", "Frazil is faster by", "start-up s", "peak MB")
Way = tuple[str, Mapping[str, Any]]

_MEMBERS = 10
_NATIVE_STEPS = 16
_NATIVE_GRID = {"height": 256, "width": 512}
_SHAPE, _STEP_CHUNKS, _PLACE_CHUNKS = [2048, 256, 512], [16, 256, 512], [2048, 16, 32]


def child(workload: str, **arguments: object) -> Figures:
    """One workload in a fresh process."""
    if workload == "scan_forecasts":
        return run_child(find_bench_python(), KERCHUNK, workload=workload, **arguments)
    return run_child(sys.executable, WORKLOADS, workload=workload, **arguments)


def run_virtual(rounds: int, files: int) -> Iterator[list[str]]:
    """Rows of the virtual ingest."""
    ways: dict[str, Way] = {
        "Frazil on Spark": ("ingest_frazil", {"mode": "virtual", "chunk_steps": 0}),
        "VirtualiZarr + icechunk": ("ingest_virtualizarr", {"parallel": ""}),
        "VirtualiZarr with Dask + icechunk": ("ingest_virtualizarr", {"parallel": "dask"}),
    }

    def prepare(folder: str) -> None:
        child(workload="make_archive", folder=folder, files=files, height=24, width=48)

    return compare(f"virtual, {files} files", ways, prepare, rounds)


def run_members(rounds: int, files: int) -> Iterator[list[str]]:
    """Rows of the virtual ingest along two dimensions."""
    each = max(1, files // _MEMBERS)
    ways: dict[str, Way] = {
        "Frazil on Spark": (
            "ingest_frazil", {"mode": "virtual", "chunk_steps": 0, "members": _MEMBERS}),
        "VirtualiZarr + icechunk": ("ingest_virtualizarr", {"parallel": "", "members": _MEMBERS}),
    }  # fmt: skip

    def prepare(folder: str) -> None:
        grid = {"height": 24, "width": 48, "members": _MEMBERS}
        child(workload="make_archive", folder=folder, files=each, **grid)

    return compare(f"{_MEMBERS} members × {each} files", ways, prepare, rounds)


def run_grib(rounds: int, files: int) -> Iterator[list[str]]:
    """Rows of the ingest of GRIB, with indexes and without."""
    count = max(1, files // 10)
    ways: dict[str, Way] = {
        "Frazil on Spark, by index": ("ingest_forecasts", {"is_indexed": True}),
        "Frazil on Spark, scanned": ("ingest_forecasts", {"is_indexed": False}),
    }
    part = max(1, count // 10)
    ways[f"kerchunk scan_grib, 2 processes, from {part} files"] = (
        "scan_forecasts", {"files": part})  # fmt: skip
    find_bench_python()

    def prepare(folder: str) -> None:
        child(workload="make_forecasts", folder=folder, files=count)

    return compare(f"GRIB, {count * 100} messages", ways, prepare, rounds)


def run_native(rounds: int, files: int) -> Iterator[list[str]]:
    """Rows of the native ingest; 100 of the usual 1,000 files have 1 GiB of values."""
    count = max(1, files // 10)
    ways: dict[str, Way] = {
        "Frazil on Spark": ("ingest_frazil", {"mode": "native", "chunk_steps": _NATIVE_STEPS}),
        "Xarray + Dask + icechunk": ("ingest_dask", {"chunk_steps": _NATIVE_STEPS}),
    }

    def prepare(folder: str) -> None:
        child(workload="make_archive", folder=folder, files=count, **_NATIVE_GRID)

    return compare(f"native, {count} files", ways, prepare, rounds)


def run_rechunk(rounds: int, files: int) -> Iterator[list[str]]:
    """Rows of the rechunking."""
    shape = [max(32, _SHAPE[0] * files // 1000), *_SHAPE[1:]]
    chunks = {"chunks": [shape[0], *_PLACE_CHUNKS[1:]]}
    ways: dict[str, Way] = {
        "Frazil on Spark": ("rechunk_frazil", chunks),
        "Dask in threads + icechunk": ("rechunk_dask", chunks),
        "Dask distributed + icechunk": ("rechunk_distributed", chunks),
    }

    def prepare(folder: str) -> None:
        child(workload="make_array", folder=folder, shape=shape, chunks=_STEP_CHUNKS)

    return compare(f"rechunk, {math.prod(shape) * 4 / 2**20:.0f} MiB", ways, prepare, rounds)


def compare(
    title: str, ways: Mapping[str, Way], prepare: Callable[[str], None], rounds: int
) -> Iterator[list[str]]:
    """Rows of one comparison; all ways must come to the same values."""
    found: dict[str, list[Figures]] = {}
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        for _ in range(rounds):
            for way, (workload, arguments) in ways.items():
                figures = child(workload=workload, folder=folder, **arguments)
                found.setdefault(way, []).append(figures)
    sums = {way: figures[0]["sum"] for way, figures in found.items()}
    assert len({round(each, 3) for each in sums.values()}) == 1, f"the values differ: {sums}"
    ours = medians(next(iter(found.values())))
    for way, rounds_of in found.items():
        figures = medians(rounds_of)
        yield [
            title,
            way,
            f"{figures['seconds']:.2f}",
            f"{figures['seconds'] / ours['seconds']:.1f} ×",
            f"{figures['startup_seconds']:.1f}",
            f"{figures['peak_bytes'] / 1e6:.0f}",
        ]


COMPARISONS = {
    "virtual": run_virtual, "members": run_members, "grib": run_grib, "native": run_native,
    "rechunk": run_rechunk,
}  # fmt: skip


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=1000, help="how large; 1000 is the whole")
    parser.add_argument("--only", nargs="+", choices=COMPARISONS, default=list(COMPARISONS))
    options = parser.parse_args()
    rows = [
        row for name in options.only for row in COMPARISONS[name](options.rounds, options.files)
    ]
    print_table("Jobs on Spark", COLUMNS, rows)


if __name__ == "__main__":
    main()
