"""Starting Spark apart from what is measured, and the memory of the processes around it."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

import frazil.spark

MASTER = "local[2,4]"
CLUSTER = "local-cluster[2,1,2048]"
"""Two executors in processes of their own, so that one can be lost."""


def start(master: str = MASTER) -> tuple[Any, float]:
    """A session whose workers have loaded what they need, and the seconds that took."""
    begin = time.perf_counter()
    spark = frazil.spark.session(master=master, config={"spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(0, 4, 1, 4).mapInArrow(_load, "id long").collect()
    return spark, time.perf_counter() - begin


def _load(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import frazil.spark.ingestion.ingest_tasks  # noqa: F401, PLC0415 (on workers, before anything is timed)

    time.sleep(0.5)  # so that no worker gets all tasks
    yield from batches


def measure_memory() -> dict[str, float]:
    """The most memory that this process and the Java below it have had, in bytes."""
    java = [each.pid for each in psutil.Process().children(recursive=True) if each.name() == "java"]
    everybody = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return {
        "cpu_seconds": sum(sum(each.cpu_times()[:4]) for each in everybody),
        "driver_bytes": _peak_bytes("self"),
        "java_bytes": max((_peak_bytes(str(pid)) for pid in java), default=0),
    }


def kill_executor() -> None:
    """Kill one of the executors below this process as the kernel does."""
    everybody = psutil.Process().children(recursive=True)
    name = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    next(each for each in everybody if name in each.cmdline()).kill()


@contextmanager
def watch_workers() -> Iterator[list[int]]:
    """Note the most memory of each Python worker below this process while the block runs."""
    peaks: list[int] = [0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.5):
            for each in psutil.Process().children(recursive=True):
                with suppress(psutil.Error, OSError, ValueError):
                    if each.name() != "java":
                        peaks[0] = max(peaks[0], _peak_bytes(str(each.pid)))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        done.set()
        thread.join()


def _peak_bytes(process: str) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
