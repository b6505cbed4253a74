"""Sample files that installed packages ship: every value equals what another reader finds."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import eccodes
import h5py
import numpy as np
import pytest
import xarray as xr
from astropy.io import fits

import frazil
from frazil.errors import InvalidSourcesError
from tests.archives.files import create, ingest, read

ASTROPY = "astropy/io/fits/tests/data"
COMPRESSED = "astropy/io/fits/hdu/compressed/tests/data"
FITS = [f"{ASTROPY}/{name}.fits" for name in ("arange", "scale", "test0", "o4sp040b0_raw", "blank")]
REFUSED = {
    f"{ASTROPY}/table.fits": "it is a binary table",
    "numpy/_core/tests/data/recarray_from_file.fits": "it is a binary table",
    f"{ASTROPY}/random_groups.fits": "neither image nor table, but GroupsHDU",
    f"{COMPRESSED}/m13_rice.fits": "image compressed with RICE_1",
}
HDF5 = ["vlen_string_dset_utc", "vlen_string_s390x", "vlen_string_dset", "compound-dtype-complex"]


def find(name: str) -> Path:
    """The path of a file of an installed package."""
    package, _, rest = name.partition("/")
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / rest


def ingest_file(folder: Path, name: str, mode: str) -> tuple[frazil.Repository, set[str]]:
    """Ingest a file, and return how its variables are stored."""
    repo = create(folder / mode)
    report = ingest(repo, find(name), mode=mode)
    return repo, {each.treatment for each in report.variables}


def as_texts(values: Any) -> list[str]:
    return [e.decode() if isinstance(e, bytes) else str(e) for e in values.ravel().tolist()]


def assert_same(found: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    if expected.dtype.kind in "OSU":
        assert as_texts(found) == as_texts(expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("name", ["example_1.nc", "bears.nc"])
def test_netcdf_3_of_xarray(tmp_path: Path, name: str) -> None:
    path = f"xarray/tests/data/{name}"
    with xr.open_dataset(find(path), engine="netcdf4", decode_times=False) as expected:
        for mode in ("auto", "native", "virtual"):
            repo, how = ingest_file(tmp_path, path, mode)
            found = read(repo, decode_times=False)
            assert how == {"inline"}
            assert set(found.variables) == set(expected.variables)
            for each in expected.variables:
                assert_same(found[each].values, expected[each].values)


@pytest.mark.parametrize("name", HDF5)
def test_hdf5_of_h5py(tmp_path: Path, name: str) -> None:
    path = f"h5py/tests/data_files/{name}.h5"
    modes = ["auto", "native"] if "complex" in name else ["auto", "native", "virtual"]
    with h5py.File(find(path), locking=False) as file:
        expected = {each: file[each][...] for each in file}
    for mode in modes:
        repo, _ = ingest_file(tmp_path, path, mode)
        found = read(repo)
        assert set(found.variables) == set(expected)
        for each, values in expected.items():
            assert_same(found[each].values, values)
    if "complex" in name:
        with pytest.raises(InvalidSourcesError, match="has no place in JSON"):
            ingest_file(tmp_path, path, "virtual")


def read_messages(path: Path) -> list[Any]:
    """The values of each message of a GRIB file by eccodes, in the order of the file."""
    found = []
    with path.open("rb") as file:
        while (handle := eccodes.codes_grib_new_from_file(file)) is not None:
            found.append(eccodes.codes_get_values(handle))
            eccodes.codes_release(handle)
    return found


@pytest.mark.parametrize(
    ("name", "modes"),
    [
        ("xarray/tests/data/example.grib", ["auto", "native", "virtual"]),
        ("virtualizarr/tests/data/ecmwf_soil_8vars_tiny.grib1", ["auto", "native"]),
    ],
)
def test_grib_of_xarray_and_virtualizarr(tmp_path: Path, name: str, modes: list[str]) -> None:
    expected = sorted(tuple(np.ravel(each)) for each in read_messages(find(name)))
    for mode in modes:
        repo, _ = ingest_file(tmp_path, name, mode)
        arrays = read(repo).data_vars.values()
        fields = [
            each for array in arrays for each in array.values.reshape(-1, expected_size(array))
        ]
        np.testing.assert_allclose(sorted(map(tuple, fields)), expected, rtol=1e-6)


def expected_size(array: xr.DataArray) -> int:
    return int(np.prod(array.shape[-2:]))


@pytest.mark.parametrize("name", FITS)
def test_images_of_astropy(tmp_path: Path, name: str) -> None:
    with fits.open(find(name)) as units:
        images = [e.data for e in units if isinstance(e, fits.PrimaryHDU | fits.ImageHDU)]
        expected = [np.asarray(each) for each in images if each is not None]
        for mode in ("auto", "native", "virtual"):
            repo, _ = ingest_file(tmp_path, name, mode)
            found = list(read(repo).data_vars.values())
            assert len(found) == len(expected)
            for array, image in zip(found, expected, strict=True):
                assert_same(array.values, image)


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_files_without_images_are_refused_by_name(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(InvalidSourcesError, match=reason) as caught:
        ingest_file(tmp_path, name, "auto")
    assert [Path(each).name for each in caught.value.files] == [Path(name).name]
