"""A million to a hundred million references in one ingest, and millions set by tasks.

    python -m benchmarks.scale [--forecasts 200 2000] [--upkeep 200 2000] [--small 20000]
                                [--killed 600] [--files 2000 20000] [--millions 1 3]
                                [--ledger 1000000] [--beside 20000] [--peers 2000] [--rounds 1]
                                [--folder …]

- *forecasts*: so many GRIB files of 5,000 messages each, with an index: init × lead × variable ×
  level × member (`benchmarks/support/grib_archive.py`); 20,000 files are 100 M references, 6 GB. The
  official library then reads 100 random chunks.
- *upkeep*: stats, check, gc and copy of repositories that `--forecasts` left in the folder.
- *small*: so many of these files with one member, which are 100 messages.
- *killed*: one of two executors of an ingest of so many of these files is killed after half of its
  time; in another, an executor after a third and the driver after half, and it is run again. *kept* is
  how many of the files it had parsed and the second job did not open.
- *through the driver*: tasks return all references, as small jobs do; *in tasks*: they write manifests.
- Files are small HDF5 files of 500 chunks each on a local disk.
- *known files*: an ingest, in one process, of an archive whose files are all in the ledger but so many.
- *beside*: an ingest of so many files while four writers commit to arrays of their own every second,
  and one appends to the array of the ingest. *written* is how often its manifests were written.
- *peers*: so many of the HDF5 files, by Frazil and by VirtualiZarr with the official library.
- *start-up* is Spark's, with what workers load, and is not part of the seconds.
- *driver* is the most memory that the Python process of the user has had, *Java* that of Spark's own
  process, which holds the references between the steps.
"""

import argparse
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from subprocess import CalledProcessError

from benchmarks.support.grib_archive import FIELDS, MEMBERS, MESSAGES
from benchmarks.support.measuring import (
    Figures,
    find_official_python,
    kept_folder,
    medians,
    print_table,
    run_child,
)
from benchmarks.support.scale_workloads import REFERENCES_A_FILE, WRITERS

WORKLOADS = "benchmarks.support.scale_workloads"
PEERS = {
    "VirtualiZarr + icechunk": "",
    "VirtualiZarr with Dask + icechunk": "dask",
}
PEER_COLUMNS = ("references", "how", "seconds", "Frazil is faster by", "driver MB")
COLUMNS = (
    "files", "references", "seconds", "µs a reference", "start-up s", "driver MB", "Java MB",
)  # fmt: skip
TASK_COLUMNS = ("references", "way", "seconds", "driver MB", "Java MB")
LEDGER_COLUMNS = ("known files", "new files", "seconds", "CPU seconds", "driver MB")
BESIDE_COLUMNS = (
    "references", "seconds", "driver MB", "written", "rebases", "p50 ms quiet", "p50 ms beside",
    "p99 ms quiet", "p99 ms beside",
)  # fmt: skip
FORECAST_COLUMNS = (
    "files", "references", "seconds", "µs a reference", "driver MB", "worker MB", "Java MB", "CPU s",
)  # fmt: skip
UPKEEP_COLUMNS = ("verb", "references", "seconds", "CPU seconds", "MB")
KILLED_COLUMNS = (
    "references", "seconds", "an executor killed", "again after the driver", "of the whole", "kept",
)  # fmt: skip
WAYS = {"through the driver": 1_000_000_000_000, "in tasks": 100_000}


def measure_forecasts(folder: str, counts: list[int], members: int = MEMBERS) -> list[list[str]]:
    """Rows: one ingest each of so many files, checked with the official library."""
    rows = []
    for count in counts:
        arguments = {"folder": folder, "count": count, "members": members}
        run_child(sys.executable, WORKLOADS, workload="make_forecasts", **arguments)
        figures = run_child(sys.executable, WORKLOADS, workload="ingest_forecasts", **arguments)
        python = find_official_python()
        run_child(python, WORKLOADS, workload="read_forecasts", samples=100, **arguments)
        references = count * FIELDS * members
        memory = (figures[f"{name}_bytes"] / 1e6 for name in ("driver", "worker", "java"))
        rows.append([
            f"{count:,}", f"{references:,}", f"{figures['seconds']:.1f}",
            f"{figures['seconds'] / references * 1e6:.1f}", *(f"{each:.0f}" for each in memory),
            f"{figures['cpu_seconds']:.0f}",
        ])  # fmt: skip
    return rows


def measure_upkeep(folder: str, counts: list[int]) -> list[list[str]]:
    """Rows: each verb on the repositories of the forecasts."""
    rows = []
    for verb in ("stats", "check", "gc", "copy"):
        for count in counts:
            figures = run_child(
                sys.executable, WORKLOADS, workload="keep_forecasts", folder=folder, count=count,
                verb=verb,
            )  # fmt: skip
            seconds = f"{figures['seconds']:.1f}", f"{figures['cpu']:.1f}"
            memory = f"{figures['driver_bytes'] / 1e6:.0f}"
            rows.append([verb, f"{count * MESSAGES:,}", *seconds, memory])
    return rows


