"""Frazil's own reader of HDF5 finds what VirtualiZarr's parser finds."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.virtual import ArrayHeader, ReferenceColumns
from frazil.virtual import virtualizarr as foreign
from frazil.virtual.hdf5 import read_hdf5
from frazil.virtual.source_formats import HDF5, FoundGroup, Loading, SourceStores
from tests.virtual.files import days
from tests.virtual.test_hdf5 import FILTERS, TYPES, temperatures

SMALL = Loading(frozenset(), 1024)
NONE = Loading(frozenset(), 0)


def read_both(path: Path, group: str, loading: Loading) -> tuple[FoundGroup, FoundGroup]:
    """What our reader finds, and what VirtualiZarr's parser finds."""
    stores, url = SourceStores(), path.as_uri()
    size = path.stat().st_size
    ours = read_hdf5(stores, url, size, b"", group, loading)
    return ours, foreign.read_group(stores, url, size, HDF5, group, loading)


def assert_same(path: Path, group: str = "") -> None:
    for loading in (SMALL, NONE):
        ours, theirs = read_both(path, group, loading)
        assert set(ours.arrays) == set(theirs.arrays)
        assert ours.groups == theirs.groups
        assert ours.attributes == theirs.attributes
        for name, header in theirs.arrays.items():
            if "zero-length chunk" in (header.obstacle or ""):
                # Behind a block of the user's own, what nobody wrote seems to have a place.
                assert len(ours.references[name]) == 0
                assert ours.arrays[name].obstacle is None
                continue
            assert_same_header(ours.arrays[name], header)
            assert_same_columns(ours.references[name], theirs.references[name])


def assert_same_header(ours: ArrayHeader, theirs: ArrayHeader) -> None:
    assert (ours.obstacle is None) == (theirs.obstacle is None)
    if theirs.obstacle is not None:
        # HDF5 decodes values that the parser can't describe.
        assert ours.shape == theirs.shape
        return
    assert (ours.values is None) == (theirs.values is None)
    np.testing.assert_equal(plain(ours.metadata), plain(theirs.metadata))
    if ours.values is not None and theirs.values is not None:
        assert ours.values.dtype == theirs.values.dtype
        np.testing.assert_array_equal(ours.values, theirs.values)


def plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {**metadata, "shape": list(metadata["shape"])}


def assert_same_columns(ours: ReferenceColumns, theirs: ReferenceColumns) -> None:
    assert ours.coordinates.tolist() == theirs.coordinates.tolist()
    assert ours.coordinates.shape == theirs.coordinates.shape
    assert ours.offsets.tolist() == theirs.offsets.tolist()
    assert ours.lengths.tolist() == theirs.lengths.tolist()
    assert ours.location_codes.tolist() == theirs.location_codes.tolist()
    assert ours.locations == theirs.locations
    assert ours.inline_coordinates.tolist() == theirs.inline_coordinates.tolist()
    assert ours.inline_chunks == theirs.inline_chunks


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}], ids=["contiguous", "chunked"])
def test_values_of_all_types(tmp_path: Path, name: str, options: dict[str, str]) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=TYPES[name], **(options if TYPES[name].size else {}))

    assert_same(path)


