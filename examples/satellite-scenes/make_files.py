"""Write some satellite scenes: `python make_files.py [SCENES]`."""

import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import xarray as xr

ROWS, COLUMNS = np.arange(40.0), np.arange(60.0)


def make_scene(number: int) -> xr.Dataset:
    """Return one scene; it has no dimension of time."""
    random = np.random.default_rng(number)
    values = random.uniform(10, 300, (len(ROWS), len(COLUMNS)))
    found = xr.Dataset(
        {"radiance": (("y", "x"), values, {"units": "W m-2 sr-1"})}, {"y": ROWS, "x": COLUMNS}
    )
    found["radiance"].encoding = {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -1,
                                  "chunksizes": (40, 60), "zlib": True}  # fmt: skip
    return found


def main(scenes: int = 8) -> None:
    """Write the files of some scenes."""
    for number in range(scenes):
        moment = datetime(2026, 3, 1, 10) + number * timedelta(minutes=99, seconds=number)
        folder = Path("scenes") / f"{moment:%Y%j}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"SCENE_{moment:%Y%m%dT%H%M%S}.nc"
        make_scene(number).to_netcdf(path, engine="h5netcdf")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