def measure_resumed(folder: str, count: int) -> list[str]:
    """A row: an ingest on two executors, one that loses one of them and then its driver, and again."""
    arguments = {"folder": folder, "count": count, "has_executors": 1.0}
    run_child(sys.executable, WORKLOADS, workload="make_forecasts", folder=folder, count=count)

    def ingest(**options: float) -> Figures:
        given = {**arguments, **options}
        return run_child(sys.executable, WORKLOADS, workload="ingest_forecasts", **given)

    def check() -> None:
        python = find_official_python()
        names = {"workload": "read_forecasts", "folder": folder, "count": count, "samples": 100}
        run_child(python, WORKLOADS, **names)

    repository = f"{folder}/forecasts-{count}-of-{MEMBERS}"
    shutil.rmtree(repository, ignore_errors=True)
    whole = ingest()["seconds"]
    shutil.rmtree(repository)
    fewer = ingest(kill_executor_after=whole / 2)["seconds"]
    check()
    shutil.rmtree(repository)
    with suppress(CalledProcessError):
        ingest(kill_executor_after=whole / 3, kill_after=whole / 2)
    again = ingest()
    check()
    seconds = (f"{each:.1f}" for each in (whole, fewer, again["seconds"]))
    parts = (f"{each:.0%}" for each in (again["seconds"] / whole, again["kept_files"] / count))
    return [f"{count * MESSAGES:,}", *seconds, *parts]


def measure(counts: list[int], rounds: int) -> dict[int, list[Figures]]:
    """The figures of all rounds, by the number of files."""
    found: dict[int, list[Figures]] = {}
    with tempfile.TemporaryDirectory() as folder:
        made = run_child(
            sys.executable, WORKLOADS, workload="make_files", folder=folder, count=max(counts)
        )
        print(f"{max(counts):,} files written in {made['seconds']:.0f} s")
        for _ in range(rounds):
            for count in counts:
                figures = run_child(
                    sys.executable, WORKLOADS, workload="ingest", folder=folder, count=count
                )
                found.setdefault(count, []).append(figures)
    return found


def measure_peers(count: int) -> list[list[str]]:
    """Rows: the same files by Frazil and by its peers, in one run."""
    with tempfile.TemporaryDirectory() as folder:
        made = {"folder": folder, "count": count}
        run_child(sys.executable, WORKLOADS, workload="make_files", **made)
        seconds = {
            "Frazil on Spark": run_child(sys.executable, WORKLOADS, workload="ingest", **made)
        }
        for how, parallel in PEERS.items():
            seconds[how] = run_child(
                find_official_python(), "benchmarks.support.pipeline_workloads",
                workload="ingest_virtualizarr", folder=folder, parallel=parallel,
                loaded=("time", "y", "x"), summed="t",
            )  # fmt: skip
    ours = seconds["Frazil on Spark"]["seconds"]
    references = f"{count * REFERENCES_A_FILE:,}"
    return [
        [
            references,
            how,
            f"{each['seconds']:.1f}",
            f"{each['seconds'] / ours:.1f} ×",
            f"{each['driver_bytes'] / 1e6:.0f}",
        ]
        for how, each in seconds.items()
    ]


