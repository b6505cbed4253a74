"""Sources of other formats than HDF5, and how each is recognised."""

import gzip
import json
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from astropy.io import fits
from kerchunk.df import refs_to_dataframe
from kerchunk.hdf import SingleHdf5ToZarr

from frazil import virtual
from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.virtual.source_formats import FORMATS, recognise_file
from tests.virtual.files import days, save
from tests.virtual.repositories import commit, read, read_virtually


@pytest.mark.parametrize(
    "version", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
)
@pytest.mark.parametrize("unlimited", [[], ["time"]], ids=["fixed", "unlimited"])
def test_netcdf3_reads_the_same(tmp_path: Path, version: str, unlimited: list[str]) -> None:
    path = tmp_path / "a.nc"
    dataset = days(0, 5).assign(scalar=((), 2.5), flags=("time", np.arange(5, dtype="i1")))
    dataset["time"] = dataset["time"].astype("i4")
    dataset.to_netcdf(path, format=version, engine="netcdf4", unlimited_dims=unlimited)  # type: ignore[call-overload]

    found = read_virtually(path, small_bytes=0)

    with xr.open_dataset(path, engine="netcdf4") as expected:
        xr.testing.assert_identical(found, expected.load())


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_reads_the_same(tmp_path: Path, zarr_format: int) -> None:
    path = tmp_path / "a.zarr"
    days(0, 4).chunk(time=2).to_zarr(path, zarr_format=zarr_format, consolidated=False)

    source = virtual.open(path, small_bytes=0)
    found = read(commit(virtual.combine([source]), [source], tmp_path))

    assert source.header.format == "zarr"
    assert len(source.references["t"].locations) == 2
    expected = xr.open_zarr(path, consolidated=False).load()
    xr.testing.assert_equal(found, expected)
    assert found.attrs == expected.attrs


def test_a_group_of_a_zarr_hierarchy_is_opened_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    days(0, 2).to_zarr(path, group="inner", zarr_format=3, consolidated=False)

    source = virtual.open(path, group="inner")

    assert source.dims == {"time": 2, "y": 20, "x": 30}


def test_a_zipped_zarr_hierarchy_reads_the_same(tmp_path: Path) -> None:
    days(0, 4).to_zarr(tmp_path / "a.zarr", zarr_format=3, consolidated=False)
    path = tmp_path / "a.zarr.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for file in (tmp_path / "a.zarr").rglob("*"):
            archive.write(file, file.relative_to(tmp_path / "a.zarr"))

    found = read_virtually(path, small_bytes=0)

    assert found["t"].values.tolist() == days(0, 4)["t"].values.tolist()


def kerchunked(path: Path) -> dict[str, object]:
    """References of kerchunk's to a file, made by kerchunk."""
    found: dict[str, object] = SingleHdf5ToZarr(str(path), path.as_uri()).translate()
    return found


def test_kerchunk_json_reads_the_same(tmp_path: Path) -> None:
    path = save(days(0, 4), tmp_path / "a.nc")
    references = tmp_path / "references.json"
    references.write_text(json.dumps(kerchunked(path)))

    source = virtual.open(references, small_bytes=0)
    found = read(commit(virtual.combine([source]), [source], tmp_path))

    with xr.open_dataset(path) as expected:
        xr.testing.assert_equal(found, expected.load())
    assert source.references["t"].locations == (path.as_uri(),)


@pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")
def test_kerchunk_parquet_reads_the_same(tmp_path: Path) -> None:
    path = save(days(0, 4), tmp_path / "a.nc")
    target = tmp_path / "references.parq"
    refs_to_dataframe(kerchunked(path), str(target), record_size=100)

    source = virtual.open(target, small_bytes=0)
    found = read(commit(virtual.combine([source]), [source], tmp_path))

    assert source.header.format == "kerchunk-parquet"
    with xr.open_dataset(path) as expected:
        xr.testing.assert_equal(found, expected.load())


