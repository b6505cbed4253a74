"""Each shape of an archive, as references and as values: what is read equals what is in the files."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import frazil
from frazil.errors import FailedChecksError, InvalidInputError, InvalidSourcesError
from frazil.spark import checks
from frazil.virtual import (
    deaccumulate,
    from_attribute,
    from_path,
    per_file,
    round_bits,
    to_units,
)
from tests.archives.files import (
    DAYS,
    assert_holds,
    create,
    ingest,
    join,
    make,
    make_tiff,
    read,
    read_officially,
    save,
)

Ingest = Callable[..., frazil.spark.IngestReport]
MODES = ["auto", "native", "virtual"]
DECODING_MODES = ["auto", "native"]


@pytest.fixture
def repo(tmp_path: Path) -> frazil.Repository:
    return create(tmp_path / "repo")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.mark.parametrize("mode", MODES)
def test_a_scalar_time_becomes_the_dimension(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    scenes = []
    for at in (0, 1, 3):
        scene = make("rad", at, 1).isel(time=0)
        scene["flag"] = ((), np.int32(at))
        scene["projection"] = ((), np.int32(0))
        scene["rad"].attrs["grid_mapping"] = "projection"
        save(scene, files / f"{at}.nc", units=f"hours since 2019-12-{at + 1:02d}")
        scenes.append(scene.drop_vars("projection"))

    ingest(repo, files, append_dim="time", mode=mode)

    found = read(repo)
    assert_holds(repo, xr.concat(scenes, "time", data_vars="all"))
    assert found["projection"].dims == ()


@pytest.mark.parametrize("mode", MODES)
def test_a_time_is_taken_from_an_attribute_or_from_the_name(
    tmp_path: Path, files: Path, mode: str
) -> None:
    for at in (2, 0, 1):
        day = make("t", at, 1).isel(time=0, drop=True)
        day.attrs["start"] = f"{DAYS[at].isoformat()}Z"
        save(day, files / f"MOD.A{DAYS[at]:%Y%j}.hdf5")
    expected = join(*(make("t", at, 1) for at in range(3)))

    for name, where in (("a", from_attribute("start")), ("b", from_path(r"A(\d{7})", "%Y%j"))):
        repo = create(tmp_path / name)
        ingest(repo, files, append_dim="time", coords={"time": where}, mode=mode)
        assert_holds(repo, expected)


def test_a_time_that_is_not_found_is_refused_with_where_it_may_be(
    repo: frazil.Repository, files: Path
) -> None:
    for at in (0, 1):
        day = make("t", at, 1).isel(time=0, drop=True)
        day.attrs["time_coverage_start"] = DAYS[at].isoformat()
        save(day, files / f"{at}.nc")

    with pytest.raises(InvalidInputError, match=r"from_attribute\('time_coverage_start'\)"):
        ingest(repo, files, append_dim="time")
    with pytest.raises(
        InvalidInputError, match=r"invalid coords 'start' of 'time': expected from_"
    ):
        ingest(repo, files, append_dim="time", coords={"time": "start"})
    with pytest.raises(
        InvalidInputError, match="invalid coords of 'tim': append_dim='time' lacks it"
    ):
        ingest(repo, files, append_dim="time", coords={"tim": from_path("x")})


@pytest.mark.parametrize("mode", MODES)
def test_the_times_of_wrf_are_read(repo: frazil.Repository, files: Path, mode: str) -> None:
    files.mkdir()
    for at in (0, 2):
        with netCDF4.Dataset(files / f"wrfout{at}.nc", "w") as file:
            file.createDimension("Time", None)
            file.createDimension("DateStrLen", 19)
            file.createDimension("y", 400)
            times = file.createVariable("Times", "S1", ("Time", "DateStrLen"))
            values = file.createVariable("T2", "f4", ("Time", "y"), chunksizes=(1, 400))
            for step in range(2):
                text = np.array([f"2020-01-{1 + at + step:02d}_00:00:00"], "S19")
                times[step] = netCDF4.stringtochar(text)[0]
                values[step] = np.arange(400) + 10 * (at + step)

    ingest(repo, files, append_dim="Time", mode=mode)

    found = read(repo)
    assert (found["Time"].values == DAYS[:4].values).all()
    assert found["T2"].values[:, 1].tolist() == [1, 11, 21, 31]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("calls", [1, 2])
def test_variables_in_separate_files_are_merged(
    repo: frazil.Repository, files: Path, mode: str, calls: int
) -> None:
    parts = {name: [make(name, at, 2, len(name)) for at in (0, 2, 4)] for name in ("tas", "pr")}
    for name, datasets in parts.items():
        for at, dataset in enumerate(datasets):
            save(dataset, files / f"{name}_{at}.nc")

    for pattern in ["*.nc"] if calls == 1 else ["tas*.nc", "pr*.nc"]:
        ingest(repo, f"{files}/{pattern}", append_dim="time", mode=mode)

    assert_holds(repo, xr.merge([join(*each) for each in parts.values()]))


@pytest.mark.parametrize("mode", MODES)
def test_members_and_times_of_a_tree_of_folders_are_dimensions(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    def add(member: int, at: int) -> None:
        save(make("tas", at, 2, member), files / f"member=r{member}" / f"{at}.nc")
        there.add((member, at))

    there: set[tuple[int, int]] = set()
    options: dict[str, Any] = {
        "append_dim": ["member", "time"], "mode": mode,
        "coords": {"member": from_path(r"member=r(\d+)")},
    }  # fmt: skip
    for member, at in ((1, 0), (1, 2), (3, 0)):
        add(member, at)
    ingest(repo, f"{files}/**/*.nc", **options)
    for member, at in ((2, 0), (3, 6), (1, 4)):
        add(member, at)
    ingest(repo, f"{files}/**/*.nc", **options)

    found = read(repo)["tas"]
    assert found.dims == ("member", "time", "y", "x")
    assert found["member"].values.tolist() == [1, 2, 3]
    for member in (1, 2, 3):
        for at in (0, 2, 4, 6):
            part = found.sel(member=member, time=DAYS[at : at + 2])
            if (member, at) in there:
                assert part.values.tolist() == make("tas", at, 2, member)["tas"].values.tolist()
            else:
                assert part.isnull().all()
    assert ingest(repo, f"{files}/**/*.nc", **options).snapshot_id is None


@pytest.mark.parametrize("mode", MODES)
def test_tiles_make_a_mosaic_in_any_order(repo: frazil.Repository, files: Path, mode: str) -> None:
    whole = make("t", 0, 2, ny=32, nx=72)
    for corners in [((0, 0), (1, 1), (0, 1)), ((1, 0),)]:
        for row, column in corners:
            tile = whole.isel(
                y=slice(16 * row, 16 * row + 16), x=slice(36 * column, 36 * column + 36)
            )
            save(tile, files / f"{row}{column}.nc")
        ingest(repo, files, append_dim=["y", "x"], mode=mode)

    assert_holds(repo, whole)


@pytest.mark.parametrize("mode", DECODING_MODES)
def test_months_of_different_lengths_follow_each_other(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    months, start = [], 0
    for length in (31, 29, 31, 30):
        months.append(make("t", start, length))
        save(months[-1], files / f"{start:03d}.nc", chunksizes=(length, 16, 36))
        start += length

    ingest(repo, files, append_dim="time", mode=mode)

    assert_holds(repo, join(*months))


def test_only_files_with_other_codecs_are_decoded(repo: frazil.Repository, files: Path) -> None:
    days = [make("t", at, 1) for at in range(7)]
    for at, day in enumerate(days):
        save(day, files / f"{at}.nc", {"shuffle": at != 3} if at != 5 else {"zlib": False})

    report = ingest(repo, files, append_dim="time")

    assert {each.name: each.treatment for each in report.variables}["t"] == "virtual and native"
    assert_holds(repo, join(*days))
    with pytest.raises(InvalidSourcesError, match="codecs is"):
        ingest(create(files.parent / "other"), files, append_dim="time", mode="virtual")


@pytest.mark.parametrize("mode", MODES)
def test_late_files_are_inserted_in_front_and_between(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    for batch in ((4, 8), (0,), (6, 10), (2,)):
        for at in batch:
            save(make("t", at, 2), files / f"{at:02d}.nc")
        ingest(repo, files, append_dim="time", mode=mode)

    assert_holds(repo, join(*(make("t", at, 2) for at in range(0, 12, 2))))


@pytest.mark.parametrize("mode", DECODING_MODES)
def test_late_files_that_are_not_whole_chunks_are_inserted(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    for batch in ((0, 6, 12), (3,), (9,)):
        for at in batch:
            save(make("t", at, 3), files / f"{at:02d}.nc", chunksizes=(2, 8, 36))
        ingest(repo, files, append_dim="time", mode=mode)

    assert_holds(repo, join(*(make("t", at, 3) for at in range(0, 15, 3))))


def test_late_files_are_set_aside_or_refused_if_that_is_wanted(
    repo: frazil.Repository, files: Path
) -> None:
    save(make("t", 4, 2), files / "4.nc")
    ingest(repo, files, append_dim="time")
    late = save(make("t", 0, 2), files / "0.nc")
    save(make("t", 6, 2), files / "6.nc")

    with pytest.raises(InvalidSourcesError, match="before the end of what is there"):
        ingest(repo, files, append_dim="time", on_late="refuse")
    report = ingest(repo, files, append_dim="time", on_late="set_aside")

    assert [each.location for each in report.bad] == [late.as_uri()]
    assert_holds(repo, join(make("t", 4, 2), make("t", 6, 2)))


@pytest.mark.parametrize("mode", MODES)
def test_a_file_that_overlaps_in_part_replaces_on_request(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    save(make("t", 0, 4), files / "a.nc")
    ingest(repo, files, append_dim="time", mode=mode)
    newer = make("t", 2, 4, seed=9)
    save(newer, files / "b.nc")

    with pytest.raises(InvalidSourcesError, match="holds data of"):
        ingest(repo, files, append_dim="time", mode=mode)
    ingest(repo, files, append_dim="time", mode=mode, on_overlap="replace")

    assert_holds(repo, join(make("t", 0, 4).isel(time=slice(0, 2)), newer))


@pytest.mark.parametrize("mode", DECODING_MODES)
def test_files_whose_integers_no_scale_holds_are_decoded(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    for batch in ((0, 1), (2,)):
        for at in batch:
            packed = {"dtype": "i2", "scale_factor": 0.01 * (at + 1), "add_offset": 280.0}
            day = make("t", at, 1)
            day["t"][0, 0, 0] = np.nan
            save(day, files / f"{at}.nc", packed, _FillValue=-32768)
        ingest(repo, files, append_dim="time", mode=mode)

    expected = [xr.open_dataset(files / f"{at}.nc").load() for at in range(3)]
    assert_holds(repo, join(*expected).astype("f8"))


@pytest.mark.parametrize("mode", MODES)
def test_zarr_stores_are_found_by_pattern_and_by_folder(
    tmp_path: Path, files: Path, mode: str
) -> None:
    for at in (0, 2):
        encoding = {"t": {"chunks": (1, 16, 36)}, "time": {"units": "days since 2020-01-01"}}
        make("t", at, 2).to_zarr(files / f"{at}.zarr", consolidated=False, encoding=encoding)

    for name, sources in (("a", f"{files}/*.zarr"), ("b", str(files))):
        repo = create(tmp_path / name)
        ingest(repo, sources, append_dim="time", mode=mode)
        xr.testing.assert_equal(read(repo)["t"], join(make("t", 0, 2), make("t", 2, 2))["t"])


@pytest.mark.parametrize("mode", MODES)
def test_names_may_have_any_character(tmp_path: Path, files: Path, mode: str) -> None:
    names = ["a#1.nc", "b?2.nc", "c[1].nc", "d é=:+%20.nc"]
    paths = [save(make("t", at, 1), files / name) for at, name in enumerate(names)]

    for name, sources in (("a", paths), ("b", f"{files}/*.nc")):
        repo = create(tmp_path / name)
        ingest(repo, sources, append_dim="time", mode=mode)
        xr.testing.assert_equal(read(repo)["t"], join(*(make("t", at, 1) for at in range(4)))["t"])


def test_an_archive_has_one_container_on_a_plain_folder(
    repo: frazil.Repository, files: Path
) -> None:
    for at in range(4):
        save(make("t", at, 1), files / f"day={at}" / "über all" / "a.nc")
        ingest(repo, f"{files}/**/*.nc", append_dim="time")

    config = frazil.Repository.open(repo.storage).config
    assert list(config.virtual_chunk_containers or {}) == [f"{files.as_uri()}/"]
    assert_holds(repo, join(*(make("t", at, 1) for at in range(4))))


@pytest.mark.parametrize("mode", MODES)
def test_an_axis_is_laid_out_ahead(repo: frazil.Repository, files: Path, mode: str) -> None:
    expected: dict[str, pd.DatetimeIndex] = {"time": DAYS[:10]}
    for at in (0, 4, 2):
        path = save(make("t", at, 2), files / f"{at}.nc")
        ingest(repo, path, append_dim="time", mode=mode, expected=expected)

    found = read(repo)["t"]
    assert found.sizes["time"] == 10
    xr.testing.assert_equal(found[:6], join(*(make("t", at, 2) for at in (0, 2, 4)))["t"])
    assert found[6:].isnull().all()


def test_one_file_that_does_not_fit_blocks_no_other(repo: frazil.Repository, files: Path) -> None:
    save(make("t", 0, 2), files / "0.nc")
    odd = save(make("t", 2, 2, ny=8), files / "2.nc")
    save(make("t", 4, 2), files / "4.nc")

    report = ingest(repo, files, append_dim="time", on_bad_file="skip")

    assert [each.location for each in report.bad] == [odd.as_uri()]
    assert_holds(repo, join(make("t", 0, 2), make("t", 4, 2)))


def save_tree(path: Path, at: int, *, has_support: bool = True, constant: float = 1.0) -> None:
    """A file with groups: coordinates in one of them, data in groups below, and constants."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with netCDF4.Dataset(path, "w") as file:
        file.title = "a tree"
        product = file.createGroup("PRODUCT")
        product.createDimension("time", None)
        product.createDimension("y", 400)
        times = product.createVariable("time", "f8", ("time",))
        times.units = "days since 2020-01-01"
        times[:] = [at, at + 1]
        values = product.createVariable("no2", "f4", ("time", "y"), chunksizes=(1, 400))
        values[:] = at + np.arange(800).reshape(2, 400)
        if has_support:
            support = product.createGroup("SUPPORT/INPUT")
            heights = support.createVariable("height", "f4", ("time", "y"), fill_value=np.nan)
            heights[:] = at - np.arange(800).reshape(2, 400)
        fixed = file.createGroup("FIXED")
        fixed.createDimension("level", 3)
        fixed.createVariable("scale", "f8", ("level",))[:] = constant
        file.createGroup("METADATA").author = "somebody"


