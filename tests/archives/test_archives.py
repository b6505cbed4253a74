"""Each shape of an archive, as references and as values: what is read equals what is in the files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import frazil
from frazil.errors import InvalidInputError, InvalidSourcesError
from frazil.virtual import from_attribute, from_path
from tests.archives.files import DAYS, create, ingest, make, read, read_officially, save

Ingest = Callable[..., frazil.spark.IngestReport]
MODES = ["auto", "native", "virtual"]
DECODING_MODES = ["auto", "native"]


@pytest.fixture
def repo(tmp_path: Path) -> frazil.Repository:
    return create(tmp_path / "repo")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path / "files"


def join(*parts: xr.Dataset) -> xr.Dataset:
    return xr.concat(parts, "time", data_vars="minimal")


def assert_holds(repo: frazil.Repository, expected: xr.Dataset) -> None:
    """The values of all variables, in Frazil and in the official library."""
    for found in (read(repo), read_officially(repo, Path(str(repo.storage.path)))):  # type: ignore[attr-defined]
        for name, array in expected.data_vars.items():
            xr.testing.assert_equal(found[name].drop_attrs(), array.drop_attrs())


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
def test_files_with_their_own_scale_and_offset_are_decoded(
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
