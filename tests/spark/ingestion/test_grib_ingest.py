"""GRIB files, ingested along a dimension, as references and as native chunks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidSourcesError
from tests.spark.ingestion.archives import read
from tests.virtual.grib_files import decode, make_message, save

pytestmark = pytest.mark.xdist_group("spark")

LEVELS = (850, 500)


def save_archive(folder: Path, sample: str = "regular_ll_pl_grib2") -> Any:
    """Write three days; return their values."""
    values = []
    for day in range(3):
        place = {"sample": sample, "shortName": "t", "dataDate": 20260101 + day}
        messages = [make_message(**place, level=each, seed=10 * day + each) for each in LEVELS]
        save(folder / f"{day}.grib", *messages)
        values.append([decode(each) for each in messages])
    return np.array(values)


def ingest(
    folder: Path, repo: frazil.Repository, spark: SparkSession | None = None, **options: Any
) -> frazil.spark.IngestReport:
    given = {"append_dim": "time", "spark": spark, **options}
    return frazil.spark.ingest(repo, f"{folder}/*.grib", **given)


@pytest.mark.parametrize("mode", ["auto", "virtual", "native"])
def test_grib_files_are_appended_along_time(
    repo: frazil.Repository, archive: Path, mode: str
) -> None:
    values = save_archive(archive)
    last = archive / "2.grib"
    data = last.read_bytes()
    last.unlink()
    ingest(archive, repo, mode=mode)
    last.write_bytes(data)

    report = ingest(archive, repo, mode=mode)

    found = read(repo)["t"]
    assert found.dims == ("time", "step", "isobaricInhPa", "latitude", "longitude")
    np.testing.assert_array_equal(found.values.reshape(values.shape), values)
    assert ingest(archive, repo, mode=mode).snapshot_id in (None, report.snapshot_id)


@pytest.mark.parametrize("mode", ["virtual", "native"])
def test_forecasts_are_placed_by_init_time_and_lead_time(
    repo: frazil.Repository, archive: Path, mode: str
) -> None:
    messages = {
        (day, step): make_message(dataDate=20260101 + day, step=step, seed=10 * day + step)
        for day, step in [(0, 0), (0, 6), (1, 6)]
    }
    for (day, step), message in messages.items():
        save(archive / f"{day}-{step}.grib", message)

    ingest(archive, repo, mode=mode, append_dim=["init_time", "lead_time"])

    found = read(repo)["t"]
    assert found.dims[:2] == ("init_time", "lead_time")
    for (day, step), message in messages.items():
        values = found.isel(init_time=day, lead_time=step // 6).values
        np.testing.assert_array_equal(values.ravel(), decode(message))
    assert found.isel(init_time=1, lead_time=0).isnull().all()


def test_indexes_in_a_folder_are_no_sources(repo: frazil.Repository, archive: Path) -> None:
    values = save_archive(archive)
    for name in ("0.grib.idx", "1.grib.5b7b6.idx", "2.index"):
        (archive / name).write_text("no index that fits")

    report = frazil.spark.ingest(repo, str(archive), append_dim="time")

    assert not report.bad
    np.testing.assert_array_equal(read(repo)["t"].values.reshape(values.shape), values)


def test_tasks_decode_what_the_codec_does_not_read(
    spark: SparkSession, repo: frazil.Repository, archive: Path
) -> None:
    values = save_archive(archive, sample="regular_ll_pl_grib1")

    with pytest.raises(InvalidSourcesError, match="it is GRIB1"):
        ingest(archive, repo, mode="virtual")
    ingest(archive, repo, spark, job=frazil.spark.Job(run_on="spark"))

    np.testing.assert_array_equal(read(repo)["t"].values.reshape(values.shape), values)


def test_a_damaged_file_is_left_out(repo: frazil.Repository, archive: Path) -> None:
    values = save_archive(archive)
    path = archive / "1.grib"
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(InvalidSourcesError, match="it is truncated"):
        ingest(archive, repo)
    report = ingest(archive, repo, source_options=frazil.spark.SourceOptions(on_bad_file="skip"))

    assert [each.location for each in report.bad] == [path.as_uri()]
    np.testing.assert_array_equal(
        read(repo)["t"].values.reshape(2, *values.shape[1:]), values[[0, 2]]
    )