def test_the_version_is_that_of_the_file_that_references_lead_to(tmp_path: Path) -> None:
    path = save(days(0, 4), tmp_path / "a.nc")
    references = tmp_path / "references.json"
    references.write_text(json.dumps(kerchunked(path)))

    (version,) = virtual.open(references).references["t"].versions

    assert version is not None
    assert version.size_bytes == path.stat().st_size


def test_a_compressed_image_of_fits_is_not_taken_for_a_plain_one(tmp_path: Path) -> None:
    path, image = tmp_path / "a.fits", np.arange(4096, dtype="i2").reshape(64, 64)
    units = [fits.PrimaryHDU(), fits.CompImageHDU(image, name="SMALL"), fits.ImageHDU(image + 1)]
    fits.HDUList(units).writeto(path)

    found = virtual.open(path)

    assert found.arrays["SMALL"].obstacle == (
        "it is an image compressed with RICE_1, which no codec of Zarr reads"
    )
    assert len(found.references["SMALL"]) == 0
    assert found.arrays["2"].obstacle is None


def test_fits_images_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.fits"
    image = np.arange(600, dtype=">f4").reshape(20, 30)
    counts = np.arange(60, dtype=">i2").reshape(3, 4, 5)
    fits.HDUList([fits.PrimaryHDU(image), fits.ImageHDU(counts, name="COUNTS")]).writeto(path)

    source = virtual.open(path, small_bytes=0)
    found = read(commit(virtual.combine([source]), [source], tmp_path))

    values = {name: found[name].values.tolist() for name in found.data_vars}
    assert image.tolist() in values.values()
    assert values["COUNTS"] == counts.tolist()


def tiff(image: np.ndarray[Any, np.dtype[np.uint16]]) -> bytes:
    """A TIFF of one uncompressed strip."""
    height, width = image.shape
    data = image.astype("<u2").tobytes()
    short, long = 3, 4
    tags = [
        (256, short, width), (257, short, height), (258, short, 16), (259, short, 1),
        (262, short, 1), (273, long, 8), (277, short, 1), (278, short, height),
        (279, long, len(data)), (339, short, 1),
    ]  # fmt: skip
    directory = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    start = struct.pack("<2sHI", b"II", 42, 8 + len(data))
    return start + data + struct.pack("<H", len(tags)) + directory + struct.pack("<I", 0)


def test_tiff_images_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    image = np.arange(320, dtype=np.uint16).reshape(16, 20)
    path.write_bytes(tiff(image))

    source = virtual.open(path, small_bytes=0)
    found = read(commit(virtual.combine([source]), [source], tmp_path))

    assert source.header.format == "tiff"
    assert [found[name].values.squeeze().tolist() for name in found.data_vars] == [image.tolist()]


DMRPP = """<?xml version="1.0" encoding="ISO-8859-1"?>
<Dataset xmlns="http://xml.opendap.org/ns/DAP/4.0#"
    xmlns:dmrpp="http://xml.opendap.org/dap/dmrpp/1.0.0#" dapVersion="4.0" dmrVersion="1.0"
    name="a.bin" dmrpp:href="a.bin">
  <Dimension name="x" size="6"/>
  <Int32 name="counts">
    <Dim name="/x"/>
    <Attribute name="units" type="String"><Value>1</Value></Attribute>
    <dmrpp:chunks byteOrder="LE">
      <dmrpp:chunk offset="8" nBytes="24"/>
    </dmrpp:chunks>
  </Int32>
</Dataset>
"""


def test_dmrpp_leads_to_the_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(8) + np.arange(6, dtype="<i4").tobytes())
    path = tmp_path / "a.bin.dmrpp"
    path.write_text(DMRPP)

    source = virtual.open(path, small_bytes=0)
    found = read(commit(virtual.combine([source]), [source], tmp_path))

    assert found["counts"].values.tolist() == [0, 1, 2, 3, 4, 5]
    assert found["counts"].attrs == {"units": "1"}


# Recognition


def test_content_counts_before_the_ending(tmp_path: Path) -> None:
    path = save(days(0, 2), tmp_path / "a.fits")

    assert virtual.open(path).header.format == "hdf5"


