"""A few files are ingested without tasks, by the same plan."""

from pathlib import Path

import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidInputError, InvalidSourcesError
from tests.spark.ingestion.archives import Ingest, expect, read, save_archive, save_days

pytestmark = pytest.mark.xdist_group("spark")


def ingest_here(
    archive: Path, repo: frazil.Repository, **options: object
) -> frazil.spark.IngestReport:
    given = {"append_dim": "time", **options}
    return frazil.ingest(repo, f"{archive}/*.nc", **given)  # type: ignore[arg-type]


def test_a_few_files_need_no_session_and_the_report_says_so(
    repo: frazil.Repository, archive: Path
) -> None:
    save_archive(archive, 3)

    report = ingest_here(archive, repo)

    xr.testing.assert_identical(read(repo), expect(archive))
    newest, _ = repo.ancestry(branch="main")
    assert report.snapshot_id == newest.id
    assert newest.metadata["frazil_job"] == report.metrics
    assert (report.metrics["ran_on"], report.metrics["application_id"]) == ("driver", None)
    assert (report.metrics["files"], report.metrics["references"]) == (3, 30)
    assert "ran on    driver" in str(report)


def test_it_grows_and_takes_changed_files_as_on_spark(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 3)
    ingest()
    save_archive(archive, 2, first=3)
    save_days(archive, 2, seed=1)

    report = ingest_here(archive, repo)

    assert [each.region for each in report.files if each.is_changed] == [(2, 4)]
    xr.testing.assert_identical(read(repo), expect(archive))
    assert ingest().snapshot_id is None


def test_spark_is_for_more_files_than_a_task_opens(
    spark: SparkSession, repo: frazil.Repository, archive: Path
) -> None:
    save_archive(archive, 3)

    def ran_on(group: str, **options: object) -> str | None:
        given = {"append_dim": "time", "group": group, **options}
        return frazil.spark.ingest(repo, archive, spark=spark, **given).ran_on  # type: ignore[arg-type]

    assert ran_on("a") == "driver"
    assert ran_on("b", job=frazil.spark.Job(files_per_task=2)) == "spark"
    assert ran_on("c", job=frazil.spark.Job(files_per_task=2, run_on="driver")) == "driver"
    expected = read(repo, "a")
    xr.testing.assert_identical(read(repo, "b"), expected)
    xr.testing.assert_identical(read(repo, "c"), expected)


def test_a_repository_in_memory_can_be_ingested_into(spark: SparkSession, archive: Path) -> None:
    save_archive(archive, 3)
    repo = frazil.Repository.create(frazil.in_memory_storage())

    frazil.spark.ingest(
        repo, archive, append_dim="time", job=frazil.spark.Job(files_per_task=1), spark=spark
    )

    xr.testing.assert_identical(read(repo), expect(archive))
    with pytest.raises(InvalidInputError, match="memory"):
        frazil.spark.ingest(
            repo,
            archive,
            group="b",
            append_dim="time",
            job=frazil.spark.Job(run_on="spark"),
            spark=spark,
        )


def test_what_is_wrong_is_reported_as_on_spark(repo: frazil.Repository, archive: Path) -> None:
    save_archive(archive, 2)
    (archive / "bad.nc").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))

    with pytest.raises(InvalidSourcesError, match=r"bad\.nc"):
        ingest_here(archive, repo)
    report = ingest_here(
        archive, repo, source_options=frazil.spark.SourceOptions(on_bad_file="skip")
    )

    assert [each.location for each in report.bad] == [(archive / "bad.nc").as_uri()]
    assert len(report.files) == 2