@pytest.mark.parametrize("name", FILTERS)
def test_filters(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.h5"
    values = (np.arange(4000, dtype="i4") % 977).reshape(40, 100)
    with h5py.File(path, "w") as file:
        file.create_dataset("v", data=values, chunks=(10, 50), **FILTERS[name])
        file.create_dataset("small", data=values[:4, :16], chunks=(2, 16), **FILTERS[name])

    assert_same(path)


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
@pytest.mark.parametrize(
    "encoding",
    [
        {"contiguous": True},
        {"chunksizes": (4, 7, 11)},
        {"zlib": True, "shuffle": True, "chunksizes": (2, 10, 10)},
        {"zlib": True, "fletcher32": True},
        {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -32768},
        {"dtype": ">f4"},
        {"_FillValue": -999.0},
        {"_FillValue": None},
    ],
    ids=str,
)
def test_netcdf4(tmp_path: Path, engine: Any, encoding: dict[str, Any]) -> None:
    path = tmp_path / "a.nc"
    dataset = temperatures().assign(
        scalar=((), 4.25),
        flag=((), True),
        names=("y", np.array(["Kiel", "Zürich", ""] * 6 + ["a", "b"], object)),
        label=((), "a text"),
    )
    dataset["t"].attrs |= {
        "numbers": [1, 2, 3],
        "one": np.array([2.5]),
        "nothing": "",
        "nan": np.nan,
    }
    dataset.attrs |= {"words": ["a", "b"], "Ünit": "°C", "of": np.float32(0.1)}
    dataset.to_netcdf(path, engine=engine, unlimited_dims=["time"] * ("contiguous" not in encoding),
                      encoding={"t": encoding})  # fmt: skip

    assert_same(path)


def test_groups_with_dimensions_of_their_parents(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    days(0, 3).to_netcdf(path, group="model/run")
    days(0, 3).to_netcdf(path, group="model", mode="a")
    with h5py.File(path, "a") as file:
        inner = file.create_dataset("model/run/beside", data=np.arange(3.0))
        inner.dims[0].attach_scale(file["model/time"])

    for group in ("", "model", "model/run"):
        assert_same(path, group)


def _write_phony(file: h5py.File) -> None:
    file["whole"] = np.arange(12.0).reshape(3, 4)
    file.create_dataset("parts", data=np.arange(40).reshape(4, 10), chunks=(3, 3))
    file.create_dataset(
        "cube", data=np.zeros((3, 3, 4), "u1"), chunks=(1, 3, 2), compression="gzip"
    )


def _write_sparse(file: h5py.File) -> None:
    sparse = file.create_dataset("sparse", (100, 100), "f8", chunks=(10, 10), fillvalue=7.5)
    sparse[20:30, 40:50] = 1.0
    sparse[90:, 90:] = 2.0
    file.create_dataset("empty", (50,), "i4", fillvalue=-3)
    file.create_dataset("never", (50, 2), "f4", chunks=(5, 2))


def _write_larger_chunks(file: h5py.File) -> None:
    for name, options in {"plain": {}, "packed": {"compression": "gzip"}}.items():
        file.create_dataset(name, data=np.arange(5), maxshape=(None,), chunks=(512,), **options)
        file.create_dataset(
            f"{name} 2", data=np.ones((3, 4)), maxshape=(None, None), chunks=(8, 8), **options
        )


def _write_shrunk(file: h5py.File) -> None:
    made = file.create_dataset("v", data=np.arange(100), chunks=(10,), maxshape=(None,))
    made.resize((35,))


def _write_texts(file: h5py.File) -> None:
    texts = np.array([["ab", "ü"], ["", "xyz"], ["1", "2"]], object)
    file.create_dataset("texts", data=texts, dtype=h5py.string_dtype(), chunks=(2, 1))
    file.create_dataset("ascii", data=texts[:1, :1], dtype=h5py.string_dtype("ascii"))
    file.create_dataset("unwritten", (4,), h5py.string_dtype(), fillvalue="none")
    file.create_dataset("fixed", data=np.array([b"one", b"three"]))
    file["scalar"] = "a text"


def _write_records(file: h5py.File) -> None:
    file["packed"] = np.array([(1, 2.5, b"ab")], [("a", "i4"), ("b", "f8"), ("c", "S3")])
    file["mixed"] = np.array([(1, 2.5)], [("a", "<i4"), ("b", ">f8")])
    file["nested"] = np.zeros(3, [("a", [("x", "i2"), ("y", "f4")]), ("b", "f4", (2,))])


def _write_enums(file: h5py.File) -> None:
    kind = h5py.enum_dtype({"low": 0, "high": 1}, basetype="i1")
    file.create_dataset("levels", data=np.array([0, 1, 1], "i1"), dtype=kind)
    file.create_dataset("opaque", data=np.array([b"abc"], "V3"))


def _write_attributes(file: h5py.File) -> None:
    made = file.create_dataset("v", data=np.arange(2000.0), chunks=(100,))
    made.attrs["text"] = "ü"
    made.attrs["texts"] = ["a", "b"]
    made.attrs["one text"] = np.array(["a"], object)
    made.attrs["bytes"] = np.bytes_(b"abc")
    made.attrs["no bytes"] = np.bytes_(b"")
    made.attrs["list of bytes"] = np.array([b"a", b"bc"])
    made.attrs["truth"] = True
    made.attrs["truths"] = np.array([True, False])
    made.attrs["int"] = np.int8(-3)
    made.attrs["unsigned"] = np.uint64(2**63)
    made.attrs["big"] = np.array([1, 2], ">i2")
    made.attrs["square"] = np.ones((2, 2), "f4")
    made.attrs["half"] = np.float16(0.5)
    made.attrs["empty"] = h5py.Empty("f4")
    made.attrs["zero long"] = np.empty(0, "f8")
    made.attrs["nan"] = np.nan
    made.attrs["level"] = np.array(1, h5py.enum_dtype({"low": 0, "high": 1}, basetype="i1"))
    made.attrs.create("padded", b"ab  ", dtype="S4")
    made.attrs["_FillValue"] = np.float64(-1)
    file.attrs["title"] = "all of them"


def _write_scales(file: h5py.File) -> None:
    file["x"] = np.arange(4)
    file["y"] = np.arange(3)
    file["x"].make_scale("a name of its own")
    file["y"].make_scale()
    file["v"] = np.zeros((3, 4))
    file["v"].dims[1].attach_scale(file["x"])
    file["w"] = np.zeros((3, 4))
    file["w"].dims[0].attach_scale(file["y"])
    file["w"].dims[1].attach_scale(file["x"])


def _write_links(file: h5py.File) -> None:
    file["v"] = np.arange(10)
    file["again"] = file["v"]
    file["soft"] = h5py.SoftLink("/v")
    file.create_group("inner")
    file["type"] = np.dtype("f4")


def _write_compact(file: h5py.File) -> None:
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple((3, 4))
    made = h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32BE, space, properties)
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(12, dtype=">i4").reshape(3, 4))


