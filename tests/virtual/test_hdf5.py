"""HDF5 and NetCDF4 files in the usual mess: each reads the same through a repository as by itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
import xarray as xr
import zarr

from frazil import virtual
from frazil.errors import InvalidInputError
from frazil.virtual import ProblemKind, Treatment
from tests.virtual.repositories import commit, read, read_virtually

SMALLER = 0
"""A size that no array is below, so that all stay virtual."""


def temperatures(steps: int = 6, start: int = 0) -> xr.Dataset:
    """A dataset with a time axis, noise that does not compress to nothing, and attributes."""
    noise = np.random.default_rng(start).normal(280, 10, (steps, 20, 30))
    return xr.Dataset(
        {"t": (("time", "y", "x"), noise.astype("f4"), {"units": "K", "long_name": "air"})},
        coords={
            "time": ("time", np.arange(start, start + steps), {"units": "days since 2000-01-01"}),
            "y": np.linspace(60, 50, 20),
            "x": np.linspace(0, 29, 30),
        },
        attrs={"title": "a test", "version": 3},
    )


def same(path: Path, group: str = "") -> xr.Dataset:
    """What a repository gives for a file, having compared it with the file itself."""
    found = read_virtually(path, small_bytes=SMALLER, group=group)
    with xr.open_dataset(path, engine="netcdf4", group=group or None) as expected:
        xr.testing.assert_identical(found, expected.load())
    return found


@pytest.mark.parametrize(
    "encoding",
    [
        pytest.param({"contiguous": True}, id="contiguous"),
        pytest.param({"chunksizes": (1, 20, 30)}, id="a chunk a step"),
        pytest.param({"chunksizes": (4, 7, 11)}, id="chunks that end beyond the array"),
        pytest.param({"zlib": True, "shuffle": False}, id="gzip"),
        pytest.param({"zlib": True, "shuffle": True, "chunksizes": (2, 10, 10)}, id="shuffle"),
        pytest.param({"zlib": True, "fletcher32": True}, id="fletcher32"),
        pytest.param({"compression": "zstd", "chunksizes": (2, 20, 30)}, id="zstd"),
        pytest.param(
            {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -32768},
            id="scale and offset",
        ),
        pytest.param({"dtype": ">f4"}, id="big endian"),
        pytest.param({"_FillValue": -999.0}, id="fill value"),
        pytest.param({"_FillValue": None}, id="no fill value"),
    ],
)
def test_a_netcdf4_file_reads_the_same_whatever_its_encoding(
    tmp_path: Path, encoding: Mapping[str, Any]
) -> None:
    path = tmp_path / "a.nc"
    temperatures().to_netcdf(path, engine="netcdf4", encoding={"t": dict(encoding)})

    same(path)


def test_missing_values_stay_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    dataset = temperatures()
    dataset["t"][2:4, 5] = np.nan
    dataset.to_netcdf(path, encoding={"t": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}})

    found = same(path)

    assert int(found["t"].isnull().sum()) == 60


@pytest.mark.parametrize("zlib", [True, False])
def test_an_unlimited_dimension_reads_the_same(tmp_path: Path, zlib: bool) -> None:
    path = tmp_path / "a.nc"
    encoding = {"t": {"zlib": zlib}, "time": {"zlib": zlib}}
    temperatures(5).to_netcdf(path, engine="netcdf4", unlimited_dims=["time"], encoding=encoding)

    same(path)


def test_chunks_that_nobody_wrote_read_as_the_fill_value(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        sparse = file.create_dataset("sparse", (100, 100), "f8", chunks=(10, 10), fillvalue=7.5)
        sparse[20:30, 40:50] = 1.0
        file.create_dataset("empty", (50,), "i4", fillvalue=-3)

    found = read_virtually(path, small_bytes=SMALLER)

    assert float(found["sparse"].sum()) == 100 * 1.0 + 9900 * 7.5
    assert set(found["empty"].values.tolist()) == {-3}


def test_scalars_and_texts_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    dataset = xr.Dataset(
        {
            "scalar": ((), 4.25),
            "names": ("station", np.array(["Kiel", "Zürich", ""], object)),
            "codes": ("station", np.array([b"ab", b"cd", b"ef"])),
            "label": ((), "a text"),
        },
        coords={"station": [1, 2, 3]},
    )
    dataset.to_netcdf(path, engine="netcdf4")

    same(path)


def test_texts_of_fixed_length_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    words = np.array([b"one", b"three", b"seven"])
    with h5py.File(path, "w") as file:
        file["words"] = words

    found = read_virtually(path, small_bytes=SMALLER)

    assert found["words"].values.astype("S5").tolist() == words.tolist()


def test_a_compact_dataset_is_loaded_from_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    values = np.arange(12, dtype=">i4").reshape(3, 4)
    with h5py.File(path, "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple(values.shape)
        made = h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32BE, space, properties)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)

    found = read_virtually(path, small_bytes=SMALLER)

    assert found["compact"].values.tolist() == values.tolist()


def test_a_group_inside_a_file_is_opened_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    temperatures(3).to_netcdf(path, group="model/run")

    root, model = virtual.open(path), virtual.open(path, group="model")
    same(path, group="model/run")

    assert root.groups == ("model",)
    assert model.groups == ("run",)
    assert virtual.open(path, group="/model/run/").dims == {"time": 3, "y": 20, "x": 30}


def test_a_group_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    temperatures(1).to_netcdf(path)

    with pytest.raises(InvalidInputError, match="has no group 'nothing'"):
        virtual.open(path, group="nothing")


def test_coordinates_are_loaded_and_known(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    dataset = temperatures(2).assign_coords(
        height=((), 2.0), longitude=(("y", "x"), np.ones((20, 30)))
    )
    dataset.to_netcdf(path)

    source = virtual.open(path)

    assert set(source.coordinates) == {"time", "y", "x", "height", "longitude"}
    assert source.arrays["time"].values is not None
    assert source.arrays["height"].values is not None
    assert source.arrays["longitude"].values is None
    assert source.attributes == {"title": "a test", "version": 3}


def test_arrays_named_to_be_loaded_become_inline(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    temperatures().to_netcdf(path)

    source = virtual.open(path, load=["t"])
    plan = virtual.combine([source])
    found = read(commit(plan, [source], tmp_path))

    assert plan.variables["t"].treatment is Treatment.INLINE
    with xr.open_dataset(path) as expected:
        xr.testing.assert_identical(found, expected.load())


FILTERS: Mapping[str, Mapping[str, Any]] = {
    "gzip": {"compression": "gzip", "shuffle": True},
    "blosc": hdf5plugin.Blosc(),
    "zstd": hdf5plugin.Zstd(),
    "lzf": {"compression": "lzf"},
    "szip": {"compression": "szip"},
    "scale-offset": {"scaleoffset": 0},
    "blosc2": hdf5plugin.Blosc2(),
    "lz4": hdf5plugin.LZ4(),
    "bzip2": hdf5plugin.BZip2(),
    "bitshuffle": hdf5plugin.Bitshuffle(),
    "zfp": hdf5plugin.Zfp(reversible=True),
}
READABLE = frozenset(("gzip", "blosc", "zstd"))
"""Filters that Zarr has codecs for."""


@pytest.mark.parametrize("name", FILTERS)
def test_filters_that_zarr_has_read_the_same_and_others_are_reported(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "a.h5"
    values = (np.arange(4000, dtype="i4") % 977).reshape(40, 100)
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=values, chunks=(10, 50), **FILTERS[name])

    source = virtual.open(path, small_bytes=SMALLER)

    if name in READABLE:
        found = read(commit(virtual.combine([source]), [source], tmp_path))
        assert found["v"].values.tolist() == values.tolist()
    else:
        assert source.arrays["v"].obstacle


TYPES = {
    "truth": np.array([True, False, True] * 20),
    "complex": np.arange(60).astype("c8") * (1 + 2j),
    "half": np.arange(60).astype("f2"),
    "big endian": np.arange(60).astype(">i2"),
    "unsigned": np.arange(60, dtype="u8") + 2**63,
    "record": np.array([(1, 2.5), (3, 4.5)] * 30, dtype=[("a", "i4"), ("b", "f8")]),
    "record of big endian": np.array([(1, 2.5)] * 60, dtype=[("a", ">i4"), ("b", ">f8")]),
    "text": np.array([b"abc", b"", b"1234567"] * 20),
    "nothing": np.empty((0, 5), "f4"),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}], ids=["contiguous", "chunked"])
def test_values_of_all_types_read_the_same(
    tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=TYPES[name], **(options if TYPES[name].size else {}))

    source = virtual.open(path, small_bytes=SMALLER)
    repository = commit(virtual.combine([source]), [source], tmp_path)

    store = repository.readonly_session("main").store
    found = np.asarray(zarr.open_array(store, path="v", mode="r")[...])
    assert found.tolist() == TYPES[name].tolist()


# What can't be virtual


def test_a_dataset_without_a_shape_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["void"] = h5py.Empty("f4")

    assert reasons(path, "void") == ("it is an HDF5 dataset without a shape",)


def reasons(path: Path, name: str) -> tuple[str, ...]:
    """Why a variable must be re-encoded."""
    plan = virtual.combine([virtual.open(path, small_bytes=SMALLER)])
    assert plan.variables[name].treatment is Treatment.REENCODED
    assert [each.files for each in plan.report.of(ProblemKind.UNREACHABLE)] == [(path.as_uri(),)]
    return plan.variables[name].reasons


def test_chunks_that_a_filter_did_not_shrink_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("mixed", (2, 4096), "u1", chunks=(1, 4096), compression="gzip")
        made.id.write_direct_chunk((0, 0), bytes(4096), filter_mask=1)
        made[1] = 3

    assert reasons(path, "mixed") == (
        "some of its chunks were stored without the filters of the others",
    )


def test_virtual_datasets_of_hdf5_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["values"] = np.arange(10)
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((10,), "i8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "values", (10,))
        file.create_virtual_dataset("elsewhere", layout)

    assert reasons(path, "elsewhere") == (
        "it is a virtual dataset of HDF5, whose values are in other files",
    )


def test_external_files_of_hdf5_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("out", (10,), "i4", external=[(str(tmp_path / "raw"), 0, 40)])
        file["out"][...] = 1

    assert reasons(path, "out") == ("its values are in external files of HDF5",)


def test_what_the_parser_can_not_represent_is_reported_and_the_rest_is_virtual(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(1000.0)
        lists = file.create_dataset("lists", (3,), h5py.vlen_dtype(np.int32))
        lists[0] = [1, 2, 3]
        file.create_dataset(
            "szip", data=np.arange(1000), chunks=(100,), **hdf5plugin.SZ3(absolute=1)
        )

    source = virtual.open(path, small_bytes=SMALLER)
    plan = virtual.combine([source])

    assert plan.variables["good"].treatment is Treatment.VIRTUAL
    assert {each.name for each in plan.reencoded} == {"lists", "szip"}
    with pytest.raises(InvalidInputError, match="lists"):
        commit(plan, [source], tmp_path)
    found = read(commit(plan.without(["lists", "szip"]), [source], tmp_path))
    assert found["good"].values.tolist() == list(range(1000))


def test_attributes_in_latin_1_are_read_and_integers_of_three_bytes_are_reported(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(1000.0)
        file["good"].attrs["units"] = np.bytes_(b"\xb0C")
        file.attrs["places"] = np.array([b"M\xfcnchen", "Köln".encode()])
        kind = h5py.h5t.STD_I32LE.copy()
        kind.set_size(3)
        kind.set_precision(24)
        h5py.h5d.create(file.id, b"odd", kind, h5py.h5s.create_simple((1000,)))
        file["complex"] = np.arange(1000.0)
        file["complex"].attrs["factor"] = 1 + 2j

    source = virtual.open(path, small_bytes=SMALLER)

    assert source.arrays["good"].attributes["units"] == "°C"
    assert source.header.attributes["places"] == ["München", "Köln"]
    assert source.arrays["odd"].obstacle == "data type '<i3' not understood"
    assert "its attribute factor is" in (source.arrays["complex"].obstacle or "")
