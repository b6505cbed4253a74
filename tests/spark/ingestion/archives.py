"""Source files for tests of ingests: days of two variables, a file each few days."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr

import frazil
from frazil.spark import IngestReport

Ingest = Callable[..., IngestReport]
"""An ingest of an archive, to which options can be given."""

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
            "quality": (("time",), random.integers(0, 9, count, "i2")),
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


def read(repo: frazil.Repository, group: str | None = None) -> xr.Dataset:
    """The newest version, as somebody opens it who has only the saved configuration."""
    saved = frazil.Repository.fetch_config(repo.storage)
    prefixes = (saved and saved.virtual_chunk_containers) or {}
    access = dict.fromkeys(prefixes, frazil.credentials.LocalFileSystemAccess)
    opened = frazil.Repository.open(repo.storage, authorize_virtual_chunk_access=access)
    store = opened.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False)
    return found.load()


def expect(archive: Path) -> xr.Dataset:
    """What xarray makes of the files themselves."""
    paths = sorted(archive.glob("*.nc"))
    options = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    with xr.open_mfdataset(paths, engine="netcdf4", **options) as found:  # type: ignore[arg-type]
        return found.load()
