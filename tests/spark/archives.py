"""Source files for tests of ingests: days of two variables, a file each few days."""

from pathlib import Path

import numpy as np
import xarray as xr

ENCODING = {
    "t": {"zlib": True, "chunksizes": (1, 12, 8)},
    "p": {"zlib": True, "shuffle": True, "chunksizes": (2, 24, 8)},
}
DAYS = 2
"""In one file."""


def make_days(start: int, count: int = DAYS, *, seed: int = 0) -> xr.Dataset:
    """Some days from a day on."""
    random = np.random.default_rng(start + 1000 * seed)
    since = {"units": "days since 2000-01-01", "calendar": "standard"}
    return xr.Dataset(
        {
            "t": (("time", "y", "x"), random.normal(280, 9, (count, 24, 16)).astype("f4")),
            "p": (("time", "y", "x"), random.integers(0, 99, (count, 24, 16), "i4")),
            "station": ((), np.int32(7)),
        },
        coords={
            "time": ("time", np.arange(start, start + count), since),
            "y": np.linspace(60, 50, 24),
            "x": np.linspace(0, 7, 16),
        },
        attrs={"title": "days"},
    )


def save_days(folder: Path, start: int, count: int = DAYS, *, seed: int = 0) -> Path:
    """Write them as a file that is named after its first day."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{start:04}.nc"
    make_days(start, count, seed=seed).to_netcdf(path, engine="netcdf4", encoding=ENCODING)
    return path


def save_archive(folder: Path, files: int, *, first: int = 0) -> list[Path]:
    """So many files, one after the other."""
    return [save_days(folder, DAYS * number) for number in range(first, first + files)]
