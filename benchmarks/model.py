"""Predict what an ingest of 10⁶ to 10¹⁰ references takes on 1 to 1,000 executors.

    python -m benchmarks.model [--references 1e6 1e8 1e10] [--executors 1 10 100 1000] [--files-of 5000]

Costs are those of one machine of two cores. Some were measured one by one, and some are fitted to whole
runs. The first table tries each run with costs that were fitted without it, so that it says how well
the model predicts. `docs/scaling.md` explains the terms and where they end to hold.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.measuring import print_table


@dataclass(frozen=True)
class Costs:
    """Measured costs; seconds are those of one core, bytes those of the process that is named."""

    open_file: float = 3e-3
    """Seconds to open a file on a local disk, with the headers of its kinds."""
    parse_reference: float = 2.4e-6
    """Seconds to parse a line of an index and to pack its reference."""
    place_reference: float = 0.8e-6
    """Seconds to split, shuffle, sort and encode a reference."""
    write_manifest: float = 0.010
    task: float = 0.020
    """Seconds of the driver for each task: submission, result, progress."""
    plan_file: float = 0.75e-3
    """Seconds of the driver for each file: discovery, plan, ledger."""
    log_reference: float = 0.3e-6
    """Seconds of the driver for the transaction log of each reference."""
    start: float = 8.0
    """Seconds of planning and Spark's queries that depend on nothing."""
    driver_base: float = 260e6
    driver_file: float = 4e3
    """Bytes of the driver for each file: its header, place and row of the ledger."""
    driver_log: float = 70.0
    """Bytes of the driver for each reference of a transaction log; it makes one at a time."""
    shuffle_reference: float = 3.2
    """Compressed bytes of a reference between tasks: 2.5 from parsing, 0.7 to its manifest."""
    manifest_reference: float = 7.9
    """Bytes of a reference in a manifest."""


COSTS = Costs()
LOGGED = 2_000_000
"""References of a transaction log: a larger commit is several, published at once."""
TASK_REFERENCES = 200_000
MANIFEST_REFERENCES = 100_000
TASKS_A_SLOT = 64
FILES_A_TASK = 16


@dataclass(frozen=True)
class Store:
    """Limits and prices of an object store; those of S3 in `us-east-1`."""

    latency: float = 0.03
    reads_per_second: float = 5_500.0
    writes_per_second: float = 3_500.0
    """Of one prefix: more prefixes, which S3 makes under load, allow more."""
    bytes_per_second: float = 90e6
    """Of one connection."""
    read_price: float = 0.4e-6
    write_price: float = 5e-6
    core_hour_price: float = 0.05


DISK = Store(0.0, math.inf, math.inf, math.inf, 0.0, 0.0, 0.0)
S3 = Store()


@dataclass(frozen=True)
class Prediction:
    """What a job takes."""

    seconds: float
    driver_seconds: float
    """Part of the seconds in which only the driver works."""
    core_hours: float
    driver_bytes: float
    requests: int
    shuffle_bytes: float
    price: float
    limit: str
    """Largest part of the time."""


def predict(
    references: float,
    references_a_file: float,
    executors: int,
    cores: int = 2,
    store: Store = DISK,
    costs: Costs = COSTS,
) -> Prediction:
    """Return what an ingest takes on so many executors of so many cores."""
    slots = executors * cores
    files = references / references_a_file
    manifests = max(1.0, references / MANIFEST_REFERENCES)
    opening = min(files, max(3 * slots, min(files / FILES_A_TASK, TASKS_A_SLOT * slots)))
    writing = min(manifests, max(3 * slots, references / TASK_REFERENCES))
    logs = math.ceil(references / LOGGED)
    # A GRIB file with an index: the file's head, the index, and the headers of its kinds.
    reads = 3 * files
    writes = manifests + 2 * logs + opening + 10
    work = (
        files * (costs.open_file + 3 * store.latency)
        + references * (costs.parse_reference + costs.place_reference)
        + manifests * (costs.write_manifest + store.latency)
        + references
        * (2 * costs.shuffle_reference + costs.manifest_reference)
        / store.bytes_per_second
    )
    parts = {
        "tasks": work / min(slots, opening),
        "driver": costs.start + files * costs.plan_file + references * costs.log_reference
        + (opening + writing) * costs.task,
        "reads": reads / store.reads_per_second,
        "writes": writes / store.writes_per_second,
    }  # fmt: skip
    seconds = max(parts["tasks"], parts["reads"], parts["writes"]) + parts["driver"]
    core_hours = seconds * (slots + cores) / 3600
    requests = round(reads + writes)
    price = reads * store.read_price + writes * store.write_price
    return Prediction(
        seconds, parts["driver"], core_hours,
        costs.driver_base + files * costs.driver_file + min(references, LOGGED) * costs.driver_log,
        requests, references * costs.shuffle_reference,
        price + core_hours * store.core_hour_price, max(parts, key=lambda each: parts[each]),
    )  # fmt: skip


