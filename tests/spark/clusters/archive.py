"""Many small files: several variables of three and four dimensions, compressed, a day each."""

from pathlib import Path

import netCDF4
import numpy as np
import xarray as xr

import frazil

FILES = 500
LEVELS, ROWS, COLUMNS = 3, 6, 8
STEPS = 2
"""In one file."""
_VARIABLES: dict[str, tuple[str, tuple[str, ...], tuple[int, ...]]] = {
    "t": ("f4", ("time", "level", "y", "x"), (1, LEVELS, ROWS, COLUMNS)),
    "u": ("f8", ("time", "level", "y", "x"), (STEPS, LEVELS, 3, COLUMNS)),
    "rain": ("i2", ("time", "y", "x"), (STEPS, ROWS, COLUMNS)),
}
_COORDINATES = {
    "level": np.array([1000.0, 850.0, 500.0]),
    "y": np.linspace(60, 50, ROWS),
    "x": np.linspace(0, 7, COLUMNS),
}


def save_file(folder: Path, number: int, *, seed: int = 0) -> Path:
    """Write one file, named after its number."""
    path = folder / f"{number:05}.nc"
    random = np.random.default_rng((number, seed))
    with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        file.title = "steps"
        file.createDimension("time", None)
        for name, values in _COORDINATES.items():
            file.createDimension(name, len(values))
            file.createVariable(name, "f8", (name,))[:] = values
        time = file.createVariable("time", "i4", ("time",), chunksizes=(STEPS,))
        time.setncatts({"units": "hours since 2000-01-01", "calendar": "standard"})
        time[:] = np.arange(STEPS * number, STEPS * (number + 1))
        for name, (dtype, dims, chunks) in _VARIABLES.items():
            array = file.createVariable(
                name, dtype, dims, zlib=True, shuffle=True, chunksizes=chunks
            )
            array.units = "1"
            shape = (STEPS, *(len(_COORDINATES[dim]) for dim in dims[1:]))
            array[:] = random.integers(-999, 999, shape).astype(dtype)
    return path


def save_files(folder: Path, count: int) -> Path:
    """So many files, one after the other."""
    folder.mkdir()
    for number in range(count):
        save_file(folder, number)
    return folder


def expect(folder: Path) -> xr.Dataset:
    """What Xarray makes of the files themselves."""
    options = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    paths = sorted(folder.glob("*.nc"))
    with (
        # Each file is opened once, not again when it is read.
        xr.set_options(file_cache_maxsize=len(paths) + 1),  # type: ignore[no-untyped-call]
        xr.open_mfdataset(paths, engine="netcdf4", **options) as found,  # type: ignore[arg-type]
    ):
        return found.load()


def open_repository(path: Path) -> frazil.Repository:
    """The repository, as somebody opens it who has only the saved configuration."""
    storage = frazil.local_filesystem_storage(str(path))
    saved = frazil.Repository.fetch_config(storage)
    prefixes = (saved and saved.virtual_chunk_containers) or {}
    access = dict.fromkeys(prefixes, frazil.credentials.LocalFileSystemAccess)
    return frazil.Repository.open(storage, authorize_virtual_chunk_access=access)


def read(path: Path, group: str | None = None) -> xr.Dataset:
    """The newest version."""
    store = open_repository(path).readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False)
    return found.load()


def messages(path: Path) -> list[str]:
    """Of all commits of users, the newest first."""
    return [each.message for each in open_repository(path).ancestry(branch="main")][:-1]


def check_history(path: Path, archive: Path, commits: list[str]) -> None:
    """Exactly these commits, exact values, every file once in the ledger."""
    assert messages(path) == commits
    xr.testing.assert_identical(read(path), expect(archive))
    ledger = sorted(read(path, "_frazil/ledger").source.values)
    assert ledger == [each.as_uri() for each in sorted(archive.glob("*.nc"))]
