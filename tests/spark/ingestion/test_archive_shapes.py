"""Archives of many shapes, ingested by tasks on Spark: what is read equals what is in the files."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.spark import IngestReport, Job
from frazil.virtual import deaccumulate, from_path, to_units
from tests.archives.files import DAYS, create, make, make_tiff, read, save
from tests.archives.test_archives import save_forecast, save_tree


def ingest(
    repo: frazil.Repository, sources: str | Path, spark: SparkSession, **options: Any
) -> IngestReport:
    """Ingest with tasks of one file each."""
    job = Job(run_on="spark", files_per_task=1)
    report: IngestReport = frazil.spark.ingest(repo, sources, spark=spark, job=job, **options)
    assert report.ran_on == "spark"
    return report


def test_a_tree_of_groups_is_ingested_by_tasks(tmp_path: Path, spark: SparkSession) -> None:
    for at in (0, 2, 4):
        save_tree(tmp_path / "files" / f"{at}.nc", at, has_support=at != 2)
    repo = create(tmp_path / "repo")

    ingest(repo, tmp_path / "files", spark, append_dim="time", source_group="*")

    product, support = read(repo, group="PRODUCT"), read(repo, group="PRODUCT/SUPPORT/INPUT")
    assert (support["time"].values == DAYS[:6].values).all()
    for at in (0, 2, 4):
        steps = np.arange(800).reshape(2, 400)
        assert (product["no2"][at : at + 2].values == at + steps).all()
        heights = support["height"][at : at + 2]
        assert (heights == at - steps).all() if at != 2 else heights.isnull().all()


def test_values_are_converted_by_tasks(tmp_path: Path, spark: SparkSession) -> None:
    parts = [save_forecast(tmp_path / "files" / f"{at}.nc", at) for at in (0, 1)]
    repo = create(tmp_path / "repo")

    convert = {"tp": [deaccumulate("step"), lambda rain: rain * 2], "t2m": to_units("degC")}
    ingest(repo, tmp_path / "files", spark, append_dim="time", convert=convert)

    truth, found = xr.concat(parts, "time"), read(repo)
    rain = xr.concat([truth["tp"].isel(step=[0]), truth["tp"].diff("step")], "step") * 2
    np.testing.assert_allclose(found["tp"], rain, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(found["t2m"], truth["t2m"] - 273.15, atol=1e-4)


def test_members_with_other_codecs_and_images_in_tiles_are_ingested_by_tasks(
    tmp_path: Path, spark: SparkSession
) -> None:
    for member, at in ((1, 0), (1, 2), (2, 2)):
        path = tmp_path / "files" / f"member={member}" / f"{at}.nc"
        save(make("t", at, 2, member), path, {"shuffle": member == 1})
    image = np.arange(640, dtype="i4").reshape(32, 20)
    for row in (0, 1):
        place = (500_000.0, 4_000_000.0 - 160 * row)
        tile = make_tiff(image[16 * row : 16 * row + 16], corner=place, step=10, epsg=32633, rows=5)
        (tmp_path / f"{row}.tif").write_bytes(tile)
    repo, tiles = create(tmp_path / "repo"), create(tmp_path / "tiles")

    members = {"append_dim": ["member", "time"], "coords": {"member": from_path(r"member=(\d+)")}}
    ingest(repo, f"{tmp_path}/files/**/*.nc", spark, **members)
    ingest(tiles, f"{tmp_path}/*.tif", spark, append_dim=["y", "x"])

    found = read(repo)["t"]
    for member, at in ((1, 0), (1, 2), (2, 2)):
        part = found.sel(member=member, time=DAYS[at : at + 2])
        assert part.values.tolist() == make("t", at, 2, member)["t"].values.tolist()
    assert found.sel(member=2, time=DAYS[:2]).isnull().all()
    assert read(tiles)["0"].values.tolist() == image.tolist()