def read_tree(repo: frazil.Repository, group: str) -> xr.Dataset:
    return read(repo, group=group)


@pytest.mark.parametrize("mode", MODES)
def test_all_groups_of_a_tree_are_ingested_in_one_commit(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    options: dict[str, Any] = {"append_dim": "time", "source_group": "*", "mode": mode}
    save_tree(files / "2.nc", 2)
    save_tree(files / "0.nc", 0)
    ingest(repo, files, **options)
    save_tree(files / "4.nc", 4)
    report = ingest(repo, files, **options)

    assert len(list(repo.ancestry(branch="main"))) == 3
    product, support = read_tree(repo, "PRODUCT"), read_tree(repo, "PRODUCT/SUPPORT/INPUT")
    assert (product["time"].values == DAYS[:6].values).all()
    assert (support["time"].values == DAYS[:6].values).all()
    for at in (0, 2, 4):
        steps = np.arange(800).reshape(2, 400)
        assert (product["no2"][at : at + 2].values == at + steps).all()
        assert (support["height"][at : at + 2].values == at - steps).all()
    assert read_tree(repo, "FIXED")["scale"].values.tolist() == [1.0, 1.0, 1.0]
    store: Any = repo.readonly_session("main").store
    tree: Any = zarr.open_group(store, mode="r")
    assert tree.attrs["title"] == "a tree"
    assert tree["METADATA"].attrs["author"] == "somebody"
    assert "PRODUCT/no2" in {each.name for each in report.variables}
    assert ingest(repo, files, **options).snapshot_id is None


def test_a_group_without_the_dimension_must_be_equal_in_all_files(
    repo: frazil.Repository, files: Path
) -> None:
    save_tree(files / "0.nc", 0)
    save_tree(files / "2.nc", 2, constant=3.0)
    save_tree(files / "4.nc", 4)

    with pytest.raises(InvalidSourcesError, match="its values are not those of"):
        ingest(repo, files, append_dim="time", source_group="*")
    report = ingest(repo, files, append_dim="time", source_group="*", on_bad_file="skip")

    assert [Path(each.location).name for each in report.bad] == ["2.nc"]
    for group in ("PRODUCT", "PRODUCT/SUPPORT/INPUT"):
        assert (read_tree(repo, group)["time"].values == DAYS[[0, 1, 4, 5]].values).all()


def test_a_group_that_some_files_lack_stays_aligned(repo: frazil.Repository, files: Path) -> None:
    save_tree(files / "0.nc", 0)
    save_tree(files / "2.nc", 2, has_support=False)
    report = ingest(repo, files, append_dim="time", source_group="*")
    save_tree(files / "4.nc", 4, has_support=False)
    ingest(repo, files, append_dim="time", source_group="*")

    support = read_tree(repo, "PRODUCT/SUPPORT/INPUT")
    assert any("fill value" in each.text for each in report.notes)
    assert (support["time"].values == DAYS[:6].values).all()
    assert support["height"][2:].isnull().all()
    assert read_tree(repo, "PRODUCT")["no2"].notnull().all()


def test_a_changed_file_without_one_of_its_groups_is_refused(
    repo: frazil.Repository, files: Path
) -> None:
    save_tree(files / "0.nc", 0)
    ingest(repo, files, append_dim="time", source_group="*")
    save_tree(files / "0.nc", 0, has_support=False)

    with pytest.raises(InvalidSourcesError, match=r"PRODUCT/SUPPORT/INPUT.*lacks it now"):
        ingest(repo, files, append_dim="time", source_group="*")


@pytest.mark.parametrize("mode", MODES)
def test_groups_of_zarr_are_ingested_into_a_group(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    for at in (0, 2):
        for group in ("a", "a/b"):
            encoding = {"t": {"chunks": (1, 16, 36)}, "time": {"units": "days since 2020-01-01"}}
            part = make("t", at, 2, len(group))
            path = files / f"{at}.zarr"
            part.to_zarr(path, group=group, consolidated=False, encoding=encoding, mode="a")

    ingest(repo, f"{files}/*.zarr", append_dim="time", source_group="*", group="in", mode=mode)

    for group in ("a", "a/b"):
        expected = join(make("t", 0, 2, len(group)), make("t", 2, 2, len(group)))
        xr.testing.assert_equal(read_tree(repo, f"in/{group}")["t"], expected["t"])


def test_groups_and_arrays_of_a_tree_are_left_out_by_path(
    repo: frazil.Repository, files: Path
) -> None:
    save_tree(files / "0.nc", 0)
    options: dict[str, Any] = {"append_dim": "time", "source_group": "*"}

    with pytest.raises(InvalidInputError, match="PRODUCT/no3"):
        ingest(repo, files, skip=["PRODUCT/no3"], **options)
    with pytest.raises(InvalidInputError, match="region= fills the arrays of one group"):
        ingest(repo, files, region="auto", **options)
    report = ingest(repo, files, skip=["PRODUCT/SUPPORT", "FIXED/scale"], **options)

    assert {each.name for each in report.variables} == {"PRODUCT/time", "PRODUCT/no2"}


def save_forecast(path: Path, at: int, *, units: str = "K", is_packed: bool = False) -> xr.Dataset:
    """A forecast of four steps: accumulated rain, and a temperature with missing values."""
    random = np.random.default_rng(at)
    shape = (1, 4, 16, 36)
    steps: dict[str, Any] = {"time": DAYS[at : at + 1], "step": np.arange(1, 5)}
    rain = np.cumsum(random.gamma(1, 2, shape), axis=1).astype("f4")
    warm = random.normal(280, 5, shape).astype("f4")
    warm[0, 1, 2, 3] = np.nan
    dims = ("time", "step", "y", "x")
    forecast = xr.Dataset({"tp": (dims, rain), "t2m": (dims, warm)}, steps)
    forecast["t2m"].attrs["units"] = units
    packed = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -32768}
    path.parent.mkdir(parents=True, exist_ok=True)
    forecast.to_netcdf(
        path, encoding={
            "tp": {"chunksizes": (1, 1, 8, 36), "_FillValue": -999.0},
            "t2m": {"chunksizes": (1, 1, 8, 36)} | (packed if is_packed else {"_FillValue": 1e20}),
            "time": {"units": "days since 2020-01-01"},
        },
    )  # fmt: skip
    return xr.open_dataset(path).load()


def shorten(values: Any) -> Any:
    return np.minimum(values, 2.0)


@pytest.mark.parametrize("mode", DECODING_MODES)
def test_values_are_converted_on_the_way_in(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    convert = {
        "tp": [deaccumulate("step"), shorten],
        "t2m": to_units("degC"),
        "*": round_bits(keep=12),
    }
    options: dict[str, Any] = {"append_dim": "time", "mode": mode, "convert": convert}
    parts = [save_forecast(files / "0.nc", 0), save_forecast(files / "2.nc", 2, units="degC")]
    report = ingest(repo, files, **options)
    parts.insert(1, save_forecast(files / "1.nc", 1, is_packed=False))
    ingest(repo, files, **options)

    parts[2]["t2m"] = parts[2]["t2m"] + 273.15
    truth = xr.concat(parts, "time")
    first = truth["tp"].isel(step=[0])
    rain = xr.concat([first, truth["tp"].diff("step")], "step").clip(max=2.0)
    for found in (read(repo), read_officially(repo, Path(str(repo.storage.path)))):  # type: ignore[attr-defined]
        np.testing.assert_allclose(found["tp"], rain, rtol=2**-12, atol=1e-6)
        np.testing.assert_allclose(found["t2m"], truth["t2m"] - 273.15, rtol=2**-12, atol=2e-4)
        assert found["t2m"].dtype == np.float32
        assert found["t2m"].attrs["units"] == "degC"
        assert found["tp"].attrs["frazil_convert"][0] == "deaccumulate(dim='step')"
        bits = found["tp"].values.view("u4")
        assert not (bits & np.uint32(2**11 - 1)).any()
    why = {each.name: each.reason for each in report.variables}
    assert why["t2m"] == "convert: to_units('degC'), round_bits(keep=12)"
    metadata = next(iter(repo.ancestry(branch="main"))).metadata["frazil_job"]
    assert metadata["convert"]["*"] == ["round_bits(keep=12)"]


def test_packed_values_are_converted_and_others_stay_virtual(
    repo: frazil.Repository, files: Path
) -> None:
    truth = xr.concat(
        [save_forecast(files / f"{at}.nc", at, is_packed=True) for at in (0, 1)], "time"
    )
    report = ingest(repo, files, append_dim="time", convert={"t2m": to_units("degC")})

    assert {each.name: each.treatment for each in report.variables}["tp"] == "virtual"
    found = read(repo)
    np.testing.assert_allclose(found["t2m"], truth["t2m"] - 273.15, atol=1e-4)
    assert found["t2m"].isnull().equals(truth["t2m"].isnull())
    xr.testing.assert_equal(found["tp"].drop_attrs(), truth["tp"].drop_attrs())


def test_conversions_that_can_not_be_are_refused(repo: frazil.Repository, files: Path) -> None:
    def attempt(**options: Any) -> None:
        ingest(repo, files, **{"append_dim": "time", **options})

    save_forecast(files / "0.nc", 0)
    celsius = {"t2m": to_units("degC")}
    with pytest.raises(InvalidInputError, match="mode='virtual' refers to them"):
        attempt(mode="virtual", convert=celsius)
    with pytest.raises(InvalidInputError, match="did you mean 't2m'"):
        attempt(convert={"t2n": to_units("degC")})
    with pytest.raises(InvalidSourcesError, match="its units 'K' are of temperature, and 'hPa'"):
        attempt(convert={"t2m": to_units("hPa")})
    with pytest.raises(InvalidSourcesError, match="a file has one step"):
        attempt(convert={"tp": deaccumulate("time")})
    with pytest.raises(InvalidSourcesError, match="it has dimensions time, step, y, x"):
        attempt(convert={"tp": deaccumulate("stop")})
    with pytest.raises(InvalidSourcesError, match="it is the coordinate of a dimension"):
        attempt(convert={"step": to_units("h")})
    with pytest.raises(InvalidInputError, match="invalid units 'degX'"):
        to_units("degX")
    with pytest.raises(InvalidInputError, match="invalid convert 'degC' of 't2m'"):
        attempt(convert={"t2m": "degC"})
    attempt(convert=celsius)
    save_forecast(files / "1.nc", 1)
    with pytest.raises(
        InvalidSourcesError, match=r"pass the same convert=[\s\S]*frazil_convert is none"
    ):
        attempt()
    attempt(convert=celsius)


def test_a_function_that_changes_the_shape_fails_the_ingest(
    repo: frazil.Repository, files: Path
) -> None:
    save_forecast(files / "0.nc", 0)

    with pytest.raises(InvalidInputError, match="returned float64 of shape"):
        ingest(repo, files, append_dim="time", convert={"tp": per_file(lambda values: values[0])})
    ingest(repo, files, append_dim="time", convert={"tp": per_file(lambda v: v - v.mean())})

    values = read(repo)["tp"].values
    assert abs(float(values.mean())) < 1e-3


def test_a_dry_run_shows_a_table_of_what_would_be(repo: frazil.Repository, files: Path) -> None:
    for at in (0, 2, 8):
        odd = {"shuffle": False} if at == 2 else {}
        save(make("t", at, 2), files / f"t{at}.nc", odd, units="hours since 2019-12-31")
    save(make("p", 0, 2), files / "p0.nc")

    report = ingest(repo, files, append_dim="time", dry_run=True)

    (time,) = report.dimensions
    assert (time.first, time.last, time.steps) == ("2020-01-01", "2020-01-10", 6)
    assert time.gaps == (("2020-01-04", "2020-01-09"),)
    assert {each.name: each.files for each in report.variables} == {
        "p": 1, "t": 3, "time": 4, "x": 4, "y": 4
    }  # fmt: skip
    assert {each.name: each.bytes for each in report.variables}["t"] == 6 * 16 * 36 * 4
    assert report.planned_tasks["opening files"] >= 1
    text = str(report)
    assert "2020-01-04 to 2020-01-09" in text
    assert "codecs is" in text
    assert "expected={'time': pandas.date_range('2020-01-01', '2020-01-10', freq='1D')}" in text
    assert len(list(repo.ancestry(branch="main"))) == 1


def test_errors_name_dates_and_the_option_that_helps(repo: frazil.Repository, files: Path) -> None:
    for seed, name in enumerate("ab"):
        save(make("t", 0, 2, seed), files / f"{name}.nc")

    with pytest.raises(InvalidSourcesError, match=r"the same, 2020-01-01 to 2020-01-02") as caught:
        ingest(repo, files, append_dim="time")
    assert "coords={…: from_path(…)}" in str(caught.value)
    ingest(repo, files / "a.nc", append_dim="time")
    with pytest.raises(InvalidSourcesError, match="its place time 2020-01-01 to 2020-01-02 holds"):
        ingest(repo, files / "b.nc", append_dim="time")


@pytest.mark.parametrize("mode", MODES)
def test_images_of_geotiff_make_a_mosaic_by_their_transform(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    whole = np.random.default_rng(1).normal(0, 1, (32, 40)).astype("f4")
    files.mkdir()
    for corners in [((0, 0), (1, 1)), ((1, 0), (0, 1))]:
        for row, column in corners:
            tile = whole[16 * row : 16 * row + 16, 20 * column : 20 * column + 20]
            place = (500_000.0 + 200 * column, 4_000_000.0 - 160 * row)
            data = make_tiff(tile, corner=place, step=10, epsg=32633, rows=8)
            (files / f"{row}{column}.tif").write_bytes(data)
        ingest(repo, files, append_dim=["y", "x"], mode=mode)

    for found in (read(repo), read_officially(repo, Path(str(repo.storage.path)))):  # type: ignore[attr-defined]
        assert found["0"].values.tolist() == whole.tolist()
        assert found["x"].values.tolist() == [500_005.0 + 10 * at for at in range(40)]
        assert found["y"].values.tolist() == [3_999_995.0 - 10 * at for at in range(32)]
        assert found["0"].attrs["grid_mapping"] == "spatial_ref"
        assert "model_tiepoint" not in found["0"].attrs
        crs = found["spatial_ref"].attrs
        assert (crs["spatial_ref"], crs["grid_mapping_name"]) == (
            "EPSG:32633",
            "transverse_mercator",
        )
        assert (crs["longitude_of_central_meridian"], crs["false_northing"]) == (15.0, 0.0)


@pytest.mark.parametrize("mode", MODES)
def test_images_of_geotiff_follow_each_other_in_time(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    images = np.arange(3 * 320, dtype="u2").reshape(3, 16, 20)
    files.mkdir()
    for at, image in enumerate(images):
        data = make_tiff(image, corner=(10.0, 50.0), step=0.5, epsg=4326, rows=4)
        (files / f"ndvi_{DAYS[at]:%Y%m%d}.tif").write_bytes(data)

    where = from_path(r"ndvi_(\d{8})", "%Y%m%d")
    ingest(repo, files, append_dim="time", coords={"time": where}, rename={"0": "ndvi"}, mode=mode)

    found = read(repo)
    assert found["ndvi"].dims == ("time", "y", "x")
    assert found["ndvi"].values.tolist() == images.tolist()
    assert found["spatial_ref"].dims == ()
    assert found["y"].attrs["standard_name"] == "latitude"
    assert (float(found["x"][0]), float(found["y"][0])) == (10.25, 49.75)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", [5, 6, 15])
def test_strips_need_not_divide_the_height_of_an_image(
    repo: frazil.Repository, files: Path, mode: str, rows: int
) -> None:
    image = np.arange(320, dtype="i4").reshape(16, 20)
    files.mkdir()
    data = make_tiff(image, corner=(10.0, 50.0), step=0.5, epsg=4326, rows=rows)
    (files / "a.tif").write_bytes(data)

    ingest(repo, files / "a.tif", mode=mode)

    assert read(repo)["0"].values.tolist() == image.tolist()


@pytest.mark.parametrize(
    ("tag", "value", "reason"),
    [
        (259, 8, "rewrite it in tiles"),  # deflate
        (258, 12, "its pixels have 12 bits, which no codec"),
        (277, 3, "several bands in each block"),
    ],
)
def test_images_that_no_codec_reads_are_refused_with_the_reason(
    repo: frazil.Repository, files: Path, tag: int, value: int, reason: str
) -> None:
    files.mkdir()
    image = np.arange(320, dtype="i4").reshape(16, 20)
    data = make_tiff(image, corner=(10.0, 50.0), step=0.5, epsg=4326, rows=5)
    before = {258: 32, 259: 1, 277: 1}[tag]
    entry = struct.pack("<HHI", tag, 3, 1)
    assert data.count(entry + struct.pack("<I", before)) == 1
    packed = data.replace(entry + struct.pack("<I", before), entry + struct.pack("<I", value))
    (files / "a.tif").write_bytes(packed)

    with pytest.raises(InvalidSourcesError, match=reason):
        ingest(repo, files / "a.tif")


@pytest.mark.parametrize("mode", DECODING_MODES)
def test_checks_look_at_each_group_of_a_tree(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    for at in (0, 2, 4):
        save_tree(files / f"{at}.nc", at, has_support=at != 2)
    options: dict[str, Any] = {"append_dim": "time", "source_group": "*", "mode": mode}

    ingest(
        repo, files, statistics=True, **options,
        checks=[checks.complete(step="1D"), checks.samples_equal_source(share=1.0)],
    )  # fmt: skip
    save_tree(files / "8.nc", 8)
    with pytest.raises(FailedChecksError, match="complete"):
        ingest(repo, files, checks=[checks.complete(step="1D")], **options)

    assert len(list(repo.ancestry(branch="main"))) == 2


@pytest.mark.parametrize("mode", MODES)
def test_small_variables_get_a_dimension_when_a_later_file_has_other_values(
    tmp_path: Path, files: Path, mode: str
) -> None:
    files.mkdir()
    truth = []
    for at, orbit in enumerate((7, 7, 0, 8)):
        day = make("t", at, 1)
        day["orbit"] = ((), np.int32(orbit))
        day["name"] = ((), f"scan {orbit}")
        day["same"] = (("k",), np.arange(3))
        day.to_netcdf(files / f"{at}.nc", encoding={"time": {"units": "days since 2020-01-01"}})
        day.to_zarr(files / f"{at}.zarr", consolidated=False)
        truth.append(day)

    for kind in ("nc", "zarr"):
        for order in ((0, 1, 2, 3), (3, 2, 0, 1), (1, 3, 0, 2)):
            repo = create(tmp_path / f"{kind}{order}")
            for at in order:
                ingest(repo, files / f"{at}.{kind}", append_dim="time", mode=mode)
            found = read(repo)
            for name in ("orbit", "name"):
                assert found[name].values.tolist() == [day[name].item() for day in truth]
            assert found["same"].dims == ("k",)


def test_valid_times_get_the_dimensions_that_tell_them_apart_in_any_order(
    tmp_path: Path, files: Path
) -> None:
    files.mkdir()
    cells = [(day, step) for day in (0, 1) for step in (0, 6, 12)]
    for day, step in cells:
        field = make("t", day, 1).isel(time=0).assign_coords(step=np.timedelta64(step, "h"))
        field = field.assign_coords(valid_time=field["time"] + field["step"])
        units = f"hours since 2020-01-{day + 1:02d}"
        field.to_netcdf(files / f"{day}_{step}.nc", encoding={"time": {"units": units}})

    for seed in range(3):
        repo = create(tmp_path / str(seed))
        for at in np.random.default_rng(seed).permutation(len(cells)).tolist():
            day, step = cells[at]
            ingest(repo, files / f"{day}_{step}.nc", append_dim=["time", "step"])
            read(repo)["valid_time"].load()
        found = read(repo, decode_timedelta=True)
        assert (found["valid_time"] == found["time"] + found["step"]).all()


@pytest.mark.parametrize("mode", MODES)
def test_variables_with_fewer_records_than_others_end_with_fill_values(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    files.mkdir()
    for at in (0, 2):
        with netCDF4.Dataset(files / f"{at}.nc", "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", 400)
            times = file.createVariable("time", "f8", ("time",))
            times.units = "days since 2020-01-01"
            times[:] = [at, at + 1]
            for name, dims in (
                ("small", ("time",)),
                ("never", ("time",)),
                ("large", ("time", "x")),
            ):
                values = file.createVariable(name, "f4", dims, fill_value=-9.0)
                if name != "never":
                    values[0] = at
            file.createVariable("text", str, ("time",))[0] = "a"

    ingest(repo, files, append_dim="time", mode=mode)

    found = read(repo)
    for at in (0, 2):
        xr.testing.assert_equal(
            found.isel(time=slice(at, at + 2)).drop_attrs(),
            xr.open_dataset(files / f"{at}.nc").load().drop_attrs(),
        )


def test_a_variable_that_is_not_as_long_as_its_coordinate_is_refused(
    repo: frazil.Repository, files: Path
) -> None:
    group = zarr.create_group(files / "a.zarr")
    for name, length in (("time", 2), ("t", 3)):
        array = group.create_array(
            name, shape=(length,), dtype="f8", chunks=(1,), dimension_names=["time"]
        )
        array[:] = np.arange(length)

    with pytest.raises(InvalidSourcesError, match="its length along time is 3, and time has 2"):
        ingest(repo, files / "a.zarr", append_dim="time")
