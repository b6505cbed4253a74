"""Write some runs of an ensemble forecast: `python make_files.py [RUNS]`."""

import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import xarray as xr

LATITUDES, LONGITUDES = np.linspace(-80, 80, 9), np.arange(0.0, 360, 20)


def make_file(init: datetime, lead: int, member: int) -> xr.Dataset:
    """Return one member at one lead time."""
    random = np.random.default_rng([init.day, init.hour, lead, member])
    shape = (1, 1, 1, len(LATITUDES), len(LONGITUDES))
    dims = ("init_time", "lead_time", "member", "latitude", "longitude")
    t2m = 288 - 40 * np.abs(LATITUDES)[:, None] / 90 + random.normal(0, 2, shape)
    tp = np.full(shape, np.nan) if lead == 0 else random.gamma(1.0, 2.0, shape)
    return xr.Dataset(
        {
            "t2m": (dims, t2m.astype("f4"), {"units": "K"}),
            "tp": (dims, tp.astype("f4"), {"units": "kg m-2"}),
        },
        {
            "init_time": [np.datetime64(init, "ns")],
            "lead_time": ("lead_time", [lead], {"units": "hours"}),
            "member": [member],
            "latitude": LATITUDES,
            "longitude": LONGITUDES,
        },
    )


def main(runs: int = 6) -> None:
    """Write the files of some runs."""
    for number in range(runs):
        init = datetime(2026, 1, 1) + number * timedelta(hours=12)
        folder = Path("incoming") / f"{init:%Y%m%d}" / f"{init:%H}"
        folder.mkdir(parents=True, exist_ok=True)
        for lead in (0, 6, 12):
            for member in range(3):
                path = folder / f"m{member:02d}_f{lead:03d}.nc"
                units = {"units": "hours since 2026-01-01"}
                dataset = make_file(init, lead, member)
                dataset.to_netcdf(path, engine="h5netcdf", encoding={"init_time": units})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
