"""Times that files count from different moments, with their bounds and climatologies."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil import virtual
from frazil.errors import InvalidInputError
from frazil.virtual import ProblemKind, Treatment
from frazil.virtual.source import ArrayHeader, FileVersion, SourceHeader
from frazil.virtual.source_files import load_foreign_reader
from frazil.virtual.source_formats import HDF5, Loading, SourceStores
from frazil.virtual.time_units import count_alike
from tests.virtual.repositories import commit, read_combined

EPOCHS = ("2000-01-01", "1999-12-30", "1900-01-01 00:00:0.0", "2000-02-01T06:00:00", "1970-01-01")


def month(units: str, values: Any, dtype: str = "int32") -> xr.Dataset:
    """Steps of a variable, with the bounds of their times in the same raw numbers."""
    times = np.array(values, dtype)
    edges = np.stack([times, times + np.array(1, dtype)], axis=1)
    attributes = {"units": units, "calendar": "standard", "bounds": "time_bnds"}
    return xr.Dataset(
        {
            "t": (("time", "x"), np.arange(len(times) * 3, dtype="f4").reshape(-1, 3)),
            "time_bnds": (("time", "nv"), edges),
        },
        coords={"time": ("time", times, attributes)},
    )


def save(dataset: xr.Dataset, path: Path, format: str = "NETCDF4", engine: str = "netcdf4") -> Path:
    dataset.to_netcdf(path, format=format, engine=engine)  # type: ignore[call-overload]
    return path


def expect(paths: list[Path]) -> xr.Dataset:
    parts = [xr.open_dataset(path).load() for path in paths]
    return xr.concat(parts, "time", data_vars="minimal").sortby("time")


def test_bounds_without_units_are_converted_with_their_coordinate(tmp_path: Path) -> None:
    paths = [
        save(month("days since 2000-01-01", range(31)), tmp_path / "a.nc"),
        save(month("days since 2000-02-01", range(29)), tmp_path / "b.nc"),
    ]

    found = read_combined(paths, "time")

    xr.testing.assert_equal(found, expect(paths))
    assert found["time_bnds"].values[-1].astype("M8[D]").tolist() == [
        np.datetime64("2000-02-29").item(), np.datetime64("2000-03-01").item(),
    ]  # fmt: skip


def test_large_bounds_are_converted_too(tmp_path: Path) -> None:
    paths = [
        save(month("hours since 2000-01-01", range(744), "int64"), tmp_path / "a.nc"),
        save(month("hours since 2000-02-01", range(744), "int64"), tmp_path / "b.nc"),
    ]

    planned = virtual.combine([virtual.open(path) for path in paths], "time")

    assert planned.variables["time_bnds"].treatment is Treatment.INLINE
    xr.testing.assert_equal(read_combined(paths, "time"), expect(paths))


def test_climatologies_are_converted_with_their_coordinate(tmp_path: Path) -> None:
    paths = []
    for name, start in (("a", "2000-01-01"), ("b", "2000-02-01")):
        part = month(f"days since {start}", [0, 15]).rename(time_bnds="climatology_bounds")
        del part["time"].attrs["bounds"]
        part["time"].attrs["climatology"] = "climatology_bounds"
        paths.append(save(part, tmp_path / f"{name}.nc"))

    found = read_combined(paths, "time")

    assert found["climatology_bounds"].values.tolist() == [[0, 1], [15, 16], [31, 32], [46, 47]]


def test_bounds_with_their_own_units_are_converted_as_well(tmp_path: Path) -> None:
    paths = []
    for name, units in (("a", "days since 2000-01-01"), ("b", "days since 2000-02-01")):
        part = month(units, range(2))
        part["time_bnds"].attrs["units"] = units
        paths.append(save(part, tmp_path / f"{name}.nc"))

    xr.testing.assert_equal(read_combined(paths, "time"), expect(paths))


def test_bounds_that_can_not_be_converted_stop_the_plan(tmp_path: Path) -> None:
    sources = []
    for name, units in (("a", "days since 2000-01-01"), ("b", "days since 2000-02-01")):
        part = month(units, range(2))
        part["time_bnds"].attrs["scale_factor"] = 0.5
        sources.append(virtual.open(save(part, tmp_path / f"{name}.nc")))

    planned = virtual.combine(sources, "time")

    assert "time_bnds" in {each.subject for each in planned.report.of(ProblemKind.COORDINATE)}
    with pytest.raises(InvalidInputError, match="time_bnds"):
        commit(planned, sources, tmp_path)


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("format", ["NETCDF3_64BIT", "NETCDF4"])
def test_every_type_counts_from_another_epoch(tmp_path: Path, dtype: str, format: str) -> None:
    if (dtype, format) == ("int64", "NETCDF3_64BIT"):
        dtype = "int8"
    paths = [
        save(month("days since 2000-01-01", range(31), dtype), tmp_path / "a.nc", format),
        save(month("days since 2000-02-01", range(29), dtype), tmp_path / "b.nc", format),
    ]

    found = read_combined(paths, "time")

    xr.testing.assert_equal(found, expect(paths))
    assert found["time"].encoding["dtype"] == np.dtype(dtype)


DAYS, HOURS, SINCE_1850 = (
    f"{unit} since {start}"
    for unit, start in (("days", "2000-01-01"), ("hours", "2000-01-01"), ("days", "1850-01-01"))
)


@pytest.mark.parametrize(
    ("first", "second", "widened"),
    [
        ((DAYS, [0, 1], "int16"), (SINCE_1850, [54788, 54789], "int32"), "int16"),
        (("hours since 1990-01-01", [0, 1], "int16"), (HOURS, [0, 1], "int16"), "int64"),
        ((DAYS, [0, 1], "int32"), (HOURS, [54, 78], "int32"), "float64"),
        ((DAYS, [0.5, 1.5], "float32"), ("seconds since 2000-01-01", [259201], "int32"), "float64"),
        ((DAYS, [0.5, 1.5], "float32"), ("minutes since 2000-01-01", [4365], "i4"), "float32"),
        ((DAYS, [0, 1], "int64"), ("days since 2000-01-03", [0, 1], "float64"), "int64"),
        ((DAYS, [0, 1], "float32"), (DAYS, [2, 3], "float64"), "float32"),
    ],
)
def test_a_type_is_widened_only_where_it_does_not_hold_the_times(
    tmp_path: Path, first: Any, second: Any, widened: str
) -> None:
    paths = [save(month(*first), tmp_path / "a.nc"), save(month(*second), tmp_path / "b.nc")]

    found = read_combined(paths, "time")

    xr.testing.assert_equal(found, expect(paths))
    assert found["time"].encoding["dtype"] == np.dtype(widened)


def test_finer_units_hold_what_no_type_holds_in_the_units_of_the_first(tmp_path: Path) -> None:
    hours = np.arange(1, 25) / 24
    paths = [
        save(month("days since 2000-01-01", hours, "float64"), tmp_path / "a.nc"),
        save(month("days since 1900-01-01", 40000 + hours, "float64"), tmp_path / "b.nc"),
    ]

    found = read_combined(paths, "time")

    xr.testing.assert_equal(found, expect(paths))


def test_finer_units_of_floats_have_a_fill_value_that_integers_hold(tmp_path: Path) -> None:
    paths = []
    for name, units in (
        ("a", "seconds since 1900-01-01"), ("b", "microseconds since 2020-01-01")
    ):  # fmt: skip
        part = month(units, [1, 2], "float64")
        for each in part.variables.values():
            each.encoding["_FillValue"] = None  # the NetCDF library has 9.97e36 then
        paths.append(save(part, tmp_path / f"{name}.nc"))

    found = read_combined(paths, "time")

    xr.testing.assert_equal(found, expect(paths))
    assert found["time"].encoding["dtype"] == np.dtype("int64")


@pytest.mark.parametrize(
    ("attributes", "blank"),
    [({}, 9.969209968386869e36), ({"_FillValue": -99.0}, -99), ({"missing_value": 1e20}, 1e20)],
)
def test_a_time_that_is_missing_has_no_place(
    tmp_path: Path, attributes: dict[str, float], blank: float
) -> None:
    sources = []
    for name, times in (("a", [0, 1]), ("b", sorted([2, blank]))):
        part = month(DAYS, times, "float64").drop_vars("time_bnds")
        part["time"].attrs |= attributes
        part["time"].encoding = {} if "_FillValue" in attributes else {"_FillValue": None}
        sources.append(virtual.open(save(part, tmp_path / f"{name}.nc")))

    (problem,) = virtual.combine(sources, "time").report.of(ProblemKind.NOT_MONOTONIC)

    assert problem.text == "one of its values is missing, so that it has no place"
    assert [Path(each).name for each in problem.files] == ["b.nc"]


def test_missing_bounds_stay_missing(tmp_path: Path) -> None:
    paths = []
    for name, units in (("a", "days since 1900-01-01"), ("b", "days since 2000-02-01")):
        part = month(units, range(2), "int16")
        part["time_bnds"].values[0, 1] = -99
        part["time_bnds"].encoding["_FillValue"] = np.int16(-99)
        paths.append(save(part, tmp_path / f"{name}.nc"))

    found = read_combined(paths, "time")

    xr.testing.assert_equal(found, expect(paths))
    assert np.isnat(found["time_bnds"].values[:, 1]).tolist() == [True, False, True, False]


def test_calendars_that_differ_are_refused_and_names_of_one_calendar_are_not(
    tmp_path: Path,
) -> None:
    parts = {name: month("days since 2000-01-01", [at]) for at, name in enumerate("abc")}
    for name, calendar in (("a", "noleap"), ("b", "365_day"), ("c", "360_day")):
        parts[name]["time"].attrs["calendar"] = calendar
    paths = {name: save(part, tmp_path / f"{name}.nc") for name, part in parts.items()}

    found = read_combined([paths["a"], paths["b"]], "time")
    refused = virtual.combine([virtual.open(paths[each]) for each in "ac"], "time")

    assert [each.isoformat()[:10] for each in found["time"].values] == ["2000-01-01", "2000-01-02"]
    assert {each.subject for each in refused.report.of(ProblemKind.COORDINATE)} >= {"time"}


@st.composite
def headers(draw: st.DrawFn) -> list[SourceHeader]:
    """Sources with a few times and their bounds, each with a clock and types of its own."""
    calendar = draw(st.sampled_from(["standard", "noleap", "360_day"]))
    found = []
    for row in range(draw(st.integers(2, 4))):
        unit = draw(st.sampled_from(["days", "hours", "minutes", "seconds"]))
        attributes = {"units": f"{unit} since {draw(st.sampled_from(EPOCHS))}", "bounds": "edges"}
        arrays = {}
        for name, dims in (("time", ["time"]), ("edges", ["time", "nv"])):
            dtype = np.dtype(draw(st.sampled_from(["i2", "i4", "i8", "f4", "f8"])))
            whole = st.integers(-3000, 3000)
            steps = whole if dtype.kind == "i" else whole.map(lambda number: number / 8)
            shape = (3, 2)[: len(dims)]
            values = draw(
                st.lists(
                    steps, min_size=3**1 * 2 ** (len(dims) - 1), max_size=3 * 2 ** (len(dims) - 1)
                )
            )
            metadata = {
                "shape": list(shape),
                "data_type": dtype.name,
                "dimension_names": dims,
                "fill_value": 0,
                "codecs": [],
                "chunk_grid": {},
                "attributes": {**attributes, "calendar": calendar} if name == "time" else {},
            }
            arrays[name] = ArrayHeader(name, metadata, np.array(values, dtype).reshape(shape))
        version = FileVersion(None, datetime(2000, 1, 1, tzinfo=UTC), 1)
        found.append(SourceHeader(f"file:///{row}", "hdf5", "", version, {}, arrays))
    return found


def decode(header: SourceHeader) -> xr.Dataset:
    raw = {n: (a.dims, a.values, dict(a.attributes)) for n, a in header.arrays.items()}
    return xr.decode_cf(xr.Dataset(raw))


@settings(max_examples=60, deadline=None)
@given(headers())
def test_times_decode_to_what_each_file_says(sources: list[SourceHeader]) -> None:
    counted, problems = count_alike(sources)

    assert not problems
    first = counted[0].arrays
    for before, after in zip(sources, counted, strict=True):
        xr.testing.assert_equal(decode(before), decode(after))
        for name, array in after.arrays.items():
            assert array.metadata["data_type"] == first[name].metadata["data_type"]
            assert array.attributes == first[name].attributes


# Dimensions without a variable


def write_scales(path: Path) -> Path:
    """Write a file whose dimensions have room in HDF5, and no identifiers of NetCDF4."""
    with h5py.File(path, "w") as file:
        values = file.create_dataset("t", data=np.ones((2, 3), "f4"))
        for axis, name in enumerate(("time", "y")):
            length = values.shape[axis]
            scale = file.create_dataset(name, data=np.zeros(length, ">f4"))
            label = f"This is a netCDF dimension but not a netCDF variable{length:10d}"
            scale.make_scale(label)
            values.dims[axis].attach_scale(scale)
    return path


def test_dimensions_without_a_variable_are_no_coordinates(tmp_path: Path) -> None:
    path = write_scales(tmp_path / "a.nc")
    stores = SourceStores((), None)
    foreign = load_foreign_reader()

    found = virtual.open(path)
    others = foreign(
        stores, path.as_uri(), path.stat().st_size, HDF5, "", Loading(frozenset(), 1024)
    )

    assert list(found.arrays) == list(others.arrays) == ["t"]
    assert found.arrays["t"].dims == others.arrays["t"].dims == ("time", "y")


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_variables_that_nobody_wrote_are_no_mere_dimensions(tmp_path: Path, engine: str) -> None:
    path = save(xr.Dataset({"t": (("y", "x"), np.ones((2, 3)))}), tmp_path / "a.nc", engine=engine)
    with h5py.File(path, "a") as file:
        empty = file.create_dataset("u", (2, 3), "f8", fillvalue=7)
        empty.attrs["_Netcdf4Dimid"] = np.int32(0)

    assert list(virtual.open(path).arrays) == ["t", "u"]
