"""Source files that tests write: days of noise on a small grid."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

CHUNKS: Mapping[str, Any] = {"zlib": True, "chunksizes": (2, 10, 15)}
"""Compressed, in chunks of two days."""


def days(start: int, count: int, **attributes: object) -> xr.Dataset:
    """Some days from a day on."""
    noise = np.random.default_rng(start).normal(280, 10, (count, 20, 30)).astype("f4")
    since = {"units": "days since 2000-01-01", "calendar": "standard"}
    return xr.Dataset(
        {"t": (("time", "y", "x"), noise, {"units": "K", **attributes})},
        coords={
            "time": ("time", np.arange(start, start + count), since),
            "y": np.linspace(60, 50, 20),
            "x": np.linspace(0, 29, 30),
        },
        attrs={"title": "a test"},
    )


def save(dataset: xr.Dataset, path: Path, **encoding: Mapping[str, Any]) -> Path:
    """Write a dataset as NetCDF4; gives the path."""
    dataset.to_netcdf(path, engine="netcdf4", encoding={"t": CHUNKS, **encoding})
    return path