def measure_tasks(millions: list[int], rounds: int) -> dict[tuple[int, str], list[Figures]]:
    """The figures of all rounds, by the number of references and the way they take."""
    found: dict[tuple[int, str], list[Figures]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for count in (each * 1_000_000 for each in millions):
                for way, returned in WAYS.items():
                    figures = run_child(
                        sys.executable, WORKLOADS, workload="set_references", folder=folder,
                        count=count, returned=returned,
                    )  # fmt: skip
                    found.setdefault((count, way), []).append(figures)
    return found


def measure_ledgers(counts: list[int], rounds: int) -> dict[tuple[int, int], list[Figures]]:
    """The figures of all rounds, by the number of known files and of new ones."""
    found: dict[tuple[int, int], list[Figures]] = {}
    for count in counts:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                run_child(
                    sys.executable, WORKLOADS, workload="make_ledger", folder=folder, count=count
                )
                for new in (0, 10):
                    figures = run_child(
                        sys.executable, WORKLOADS, workload="ingest_known", folder=folder,
                        count=count, new=new,
                    )  # fmt: skip
                    found.setdefault((count, new), []).append(figures)
    return found


def ledger_row_of(count: int, new: int, figures: Figures) -> list[str]:
    """A row of the third table."""
    seconds, memory = (figures["seconds"], figures["cpu_seconds"]), figures["driver_bytes"]
    return [f"{count:,}", f"{new:,}", *(f"{each:.1f}" for each in seconds), f"{memory / 1e6:.0f}"]


def task_row_of(count: int, way: str, figures: Figures) -> list[str]:
    """A row of the second table."""
    return [
        f"{count:,}",
        way,
        f"{figures['seconds']:.1f}",
        f"{figures['driver_bytes'] / 1e6:.0f}",
        f"{figures['java_bytes'] / 1e6:.0f}",
    ]


def row_of(count: int, figures: Figures) -> list[str]:
    """A row of the table."""
    references = count * REFERENCES_A_FILE
    return [
        f"{count:,}",
        f"{references:,}",
        f"{figures['seconds']:.1f}",
        f"{figures['seconds'] / references * 1e6:.1f}",
        f"{figures['startup_seconds']:.1f}",
        f"{figures['driver_bytes'] / 1e6:.0f}",
        f"{figures['java_bytes'] / 1e6:.0f}",
    ]


def measure_beside(count: int) -> list[str]:
    """A row: one ingest with live writers, and what these noticed of it."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WRITERS + 1) as pool:
        for workload in ("make_files", "prepare_beside"):
            run_child(sys.executable, WORKLOADS, workload=workload, folder=folder, count=count)

        def write(number: int, seconds: float) -> Figures:
            return run_child(
                sys.executable, WORKLOADS, workload="write_beside", folder=folder, number=number,
                seconds=seconds,
            )  # fmt: skip

        quiet = list(pool.map(write, range(WRITERS + 1), [30.0] * (WRITERS + 1)))
        beside = [pool.submit(write, number, 3600.0) for number in range(WRITERS + 1)]
        figures = run_child(
            sys.executable, WORKLOADS, workload="ingest_beside", folder=folder, count=count
        )
        noticed = [each.result() for each in beside]
    latencies = (
        max(each[name] for each in some)
        for name in ("p50_ms", "p99_ms")
        for some in (quiet, noticed)
    )
    return [
        f"{(count - 1) * REFERENCES_A_FILE:,}",
        f"{figures['seconds']:.1f}",
        f"{figures['driver_bytes'] / 1e6:.0f}",
        f"{figures['amplification']:.2f} ×",
        f"{figures['rebases']:.0f}",
        *(f"{each:.0f}" for each in latencies),
    ]


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", help="Where the archive of forecasts stays; default: nowhere.")
    parser.add_argument("--forecasts", type=int, nargs="*", default=[200, 2_000])
    parser.add_argument("--upkeep", type=int, nargs="*", default=[200, 2_000])
    parser.add_argument("--small", type=int, nargs="*", default=[20_000])
    parser.add_argument("--killed", type=int, nargs="*", default=[600])
    parser.add_argument("--files", type=int, nargs="*", default=[2_000, 20_000])
    parser.add_argument("--millions", type=int, nargs="*", default=[1, 3])
    parser.add_argument("--ledger", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--beside", type=int, nargs="*", default=[20_000])
    parser.add_argument("--peers", type=int, nargs="*", default=[2_000])
    options = parser.parse_args()
    with kept_folder(options.folder) as folder:
        if options.forecasts:
            rows = measure_forecasts(folder, options.forecasts)
            print_table("References of GRIB indexes in one ingest", FORECAST_COLUMNS, rows)
        if options.upkeep:
            rows = measure_upkeep(folder, options.upkeep)
            print_table("Upkeep of these repositories, in one process", UPKEEP_COLUMNS, rows)
    if options.small:
        with kept_folder(options.folder) as folder:
            rows = measure_forecasts(folder, options.small, members=1)
        print_table("References of small GRIB files in one ingest", FORECAST_COLUMNS, rows)
    if options.killed:
        with kept_folder(options.folder) as folder:
            rows = [measure_resumed(folder, count) for count in options.killed]
        print_table("Killed at half of its time, and run again", KILLED_COLUMNS, rows)
    if options.files:
        found = measure(options.files, options.rounds)
        rows = [row_of(count, medians(figures)) for count, figures in found.items()]
        print_table("References in one ingest", COLUMNS, rows)
    if options.millions:
        set_by_tasks = measure_tasks(options.millions, options.rounds)
        rows = [task_row_of(*key, medians(figures)) for key, figures in set_by_tasks.items()]
        print_table("References that tasks set", TASK_COLUMNS, rows)
    if options.ledger:
        ledgers = measure_ledgers(options.ledger, options.rounds)
        rows = [ledger_row_of(*key, medians(figures)) for key, figures in ledgers.items()]
        print_table("Known files", LEDGER_COLUMNS, rows)
    if options.beside:
        rows = [measure_beside(count) for count in options.beside]
        print_table("Beside live writers", BESIDE_COLUMNS, rows)
    if options.peers:
        rows = [row for count in options.peers for row in measure_peers(count)]
        print_table("Beside VirtualiZarr and the official library", PEER_COLUMNS, rows)


if __name__ == "__main__":
    main()