@dataclass(frozen=True)
class Run:
    """Ingest that was measured, on two cores."""

    files: str
    references: float
    references_a_file: float
    seconds: float | None
    """None if other work ran on the same cores."""
    driver_bytes: float | None

    def predict(self, costs: Costs) -> Prediction:
        """Return what the model makes of it."""
        return predict(self.references, self.references_a_file, 1, costs=costs)


MEASURED = (
    Run("GRIB, 5,000 messages a file", 1e6, 5_000, 5.0, 338e6),
    Run("GRIB, 5,000 messages a file", 1e7, 5_000, 24.8, 479e6),
    Run("GRIB, 5,000 messages a file", 3e7, 5_000, 80.5, None),
    Run("GRIB, 5,000 messages a file", 1e8, 5_000, 238.6, 628e6),
    Run("GRIB, 100 messages a file", 2e6, 100, None, 489e6),
    Run("HDF5, 500 chunks a file", 1e6, 500, 11.1, 314e6),
    Run("HDF5, 500 chunks a file", 1e7, 500, 44.7, 557e6),
)
FITTED = {
    "seconds": ("start", "open_file", "place_reference"),
    "driver_bytes": ("driver_base", "driver_log"),
}
"""Costs that are fitted to runs, by what they add up to."""


def fit(runs: Sequence[Run]) -> Costs:
    """Return the costs with which predictions are closest to runs, relative to their size."""
    costs = COSTS
    for what, names in FITTED.items():
        known = [each for each in runs if getattr(each, what) is not None]
        zero = replace(costs, **dict.fromkeys(names, 0.0))
        base = np.array([getattr(each.predict(zero), what) for each in known])
        units = [replace(zero, **{name: 1.0}) for name in names]
        rows = [[getattr(each.predict(unit), what) for unit in units] for each in known]
        columns = np.array(rows) - base[:, np.newaxis]
        measured = np.array([getattr(each, what) for each in known])
        found = _solve(columns / measured[:, np.newaxis], 1 - base / measured)
        costs = replace(zero, **dict(zip(names, found.tolist(), strict=True)))
    return costs


def _solve(columns: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights, none of them negative, whose sum of columns is closest to what is wanted."""
    count = columns.shape[1]
    best, least = np.zeros(count), np.inf
    for some in (list(each) for n in range(count) for each in combinations(range(count), n + 1)):
        weights = np.zeros(count)
        weights[some] = np.linalg.lstsq(columns[:, some], wanted, rcond=None)[0]
        error = float(np.square(columns @ weights - wanted).sum())
        if (weights >= 0).all() and error < least:
            best, least = weights, error
    return best


CHECK_COLUMNS = (
    "run", "references", "seconds", "predicted", "error", "driver MB", "predicted MB", "error",
)  # fmt: skip
COLUMNS = (
    "references", "executors", "minutes", "most time", "core hours", "driver GB", "requests",
    "shuffle GB", "USD",
)  # fmt: skip


def main() -> None:
    """Print the check and the predictions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--references", type=float, nargs="*", default=[1e6, 1e7, 1e8, 1e9, 1e10])
    parser.add_argument("--executors", type=int, nargs="*", default=[1, 10, 100, 1000])
    parser.add_argument("--files-of", type=float, default=5_000)
    options = parser.parse_args()
    rows = []
    for run in MEASURED:
        found = run.predict(fit([each for each in MEASURED if each is not run]))
        cells = [run.files, f"{run.references:,.0f}"]
        for what, unit in zip(FITTED, (1, 1e6), strict=True):
            measured, predicted = getattr(run, what), getattr(found, what)
            cells += ["", f"{predicted / unit:.0f}", ""] if measured is None else [
                f"{measured / unit:.0f}", f"{predicted / unit:.0f}",
                f"{predicted / measured - 1:+.0%}",
            ]  # fmt: skip
        rows.append(cells)
    print_table("Each run, predicted from the others, two cores", CHECK_COLUMNS, rows)
    costs = fit(MEASURED)
    for what, names in FITTED.items():
        values = (f"{name} {getattr(costs, name):.2e}" for name in names)
        print(f"\nfitted to {what}: {', '.join(values)}")
    rows = []
    for references in options.references:
        for executors in options.executors:
            found = predict(references, options.files_of, executors, 4, S3, costs)
            rows.append([
                f"{references:.0e}", f"{executors:,}", f"{found.seconds / 60:,.1f}", found.limit,
                f"{found.core_hours:,.1f}", f"{found.driver_bytes / 1e9:,.1f}",
                f"{found.requests:,}", f"{found.shuffle_bytes / 1e9:,.1f}", f"{found.price:,.2f}",
            ])  # fmt: skip
    print_table("Predicted, executors of four cores, S3", COLUMNS, rows)


if __name__ == "__main__":
    main()
