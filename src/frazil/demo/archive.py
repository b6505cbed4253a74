"""An archive of made-up weather, as services keep it: a NetCDF file a day, packed and compressed."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

HOURS = (0, 6, 12, 18)
LATITUDES = np.arange(88.0, -89.0, -4.0)
LONGITUDES = np.arange(0.0, 360.0, 4.0)


def make_day(day: np.datetime64) -> xr.Dataset:
    """Temperature and rain of a day: warm at the equator, seasons, waves that move to the east."""
    times = day.astype("datetime64[ns]") + np.array(HOURS) * np.timedelta64(1, "h")
    number = int((day - np.datetime64("2024-01-01")).astype(int)) + np.array(HOURS) / 24
    latitude, longitude = np.deg2rad(LATITUDES)[:, None], np.deg2rad(LONGITUDES)[None, :]
    season = np.cos(2 * np.pi * (number - 196) / 366)[:, None, None] * np.sin(latitude)
    wave = np.sin(3 * longitude - number[:, None, None] / 3) * np.cos(latitude) ** 2
    storm = np.sin(5 * longitude - number[:, None, None]) * np.cos(2 * latitude)
    temperature = 243 + 58 * np.cos(latitude) ** 2 + 14 * season + 4 * wave
    rain = np.maximum(0, storm - 0.4) * 20
    dims = ("time", "lat", "lon")
    return xr.Dataset(
        {
            "t2m": (dims, temperature, {"units": "K", "long_name": "temperature at 2 metres"}),
            "rain": (dims, rain, {"units": "mm", "long_name": "rain in 6 hours"}),
        },
        {"time": times, "lat": LATITUDES, "lon": LONGITUDES},
        {"title": "made-up weather", "Conventions": "CF-1.11"},
    )


def write_archive(folder: Path, first: str, days: int) -> list[Path]:
    """The files of some days."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for day in np.datetime64(first) + np.arange(days):
        path = folder / f"weather_{day}.nc"
        make_day(day).to_netcdf(path, engine="h5netcdf", encoding=_ENCODING)
        written.append(path)
    return written


_CHUNKS = (1, len(LATITUDES), len(LONGITUDES))
_PACKED: dict[str, Any] = {
    "dtype": "i2",
    "_FillValue": -32768,
    "zlib": True,
    "complevel": 4,
    "shuffle": True,
}
_ENCODING: dict[str, dict[str, Any]] = {
    "t2m": {**_PACKED, "scale_factor": 0.01, "add_offset": 270.0, "chunksizes": _CHUNKS},
    "rain": {**_PACKED, "scale_factor": 0.01, "add_offset": 0.0, "chunksizes": _CHUNKS},
    "time": {"units": "hours since 2024-01-01", "dtype": "i8"},
}
