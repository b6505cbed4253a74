"""Measuring: every figure comes from a fresh process, rounds alternate, medians are shown."""

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]

T = TypeVar("T")
Figures = dict[str, float]


def find_official_python() -> str:
    """An interpreter that has the official library; it is installed if there is none."""
    if sys.version_info >= (3, 12):
        return sys.executable
    environment = ROOT / ".venv-official"
    arguments = ["--at-least", "3.12", "--without-project", "--groups", "interop"]
    command = [str(ROOT / "scripts" / "environment"), str(environment), *arguments]
    subprocess.run([sys.executable, *command], check=True)
    return str(environment / "bin" / "python")


def find_bench_python() -> str:
    """An interpreter that has what is compared with alone; an environment is made if there is none."""
    environment = ".venv-bench"
    command = [str(ROOT / "scripts" / "environment"), environment, "--without-project"]
    subprocess.run([sys.executable, *command, "--groups", "bench"], check=True, cwd=ROOT)
    return str(ROOT / environment / "bin" / "python")


def run_child(
    python: str, module: str, timeout: float | None = None, /, **arguments: object
) -> Figures:
    """Run a module of this package in a fresh process; it prints its figures as JSON, last."""
    done = subprocess.run(
        [python, "-m", module, json.dumps(arguments)],
        cwd=ROOT,
        env={
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "ICECHUNK_LOG": "error",
            "PATH": os.environ["PATH"],
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=timeout,
    )
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


@contextlib.contextmanager
def kept_folder(path: str | None) -> Iterator[str]:
    """A given folder, or a temporary one."""
    with tempfile.TemporaryDirectory() as temporary:
        yield path or temporary


def answer(workloads: dict[str, Callable[..., Figures]]) -> None:
    """The other side of `run_child`: call the workload that the arguments name."""
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(workloads[arguments.pop("workload")](**arguments)))


def timed(work: Callable[[], T]) -> tuple[T, Figures]:
    """What some work gives, its seconds, those of the processor, and by how much memory rose."""
    before = _reset_peak()
    start, start_cpu = time.perf_counter(), time.process_time()
    result = work()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    peak_bytes = max(0, _peak() - before)
    return result, {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_bytes": peak_bytes}


def count_processor() -> float:
    """Return the processor time so far of this process and of all that it started, such as Spark's."""
    times: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = each.read_text().rpartition(")")[2].split()
            process = int(each.parent.name)
            # Of the process and of its children that ended.
            times[process] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
            children.setdefault(int(fields[1]), []).append(process)
    found, waiting = 0.0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        found += times.get(process, 0.0)
        waiting += children.get(process, [])
    return found


def medians(rounds: Sequence[Figures]) -> Figures:
    """The median of each figure over rounds."""
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table that also reads well in a terminal."""
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    print(f"\n### {title}\n")
    for cells in (columns, ["-" * width for width in widths], *rows):
        padded = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        print("| " + " | ".join(padded) + " |")


def _reset_peak() -> int:
    # Linux forgets the peak when asked to; elsewhere the peak so far stands.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
