"""What kerchunk makes of GRIB, in the environment of `find_bench_python`."""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from kerchunk.grib2 import scan_grib

from benchmarks.support.measuring import Figures, answer, timed

_WORKERS = 2


def scan_forecasts(folder: str, files: int) -> Figures:
    """Kerchunk's references of all messages, in two processes; nothing is combined or committed.

    Some of the files are scanned, and the figures are multiplied: all take minutes.
    """
    everything = sorted(map(str, Path(folder, "archive").glob("*.grib2")))
    factor = len(everything) / files

    def work() -> int:
        with ProcessPoolExecutor(_WORKERS) as pool:
            return sum(map(len, pool.map(scan_grib, everything[:files])))

    count, figures = timed(work)
    seconds = figures["seconds"] * factor
    return {**figures, "seconds": seconds, "startup_seconds": 0, "sum": count * factor}


if __name__ == "__main__":
    answer({"scan_forecasts": scan_forecasts})
