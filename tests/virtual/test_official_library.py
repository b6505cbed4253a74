"""Virtual data that Frazil writes reads the same through the official library, and the reverse."""

from pathlib import Path
from typing import Any

import icechunk
import pytest
import xarray as xr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr import open_virtual_dataset
from virtualizarr.parsers import HDFParser

import frazil
from frazil import virtual
from tests.virtual.files import days, save


def configured(library: Any, folder: Path) -> dict[str, Any]:
    """What either library needs to read the files of a folder."""
    prefix = folder.as_uri() + "/"
    config = library.RepositoryConfig.default()
    store = library.local_filesystem_store(str(folder))
    config.set_virtual_chunk_container(library.VirtualChunkContainer(prefix, store))
    return {
        "storage": library.local_filesystem_storage(str(folder / "repository")),
        "config": config,
        "authorize_virtual_chunk_access": library.containers_credentials({prefix: None}),
    }


def read(repository: Any) -> xr.Dataset:
    store = repository.readonly_session("main").store
    dataset: xr.Dataset = xr.open_zarr(store, consolidated=False)
    return dataset.load()


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    packed = {"zlib": True, "chunksizes": (2, 10, 15), "dtype": "i2", "scale_factor": 0.01,
              "add_offset": 280.0, "_FillValue": -32768}  # fmt: skip
    return [save(days(at, 4), tmp_path / f"{at}.nc", t=packed) for at in (0, 4)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_frazil_combines_the_official_library_reads(tmp_path: Path, paths: list[Path]) -> None:
    sources = [virtual.open(path) for path in paths]
    repository = frazil.Repository.create(**configured(frazil, tmp_path))
    session = repository.writable_session("main")
    virtual.write(virtual.combine(sources, "time"), session.store, sources)
    session.commit("combined")

    found = read(icechunk.Repository.open(**configured(icechunk, tmp_path)))

    parts = [xr.open_dataset(path) for path in paths]
    expected = xr.concat(parts, "time", data_vars="minimal", join="exact")
    xr.testing.assert_identical(found, expected.load())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_virtualizarr_writes_officially_frazil_reads(
    tmp_path: Path, paths: list[Path]
) -> None:
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    opened = open_virtual_dataset(paths[0].as_uri(), registry=registry, parser=HDFParser())
    official = icechunk.Repository.create(**configured(icechunk, tmp_path))
    session = official.writable_session("main")
    opened.vz.to_icechunk(session.store)
    session.commit("official")

    found = read(frazil.Repository.open(**configured(frazil, tmp_path)))

    with xr.open_dataset(paths[0]) as expected:
        xr.testing.assert_identical(found, expected.load())