def test_a_block_of_the_users_own_may_stand_before_hdf5(tmp_path: Path) -> None:
    path = tmp_path / "anything"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["whole"] = np.arange(10)
        file.create_dataset("parts", data=np.arange(10), chunks=(5,), compression="gzip")

    found = read_virtually(path, small_bytes=0)

    assert found["whole"].values.tolist() == list(range(10))
    assert found["parts"].values.tolist() == list(range(10))


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"\x89HDF\r\n\x1a\n", "hdf5"),
        (b"CDF\x01", "netcdf3"),
        (b"CDF\x05", "netcdf3"),
        (b"SIMPLE  =                    T", "fits"),
        (b"GRIB\0\0\0\2", "grib"),
        (b"II*\0", "tiff"),
        (b"MM\0+", "tiff"),
        (b"PK\x03\x04", "zarr-zip"),
        (b' {"version": 1, "refs": {', "kerchunk-json"),
    ],
)
def test_formats_are_known_by_their_first_bytes(head: bytes, name: str) -> None:
    assert recognise_file("s3://bucket/anything", head).name == name


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_formats_are_known_by_their_ending_where_bytes_say_nothing(format: object) -> None:
    for ending in format.endings:  # type: ignore[attr-defined]
        assert recognise_file(f"s3://bucket/A{ending.upper()}", b"?") == format


def test_what_is_of_no_known_format_is_refused_with_those_that_are(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"text"))

    with pytest.raises(InvalidInputError) as caught:
        virtual.open(path)

    assert path.as_uri() in str(caught.value)
    assert all(format.name in str(caught.value) for format in FORMATS)


def test_a_format_can_be_named(tmp_path: Path) -> None:
    path = save(days(0, 2), tmp_path / "a.nc")

    assert virtual.open(path, format="hdf5").header.format == "hdf5"
    with pytest.raises(InvalidInputError, match="'excel' is no format of sources; known are hdf5"):
        virtual.open(path, format="excel")
    with pytest.raises(InvalidInputError, match="can't be parsed as netcdf3"):
        virtual.open(path, format="netcdf3")


@pytest.mark.parametrize("unlimited", [[], ["time"]], ids=["fixed", "unlimited"])
@pytest.mark.parametrize("small_bytes", [0, 1024])
def test_a_truncated_netcdf3_file_is_refused_wherever_it_ends(
    tmp_path: Path, unlimited: list[str], small_bytes: int
) -> None:
    path = tmp_path / "a.nc"
    dataset = days(0, 5)
    dataset["time"] = dataset["time"].astype("i4")
    dataset.to_netcdf(path, format="NETCDF3_CLASSIC", engine="netcdf4", unlimited_dims=unlimited)
    whole = path.read_bytes()

    for size in (*range(4, len(whole) - 3, len(whole) // 40), len(whole) - 4):
        path.write_bytes(whole[:size])
        with pytest.raises(InvalidInputError, match=r"a\.nc.* truncated"):
            virtual.open(path, small_bytes=small_bytes)


@pytest.mark.parametrize("name", ["a.nc", "a.tif", "a.fits", "a.json", "a.zarr.zip"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    whole = save(days(0, 2), tmp_path / "whole.nc").read_bytes()
    heads = {
        "a.tif": b"II*\0",
        "a.fits": b"SIMPLE  =",
        "a.json": b'{"refs"',
        "a.zarr.zip": b"PK\3\4",
    }
    (tmp_path / name).write_bytes(heads.get(name, b"") + whole[: len(whole) // 2])

    with pytest.raises(InvalidInputError, match=rf"{name} can't be parsed as"):
        virtual.open(tmp_path / name)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ObjectNotFoundError, match=r"nothing\.nc"):
        virtual.open(tmp_path / "nothing.nc")


@pytest.mark.parametrize(
    ("head", "package", "install"),
    [
        (b"II*\0", "virtual_tiff", "pip install virtual-tiff"),
        (b"GRIB\0\0\0\2", "eccodes", r"pip install 'frazil\[grib\]'"),
    ],
)
def test_a_parser_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes, package: str, install: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(head + bytes(100))
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(InvalidInputError, match=install):
        virtual.open(path)
