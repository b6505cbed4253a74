"""Repositories on an S3 server, near and behind latencies, beside the official library.

    python -m benchmarks.remote [--latencies 0 10 30 100] [--rounds 3] [--only PART…] [--fused]

- The server is SeaweedFS on the loopback interface; a proxy delays every request by the latency.
- *times* is the official library's time divided by Frazil's: above 1, Frazil is faster.
- Each library has a repository of its own with the same contents, and a new process for every round.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.support.measuring import (
    ROOT,
    Figures,
    find_official_python,
    medians,
    print_table,
    run_child,
)
from benchmarks.support.storage_servers import run_s3_server

WORKLOADS = "benchmarks.support.remote_workloads"
NEW_PROCESS = "open, first chunk, new process"


@contextmanager
def behind(server: dict[str, str], latency_ms: float) -> Iterator[dict[str, str]]:
    """The same server behind a latency."""
    if not latency_ms:
        yield server
        return
    command = [sys.executable, "-m", "benchmarks.support.latency_proxy"]
    command += [str(urlsplit(server["url"]).port), str(latency_ms)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            yield {**server, "url": f"http://127.0.0.1:{proxy.stdout.readline().strip()}"}
        finally:
            proxy.kill()


def measure(
    library: str, python: str, server: dict[str, str], only: list[str], is_fused: bool
) -> Figures:
    """The figures of one library in one round."""
    common: dict[str, object] = {"library": library, "server": server, "prefix": library}
    found: Figures = {}
    if not only or any(part in NEW_PROCESS for part in only):
        new = run_child(python, WORKLOADS, workload="first_chunk", started=time.time(), **common)
        found[NEW_PROCESS] = new["seconds"]
    common |= {"workload": "everything", "only": only, "is_fused": is_fused}
    return found | run_child(python, WORKLOADS, **common)


def main() -> None:
    """Measure at every latency, and print a table for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latencies", type=float, nargs="*", default=[0, 10, 30, 100])
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of lines")
    parser.add_argument("--fused", action="store_true", help="use Zarr's fused codec pipeline")
    options = parser.parse_args()
    sides = {"frazil": sys.executable, "icechunk": find_official_python()}
    with tempfile.TemporaryDirectory() as folder, run_s3_server(Path(folder)) as server:
        for library, python in sides.items():
            common = {"library": library, "server": server, "prefix": library}
            run_child(python, WORKLOADS, workload="prepare", **common)
        for latency_ms in options.latencies:
            found: dict[str, list[Figures]] = {library: [] for library in sides}
            with behind(server, latency_ms) as reached:
                for _ in range(options.rounds):
                    for library, python in sides.items():
                        figures = measure(library, python, reached, options.only, options.fused)
                        found[library].append(figures)
            ours, official = (medians(figures) for figures in found.values())
            print_table(
                f"S3, latency {latency_ms:g} ms",
                ("work", "Frazil ms", "official ms", "times"),
                [
                    [
                        name,
                        f"{ours[name] * 1e3:,.1f}",
                        f"{official[name] * 1e3:,.1f}",
                        f"{official[name] / ours[name]:.2f}",
                    ]
                    for name in ours
                ],
            )


if __name__ == "__main__":
    main()