def _write_unreachable(file: h5py.File) -> None:
    file["void"] = h5py.Empty("f4")
    file["good"] = np.arange(1000.0)
    file.create_dataset("lists", (3,), h5py.vlen_dtype(np.int32))[0] = [1, 2, 3]
    file.create_dataset("refs", data=[file["good"].ref], dtype=h5py.ref_dtype)
    mixed = file.create_dataset("mixed", (2, 4096), "u1", chunks=(1, 4096), compression="gzip")
    mixed.id.write_direct_chunk((0, 0), bytes(4096), filter_mask=1)
    file.create_dataset(
        "lossy", data=np.arange(1000.0), chunks=(100,), **hdf5plugin.SZ3(absolute=1)
    )
    layout = h5py.VirtualLayout((10,), "i8")
    layout[:] = h5py.VirtualSource("nowhere.h5", "values", (10,))
    file.create_virtual_dataset("elsewhere", layout)
    folder = Path(file.filename).parent
    file.create_dataset("out", (10,), "i4", external=[(str(folder / "raw"), 0, 40)])[...] = 1


ZOO: tuple[Callable[[h5py.File], None], ...] = (
    _write_phony, _write_sparse, _write_larger_chunks, _write_shrunk, _write_texts, _write_records,
    _write_enums, _write_attributes, _write_scales, _write_links, _write_compact, _write_unreachable,
)  # fmt: skip


@pytest.mark.parametrize("write", ZOO, ids=lambda write: write.__name__.removeprefix("_write_"))
@pytest.mark.parametrize("options", [{}, {"libver": "latest"}, {"userblock_size": 1024}], ids=str)
def test_all_kinds_of_datasets(
    tmp_path: Path, write: Callable[[h5py.File], None], options: dict[str, Any]
) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", **options) as file:
        write(file)

    assert_same(path)


@settings(max_examples=30)
@given(st.data())
def test_any_shape_and_chunks(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    shape = data.draw(st.lists(st.integers(0, 9), max_size=3).map(tuple))
    chunks = data.draw(
        st.none() if 0 in shape or not shape else st.tuples(*(st.integers(1, n) for n in shape))
    )
    written = data.draw(st.booleans())
    maxshape = (None, *shape[1:]) if chunks else None
    filters = {"compression": "gzip"} if chunks and data.draw(st.booleans()) else {}
    path = tmp_path_factory.mktemp("any") / "a.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("v", shape, "i4", chunks=chunks, maxshape=maxshape, **filters)
        if written:
            made[...] = np.arange(made.size).reshape(shape)
        if chunks:
            made.resize(data.draw(st.integers(1, 12)), axis=0)

    assert_same(path)


def test_a_dataset_read_by_xarray_has_these_dimensions(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    temperatures().drop_vars(["y", "x"]).to_netcdf(path, unlimited_dims=["time"])

    ours, _ = read_both(path, "", SMALL)

    with xr.open_dataset(path, decode_times=False) as expected:
        assert set(ours.arrays) == set(expected.variables)
        assert ours.arrays["t"].dims == expected["t"].dims
