"""Files that count time from different moments, ingested in every mode."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import frazil
import frazil.spark
from frazil.errors import InvalidSourcesError
from frazil.spark.checks import samples_equal_source
from tests.archives import files
from tests.spark.ingestion.archives import read

pytestmark = pytest.mark.xdist_group("spark")


def save(
    folder: Path, name: str, units: str, steps: Any, dtype: str = "int32", named: str = "bounds"
) -> Path:
    """Write steps from raw number 0 on, with raw bounds that have no units of their own."""
    times = np.array(steps, dtype)
    edges = np.stack([times, times + np.array(1, dtype)], axis=1)
    rain = np.random.default_rng(len(times)).integers(0, 99, (len(times), 4), "i4")
    dataset = xr.Dataset(
        {"rain": (("time", "x"), rain), "edges": (("time", "nv"), edges)},
        coords={"time": ("time", times, {"units": units, named: "edges"})},
    )
    path = folder / f"{name}.nc"
    dataset.to_netcdf(path, encoding={"rain": {"chunksizes": (2, 4)}})
    return path


def ingest(folder: Path, repo: frazil.Repository, **options: object) -> frazil.spark.IngestReport:
    return files.ingest(repo, f"{folder}/*.nc", **{"append_dim": "time", **options})


def decoded(dataset: xr.Dataset) -> xr.Dataset:
    """The same with climatologies decoded, which Xarray leaves as they are."""
    time = dataset["time"]
    name = time.attrs.get("climatology", time.encoding.get("climatology"))
    if name is None:
        return dataset
    timed = dataset[name].assign_attrs(units=time.encoding["units"]).drop_vars("time")
    return dataset.assign({name: xr.decode_cf(timed.to_dataset())[name]})


def expect(folder: Path) -> xr.Dataset:
    parts = [decoded(xr.load_dataset(path)) for path in sorted(folder.glob("*.nc"))]
    return xr.concat(parts, "time", data_vars="minimal").sortby("time")


@pytest.mark.parametrize("named", ["bounds", "climatology"])
@pytest.mark.parametrize("mode", ["auto", "virtual", "native"])
@pytest.mark.parametrize("steps", [4, 300], ids=["small", "large"])
def test_bounds_follow_their_coordinate_in_every_mode(
    repo: frazil.Repository, archive: Path, mode: str, named: str, steps: int
) -> None:
    for name, start in (("a", "2000-01-01"), ("b", "2001-01-01")):
        save(archive, name, f"days since {start}", range(steps), named=named)

    ingest(archive, repo, mode=mode, checks=[samples_equal_source(share=1.0)])

    xr.testing.assert_equal(decoded(read(repo)), expect(archive))


def test_files_that_come_later_are_counted_as_the_repository_does(
    repo: frazil.Repository, archive: Path
) -> None:
    save(archive, "a", "days since 2000-01-01", range(4))
    ingest(archive, repo)
    save(archive, "b", "hours since 2000-01-05", [0, 24, 48, 72])

    ingest(archive, repo, checks=[samples_equal_source(share=1.0)])

    found = read(repo)
    assert found["time"].encoding["dtype"] == np.int32
    assert found["time"].values.astype("M8[D]").tolist() == (
        np.arange("2000-01-01", "2000-01-09", dtype="M8[D]").tolist()
    )


@pytest.mark.parametrize("mode", ["auto", "virtual", "native"])
def test_what_is_there_is_widened_where_its_type_does_not_hold_the_new_times(
    repo: frazil.Repository, archive: Path, mode: str
) -> None:
    save(archive, "a", "days since 2000-01-01", range(4), "int16")
    ingest(archive, repo, mode=mode)
    save(archive, "b", "hours since 1900-01-01", range(876702, 876710, 2))

    ingest(archive, repo, mode=mode, checks=[samples_equal_source(share=1.0)])

    xr.testing.assert_equal(read(repo), expect(archive))
    assert read(repo)["time"].encoding["dtype"] == np.float64
    assert read(repo)["edges"].encoding["dtype"] == np.float64


def test_a_file_takes_its_place_by_its_times_and_not_by_its_numbers(
    repo: frazil.Repository, archive: Path
) -> None:
    save(archive, "a", "days since 2000-01-01", range(4))
    ingest(archive, repo)
    save(archive, "b", "days since 2000-01-05", range(4))

    report = ingest(archive, repo, on_overlap="replace")

    assert [each.region for each in report.files] == [(4, 8)]
    xr.testing.assert_equal(read(repo), expect(archive))


def test_a_region_is_not_filled_by_a_file_of_another_time(
    repo: frazil.Repository, archive: Path
) -> None:
    save(archive, "a", "days since 2000-01-01", range(4))
    ingest(archive, repo)
    save(archive, "b", "days since 2000-01-05", range(4))

    with pytest.raises(InvalidSourcesError, match="time"):
        ingest(
            archive,
            repo,
            region={"time": slice(0, 4)},
            source_options=frazil.spark.SourceOptions(skip=["edges"]),
        )


@pytest.mark.parametrize("mode", ["auto", "native"])
def test_a_region_is_not_filled_with_bounds_that_count_from_another_day(
    repo: frazil.Repository, archive: Path, mode: str
) -> None:
    save(archive, "a", "days since 2000-01-01", range(4))
    ingest(archive, repo)
    save(archive, "b", "days since 2000-01-03", [-2, -1, 0, 1])
    both = {"mode": mode, "region": {"time": slice(0, 4)}}

    with pytest.raises(InvalidSourcesError, match="edges"):
        ingest(archive, repo, **both)
    ingest(archive, repo, **both, source_options=frazil.spark.SourceOptions(skip=["edges"]))

    assert read(repo)["edges"].values.tolist() == (
        xr.load_dataset(archive / "a.nc")["edges"].values.tolist()
    )


def test_renamed_bounds_are_still_those_of_their_coordinate(
    repo: frazil.Repository, archive: Path
) -> None:
    for name, start in (("a", "2000-01-01"), ("b", "2001-01-01")):
        save(archive, name, f"days since {start}", range(4))

    ingest(
        archive,
        repo,
        append_dim="t",
        checks=[samples_equal_source(share=1.0)],
        source_options=frazil.spark.SourceOptions(rename={"edges": "limits", "time": "t"}),
    )

    found = read(repo)
    assert found["t"].encoding.get("bounds", found["t"].attrs.get("bounds")) == "limits"
    assert found["limits"].values.tolist() == expect(archive)["edges"].values.tolist()
