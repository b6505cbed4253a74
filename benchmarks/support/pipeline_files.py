"""The archive of the benchmarks of the pipeline: NetCDF4 files that follow each other in time."""

import time
from pathlib import Path

import numpy as np
import xarray as xr

from benchmarks.support.measuring import Figures

VARIABLES = ("t2m", "u10", "v10", "msl", "tp")
STEPS = 4


def make_archive(folder: str, files: int, height: int, width: int) -> Figures:
    """Files of some steps each, five compressed variables on one grid, a chunk a step."""
    begin = time.perf_counter()
    archive = Path(folder, "archive")
    archive.mkdir(exist_ok=True)
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
                name: (("time", "lat", "lon"), each + number, {"units": "1"})
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
    return {"seconds": time.perf_counter() - begin}


def list_archive(folder: str) -> list[str]:
    """The files in their order."""
    return [str(each) for each in sorted(Path(folder, "archive").iterdir())]
