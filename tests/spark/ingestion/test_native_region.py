"""Files that fill a part of what is there."""

from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidInputError, InvalidSourcesError
from frazil.spark.ingestion.ingest_options import RegionOption
from tests.spark.ingestion.archives import Ingest, expect, make_days, read, save_archive

pytestmark = pytest.mark.xdist_group("spark")


def save_part(folder: Path, name: str, start: int, **part: slice) -> xr.Dataset:
    """A part of some days, with other values, in the chunks that `t` has everywhere."""
    folder.mkdir(exist_ok=True)
    days = make_days(start, seed=5).drop_vars(["station", "quality"]).isel(**part)  # type: ignore[arg-type]
    chunks = tuple(map(min, (1, 12, 8), days.t.shape))
    encoding: dict[str, dict[str, Any]] = {"t": {"zlib": True, "chunksizes": chunks}, "p": {}}
    days.to_netcdf(folder / name, encoding=encoding, engine="netcdf4")
    return xr.decode_cf(days)


def fill(
    spark: SparkSession | None,
    repo: frazil.Repository,
    parts: Path,
    region: RegionOption,
    **more: Any,
) -> dict[str, str]:
    report = frazil.spark.ingest(
        repo, f"{parts}/*.nc", append_dim="time", region=region, spark=spark, **more
    )
    return {each.name: each.treatment for each in report.variables}


def with_part(whole: xr.Dataset, part: xr.Dataset) -> xr.Dataset:
    """The whole with other values where the part is."""
    changed = whole.copy(deep=True)
    where = {dim: part[dim] for dim in ("time", "y", "x")}
    for name in ("t", "p"):
        changed[name].loc[where] = part[name]
    return changed


def test_a_part_is_filled_virtually_along_chunks_and_natively_inside_of_them(
    spark: SparkSession, repo: frazil.Repository, archive: Path, ingest: Ingest, tmp_path: Path
) -> None:
    save_archive(archive, 3)
    ingest()
    part = save_part(tmp_path / "parts", "a.nc", 2, y=slice(12, 24))

    done = fill(
        spark, repo, tmp_path / "parts", {"y": slice(12, 24)}, job=frazil.spark.Job(run_on="spark")
    )

    assert done == {"t": "virtual", "p": "native"}
    expected = with_part(expect(archive), part)
    xr.testing.assert_identical(read(repo), expected)
    again = fill(spark, repo, tmp_path / "parts", {"y": slice(12, 24)})
    assert again == {}


def test_tiles_find_their_places_by_their_coordinates(
    repo: frazil.Repository, archive: Path, tmp_path: Path
) -> None:
    save_archive(archive, 3)
    frazil.ingest(
        repo, f"{archive}/*.nc", append_dim="time", mode="native", chunks={"time": 3, "x": 5}
    )
    expected = expect(archive)
    tiles = [
        (0, slice(0, 5), slice(0, 16)),
        (0, slice(5, 24), slice(3, 9)),
        (4, slice(7, 8), slice(0, 2)),
    ]
    for number, (start, y, x) in enumerate(tiles):
        part = save_part(tmp_path / "parts", f"{number}.nc", start, y=y, x=x)
        expected = with_part(expected, part)

    done = fill(None, repo, tmp_path / "parts", "auto")

    assert done == {"t": "native", "p": "native"}
    xr.testing.assert_identical(read(repo), expected)
    save_part(tmp_path / "parts", "1.nc", 0, y=slice(5, 24), x=slice(3, 9))
    fill(None, repo, tmp_path / "parts", "auto")
    xr.testing.assert_identical(read(repo), expected)


@pytest.mark.parametrize(
    ("region", "error", "message"),
    [
        ({"y": slice(0, 12)}, InvalidSourcesError, r"not those of the repository in \[0:12\]"),
        ({"y": slice(12, 22)}, InvalidSourcesError, "its length is 12, and the region"),
        ({"y": slice(12, 30)}, InvalidInputError, "no region of its 24 elements"),
        ({"z": slice(0, 1)}, InvalidInputError, "invalid region 'z'"),
        ({}, InvalidSourcesError, r"its length is 12, and the region \[0:24\]"),
        ("all", InvalidInputError, "neither 'auto'"),
    ],
)
def test_a_region_that_does_not_fit_is_refused(
    repo: frazil.Repository,
    archive: Path,
    tmp_path: Path,
    region: RegionOption,
    error: type[Exception],
    message: str,
) -> None:
    save_archive(archive, 1)
    frazil.ingest(repo, f"{archive}/*.nc", append_dim="time")
    save_part(tmp_path / "parts", "a.nc", 0, y=slice(12, 24))

    with pytest.raises(error, match=message):
        fill(None, repo, tmp_path / "parts", region)

    assert len(list(repo.ancestry(branch="main"))) == 2


def test_what_is_not_there_or_twice_can_not_be_filled(
    repo: frazil.Repository, archive: Path, tmp_path: Path
) -> None:
    parts = tmp_path / "parts"
    save_part(parts, "a.nc", 0, y=slice(12, 24))
    with pytest.raises(InvalidInputError, match="there are none"):
        fill(None, repo, parts, "auto")
    save_archive(archive, 1)
    frazil.ingest(
        repo,
        f"{archive}/*.nc",
        append_dim="time",
        source_options=frazil.spark.SourceOptions(skip=["p"]),
    )

    save_part(parts, "b.nc", 0, y=slice(20, 24))
    save_part(parts, "c.nc", 6, y=slice(12, 24))
    with pytest.raises(InvalidSourcesError) as caught:
        fill(None, repo, parts, "auto")
    assert "its values are not there" in str(caught.value)
    (parts / "c.nc").unlink()
    with pytest.raises(InvalidSourcesError) as caught:
        fill(None, repo, parts, "auto")

    assert "they fill the same" in str(caught.value)
    assert "it is not in the repository" in str(caught.value)


def test_samples_of_a_part_are_not_compared(repo: frazil.Repository, tmp_path: Path) -> None:
    save_part(tmp_path / "parts", "a.nc", 0, y=slice(12, 24))

    with pytest.raises(InvalidInputError, match="leave it out"):
        fill(
            None, repo, tmp_path / "parts", "auto",
            checks=[frazil.spark.checks.samples_equal_source()],
        )  # fmt: skip
