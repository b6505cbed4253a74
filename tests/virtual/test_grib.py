"""GRIB files as sources: names, dimensions, values, indexes, damages."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import eccodes
import icechunk
import numpy as np
import pytest
import virtualizarr
import xarray as xr

import frazil
from frazil import virtual
from frazil.errors import InvalidInputError
from frazil.testing.object_server import ObjectServer, Refuse, Rule, ServerOptions
from frazil.virtual import grib_messages
from frazil.virtual.grib import GribFile, IndexedVariable, open_grib, read_by_index
from frazil.virtual.grib_messages import Field, Window, parse_index, scan
from frazil.virtual.source_formats import Loading, SourceStores

from .grib_files import POINTS, decode, join_fields, make_message, opened, pack_as_png, save
from .repositories import read, read_combined, read_virtually
from .test_official_library import configured
from .test_remote_sources import FRIEND, PREFIX, committed, container, upload

STATISTICS: dict[str, object] = {"productDefinitionTemplateNumber": 8}
AVERAGE = {**STATISTICS, "stepRange": "0-6", "typeOfStatisticalProcessing": 0}


def open_file(path: Path) -> GribFile:
    return open_grib(SourceStores(), path.as_uri(), path.stat().st_size)


def read_native(path: Path, name: str) -> Any:
    file = open_file(path)
    shape = virtual.open(path).arrays[name].shape
    return file.read_box(name, [(0, extent) for extent in shape])


def show(path: Path) -> dict[str, tuple[str, ...]]:
    """Dimensions before those of the grid, by variable."""
    source = virtual.open(path)
    return {
        name: array.dims[:-2] for name, array in source.arrays.items() if len(array.dims) > 2
    }  # fmt: skip


def test_messages_become_arrays_with_levels_and_times(tmp_path: Path) -> None:
    messages = {
        (day, level): make_message(seed=day + level, dataDate=20260100 + day, level=level)
        for day in (1, 2)
        for level in (500, 850)
    }
    path = save(tmp_path / "a.grib2", *messages.values())

    found = read_virtually(path)

    assert found["t"].dims == ("time", "step", "isobaricInhPa", "latitude", "longitude")
    assert found["isobaricInhPa"].values.tolist() == [850, 500]
    assert found["t"].attrs["units"] == "K"
    for (day, level), message in messages.items():
        values = found["t"].sel(time=f"2026-01-{day:02}", isobaricInhPa=level).values
        np.testing.assert_array_equal(values.ravel(), decode(message))


@pytest.mark.parametrize(
    ("keys", "name", "dims"),
    [
        ({"level": 500}, "t", ("isobaricInhPa",)),
        ({"typeOfLevel": "heightAboveGround", "level": 2}, "t2m", ()),
        (
            {"typeOfLevel": "heightAboveGround", "level": 80},
            "t_heightAboveGround",
            ("heightAboveGround",),
        ),
        ({"typeOfLevel": "surface"}, "t_surface", ()),
        ({"typeOfLevel": "hybrid", "level": 60}, "t_hybrid", ("hybrid",)),
        ({"shortName": "tp", "stepRange": "0-6"}, "tp", ()),
        ({**AVERAGE, "shortName": "gh"}, "gh_avg", ("isobaricInhPa",)),
        ({**AVERAGE, "shortName": "avg_t"}, "avg_t", ("isobaricInhPa",)),
        ({"productDefinitionTemplateNumber": 1, "number": 3}, "t", ("number", "isobaricInhPa")),
    ],
)  # fmt: skip
def test_the_name_of_an_array_follows_from_its_messages(
    tmp_path: Path, keys: dict[str, object], name: str, dims: tuple[str, ...]
) -> None:
    path = save(tmp_path / "a.grib2", make_message(**keys))

    assert show(path) == {name: ("time", "step", *dims)}


def test_pressure_is_in_hpa_also_where_it_is_coded_in_pa(tmp_path: Path) -> None:
    high = make_message(typeOfLevel="isobaricInPa", level=40)
    path = save(tmp_path / "a.grib2", make_message(level=500), high)

    source = virtual.open(path)

    assert source.arrays["isobaricInhPa"].values.tolist() == [500, 0.4]  # type: ignore[union-attr]


def test_layers_stay_apart_by_their_middle(tmp_path: Path) -> None:
    layers = [(0, 1000), (0, 6000), (3000, 0)]
    messages = [
        make_message(
            typeOfLevel="heightAboveGroundLayer",
            scaledValueOfFirstFixedSurface=first,
            scaleFactorOfFirstFixedSurface=0,
            scaledValueOfSecondFixedSurface=second,
            scaleFactorOfSecondFixedSurface=0,
            seed=first + second,
        )
        for first, second in layers
    ]
    path = save(tmp_path / "a.grib2", *messages)

    found = read_virtually(path)["t_heightAboveGroundLayer"]

    assert found["heightAboveGroundLayer"].values.tolist() == [500, 1500, 3000]
    np.testing.assert_array_equal(
        found.sel(heightAboveGroundLayer=3000).values.ravel(), decode(messages[1])
    )
    assert [0, 6000] in found.attrs["GRIB_layers"]


def test_the_control_is_a_member_also_in_grib1(tmp_path: Path) -> None:
    keys = {"sample": "regular_ll_pl_grib1", "localDefinitionNumber": 1, "stream": "enfo"}
    messages = [make_message(**keys, type=kind, number=n) for kind, n in (("cf", 0), ("pf", 1))]
    path = save(tmp_path / "a.grib1", *messages)

    (dims,) = show(path).values()

    assert dims[:3] == ("time", "step", "number")


def test_intervals_that_end_at_once_are_several_arrays(tmp_path: Path) -> None:
    keys = {"shortName": "tp", "typeOfLevel": "surface"}
    bucket = make_message(**keys, stepRange="6-12", seed=1)
    total = make_message(**keys, stepRange="0-12", seed=2)
    path = save(tmp_path / "a.grib2", total, bucket)

    found = read_virtually(path)

    np.testing.assert_array_equal(found["tp"].values.ravel(), decode(bucket))
    np.testing.assert_array_equal(found["tp_since_start"].values.ravel(), decode(total))


def test_equal_messages_are_one_and_contradicting_ones_are_refused(tmp_path: Path) -> None:
    first, other = make_message(seed=1), make_message(seed=2)
    save(tmp_path / "equal.grib2", first, first)
    path = save(tmp_path / "other.grib2", first, other)

    np.testing.assert_array_equal(
        read_virtually(tmp_path / "equal.grib2")["t"].values.ravel(), decode(first)
    )
    assert "another message has taken" in str(virtual.open(path).arrays["t"].obstacle)
    with pytest.raises(InvalidInputError, match="has a place that another message has taken"):
        read_native(path, "t")


def test_messages_that_are_not_there_read_as_missing(tmp_path: Path) -> None:
    path = save(
        tmp_path / "a.grib2",
        make_message(level=500),
        make_message(level=850),
        make_message(shortName="u", level=850),
    )

    for values in (read_virtually(path)["u"].values, read_native(path, "u")):
        assert np.isnan(values[0, 0, 1]).all()
        assert not np.isnan(values[0, 0, 0]).any()


@pytest.mark.parametrize("template", [0, 1, 2, 5, 6, 8])
@pytest.mark.parametrize("unit", [0, 1, 2, 10, 11, 12, 13])
def test_messages_that_differ_in_their_step_are_described_once(template: int, unit: int) -> None:
    keys = {"productDefinitionTemplateNumber": template, "indicatorOfUnitOfTimeRange": unit}
    messages = [make_message(**keys, forecastTime=step) for step in (0, 1, 7, 3000, -6)]
    windows = [Window(lambda *_, m=each: [m], len(each), each) for each in messages]
    headers = [each for window in windows for each in scan(window)]
    expected = [grib_messages._describe(grib_messages.assemble(each)) for each in headers]
    grib_messages._describe.cache_clear()

    found = [grib_messages.describe(each) for each in headers]

    assert found == expected
    # A negative step, and an interval whose end is a date, are left to eccodes.
    assert grib_messages._describe.cache_info().misses == (2 if template < 8 else len(headers))


@pytest.mark.parametrize("steps", ["0", "6", "0-6", "6-12"])
def test_a_step_is_the_end_of_its_interval(tmp_path: Path, steps: str) -> None:
    keys: dict[str, object] = STATISTICS if "-" in steps else {}
    path = save(tmp_path / "a.grib2", make_message(**keys, stepRange=steps))

    (step,) = read_virtually(path)["step"].values

    assert step == np.timedelta64(int(steps.rpartition("-")[2]), "h")


# Values


PACKINGS = [
    ("grid_simple", 12), ("grid_complex", 20), ("grid_complex_spatial_differencing", 11),
    ("grid_ccsds", 16), ("grid_ccsds", 4), ("grid_ccsds", 28), ("grid_jpeg", 14), ("grid_ieee", 32),
]  # fmt: skip


@pytest.mark.parametrize(("packing", "bits"), PACKINGS)
@pytest.mark.parametrize("scale", [0, 2])
def test_values_are_those_of_eccodes(tmp_path: Path, packing: str, bits: int, scale: int) -> None:
    rng = np.random.default_rng(bits)
    holes = np.where(rng.random(POINTS) < 0.3, 9999, rng.normal(0, 5, POINTS))
    keys: dict[str, object] = {"packingType": packing}
    if packing != "grid_ieee":
        keys |= {"bitsPerValue": bits, "decimalScaleFactor": scale}
    masked: dict[str, object] = {**keys, "bitmapPresent": 1, "missingValue": 9999}
    messages = [
        make_message(level=1, seed=1, **keys),
        make_message(np.full(POINTS, 3.25), level=2, **keys),
        make_message(holes, level=3, **masked),
        make_message(np.where(holes == 9999, 9999, 1.5), level=4, **masked),
    ]
    path = save(tmp_path / "a.grib2", *messages)
    expected = np.array([decode(each) for each in messages[::-1]])

    native = read_native(path, "t")
    np.testing.assert_array_equal(native.reshape(expected.shape), expected)
    if virtual.open(path).arrays["t"].obstacle is None:
        found = read_virtually(path)["t"].values
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("depth", [8, 16])
def test_png_is_read_as_eccodes_reads_it(tmp_path: Path, depth: int) -> None:
    message = pack_as_png(make_message(), depth, reference=-99.9, binary=1, decimal=1)
    path = save(tmp_path / "a.grib2", message)

    np.testing.assert_array_equal(read_virtually(path)["t"].values.ravel(), decode(message))


def test_packings_that_the_codec_reads_wrongly_are_no_references(tmp_path: Path) -> None:
    obstacles = {}
    for packing, bits in [*PACKINGS, ("grid_ccsds", 8), ("grid_ccsds", 24)]:
        keys: dict[str, object] = {} if packing == "grid_ieee" else {"bitsPerValue": bits}
        path = save(tmp_path / "a.grib2", make_message(packingType=packing, **keys))
        if virtual.open(path).arrays["t"].obstacle is not None:
            obstacles[packing, bits] = True

    assert list(obstacles) == [("grid_ccsds", 4), ("grid_ccsds", 28), ("grid_ieee", 32)]


@pytest.mark.parametrize("alternates", [0, 1])
@pytest.mark.parametrize("columns_first", [0, 1])
@pytest.mark.parametrize("north_last", [0, 1])
def test_values_are_where_their_coordinates_say(
    tmp_path: Path, alternates: int, columns_first: int, north_last: int
) -> None:
    keys: dict[str, object] = {
        "alternativeRowScanning": alternates, "jPointsAreConsecutive": columns_first,
    }  # fmt: skip
    if north_last:
        keys |= {
            "jScansPositively": 1,
            "latitudeOfFirstGridPointInDegrees": 0,
            "latitudeOfLastGridPointInDegrees": 60,
        }
    message = make_message(**keys)
    path = save(tmp_path / "a.grib2", message)
    found = xr.DataArray(
        read_native(path, "t")[0, 0, 0],
        {name: virtual.open(path).arrays[name].values for name in ("latitude", "longitude")},
        virtual.open(path).arrays["t"].dims[-2:],
    )

    with opened(message) as handle:
        places = [eccodes.codes_get_array(handle, key) for key in ("latitudes", "longitudes")]
    rows = decode(message).reshape(found.shape)
    if alternates:
        # Eccodes leaves the values as they are, and has its points in rows of one direction.
        rows[1::2] = rows[1::2, ::-1].copy()
    for value, latitude, longitude in list(zip(rows.ravel(), *places, strict=True))[::37]:
        assert found.sel(latitude=latitude, longitude=longitude).item() == value
    assert (virtual.open(path).arrays["t"].obstacle is None) == (not alternates)
    if not alternates:
        np.testing.assert_array_equal(read_virtually(path)["t"].values[0, 0, 0], found.values)


@pytest.mark.parametrize(
    ("sample", "dims"),
    [
        ("regular_gg_pl_grib2", ("latitude", "longitude")),
        ("reduced_gg_pl_32_grib2", ("values",)),
        ("rotated_ll_pl_grib2", ("y", "x")),
        ("polar_stereographic_pl_grib2", ("y", "x")),
        ("sh_pl_grib2", ("values",)),
        ("regular_ll_pl_grib1", ("latitude", "longitude")),
        ("reduced_gg_pl_32_grib1", ("values",)),
        ("polar_stereographic_pl_grib1", ("y", "x")),
    ],
)
def test_grids_have_their_points(tmp_path: Path, sample: str, dims: tuple[str, ...]) -> None:
    message = make_message(sample=sample, shortName="t")
    path = save(tmp_path / "a.grib", message)
    source = virtual.open(path, load=["latitude", "longitude"])

    assert source.arrays["t"].dims[3:] == dims
    np.testing.assert_array_equal(read_native(path, "t").ravel(), decode(message))
    if sample.startswith("sh"):
        return
    shape = source.arrays["t"].shape[3:]
    with opened(message) as handle:
        for name in ("latitude", "longitude"):
            values = source.arrays[name].values
            assert values is not None
            if dims[0] == "latitude":
                values = values[:, None] if name == "latitude" else values[None]
            points = eccodes.codes_get_array(handle, f"{name}s").reshape(shape)
            np.testing.assert_array_equal(np.broadcast_to(values, shape), points)


def test_points_of_a_large_grid_are_no_part_of_the_header(tmp_path: Path) -> None:
    size = 400 * 400
    keys = {"Ni": 400, "Nj": 400, "numberOfDataPoints": size, "numberOfValues": size}
    message = make_message(np.zeros(size), sample="rotated_ll_pl_grib2", **keys)
    path = save(tmp_path / "a.grib2", message)

    found = virtual.open(path).arrays["latitude"]

    assert found.values is None
    assert "load=['latitude']" in str(found.obstacle)
    assert virtual.open(path, load=["latitude"]).arrays["latitude"].obstacle is None


def test_two_grids_of_a_file_are_two_pairs_of_dimensions(tmp_path: Path) -> None:
    first, second = make_message(), make_message(sample="regular_gg_pl_grib2", seed=1)
    path = save(tmp_path / "a.grib2", first, second)

    found = read_virtually(path)

    assert found["t_grid2"].dims[-2:] == ("latitude_grid2", "longitude_grid2")
    np.testing.assert_array_equal(found["t_grid2"].values.ravel(), decode(second))
    np.testing.assert_array_equal(found["t"].values.ravel(), decode(first))


def test_all_fields_of_a_message_are_read(tmp_path: Path) -> None:
    masked: dict[str, object] = {"bitmapPresent": 1, "missingValue": 9999}
    values = np.where(np.arange(POINTS) % 3, 7.5, 9999)
    parts = [make_message(values + row, shortName=n, **masked) for row, n in enumerate("uv")]
    path = save(tmp_path / "a.grib2", join_fields(*parts), make_message())

    source = virtual.open(path)

    assert source.arrays["u"].obstacle is None
    assert "not the first field" in str(source.arrays["v"].obstacle)
    for name, part in zip("uv", parts, strict=True):
        np.testing.assert_array_equal(read_native(path, name).ravel(), decode(part))


# Files that packages have


def test_files_of_packages_are_read_as_eccodes_reads_them() -> None:
    soil = Path(virtualizarr.__file__).parent / "tests/data/ecmwf_soil_8vars_tiny.grib1"
    example = Path(xr.__file__).parent / "tests/data/example.grib"

    assert len(_compare(soil)) == 8
    assert len(_compare(example)) == 24


def _compare(path: Path) -> list[str]:
    """The names of all messages of a file, after a look at their values."""
    dataset = {name: read_native(path, name) for name in show(path)}
    source = virtual.open(path)
    seen = []
    with path.open("rb") as file:
        while (handle := eccodes.codes_grib_new_from_file(file)) is not None:
            name = eccodes.codes_get(handle, "cfVarName")
            day, hour = (eccodes.codes_get(handle, key) for key in ("dataDate", "dataTime"))
            moment = np.datetime64(f"{day // 10000}-{day // 100 % 100:02}-{day % 100:02}")
            places = {
                "time": (moment + np.timedelta64(hour // 100, "h"))
                .astype("datetime64[s]")
                .astype(int),
                "step": 0,
                "number": eccodes.codes_get(handle, "number"),
                "isobaricInhPa": eccodes.codes_get(handle, "level"),
            }
            at = tuple(
                int(np.flatnonzero(source.arrays[dim].values == places[dim])[0])
                for dim in source.arrays[name].dims[:-2]
            )
            np.testing.assert_array_equal(
                dataset[name][at].ravel(), eccodes.codes_get_values(handle)
            )
            eccodes.codes_release(handle)
            seen.append(name)
    return seen


# Many files


@pytest.mark.parametrize("dim", ["time", "step"])
def test_files_are_combined_along_their_time_or_step(tmp_path: Path, dim: str) -> None:
    messages = [
        make_message(seed=row, dataDate=20260101 + (row if dim == "time" else 0), step=3 * row
                     if dim == "step" else 0)
        for row in range(3)
    ]  # fmt: skip
    paths = [save(tmp_path / f"{row}.grib2", each) for row, each in enumerate(messages)]

    found = read_combined(paths[::-1], dim)

    assert found.sizes[dim] == 3
    expected = [decode(each) for each in messages]
    np.testing.assert_array_equal(found["t"].values.reshape(3, -1), expected)


# Indexes


LEVELS = (1000, 850, 500)


def make_forecast(tmp_path: Path) -> tuple[Path, list[bytes]]:
    """A file of two members on three levels, with sums and temperatures at two heights."""
    member = {"productDefinitionTemplateNumber": 1, "numberOfForecastsInEnsemble": 2, "step": 6}
    messages = [
        make_message(**member, number=number, level=level, seed=10 * number + level)
        for number in (1, 2)
        for level in LEVELS
    ]
    heights: dict[str, object] = {"step": 6, "typeOfLevel": "heightAboveGround"}
    messages += [
        make_message(**heights, level=2, seed=7),
        make_message(**heights, level=80, seed=8),
        make_message(shortName="tp", typeOfLevel="surface", stepRange="0-6", seed=9),
        make_message(shortName="tp", typeOfLevel="surface", stepRange="3-6", seed=4),
    ]
    return save(tmp_path / "a.grib2", *messages), messages


NOAA = [
    *(
        f"d={{date}}:TMP:{level} mb:6 hour fcst:ENS=+{number}"
        for number in (1, 2)
        for level in LEVELS
    ),
    "d={date}:TMP:2 m above ground:6 hour fcst:",
    "d={date}:TMP:80 m above ground:6 hour fcst:",
    "d={date}:APCP:surface:0-6 hour acc fcst:",
    "d={date}:APCP:surface:3-6 hour acc fcst:",
]


def find_date(message: bytes) -> str:
    with opened(message) as handle:
        return str(eccodes.codes_get(handle, "dataDate"))


def write_noaa(path: Path, messages: list[bytes], lines: list[str], date: str) -> None:
    offsets = np.cumsum([0, *map(len, messages)])
    text = [
        f"{row + 1}:{offset}:{line.format(date=date)}\n"
        for row, (offset, line) in enumerate(zip(offsets[:-1], lines, strict=True))
    ]
    Path(f"{path}.idx").write_text("".join(text))


def write_ecmwf(path: Path, messages: list[bytes], date: str) -> None:
    offsets = np.cumsum([0, *map(len, messages)])
    lines = []
    for offset, message in zip(offsets[:-1].tolist(), messages, strict=True):
        with opened(message) as handle:
            kind = eccodes.codes_get(handle, "typeOfLevel")
            line = {
                "date": date, "time": "1200", "step": "6",
                "param": eccodes.codes_get(handle, "shortName"),
                "levtype": "pl" if kind == "isobaricInhPa" else "sfc", "_offset": offset,
                "_length": len(message),
            }  # fmt: skip
            if kind == "isobaricInhPa":
                line["levelist"] = str(eccodes.codes_get(handle, "level"))
                line["number"] = str(eccodes.codes_get(handle, "number"))
            lines.append(json.dumps(line))
    path.with_suffix(".index").write_text("\n".join(lines))


def read_fields(path: Path, index: str | None) -> tuple[int, list[Field]]:
    """The number of headers that were read of a file, and its fields, by an index or without."""
    data = path.read_bytes()
    starts: list[int] = []

    def read_ranges(begins: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        starts.extend(begins)
        return [data[begin:end] for begin, end in zip(begins, ends, strict=True)]

    window = Window(read_ranges, len(data))
    if index is None:
        return len(starts), [Field.of(each) for each in scan(window)]
    fields = read_by_index(parse_index(index, len(data)), window)
    return len(starts), fields


@pytest.mark.parametrize("form", ["noaa", "ecmwf"])
def test_by_an_index_few_headers_say_as_much_as_all(tmp_path: Path, form: str) -> None:
    path, messages = make_forecast(tmp_path)
    scanned = virtual.open(path)
    _, expected = read_fields(path, None)
    date = find_date(messages[0])
    if form == "noaa":
        write_noaa(path, messages, NOAA, date + "12")
        index = Path(f"{path}.idx").read_text()
    else:
        write_ecmwf(path, messages, date)
        index = path.with_suffix(".index").read_text()

    headers, fields = read_fields(path, index)
    indexed = virtual.open(path)

    assert [(each.product, each.time) for each in fields] == [
        (each.product, each.time) for each in expected
    ]
    # Members and pressure levels are known by one of them.
    assert headers == 5
    assert {"t", "t2m", "t_heightAboveGround", "tp", "tp_since_start"} <= indexed.arrays.keys()
    for name, columns in scanned.references.items():
        np.testing.assert_array_equal(indexed.references[name].offsets, columns.offsets)
        np.testing.assert_array_equal(indexed.references[name].lengths, columns.lengths)


def test_packing_that_may_vary_is_looked_at_in_every_message(tmp_path: Path) -> None:
    messages = [
        make_message(packingType="grid_ccsds", bitsPerValue=bits, level=level)
        for level, bits in ((500, 16), (850, 4), (1000, 16))
    ]
    path = save(tmp_path / "a.grib2", *messages)
    lines = [f"d={{date}}:TMP:{level} mb:anl:" for level in (500, 850, 1000)]
    write_noaa(path, messages, lines, find_date(messages[0]) + "12")

    assert "does not read its packing" in str(virtual.open(path).arrays["t"].obstacle)


@pytest.mark.parametrize(
    "damage",
    {
        "step": lambda text: text.replace("6 hour fcst", "12 hour fcst"),
        "member": lambda text: text.replace("ENS=+2", "ENS=+9").replace("ENS=+1", "ENS=+8"),
        "date": lambda text: text.replace("d=2", "d=1"),
        "offset": lambda text: text.replace("1:0:", "1:13:", 1),
        "end": lambda text: text + "99:99999999:d=",
        "half": lambda text: text[: len(text) // 2],
        "text": lambda text: "not an index",  # noqa: ARG005
        "nothing": lambda text: "",  # noqa: ARG005
    }.items(),
    ids=lambda damage: damage[0],
)
def test_an_index_that_does_not_fit_makes_no_wrong_references(tmp_path: Path, damage: Any) -> None:
    path, messages = make_forecast(tmp_path)
    expected = {name: read_native(path, name) for name in show(path)}
    write_noaa(path, messages, NOAA, find_date(messages[0]) + "12")
    index = Path(f"{path}.idx")
    index.write_text(damage[1](index.read_text()))

    for name in show(path):
        np.testing.assert_array_equal(read_native(path, name), expected[name])


@pytest.mark.parametrize("damage", [None, "twice", "date"])
def test_columns_of_an_index_say_the_same_as_its_lines(tmp_path: Path, damage: str | None) -> None:
    names, levels, members, steps = (
        {"TMP": "t", "UGRD": "u"},
        (1000, 850, 500),
        range(1, 12),
        (0, 6),
    )
    cells = [(name, level, member, step) for name in names for level in levels
             for member in members for step in steps]  # fmt: skip
    cells = [cells[row] for row in np.random.default_rng(7).permutation(len(cells))[1:]]
    made = {
        cell: make_message(
            productDefinitionTemplateNumber=1, perturbationNumber=cell[2], step=cell[3],
            shortName=names[cell[0]], level=cell[1],
        )
        for cell in cells
    }  # fmt: skip
    if damage == "twice":
        cells[20:20] = [cells[50]]
    messages = [made[cell] for cell in cells]
    path = save(tmp_path / "a.grib2", *messages)
    lines = [
        f"d={{date}}:{name}:{level} mb:{f'{step} hour fcst' if step else 'anl'}:ENS=+{member}"
        for name, level, member, step in cells
    ]
    write_noaa(path, messages, lines, find_date(messages[0]) + "12")
    index = Path(f"{path}.idx")
    if damage == "date":
        index.write_text(index.read_text().replace(":d=", ":d=x", 1))

    by_column = open_file(path)
    index.unlink()
    by_message = open_file(path)

    is_indexed = [isinstance(each, IndexedVariable) for each in by_column.variables.values()]
    assert any(is_indexed) == all(is_indexed) == (damage is None)
    one, other = (each.describe(Loading(frozenset(), 1 << 20)) for each in (by_column, by_message))
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in other.arrays.items():
        assert one.arrays[name].metadata == array.metadata
        np.testing.assert_array_equal(one.arrays[name].values, array.values)
        for column in ("coordinates", "offsets", "lengths", "locations"):
            found, expected = (getattr(e.references[name], column) for e in (one, other))
            np.testing.assert_array_equal(found, expected)
    box = [(0, 1), (0, 2), (3, 5), (1, 2), (0, 31), (0, 16)]
    np.testing.assert_array_equal(by_column.read_box("t", box), by_message.read_box("t", box))


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("anl", 0, 0), ("6 hour fcst", 21600, 21600), ("15 min fcst", 900, 900),
        ("0-6 hour acc fcst", 0, 21600), ("6-12 hour ave fcst", 21600, 43200),
        ("0-1 day acc fcst", 0, 86400), ("45-60 min max fcst", 2700, 3600),
        ("1@6 hour ave(anl),missing=0", None, None),
    ],
)  # fmt: skip
def test_forms_of_time_in_an_index(text: str, start: int | None, end: int | None) -> None:
    (entry,) = parse_index(f"1:0:d=2026010206:TMP:500 mb:{text}:ENS=-4:\n", 100)

    if start is None:
        assert entry.cell is None
        return
    assert entry.cell is not None
    assert (entry.cell.start, entry.cell.end) == (start, end)
    assert (entry.cell.level, entry.cell.member, entry.cell.time.hour) == (500, 4, 6)


def test_lines_of_one_offset_are_the_fields_of_one_message(tmp_path: Path) -> None:
    parts = [make_message(shortName=name, seed=row) for row, name in enumerate("uv")]
    joined = join_fields(*parts)
    path = save(tmp_path / "a.grib2", joined)
    date = find_date(joined) + "12"
    lines = [f"1.{row + 1}:0:d={date}:{name}GRD:1000 mb:anl:\n" for row, name in enumerate("UV")]
    Path(f"{path}.idx").write_text("".join(lines))

    for name, part in zip("uv", parts, strict=True):
        np.testing.assert_array_equal(read_native(path, name).ravel(), decode(part))


# Buckets, and the official library


def test_of_a_file_in_a_bucket_only_headers_are_read(tmp_path: Path) -> None:
    size = 300 * 300
    grid = {"Ni": 300, "Nj": 300, "numberOfDataPoints": size, "numberOfValues": size}
    levels = (1000, 850, 700, 500)
    messages = [
        make_message(np.random.default_rng(level).normal(280, 10, size), **grid, level=level)
        for level in levels
    ]
    path = save(tmp_path / "a.grib2", *messages)
    lines = [f"d={{date}}:TMP:{level} mb:anl:" for level in levels]
    write_noaa(path, messages, lines, find_date(messages[0]) + "12")
    ranges = {}
    with ObjectServer(ServerOptions(access_keys=frozenset(("friend",)))) as server:
        upload(server, path, "my data/a.grib2")
        upload(server, Path(f"{path}.idx"), "my data/a.grib2.idx")
        for form in ("scan", "index"):
            # A bucket that may not be listed says so of everything that is not there.
            is_hidden = [Rule(Refuse(403, "AccessDenied"), "GET", "*.i*")] if form == "scan" else []
            server.inject(is_hidden)
            before = len(server.requests)
            source = virtual.open(
                PREFIX + "a.grib2", containers=[container(server)], credentials=FRIEND
            )
            ranges[form] = [
                each.headers["range"]
                for each in server.requests[before:]
                if "range" in each.headers
            ]
        found = read(committed(source, container(server), FRIEND))

    # The first bytes, which tell the format, and then the end of each message, or the last header.
    assert [len(ranges[form]) for form in ("scan", "index")] == [5, 2]
    expected = [decode(each) for each in messages]
    np.testing.assert_array_equal(found["t"].values.reshape(4, -1), expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_official_library_reads_messages(tmp_path: Path) -> None:
    message = make_message()
    source = virtual.open(save(tmp_path / "a.grib2", message))
    session = frazil.Repository.create(**configured(frazil, tmp_path)).writable_session("main")
    virtual.write(virtual.combine([source]), session.store, [source])
    session.commit("message")

    official = icechunk.Repository.open(**configured(icechunk, tmp_path))
    found = xr.open_zarr(official.readonly_session("main").store, consolidated=False)

    np.testing.assert_array_equal(found["t"].values.ravel(), decode(message))


# Damages


def test_bytes_between_messages_are_skipped(tmp_path: Path) -> None:
    messages = [make_message(level=level, seed=level) for level in (500, 850)]
    header = b"\1\r\r\n123\r\r\nGRIB of WMO\r\r\n"
    path = save(
        tmp_path / "a", b"****0123****\n", messages[0], header, messages[1], b"\0" * 100_000
    )

    found = read_virtually(path)["t"].values.reshape(2, -1)

    np.testing.assert_array_equal(found, [decode(each) for each in messages[::-1]])


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "short": (lambda data: data[:-10], "truncated: its message at byte"),
    "shorter": (lambda data: data[: len(data) // 2 + 12], "truncated"),
    "end": (lambda data: data[:-4] + b"6666", "does not end with"),
    "section": (lambda data: data[:16] + b"\0\0\0\0" + data[20:], "invalid section"),
    "long section": (lambda data: data[:37] + b"\xff\xff\xff\xff" + data[41:], "invalid section"),
    "zeros": (lambda _: b"GRIB\0\0\0\2" + bytes(100), "no values"),
    "mark": (lambda _: b"GRIB", "no GRIB message"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    change, reason = DAMAGES[damage]
    path = tmp_path / "a.grib2"
    path.write_bytes(change(make_message(level=500) + make_message(level=850)))

    with pytest.raises(InvalidInputError, match=rf"a\.grib2 can't be parsed as grib: .*({reason})"):
        virtual.open(path)


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_is_an_error_of_ours_or_none(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sample = ("regular_ll_pl_grib2", "regular_ll_pl_grib1")[seed % 2]
    data = bytearray(make_message(sample=sample)[: 200 if seed % 3 else None])
    for place in rng.integers(0, min(len(data), 200), 4):
        data[place] = rng.integers(256)
    path = tmp_path / "a.grib"
    path.write_bytes(bytes(data))

    with suppress(InvalidInputError):
        virtual.open(path, format="grib")
