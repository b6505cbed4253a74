"""Archives in the shapes that people have them, and what a repository must hold of them."""

import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

import frazil
import frazil.spark
from frazil.credentials import LocalFileSystemAccess
from frazil.spark import IngestReport

DAYS = pd.date_range("2020-01-01", periods=400)
CHUNKS = (1, 8, 36)


def make(
    name: str, start: int, count: int, seed: int = 0, ny: int = 16, nx: int = 36
) -> xr.Dataset:
    """Some days of a variable, larger than what is written inline."""
    random = np.random.default_rng([seed, start])
    values = random.normal(280, 5, (count, ny, nx)).astype("f4")
    coords = {
        "time": DAYS[start : start + count],
        "y": np.arange(ny) * 1.0,
        "x": np.arange(nx) * 1.0,
    }
    return xr.Dataset({name: (("time", "y", "x"), values)}, coords)


def save(
    dataset: xr.Dataset,
    path: Path,
    encoding: Mapping[str, Any] | None = None,
    *,
    units: str = "days since 2020-01-01",
    **more: Any,
) -> Path:
    """Save a dataset as NetCDF-4, in small chunks unless the encoding says otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    given: dict[Any, dict[str, Any]] = {"time": {"units": units}} if "time" in dataset else {}
    for name, array in dataset.data_vars.items():
        sizes = zip(CHUNKS[len(CHUNKS) - array.ndim :], array.shape, strict=True)
        chunks = tuple(min(pair) for pair in sizes)
        given[name] = (
            {"zlib": True, "chunksizes": chunks, **(encoding or {}), **more} if array.ndim else {}
        )
    dataset.to_netcdf(path, engine="netcdf4", encoding=given)
    return path


def make_tiff(
    image: NDArray[Any], *, corner: tuple[float, float], step: float, epsg: int, rows: int
) -> bytes:
    """A GeoTIFF of uncompressed strips, in degrees or in metres."""
    height, width = image.shape
    strips = [image[at : at + rows].tobytes() for at in range(0, height, rows)]
    offsets = [8, *(8 + np.cumsum([len(each) for each in strips])).tolist()]
    key, model = (3072, 1) if epsg > 30_000 else (2048, 2)
    tags: dict[int, tuple[str, list[Any]]] = {
        256: ("H", [width]), 257: ("H", [height]), 258: ("H", [image.itemsize * 8]), 259: ("H", [1]),
        262: ("H", [1]), 273: ("I", offsets[:-1]), 277: ("H", [1]), 278: ("H", [rows]),
        279: ("I", [len(each) for each in strips]), 339: ("H", ["_uif".index(image.dtype.kind)]),
        33550: ("d", [step, step, 0.0]), 33922: ("d", [0.0, 0.0, 0.0, *corner, 0.0]),
        34735: ("H", [1, 1, 0, 3, 1024, 0, 1, model, 1025, 0, 1, 1, key, 0, 1, epsg]),
    }  # fmt: skip
    start = offsets[-1]
    entries, rest = b"", b""
    for tag, (kind, values) in sorted(tags.items()):
        data = struct.pack(f"<{len(values)}{kind}", *values)
        if len(data) > 4:
            at = start + 2 + 12 * len(tags) + 4 + len(rest)
            rest, data = rest + data, struct.pack("<I", at)
        code = {"H": 3, "I": 4, "d": 12}[kind]
        entries += struct.pack("<HHI", tag, code, len(values)) + data.ljust(4, b"\0")
    head = struct.pack("<2sHI", b"II", 42, start)
    return head + b"".join(strips) + struct.pack("<H", len(tags)) + entries + bytes(4) + rest


def create(path: Path) -> frazil.Repository:
    """A repository on disk, which the official library opens as well."""
    return frazil.Repository.create(frazil.local_filesystem_storage(str(path)))


def ingest(
    repo: frazil.Repository, sources: str | Path | Iterable[Path], **options: Any
) -> IngestReport:
    """Ingest in this process, or with tasks of one file each where `on_spark` is entered."""
    if not _sessions:
        return frazil.ingest(repo, sources, **options)
    job = frazil.spark.Job(run_on="spark", files_per_task=1)
    report = frazil.spark.ingest(repo, sources, spark=_sessions[-1], job=job, **options)
    assert report.ran_on == "spark" or not report.files
    return report


_sessions: list[Any] = []


@contextmanager
def on_spark(session: Any) -> Iterator[None]:
    """Ingest with tasks of a session."""
    _sessions.append(session)
    try:
        yield
    finally:
        _sessions.pop()


def read(repo: frazil.Repository, **options: Any) -> xr.Dataset:
    """What a reader who may read the source files sees."""
    opened = frazil.Repository.open(repo.storage, authorize_virtual_chunk_access=_access(repo))
    store: Any = opened.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, consolidated=False, **options).load()
    return found


def read_officially(repo: frazil.Repository, path: Path) -> xr.Dataset:
    """What a reader with the official library sees."""
    opened = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(path)),
        authorize_virtual_chunk_access=dict.fromkeys(
            _access(repo), icechunk.credentials.LocalFileSystemAccess
        ),
    )
    store: Any = opened.readonly_session("main").store
    found: xr.Dataset = xr.open_zarr(store, consolidated=False).load()
    return found


def _access(repo: frazil.Repository) -> Mapping[str, Any]:
    config = frazil.Repository.open(repo.storage).config
    return dict.fromkeys(config.virtual_chunk_containers or {}, LocalFileSystemAccess)


def join(*parts: xr.Dataset) -> xr.Dataset:
    """Datasets that follow each other."""
    return xr.concat(parts, "time", data_vars="minimal")


def assert_holds(repo: frazil.Repository, expected: xr.Dataset) -> None:
    """The values of all variables, in Frazil and in the official library."""
    for found in (read(repo), read_officially(repo, Path(str(repo.storage.path)))):  # type: ignore[attr-defined]
        for name, array in expected.data_vars.items():
            xr.testing.assert_equal(found[name].drop_attrs(), array.drop_attrs())
