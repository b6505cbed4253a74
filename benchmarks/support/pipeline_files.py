"""The archive of the benchmarks of the pipeline: NetCDF4 files that follow each other in time."""

import time
from itertools import product
from pathlib import Path

import eccodes
import numpy as np
import xarray as xr

from benchmarks.support.measuring import Figures

VARIABLES = ("t2m", "u10", "v10", "msl", "tp")
STEPS = 4


def make_archive(folder: str, files: int, height: int, width: int, members: int = 0) -> Figures:
    """Files of some steps each, five compressed variables on one grid, a chunk a step.

    With members, each has a folder of so many files.
    """
    begin = time.perf_counter()
    for member in range(members):
        _make_files(Path(folder, "archive", f"member{member:02}"), files, height, width, member)
    if not members:
        _make_files(Path(folder, "archive"), files, height, width, 0)
    return {"seconds": time.perf_counter() - begin}


def _make_files(archive: Path, files: int, height: int, width: int, member: int) -> None:
    archive.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    noise = {name: random.normal(280, 9, (STEPS, height, width)) for name in VARIABLES}
    # As many digits as measurements have, so that there is something to compress.
    values = {name: np.round(each, 1).astype("f4") for name, each in noise.items()}
    encoding = {
        name: {"zlib": True, "complevel": 1, "chunksizes": (1, height, width)} for name in VARIABLES
    }
    for number in range(files):
        hours = np.arange(number * STEPS, (number + 1) * STEPS)
        dataset = xr.Dataset(
            {
                name: (("time", "lat", "lon"), each + number + member, {"units": "1"})
                for name, each in values.items()
            },
            {
                "time": ("time", hours, {"units": "hours since 2000-01-01"}),
                "lat": np.linspace(-89, 89, height),
                "lon": np.linspace(0, 359, width),
            },
            {"title": "a benchmark"},
        )
        dataset.to_netcdf(archive / f"part-{number:05}.nc", encoding=encoding)


def make_forecasts(folder: str, files: int) -> Figures:
    """Files of GRIB, a forecast each of 100 messages, with indexes as NOAA writes them."""
    begin = time.perf_counter()
    archive = Path(folder, "archive")
    archive.mkdir()
    days = np.datetime64("2020-01-01") + np.arange(files)
    handle = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib2")
    values = np.random.default_rng(1).normal(280, 9, eccodes.codes_get_size(handle, "values"))
    eccodes.codes_set(handle, "shortName", "t")
    eccodes.codes_set(handle, "dataTime", 0)
    for day in days.tolist():
        data, lines = bytearray(), []
        eccodes.codes_set(handle, "dataDate", int(f"{day:%Y%m%d}"))
        for number, (step, level) in enumerate(product(range(0, 60, 6), range(100, 1100, 100)), 1):
            eccodes.codes_set(handle, "step", step)
            eccodes.codes_set(handle, "level", level)
            eccodes.codes_set_values(handle, values + number)
            when = f"{step} hour fcst" if step else "anl"
            lines.append(f"{number}:{len(data)}:d={day:%Y%m%d}00:TMP:{level} mb:{when}:\n")
            data += eccodes.codes_get_message(handle)
        path = archive / f"{day}.grib2"
        path.write_bytes(data)
        Path(f"{path}.idx").write_text("".join(lines))
    eccodes.codes_release(handle)
    return {"seconds": time.perf_counter() - begin}


def list_archive(folder: str, ending: str = "nc") -> list[str]:
    """The files in their order."""
    return [str(each) for each in sorted(Path(folder, "archive").rglob(f"*.{ending}"))]
