"""Write some months of a reanalysis: `python make_files.py [MONTHS]`."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

LATITUDES, LONGITUDES = np.linspace(90, -90, 19), np.arange(0.0, 360, 20)


def make_month(month: pd.Timestamp) -> xr.Dataset:
    """Return the steps of one month."""
    times = pd.date_range(month, month + pd.offsets.MonthBegin(1), freq="6h", inclusive="left")
    random = np.random.default_rng(month.month)
    shape = (len(times), len(LATITUDES), len(LONGITUDES))
    is_sea = (LONGITUDES[None, :] > 100) | (LATITUDES[:, None] < -40)
    base = 300 - 30 * np.abs(LATITUDES)[:, None] / 90
    t2m = base + random.normal(0, 3, shape)
    sst = np.where(is_sea, base + random.normal(0, 1, shape), np.nan)
    dims = ("time", "latitude", "longitude")
    return xr.Dataset(
        {
            "t2m": (dims, t2m.astype("f4"), {"units": "K"}),
            "sst": (dims, sst.astype("f4"), {"units": "K"}),
            "wind": (dims, random.normal(0, 5, shape).astype("f4"), {"units": "m s-1"}),
            "sea_mask": (dims[1:], is_sea.astype("i1")),
        },
        {"time": times, "latitude": LATITUDES, "longitude": LONGITUDES},
    )


def main(months: int = 3) -> None:
    """Write the files of some months."""
    for month in pd.date_range("2025-01-01", periods=months, freq="MS"):
        folder = Path("archive") / f"{month:%Y}"
        folder.mkdir(parents=True, exist_ok=True)
        units = {"time": {"units": "hours since 1900-01-01"}}
        path = folder / f"era_{month:%Y%m}.nc"
        make_month(month).to_netcdf(path, engine="h5netcdf", encoding=units)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
