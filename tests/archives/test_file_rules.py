"""Which file is taken for a place, and how much of a repository an append changes."""

import os
import shutil
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numcodecs
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import frazil
from frazil.errors import InvalidInputError, InvalidSourcesError
from frazil.spark.ingestion import ledger
from frazil.spark.ingestion.ledger import read_ledger
from frazil.virtual import from_path
from frazil.virtual.combine_plan import ProblemKind
from frazil.virtual.source_formats import DIGEST
from tests.archives.files import (
    DAYS,
    assert_holds,
    create,
    ingest,
    join,
    make,
    make_tiff,
    read,
    save,
)
from tests.virtual.grib_files import make_message


@pytest.fixture
def repo(tmp_path: Path) -> frazil.Repository:
    return create(tmp_path / "repo")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path / "files"


def save_aged(dataset: xr.Dataset, path: Path, age: int, **options: Any) -> Path:
    """Save a file that was modified so many seconds before the year 2033."""
    save(dataset, path, **options)
    os.utime(path, (2_000_000_000 - age,) * 2)
    return path


def left_out(report: frazil.spark.IngestReport) -> list[str]:
    return sorted(Path(each.location).name for each in report.bad)


@pytest.mark.parametrize("mode", ["auto", "native"])
def test_the_oldest_of_files_for_one_place_is_taken_and_the_others_are_left_out(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    save_aged(make("t", 0, 2, 1), files / "a.nc", 5)
    save_aged(make("t", 0, 2, 2), files / "b.nc", 9)
    save_aged(make("t", 1, 3, 3), files / "c.nc", 7)
    save_aged(make("t", 4, 2, 4), files / "d.nc", 1)

    with pytest.raises(InvalidSourcesError, match="on_overlap='replace' takes the newest"):
        ingest(repo, files, append_dim="time", mode=mode)
    report = ingest(repo, files, append_dim="time", mode=mode, on_bad_file="skip")
    again = ingest(repo, files, append_dim="time", mode=mode, on_bad_file="skip")

    assert left_out(report) == left_out(again) == ["a.nc", "c.nc"]
    assert "b.nc covers, which came first: on_overlap='replace' replaces it" in report.bad[0].reason
    assert again.snapshot_id is None
    expected = xr.concat([make("t", 0, 2, 2), make("t", 4, 2, 4)], "time")
    xr.testing.assert_equal(read(repo)["t"], expected["t"])


@pytest.mark.parametrize("mode", ["auto", "native", "virtual"])
def test_the_newest_of_files_for_one_place_replaces_the_others(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    both = make("t", 0, 2, 1).merge(make("p", 0, 2, 6))
    save_aged(both, files / "a.nc", 9)
    save_aged(make("t", 0, 2, 2), files / "b.nc", 5)
    save_aged(make("t", 0, 2, 3), files / "c.nc", 5)
    options: dict[str, Any] = {"append_dim": "time", "mode": mode, "on_overlap": "replace"}

    report = ingest(repo, files, **options)

    assert len(report.files) == 3
    assert [each.files[0].rpartition("/")[2] for each in report.notes if "newer" in each.text] == [
        "b.nc", "a.nc",
    ]  # fmt: skip
    found = read(repo)
    xr.testing.assert_equal(found["t"], make("t", 0, 2, 3)["t"])
    xr.testing.assert_equal(found["p"], make("p", 0, 2, 6)["p"])
    assert ingest(repo, files, **options).snapshot_id is None
    save_aged(make("t", 0, 2, 8).merge(make("p", 0, 2, 6)), files / "a.nc", 0)
    ingest(repo, files, **options)
    xr.testing.assert_equal(read(repo)["t"], make("t", 0, 2, 8)["t"])


def test_files_that_overlap_each_other_in_part_replace_one_after_the_other(
    repo: frazil.Repository, files: Path
) -> None:
    save_aged(make("t", 2, 2, 1), files / "new.nc", 1)
    save_aged(make("t", 0, 3, 2), files / "old.nc", 9)
    options: dict[str, Any] = {"append_dim": "time", "on_overlap": "replace", "mode": "virtual"}

    with pytest.raises(InvalidSourcesError, match=r"mode='auto', or in several ingests"):
        ingest(repo, files, **options)
    assert left_out(ingest(repo, files, on_bad_file="skip", **options)) == ["new.nc"]
    assert left_out(ingest(repo, files, on_bad_file="skip", **options)) == []

    expected = [make("t", 0, 3, 2).isel(time=slice(2)), make("t", 2, 2, 1)]
    xr.testing.assert_equal(read(repo)["t"], xr.concat(expected, "time")["t"])


def save_tile(path: Path, seed: int, corner: tuple[int, int], length: int) -> xr.DataArray:
    values = np.random.default_rng(seed).normal(size=(length, length)).astype("f4")
    y, x = (np.arange(start, start + length, dtype="f8") for start in corner)
    tile = xr.Dataset({"t": (("y", "x"), values)}, {"y": y, "x": x})
    return xr.load_dataset(save_aged(tile, path, -seed))["t"]


@pytest.mark.parametrize("mode", ["auto", "native"])
def test_the_newest_of_tiles_is_taken_where_they_overlap(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    corners = [(0, 0), (0, 30), (30, 0), (29, 27), (10, 14), (80, 60), (80, 100)]
    tiles = [
        save_tile(files / f"{9 - at}.nc", at, corner, 24 if at == 4 else 40)
        for at, corner in enumerate(corners)
    ]
    options: dict[str, Any] = {"append_dim": ["y", "x"], "mode": mode}

    with pytest.raises(InvalidSourcesError) as caught:
        ingest(repo, files, **options)
    assert "overlap in part on_overlap='replace' takes the newest" in str(caught.value)
    assert "they overlap in part, at y 0.0 to 39.0, x 30.0 to 39.0" in str(caught.value)
    report = ingest(repo, files, on_overlap="replace", **options)

    expected = tiles[0]
    for tile in tiles[1:]:
        expected = tile.combine_first(expected)
    xr.testing.assert_equal(read(repo)["t"], expected)
    assert any("is newer, and taken where they overlap" in each.text for each in report.notes)
    assert ingest(repo, files, on_overlap="replace", **options).snapshot_id is None


def test_a_file_that_fits_is_taken_although_another_one_for_its_place_does_not(
    repo: frazil.Repository, files: Path
) -> None:
    save_aged(make("t", 0, 2, ny=8), files / "odd.nc", 9)
    save_aged(make("t", 0, 2), files / "a.nc", 5)
    save_aged(make("t", 2, 2), files / "b.nc", 1)

    report = ingest(repo, files, append_dim="time", on_bad_file="skip")

    assert left_out(report) == ["odd.nc"]
    assert read(repo).sizes["time"] == 4


def add_mask(dataset: xr.Dataset) -> xr.Dataset:
    """Add an array without the dimension of the files, larger than what is written inline."""
    mask = np.arange(200 * 100, dtype="f8").reshape(200, 100)
    return dataset.assign(mask=(("row", "column"), mask))


def count_changes(repo: frazil.Repository) -> dict[str, int]:
    """Chunks that the last commit changed, by array."""
    newest, before = list(repo.ancestry(branch="main"))[:2]
    changed = repo.diff(from_snapshot_id=before.id, to_snapshot_id=newest.id)
    counts = {path.strip("/"): len(list(each)) for path, each in changed.updated_chunks.items()}
    return {path: count for path, count in counts.items() if not path.startswith("_frazil")}


@pytest.mark.parametrize("mode", ["auto", "native"])
def test_an_append_changes_only_what_grows(repo: frazil.Repository, files: Path, mode: str) -> None:
    options: dict[str, Any] = {"append_dim": "time", "mode": mode, "chunks": {"time": 1}}
    if mode == "auto":
        del options["chunks"]
    for at in (0, 2, 4):
        path = save(add_mask(make("t", at, 2)), files / f"{at}.nc")
        ingest(repo, files, **options)

    assert count_changes(repo).keys() == {"t", "time"}
    assert count_changes(repo)["time"] == 1
    xr.testing.assert_equal(read(repo)["mask"], xr.open_dataset(path)["mask"].load())
    os.utime(save(add_mask(make("t", 0, 2, 5)), files / "0.nc"), (2_000_000_000,) * 2)
    ingest(repo, files, **options)
    xr.testing.assert_equal(read(repo)["mask"], xr.open_dataset(path)["mask"].load())


@pytest.mark.parametrize(
    ("lengths", "ny", "most_bytes"),
    [([24, 24, 24, 24], 128, 0), ([31, 28, 31, 30], 128, 1 << 20), ([6, 4, 2, 8], 512, 0)],
)
def test_an_append_rewrites_no_large_chunk(
    repo: frazil.Repository, files: Path, lengths: list[int], ny: int, most_bytes: int
) -> None:
    start = 0
    for count in lengths:
        save(make("t", start, count, ny=ny, nx=ny), files / f"{start}.nc", chunksizes=(1, 16, ny))
        if start:
            ingest(repo, files, append_dim="time", mode="native")
        session = repo.readonly_session("main")
        if start > lengths[0]:
            steps = zarr.open_array(session.store, path="t", mode="r").chunks[0]
            newest, before = list(repo.ancestry(branch="main"))[:2]
            changed = repo.diff(from_snapshot_id=before.id, to_snapshot_id=newest.id)
            rewritten = [e for e in changed.updated_chunks["/t"] if e[0] * steps < start]
            assert len(rewritten) * steps * ny * ny * 4 <= most_bytes
        start += count

    xr.testing.assert_equal(read(repo)["t"], make_all(lengths, ny)["t"])


def make_all(lengths: list[int], ny: int) -> xr.Dataset:
    starts = np.cumsum([0, *lengths[:-1]]).tolist()
    parts = zip(starts, lengths, strict=True)
    return xr.concat([make("t", at, count, ny=ny, nx=ny) for at, count in parts], "time")


def save_packed(
    path: Path, at: int, scale: float, offset: float, fill: int = -999, dtype: str = "i2"
) -> xr.Dataset:
    """Save a day of integers, one of which is missing."""
    numbers = np.random.default_rng(at).integers(-99, 99, (1, 32, 72)).astype("f8")
    numbers[0, 1, 2] = np.nan
    day = make("t", at, 1, ny=32, nx=72)
    day["t"] = (day["t"].dims, numbers * scale + offset)
    packed = {"dtype": dtype, "scale_factor": scale, "add_offset": offset, "_FillValue": fill}
    save(day, path, packed)
    return xr.open_dataset(path).load()


@pytest.mark.parametrize("mode", ["auto", "native"])
@pytest.mark.parametrize(
    ("packings", "dtype", "how"),
    [
        ([(0.5, 280.0), (0.5, 280.0), (1.0, 270.0, 127, "i1")], "int16", "virtual and native"),
        ([(0.25, 280.0), (0.5, 270.0), (1.0, 0.0)], "int32", "native"),
        ([(0.1, 280.0), (0.3, 280.0), (0.7, 271.3)], "float64", "native"),
    ],
)
def test_integers_of_other_scales_are_repacked_where_that_is_exact(
    repo: frazil.Repository, files: Path, mode: str, packings: list[Any], dtype: str, how: str
) -> None:
    days = [save_packed(files / f"{at}.nc", at, *each) for at, each in enumerate(packings)]

    report = ingest(repo, files, append_dim="time", mode=mode)

    found = {each.name: each for each in report.variables}["t"]
    assert found.treatment == (how if mode == "auto" else "native")
    text = "decoded to float64" if dtype == "float64" else f"repacked exactly as {dtype}"
    assert text in found.reason
    assert read(repo, mask_and_scale=False)["t"].dtype == dtype
    expected = xr.concat(days, "time")["t"]
    xr.testing.assert_equal(read(repo)["t"].drop_attrs(), expected.drop_attrs())


@pytest.mark.parametrize("mode", ["auto", "native"])
def test_a_later_file_of_another_scale_is_repacked_or_the_array_is_decoded(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    days = []
    for at, packing in enumerate([(0.5, 280.0), (0.5, 200.0), (0.3, 280.0), (0.5, 280.0)]):
        days.append(save_packed(files / f"{at}.nc", at, *packing))
        ingest(repo, files, append_dim="time", mode=mode)
        stored = read(repo, mask_and_scale=False)["t"].dtype
        assert stored == ("int16" if at == 0 else "float64")
        expected = xr.concat(days, "time")["t"]
        xr.testing.assert_equal(read(repo)["t"].drop_attrs(), expected.drop_attrs())


def save_eras(files: Path, batch: range) -> None:
    """Save days of three eras: compressed, then shuffled, then of integers; of two variables."""
    for at in batch:
        how: dict[str, Any] = {"shuffle": at >= 2} if at < 4 else {"dtype": "i2", "_FillValue": -1}
        for name in ("t", "p"):
            day = make(name, at, 1, len(name)).round()
            save(day, files / f"{name}{at}.nc", how)


@pytest.mark.parametrize(
    ("mode", "batches"),
    [("auto", [(0, 6)]), ("native", [(0, 3), (3, 6)]), ("virtual", [(0, 3), (3, 6)])],
)
def test_files_of_other_encodings_are_ingested_into_groups_of_their_own(
    repo: frazil.Repository, files: Path, mode: str, batches: list[tuple[int, int]]
) -> None:
    options: dict[str, Any] = {"append_dim": "time", "mode": mode, "group": "a"}
    save_eras(files, range(0, 6))
    with pytest.raises(InvalidSourcesError, match="eras='groups' puts files of another type"):
        ingest(repo, files, **options)

    for first, last in batches:
        several = [files / f"{name}{at}.nc" for name in "tp" for at in range(first, last)]
        report = ingest(repo, several, eras="groups", **options)
    assert ingest(repo, files, eras="groups", **options).snapshot_id is None

    assert {each.name.partition("/")[0] for each in report.dimensions} <= {
        "era_1", "era_2", "era_3",
    }  # fmt: skip
    for number, days in enumerate([(0, 1), (2, 3), (4, 5)], 1):
        found = read(repo, group=f"a/era_{number}")
        for name in ("t", "p"):
            expected = xr.concat([make(name, at, 1, len(name)).round() for at in days], "time")
            xr.testing.assert_equal(
                found[name].drop_attrs(), expected[name].astype(found[name].dtype)
            )
    if mode != "native":
        assert {each.treatment for each in report.variables} <= {"virtual", "inline"}
    save(make("t", 0, 1), files / "t0.nc", {"dtype": "i2", "_FillValue": -1})
    with pytest.raises(InvalidSourcesError, match="its encoding is that of another era now"):
        ingest(repo, files, eras="groups", **options)


def test_eras_of_files_with_groups_have_a_tree_each(repo: frazil.Repository, files: Path) -> None:
    files.mkdir(exist_ok=True)
    for at in range(4):
        save(
            make("flag", at, 1).round(),
            files / f"{at}.nc",
            {"dtype": "i2", "_FillValue": -1} if at > 1 else {},
        )
        day = make("no2", at, 1).round()
        day.to_netcdf(files / f"{at}.nc", mode="a", group="PRODUCT/DETAIL", engine="netcdf4")
    options: dict[str, Any] = {"append_dim": "time", "source_group": "*", "eras": "groups"}

    ingest(repo, [files / "0.nc", files / "2.nc"], **options)
    assert ingest(repo, files, **options).snapshot_id is not None
    assert ingest(repo, files, **options).snapshot_id is None

    for era, days in (("era_1", (0, 1)), ("era_2", (2, 3))):
        for group, name in (("", "flag"), ("/PRODUCT/DETAIL", "no2")):
            found = read(repo, group=era + group)[name]
            expected = xr.concat([make(name, at, 1).round() for at in days], "time")[name]
            assert (found["time"].values == DAYS[list(days)].values).all()
            assert (found.values == expected.values).all()


@pytest.mark.parametrize("mode", ["native", "virtual"])
def test_a_region_is_filled_in_the_group_of_its_era(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    how: dict[int, dict[str, Any]] = {at: {"shuffle": at >= 2} for at in range(4)}
    for at in range(4):
        save(make("t", at, 1), files / f"{at}.nc", how[at])
    options: dict[str, Any] = {"append_dim": "time", "eras": "groups", "mode": mode}
    ingest(repo, files, **options)
    for at in (1, 2):
        save(make("t", at, 1, seed=9), files.parent / "new" / f"{at}.nc", how[at])

    ingest(repo, files.parent / "new", region="auto", **options)

    for era, days in (("era_1", (0, 1)), ("era_2", (2, 3))):
        for day in days:
            found = read(repo, group=era)["t"].sel(time=DAYS[day])
            assert (found.values == make("t", day, 1, seed=9 * (day in (1, 2)))["t"][0]).all()
    save(make("t", 3, 1), files.parent / "new" / "3.nc", {"fletcher32": True})
    with pytest.raises(InvalidInputError, match=r"there are none for .*3\.nc"):
        ingest(repo, files.parent / "new", region="auto", **options)


def test_a_large_array_is_not_decoded_for_a_file_of_another_scale(
    repo: frazil.Repository, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_packed(files / "0.nc", 0, 0.5, 280.0)
    ingest(repo, files, append_dim="time")
    save_packed(files / "1.nc", 1, 0.3, 280.0)
    monkeypatch.setattr("frazil.spark.ingestion.ingest_plan._MOST_DECODED_BYTES", 1000)

    with pytest.raises(InvalidSourcesError, match=r"keeps its scale[\s\S]*scale_factor is 0.3"):
        ingest(repo, files, append_dim="time")


@pytest.mark.parametrize("mode", ["auto", "native", "virtual"])
def test_a_dimension_without_a_variable_and_a_file_of_groups_alone_make_no_arrays(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    for at in (0, 2):
        save(make("t", at, 2).drop_vars(["y", "x"]), files / f"{at}.nc")

    ingest(repo, files, append_dim="time", mode=mode)

    assert set(read(repo).variables) == {"t", "time"}
    make("t", 4, 2).to_netcdf(files / "groups.nc", group="science", engine="netcdf4")
    with pytest.raises(InvalidSourcesError, match=r"no file has arrays[\s\S]*science"):
        ingest(create(files.parent / "other"), files / "groups.nc", append_dim="time", mode=mode)


@pytest.mark.parametrize("mode", ["auto", "native"])
@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_files_of_other_fill_values_are_read_with_their_own(
    repo: frazil.Repository, files: Path, mode: str, dtype: str
) -> None:
    days = []
    for at, fill in enumerate([-9999, -1, -9999, -32768]):
        day = make("t", at, 1).round()
        day["t"][0, 0, : at + 1] = np.nan
        days.append(day)
        save(day, files / f"{at}.nc", {"_FillValue": np.dtype(dtype).type(fill), "dtype": dtype})
        if at > 1:
            ingest(repo, files, append_dim="time", mode=mode)

    assert_holds(repo, join(*days))


def test_floats_beside_packed_integers_keep_their_missing_values(
    repo: frazil.Repository, files: Path
) -> None:
    days = [make("t", at, 1).round() for at in range(2)]
    for at, day in enumerate(days):
        day["t"][0, 0, :3] = np.nan
        packed = {"_FillValue": np.int16(-9999), "dtype": "i2", "scale_factor": 0.5}
        save(day, files / f"{at}.nc", packed if at else {"_FillValue": np.float32(-9999)})

    ingest(repo, files, append_dim="time")

    assert_holds(repo, join(*days))


def test_a_value_that_is_the_fill_value_of_others_is_named(
    repo: frazil.Repository, files: Path
) -> None:
    for at, fill in enumerate([-9999, -9999, -1]):
        day = make("t", at, 1)
        day["t"][0, 0, 0] = -9999 if at == 2 else 0
        save(day, files / f"{at}.nc", {"_FillValue": np.float32(fill)})

    with pytest.raises(InvalidInputError, match=r"t of file://.*2\.nc: .*fill value -9999"):
        ingest(repo, files, append_dim="time")


@pytest.mark.parametrize("mode", ["auto", "native", "virtual"])
def test_coordinates_that_differ_in_their_last_digits_are_one(
    tmp_path: Path, files: Path, mode: str
) -> None:
    whole = make("t", 0, 2, ny=32).assign_coords(y=np.arange(32) * 0.1)
    for at in range(2):
        for row in range(2):
            tile = whole.isel(time=[at], y=slice(16 * row, 16 * row + 16))
            y = tile["y"].values * (1 + at * 1e-14)
            save(tile.assign_coords(y=y.astype("f4") if at and row else y), files / f"{at}{row}.nc")
    repo = create(tmp_path / "tiles")
    report = ingest(repo, files, append_dim=["time", "y"], mode=mode)
    assert_holds(repo, whole)
    assert any(each.kind is ProblemKind.ROUNDED for each in report.notes)

    repo = create(tmp_path / "days")
    ingest(repo, f"{files}/?0.nc", append_dim="time", mode=mode)
    assert_holds(repo, whole.isel(y=slice(0, 16)))


def test_files_with_another_coordinate_of_a_dimension_are_refused(
    repo: frazil.Repository, files: Path
) -> None:
    save(make("t", 0, 1), files / "0.nc")
    save(make("t", 1, 1).isel(y=slice(None, None, -1)), files / "1.nc")

    with pytest.raises(InvalidSourcesError, match="its values are not those of"):
        ingest(repo, files, append_dim="time")


def test_times_of_two_calendars_and_unsigned_ones_are_in_order(
    repo: frazil.Repository, files: Path
) -> None:
    def write(at: int, dtype: str, number: int, attributes: dict[str, str]) -> None:
        files.mkdir(exist_ok=True)
        with netCDF4.Dataset(files / f"{at}.nc", "w") as file:
            file.createDimension("time", 1)
            file.createDimension("x", 600)
            file.createVariable("time", dtype, ("time",)).setncatts(attributes)
            file["time"].set_auto_maskandscale(False)
            file["time"][:] = number
            file.createVariable("t", "f4", ("time", "x"), chunksizes=(1, 600))[:] = at

    hours = {"units": "hours since 2020-01-01", "_Unsigned": "true"}
    for at, number in enumerate([0, 96, 192 - 256]):
        write(at, "i1", number, hours)
    days = {"units": "days since 0001-01-01", "calendar": "proleptic_gregorian"}
    write(3, "f8", (DAYS[12].to_pydatetime() - datetime(1, 1, 1)).days, days)

    ingest(repo, files, append_dim="time")

    found = read(repo)
    assert (found["time"].values == DAYS[[0, 4, 8, 12]].values).all()
    assert found["t"].values[:, 0].tolist() == [0, 1, 2, 3]


def test_strings_are_coordinates_of_a_dimension(repo: frazil.Repository, files: Path) -> None:
    files.mkdir()
    parts = []
    for at in range(2):
        values = np.random.default_rng(at).normal(size=(2, 400))
        part = xr.Dataset({"t": (("station", "x"), values)}, {"station": [f"{at}a", f"{at}é"]})
        part.to_netcdf(files / f"{at}.nc", encoding={"t": {"chunksizes": (1, 400)}})
        parts.append(part)

    ingest(repo, files, append_dim="station")

    assert_holds(repo, xr.concat(parts, "station"))


def test_links_are_followed_and_one_that_leads_to_its_own_folder_is_not(
    repo: frazil.Repository, files: Path
) -> None:
    days = [make("t", at, 1) for at in range(2)]
    save(days[0], files / "in" / "0.nc")
    (files / "1.nc").symlink_to(save(days[1], files.parent / "elsewhere" / "1.nc"))
    (files / "in" / "loop").symlink_to(files / "in")
    (files / "in" / "top").symlink_to(files)
    (files / "gone.nc").symlink_to(files / "nothing.nc")

    assert len(ingest(repo, files, append_dim="time").files) == 2
    assert_holds(repo, join(*days))


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("take", ["u"], "invalid take 'u': the files have arrays t, time, x, y"),
        ("group", "/_frazil/ledger", "'_frazil' has the ledger"),
        ("coords", from_path(r"\d"), "invalid coords .* must be a dict"),
        ("containers", ["file:///"], "invalid containers .* a list of virtual chunk containers"),
    ],
)
def test_mistaken_options_are_refused(
    repo: frazil.Repository, files: Path, option: str, value: Any, text: str
) -> None:
    save(make("t", 0, 1), files / "0.nc")

    with pytest.raises(InvalidInputError, match=text):
        ingest(repo, files, append_dim="time", **{option: value})


@pytest.mark.parametrize("sources", ["", [None], 5])
def test_mistaken_sources_are_refused(repo: frazil.Repository, sources: Any) -> None:
    with pytest.raises(InvalidInputError, match="invalid source"):
        ingest(repo, sources, append_dim="time")


def test_messages_of_grib_for_one_place_leave_their_file_out(
    repo: frazil.Repository, files: Path
) -> None:
    files.mkdir()
    keys = {"shortName": "t", "typeOfLevel": "isobaricInhPa", "level": 500}
    for day in (1, 2):
        messages = [make_message(seed=s, dataDate=20200100 + day, **keys) for s in range(day)]
        (files / f"{day}.grib2").write_bytes(b"".join(messages))

    with pytest.raises(InvalidSourcesError, match=r"has a place that another message has taken"):
        ingest(repo, files, append_dim="time")
    report = ingest(repo, files, append_dim="time", on_bad_file="skip")

    assert left_out(report) == ["2.grib2"]
    assert read(repo).sizes["time"] == 1


def test_images_of_another_reference_system_are_refused(
    repo: frazil.Repository, files: Path
) -> None:
    files.mkdir()
    image = np.random.default_rng(1).normal(0, 1, (16, 20)).astype("f4")
    for row, epsg in enumerate([32633, 32634]):
        place = (500_000.0, 4_000_000.0 - 160 * row)
        data = make_tiff(image, corner=place, step=10, epsg=epsg, rows=8)
        (files / f"{row}.tif").write_bytes(data)

    with pytest.raises(InvalidSourcesError, match="longitude_of_central_meridian is 21"):
        ingest(repo, files, append_dim=["y", "x"])
    ingest(repo, files / "0.tif", append_dim=["y", "x"])
    with pytest.raises(InvalidSourcesError, match="projected_type is 32634, and 32633"):
        ingest(repo, files, append_dim=["y", "x"])


@pytest.mark.parametrize("mode", ["auto", "native", "virtual"])
def test_the_fill_values_of_zarr_v2_are_missing_values(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    days = [make("t", at, 1) for at in range(2)]
    for at, day in enumerate(days):
        day["t"][0, 0, :3] = np.nan
        encoding = {"t": {"_FillValue": np.float32(-9999), "chunks": (1, 8, 36)}}
        day.to_zarr(files / f"{at}.zarr", zarr_format=2, consolidated=False, encoding=encoding)

    ingest(repo, files, append_dim="time", mode=mode)

    assert_holds(repo, join(*days))


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
def test_values_that_are_not_expected_are_refused_or_set_aside_by_name(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    save(make("t", 0, 2), files / "good.nc")
    odd = make("t", 4, 1).assign_coords(time=DAYS[4:5] + pd.Timedelta("6h"))
    save(odd, files / "odd.nc", units="hours since 2020-01-01")
    save(make("t", 12, 1), files / "past.nc")
    options: dict[str, Any] = {"append_dim": "time", "mode": mode}
    expected = {"time": DAYS[:10]}

    with pytest.raises(InvalidSourcesError) as refused:
        ingest(repo, files, expected=expected, **options)
    text = str(refused.value)
    assert "2020-01-05T06:00" in text
    assert "odd.nc" in text
    assert "2020-01-13" in text
    assert "past.nc" in text
    assert "good.nc" not in text
    assert "2020-01-01 to 2020-01-10" in text

    report = ingest(repo, files, expected=expected, on_bad_file="skip", **options)
    assert {Path(each.location).name for each in report.bad} == {"odd.nc", "past.nc"}
    assert all("not among the expected values" in each.reason for each in report.bad)
    assert [Path(each.source).name for each in report.files] == ["good.nc"]
    assert read(repo)["time"].to_index().equals(DAYS[:10])


def test_expected_floats_take_the_last_digits_of_the_files(
    repo: frazil.Repository, files: Path
) -> None:
    values = np.cumsum(np.full(8, 0.1))
    for at in (0, 4):
        part = make("t", 0, 1, seed=at).assign_coords(y=("y", np.arange(16.0)))
        tile = part.isel(y=slice(4)).assign_coords(y=values[at : at + 4])
        save(tile, files / f"{at}.nc")

    ingest(repo, files, append_dim="y", expected={"y": np.arange(1, 11) / 10})

    assert read(repo).sizes["y"] == 10
    np.testing.assert_array_equal(read(repo)["y"][:8], values)


@pytest.mark.parametrize("mode", ["virtual", "native"])
@pytest.mark.parametrize("ending", ["nc", "zarr"])
def test_a_file_that_is_rewritten_in_the_second_of_its_ingest_is_ingested_again(
    repo: frazil.Repository, files: Path, mode: str, ending: str
) -> None:
    def write(seed: int) -> None:
        path = files / f"a.{ending}"
        if ending == "nc":
            save(make("t", 0, 2, seed), path, zlib=False)
        else:
            dataset = make("t", 0, 2, seed)
            dataset.to_zarr(
                path, mode="w", consolidated=False, encoding={"t": {"compressors": None}}
            )
        for each in (path, *path.rglob("*")):
            os.utime(each, (now, now))

    now = int(time.time()) + 30  # slow machines need some seconds until the file is read
    options: dict[str, Any] = {"append_dim": "time", "mode": mode}
    write(0)
    assert ingest(repo, files, **options).snapshot_id is not None
    assert ingest(repo, files, **options).snapshot_id is None

    write(1)
    assert [each.is_changed for each in ingest(repo, files, **options).files] == [True]
    assert_holds(repo, make("t", 0, 2, 1))
    assert ingest(repo, files, **options).snapshot_id is None


def test_files_are_looked_at_again_until_the_next_commit(
    repo: frazil.Repository, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def etags() -> list[str]:
        return [each.version.e_tag or "" for each in read_ledger(store()).entries]

    def store() -> Any:
        return repo.readonly_session("main").store

    save(make("t", 0, 2), files / "old.nc")
    os.utime(files / "old.nc", (1e9, 1e9))
    save(make("t", 2, 2), files / "new.nc")
    os.utime(files / "new.nc", (time.time() + 30,) * 2)
    ingest(repo, files, append_dim="time")
    assert [each.startswith(DIGEST) for each in etags()] == [True, False]

    monkeypatch.setattr(ledger, "UNCERTAIN", timedelta(minutes=-1))
    save(make("t", 4, 2), files / "next.nc")
    os.utime(files / "next.nc", (1e9, 1e9))
    ingest(repo, files, append_dim="time")
    assert etags() == ["", "", ""]


def save_plain(path: Path, member: int, day: int, *, rows: int = 16) -> np.ndarray[Any, Any]:
    """A file of h5py, in which no fill value is declared, with values in the first rows alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.zeros((1, 1, 16, 36), "f4")
    values[:, :, :rows] = make("t", day, 1, member)["t"].values[None, :, :rows]
    with h5py.File(path, "w") as file:
        for name, value in (("member", member), ("time", day)):
            file[name] = np.array([value])
            file[name].make_scale(name)
        t = file.create_dataset("t", values.shape, "f4", chunks=(1, 1, 8, 36), compression="gzip")
        t[:, :, :rows] = values[:, :, :rows]
        t.dims[0].attach_scale(file["member"])
        t.dims[1].attach_scale(file["time"])
    found: np.ndarray[Any, Any] = values[0, 0]
    return found


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
def test_floats_of_absent_files_read_as_nan(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    whole = [save_plain(files / f"{m}-{d}.h5", m, d) for m, d in ((0, 0), (0, 1), (1, 0))]
    options: dict[str, Any] = {"append_dim": ["member", "time"], "mode": mode}
    ingest(repo, files, **options)

    found = read(repo)["t"].values
    for at, each in zip(((0, 0), (0, 1), (1, 0)), whole, strict=True):
        np.testing.assert_array_equal(found[at], each)
    assert np.isnan(found[1, 1]).all()

    late = save_plain(files / "0-2.h5", 0, 2)
    report = ingest(repo, files, **options)
    treatments = {each.name: each.treatment for each in report.variables}
    assert treatments["t"] == ("native" if mode == "native" else "virtual")
    np.testing.assert_array_equal(read(repo)["t"].values[0, 2], late)


@pytest.mark.parametrize("mode", ["native", "auto"])
def test_chunks_that_were_never_written_read_as_in_their_file(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    save_plain(files / "0-0.h5", 0, 0)
    options: dict[str, Any] = {"append_dim": ["member", "time"], "mode": mode}
    ingest(repo, files, **options)

    half = save_plain(files / "1-1.h5", 1, 1, rows=8)
    with pytest.raises(InvalidSourcesError) as caught:
        ingest(repo, files, **{**options, "mode": "virtual"})
    assert "0.0, and NaN elsewhere: chunks that were never written read as 0.0" in str(caught.value)
    assert "needs mode='auto' or 'native'" in str(caught.value)
    ingest(repo, files, **options)

    found = read(repo)["t"].values
    np.testing.assert_array_equal(found[1, 1], half)
    assert not half[8:].any()
    assert np.isnan(found[0, 1]).all()


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
def test_files_that_this_process_has_open_are_ingested(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    save(make("t", 0, 2), files / "a.nc")
    for engine in ("h5netcdf", "netcdf4"):
        with xr.open_dataset(files / "a.nc", engine=engine) as opened:
            ingest(repo, files, append_dim="time", mode=mode, group=engine)
            xr.testing.assert_equal(read(repo, group=engine), opened.load())


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
def test_complex_numbers_and_small_floats_are_ingested(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    files.mkdir()
    random = np.random.default_rng(1)
    expected = []
    for at in (0, 4):
        with h5py.File(files / f"{at}.h5", "w") as file:
            file["time"] = np.arange(at, at + 4)
            file["time"].make_scale("time")
            for name, kind, width in (("few", "c8", 3), ("many", "c16", 300), ("half", "f2", 700)):
                values = (random.normal(size=(4, width)) * (1j if kind[0] == "c" else 1)).astype(
                    kind
                )
                file.create_dataset(name, data=values, chunks=(2, width))
                file[name].dims[0].attach_scale(file["time"])
                expected.append((name, slice(at, at + 4), values))

    ingest(repo, files, append_dim="time", mode=mode)

    found = read(repo)
    for name, place, values in expected:
        np.testing.assert_array_equal(found[name][place], values)


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
def test_runs_and_leads_of_scalars_with_their_valid_time(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    def forecast(run: int, hours: int) -> xr.Dataset:
        found = make("t", run, 1, hours).isel(time=0, drop=True)
        init, lead = DAYS[run], pd.Timedelta(hours, "h")
        return found.assign_coords(init=init, lead=lead, valid=init + lead)

    options: dict[str, Any] = {"append_dim": ["init", "lead"], "mode": mode}
    for run in (0, 1):
        for hours in (0, 6, 24):
            # Xarray chooses the units of each lead: days, hours, days.
            path = files / f"{run}_{hours}.nc"
            path.parent.mkdir(exist_ok=True)
            forecast(run, hours).to_netcdf(path)
        ingest(repo, files, **options)

    found = read(repo, decode_timedelta=True)
    assert found["valid"].dims == ("init", "lead")
    for run in (0, 1):
        for hours in (0, 6, 24):
            lead = pd.Timedelta(hours, "h")
            cell = found.sel(init=DAYS[run], lead=lead)
            assert cell["valid"].values == DAYS[run] + lead
            np.testing.assert_array_equal(cell["t"], forecast(run, hours)["t"])


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
def test_variables_may_have_fewer_records_than_their_dimension(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    files.mkdir()
    for at in range(2):
        with netCDF4.Dataset(files / f"{at}.nc", "w") as file:
            file.createDimension("time", None)
            file.createDimension("y", 600)
            file.createVariable("time", "i4", ("time",))[:] = np.arange(4) + 4 * at
            file["time"].units = "days since 2000-01-01"
            for name, kind, fill in (("a", "f4", None), ("b", "i4", None), ("c", "f8", -5.0)):
                create: Any = file.createVariable
                create(name, kind, ("time", "y"), chunksizes=(1, 600), fill_value=fill)[1] = 7

    ingest(repo, files, append_dim="time", mode=mode)

    truth = xr.concat(
        [xr.load_dataset(files / f"{at}.nc", engine="netcdf4") for at in (0, 1)], "time"
    )
    xr.testing.assert_equal(read(repo), truth)


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
def test_texts_and_filters_of_zarr_v2_are_ingested(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    parts = []
    for at in (0, 2):
        part = make("t", at, 2).assign(
            name=("time", np.array(["a", "é"], object)), shuffled=("time", [1.5, at])
        )
        filters = {"filters": [numcodecs.Shuffle(8)], "compressors": numcodecs.Zlib(1)}
        part.to_zarr(
            files / f"{at}.zarr", zarr_format=2, encoding={"shuffled": filters}, consolidated=False
        )
        parts.append(xr.load_dataset(files / f"{at}.zarr", engine="zarr", consolidated=False))

    ingest(repo, files, append_dim="time", mode=mode)

    found = read(repo)
    xr.testing.assert_equal(found, join(*parts))
    assert found["name"].values.tolist() == ["a", "é", "a", "é"]


@pytest.mark.parametrize("shorter", ["t", "time"])
def test_arrays_of_different_lengths_are_refused_with_their_lengths(
    repo: frazil.Repository, files: Path, shorter: str
) -> None:
    save(make("t", 0, 4), files / "0.nc")
    ingest(repo, files / "0.nc", append_dim="time")
    session = repo.writable_session("main")
    array: Any = zarr.open_group(session.store)[shorter]
    array.resize((3, *array.shape[1:]))
    tip = session.commit("shorten one array only")
    save(make("t", 4, 2), files / "4.nc")

    with pytest.raises(InvalidInputError, match=rf"lengths along time: .*'{shorter}' 3"):
        ingest(repo, files, append_dim="time")

    assert repo.lookup_branch("main") == tip


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
def test_a_later_call_adds_variables_that_were_left_out(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    parts = []
    for at in (0, 2):
        part = make("t", at, 2).merge(make("p", at, 2, 3)).merge(make("q", at, 2, 5))
        save(part, files / f"{at}.nc")
        parts.append(part)
    options: dict[str, Any] = {"append_dim": "time", "mode": mode}

    ingest(repo, files, take=["t"], **options)
    assert ingest(repo, files, take=["t"], **options).snapshot_id is None
    report = ingest(repo, files, skip=["q"], **options)

    assert [each.name for each in report.variables if each.references] == ["p"]
    assert ["2 known files" in each.text for each in report.notes] == [True]
    assert ingest(repo, files, skip=["q"], **options).snapshot_id is None
    assert ingest(repo, files, take=["t"], **options).snapshot_id is None
    late = make("t", 4, 2).merge(make("q", 4, 2, 5))
    save(late, files / "4.nc")
    assert len(ingest(repo, files, **options).files) == 3
    assert ingest(repo, files, **options).snapshot_id is None
    whole = xr.concat([*parts, late], "time", join="outer")
    for name in ("t", "p", "q"):
        xr.testing.assert_equal(read(repo)[name], whole[name])


@pytest.mark.parametrize("mode", ["auto", "native", "virtual"])
def test_a_copy_of_a_known_file_is_noted_once(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    save_aged(make("t", 0, 2, 1), files / "copy.nc", 5)
    options: dict[str, Any] = {"append_dim": "time", "mode": mode}
    ingest(repo, files, **options)
    for name in ("original.nc", "third.nc"):
        shutil.copy2(files / "copy.nc", files / name)
        os.utime(files / name, (2_000_000_000,) * 2)

    assert len(ingest(repo, files, dry_run=True, **options).notes) == 1
    report = ingest(repo, files, **options)

    assert (report.bad, report.files) == ((), ())
    (note,) = report.notes
    assert [Path(each).name for each in note.files] == ["original.nc", "third.nc"]
    assert "a copy of" in note.text
    assert "copy.nc" in note.text
    again = ingest(repo, files, **options)
    assert (again.snapshot_id, len(again.notes), len(again.known)) == (None, 0, 3)
    entries = read_ledger(repo.readonly_session("main").store).entries
    assert [bool(each.copy_of) for each in entries] == [False, True, True]

    (files / "copy.nc").rename(files.parent / "gone.nc")
    assert ingest(repo, files, **options).snapshot_id is None
    assert len(ingest(repo, files / "original.nc", on_overlap="replace", **options).files) == 1
    assert_holds(repo, make("t", 0, 2, 1))
    (files.parent / "gone.nc").rename(files / "copy.nc")
    save_aged(make("t", 2, 2, 2), files / "third.nc", 1)
    ingest(repo, files, **options)
    save_aged(make("t", 0, 2, 9), files / "fourth.nc", 0)
    with pytest.raises(InvalidSourcesError, match=r"holds data of .*(copy|original)\.nc"):
        ingest(repo, files, **options)
    ingest(repo, files, on_overlap="replace", **options)
    expected = xr.concat([make("t", 0, 2, 9), make("t", 2, 2, 2)], "time")
    xr.testing.assert_equal(read(repo)["t"], expected["t"])


def test_of_copies_in_one_call_the_oldest_is_ingested(repo: frazil.Repository, files: Path) -> None:
    for age, name in ((9, "old.nc"), (5, "new.nc")):
        save_aged(make("t", 0, 2, 1), files / name, age)
    save_aged(make("t", 0, 2, 4), files / "other.nc", 3)

    with pytest.raises(InvalidSourcesError, match=r"old\.nc and other\.nc|old\.nc, .*other\.nc"):
        ingest(repo, files, append_dim="time")
    report = ingest(repo, files, append_dim="time", on_bad_file="skip")
    assert left_out(report) == ["other.nc"]
    assert [Path(each.files[0]).name for each in report.notes] == ["new.nc"]


def _make_numbers(file: h5py.File, form: str, values: Any) -> None:
    """Write a dataset in a form of numbers that has no equal in memory, or behind a filter."""
    kind, properties = h5py.h5t.STD_I16LE.copy(), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((1, *values.shape[1:]))
    match form:
        case "twelve bits":
            kind.set_precision(12)
            kind.set_offset(4)
        case "n-bit":
            kind.set_precision(12)
            properties.set_filter(h5py.h5z.FILTER_NBIT)
        case "scale-offset":
            properties.set_scaleoffset(h5py.h5z.SO_INT, 0)
        case "szip":
            properties.set_szip(h5py.h5z.SZIP_NN_OPTION_MASK, 8)
        case "small exponents":
            kind = h5py.h5t.IEEE_F32LE.copy()
            kind.set_fields(31, 20, 11, 0, 20)
            kind.set_ebias(1023)
    space = h5py.h5s.create_simple(values.shape)
    made = h5py.h5d.create(file.id, b"a", kind, space, properties)
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
@pytest.mark.parametrize(
    "form", ["twelve bits", "n-bit", "scale-offset", "szip", "small exponents"]
)
def test_numbers_that_only_hdf5_decodes_are_native_or_refused(
    repo: frazil.Repository, files: Path, form: str, mode: str
) -> None:
    files.mkdir()
    parts = []
    for at in range(3):
        values = np.random.default_rng(at).integers(-2000, 2000, (2, 8, 40)).astype("i2")
        with h5py.File(files / f"{at}.h5", "w") as file:
            file["time"] = np.arange(2) + 2 * at
            file["time"].make_scale("time")
            _make_numbers(file, form, values)
            # Of its axes only one has a name.
            file["a"].dims[0].attach_scale(file["time"])
            parts.append(file["a"][()])

    if mode == "virtual":
        with pytest.raises(InvalidSourcesError, match=r"only HDF5 reads|no codec for"):
            ingest(repo, files, append_dim="time", mode=mode)
        return
    ingest(repo, files, append_dim="time", mode=mode)

    found = read(repo)["a"].values
    np.testing.assert_array_equal(found, np.concatenate(parts))
    if form != "small exponents":
        assert found.min() < -1000


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_valid_times_of_whole_runs_get_the_dimension_of_the_run(
    repo: frazil.Repository, files: Path, mode: str, batch: int
) -> None:
    def forecast(run: int) -> xr.Dataset:
        leads = pd.to_timedelta(np.arange(3) * 6, "h")
        found = make("t", 0, 3, run).rename(time="lead")
        valid = ("lead", (DAYS[run] + leads).values)
        return found.assign_coords(lead=leads, init=DAYS[run], valid=valid)

    files.mkdir()
    paths = []
    for run in (2, 0, 1):
        paths.append(files / f"{run}.nc")
        # Counted from each run, the times of all runs are the same numbers.
        units = {"units": f"hours since {DAYS[run]:%Y-%m-%d}", "dtype": "i4"}
        forecast(run).to_netcdf(
            paths[-1],
            encoding={"valid": units, "init": units, "lead": {"units": "hours", "dtype": "i4"}},
        )
    for start in range(0, 3, batch):
        ingest(repo, paths[start : start + batch], append_dim=["init", "lead"], mode=mode)

    found = read(repo, decode_timedelta=True)
    assert found["valid"].dims == ("init", "lead")
    for run in range(3):
        own, truth = found.sel(init=DAYS[run]), forecast(run)
        np.testing.assert_array_equal(own["valid"], truth["valid"])
        np.testing.assert_array_equal(own["t"], truth["t"])


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
@pytest.mark.parametrize("options", [{}, {"on_bad_file": "skip"}])
def test_a_copy_that_is_corrected_replaces_the_content_it_had(
    repo: frazil.Repository, files: Path, mode: str, options: dict[str, Any]
) -> None:
    options = {"append_dim": "time", "mode": mode, **options}
    save_aged(make("t", 0, 2, 1), files / "copy.nc", 9)
    shutil.copy2(files / "copy.nc", files / "original.nc")
    os.utime(files / "original.nc", (2_000_000_000 - 5,) * 2)
    save_aged(make("t", 2, 2, 2), files / "next.nc", 5)
    ingest(repo, files, **options)

    save_aged(make("t", 0, 2, 7), files / "original.nc", 1)
    report = ingest(repo, files, **options)

    assert [Path(each.source).name for each in report.files] == ["original.nc"]
    assert report.bad == ()
    assert_holds(repo, join(make("t", 0, 2, 7), make("t", 2, 2, 2)))
    assert ingest(repo, files, **options).snapshot_id is None
    # It is not moved to another place than that of the content it had.
    shutil.copy2(files / "next.nc", files / "other.nc")
    ingest(repo, files, **options)
    save_aged(make("t", 4, 2, 3), files / "other.nc", 1)
    ingest(repo, files, **options)
    truth = join(make("t", 0, 2, 7), make("t", 2, 2, 2), make("t", 4, 2, 3))
    assert_holds(repo, truth)


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
def test_copies_of_whole_zarr_stores_are_noted(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    options: dict[str, Any] = {"append_dim": "time", "mode": mode}
    for at, name in ((0, "a.zarr"), (2, "b.zarr")):
        make("t", at, 2).to_zarr(files / name, zarr_format=2, consolidated=False)
    shutil.copytree(files / "a.zarr", files / "c.zarr")
    first = ingest(repo, files, **options)
    shutil.copytree(files / "b.zarr", files / "d.zarr")

    second = ingest(repo, files, **options)

    assert len(first.files) == 2
    assert second.files == ()
    assert [len(each.notes) for each in (first, second)] == [1, 1]
    (note,) = second.notes
    assert [Path(each).name for each in note.files] == ["d.zarr"]
    xr.testing.assert_equal(read(repo)["t"], join(make("t", 0, 2), make("t", 2, 2))["t"])
    # One more byte in a folder, and it is no copy.
    shutil.copytree(files / "b.zarr", files / "e.zarr")
    with (files / "e.zarr" / ".zattrs").open("a") as file:
        file.write("\n")
    with pytest.raises(InvalidSourcesError, match=r"holds data of .*b\.zarr"):
        ingest(repo, files, **options)


def test_a_batch_of_files_without_a_place_is_left_out_after_the_first_ingest(
    repo: frazil.Repository, files: Path
) -> None:
    options: dict[str, Any] = {"append_dim": "time", "on_bad_file": "skip"}
    ingest(repo, save(make("t", 0, 2), files / "0.nc"), **options)

    report = ingest(repo, save(make("t", 0, 2, 5), files / "again.nc"), **options)

    assert report.snapshot_id is None
    assert left_out(report) == ["again.nc"]
    assert_holds(repo, make("t", 0, 2))


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
@pytest.mark.parametrize("codec", [{"zlib": True}, {"contiguous": True}])
def test_swaths_whose_places_differ_are_refused_unless_these_are_loaded(
    repo: frazil.Repository, files: Path, mode: str, codec: dict[str, Any]
) -> None:
    def swath(at: int, place: int) -> xr.Dataset:
        found = make("t", at, 1, at).isel(time=0).drop_vars(["x", "y"])
        random = np.random.default_rng(place)
        coords = {name: (("y", "x"), random.normal(size=(16, 36))) for name in ("lat", "lon")}
        return found.assign_coords(coords)

    files.mkdir()
    paths = [files / f"{at}.nc" for at in range(3)]
    options: dict[str, Any] = {"append_dim": "time", "mode": mode}
    encoding: dict[str, Any] = {
        "time": {"units": "days since 2020-01-01"},
        "lat": codec,
        "lon": codec,
    }
    for at, path in enumerate(paths):
        swath(at, at // 2).to_netcdf(path, engine="netcdf4", encoding=encoding)

    with pytest.raises(InvalidSourcesError, match=r"not those of .*0\.nc.*load= compares"):
        ingest(repo, paths, **options)
    ingest(repo, paths[:2], **options)
    with pytest.raises(InvalidSourcesError, match=r"not those of the repository.*another group="):
        ingest(repo, paths[2], **options)
    if mode != "native":  # values of virtual arrays are not read
        with pytest.raises(
            InvalidSourcesError, match=r"not those of the repository.*another group="
        ):
            ingest(repo, paths[2], load=["lat", "lon"], **options)
    xr.testing.assert_equal(read(repo)["lat"], swath(0, 0)["lat"].drop_vars("time"))

    ingest(repo, paths[:1], group="loaded", load=["lat", "lon"], **options)
    ingest(repo, paths, group="loaded", load=["lat", "lon"], **options)
    found = read(repo, group="loaded")
    for at in range(3):
        np.testing.assert_array_equal(found["lat"][at], swath(at, at // 2)["lat"])
        np.testing.assert_array_equal(found["t"][at], swath(at, at // 2)["t"])


@pytest.mark.parametrize("mode", ["virtual", "native", "auto"])
def test_records_with_unused_bytes_are_native_or_refused(
    repo: frazil.Repository, files: Path, mode: str
) -> None:
    files.mkdir()
    # The NetCDF library aligns fields as C does: the second one is not next to the first.
    kind = np.dtype([("u", "f4"), ("v", "f8")], align=True)
    parts = []
    for at in range(2):
        values = np.zeros((2, 300), kind)
        values["u"], values["v"] = np.random.default_rng(at).normal(size=(2, 2, 300))
        parts.append(values)
        with netCDF4.Dataset(files / f"{at}.nc", "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", 300)
            file.createVariable("time", "i4", ("time",))[:] = np.arange(2) + 2 * at
            wind = file.createCompoundType(kind, "wind")
            create: Any = file.createVariable
            create("w", wind, ("time", "x"), chunksizes=(1, 300))[:] = values

    if mode == "virtual":
        with pytest.raises(InvalidSourcesError, match="unused bytes"):
            ingest(repo, files, append_dim="time", mode=mode)
        return
    ingest(repo, files, append_dim="time", mode=mode)

    assert read(repo)["w"].values.tolist() == np.concatenate(parts).tolist()
