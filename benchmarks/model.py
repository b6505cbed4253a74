"""Predict what an ingest of 10⁶ to 10¹⁰ references takes on 1 to 1,000 executors.

    python -m benchmarks.model [--references 1e6 1e8 1e10] [--executors 1 10 100 1000] [--files-of 5000]

Costs are those of one machine of two cores. Those of a reference in tasks and of the driver's memory
are fitted to the runs of the first table, which compares them with the prediction. `docs/scaling.md`
explains the terms and where they end to hold.
"""

import argparse
import math
from dataclasses import dataclass

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
    plan_file: float = 1.6e-3
    """Seconds of the driver for each file: discovery, plan, ledger."""
    log_reference: float = 0.3e-6
    """Seconds of the driver for the transaction log of each reference."""
    start: float = 8.0
    """Seconds of planning and Spark's queries that depend on nothing."""
    driver_base: float = 260e6
    driver_file: float = 15e3
    """Bytes of the driver for each file: its header, place and row of the ledger."""
    driver_log: float = 70.0
    """Bytes of the driver for each reference of a transaction log; it makes one at a time."""
    shuffle_reference: float = 3.2
    """Compressed bytes of a reference between tasks: 2.5 from parsing, 0.7 to its manifest."""
    manifest_reference: float = 7.9
    """Bytes of a reference in a manifest."""


COSTS = Costs()
LOGGED = 4_000_000
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


MEASURED: tuple[tuple[str, float, float, float, float], ...] = (
    ("GRIB, 5,000 messages a file", 1e6, 5_000, 10.4, 350e6),
    ("GRIB, 5,000 messages a file", 1e7, 5_000, 29.5, 561e6),
    ("GRIB, 5,000 messages a file", 1e8, 5_000, 296.8, 915e6),
    ("HDF5, 500 chunks a file", 1e6, 500, 21.8, 287e6),
    ("HDF5, 500 chunks a file", 1e7, 500, 98.0, 815e6),
)
"""Runs on two cores: name, references, references of a file, seconds, bytes of the driver."""


CHECK_COLUMNS = ("run", "references", "seconds", "predicted", "driver MB", "predicted MB")
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
    for name, references, size, seconds, memory in MEASURED:
        found = predict(references, size, 1)
        rows.append([
            name, f"{references:,.0f}", f"{seconds:.0f}", f"{found.seconds:.0f}",
            f"{memory / 1e6:.0f}", f"{found.driver_bytes / 1e6:.0f}",
        ])  # fmt: skip
    print_table("Measured and predicted, two cores", CHECK_COLUMNS, rows)
    rows = []
    for references in options.references:
        for executors in options.executors:
            found = predict(references, options.files_of, executors, 4, S3)
            rows.append([
                f"{references:.0e}", f"{executors:,}", f"{found.seconds / 60:,.1f}", found.limit,
                f"{found.core_hours:,.1f}", f"{found.driver_bytes / 1e9:,.1f}",
                f"{found.requests:,}", f"{found.shuffle_bytes / 1e9:,.1f}", f"{found.price:,.2f}",
            ])  # fmt: skip
    print_table("Predicted, executors of four cores, S3", COLUMNS, rows)


if __name__ == "__main__":
    main()
