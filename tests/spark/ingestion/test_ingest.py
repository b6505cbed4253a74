"""Files become versions of a repository, on Spark."""

import shutil
from pathlib import Path
from typing import Any

import icechunk
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidInputError, InvalidSourcesError
from tests.spark.ingestion.archives import (
    Ingest,
    expect,
    make_days,
    read,
    save_archive,
    save_days,
)

pytestmark = pytest.mark.xdist_group("spark")


def count_versions(repo: frazil.Repository) -> int:
    return len(list(repo.ancestry(branch="main")))


def manifests_of(repo: frazil.Repository, path: str) -> list[str]:
    state = repo.readonly_session("main").state
    _, array = state.view.get_array(path)
    return [str(ref.id) for ref in array.manifests]


def test_an_archive_is_one_commit_and_equals_its_files(
    spark: SparkSession, repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 40)

    report = ingest()

    xr.testing.assert_identical(read(repo), expect(archive))
    newest, _ = repo.ancestry(branch="main")
    assert report.snapshot_id == newest.id
    metrics = newest.metadata["frazil_job"]
    assert metrics == report.metrics
    assert (metrics["files"], metrics["references"], metrics["retries"]) == (40, 400, 0)
    assert metrics["job_id"] == report.job_id
    assert metrics["application_id"] == spark.sparkContext.applicationId
    assert "t         80 × 24 × 16  virtual  320" in str(report)


def test_the_official_library_reads_what_was_ingested(
    archive: Path, ingest: Ingest, tmp_path: Path
) -> None:
    save_archive(archive, 3)
    ingest()

    access: dict[str, Any] = {archive.as_uri() + "/": icechunk.credentials.LocalFileSystemAccess}
    official = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "repo")),
        authorize_virtual_chunk_access=access,
    )
    store = official.readonly_session("main").store

    found: xr.Dataset = xr.open_zarr(store, consolidated=False)
    xr.testing.assert_identical(found.load(), expect(archive))
    ledger: xr.Dataset = xr.open_zarr(store, group="_frazil/ledger", consolidated=False)
    assert ledger.stop.values.tolist() == [2, 4, 6]


def test_what_is_ingested_already_is_left_alone_and_more_is_appended(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 3)
    ingest()

    again = ingest()
    assert again.snapshot_id is None
    assert (len(again.known), len(again.files)) == (3, 0)
    assert count_versions(repo) == 2

    save_archive(archive, 2, first=3)
    more = ingest(message="two more")
    assert [each.region for each in more.files] == [(6, 8), (8, 10)]
    assert len(more.known) == 3
    xr.testing.assert_identical(read(repo), expect(archive))
    assert next(iter(repo.ancestry(branch="main"))).message == "two more"


def test_an_append_rewrites_only_the_last_manifest(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    rule: dict[Any, int] = {frazil.ManifestSplitDimCondition.DimensionName("time"): 4}
    splitting = {frazil.ManifestSplitCondition.name_matches("^t$"): rule}
    repo.config.manifest = frazil.ManifestConfig(
        splitting=frazil.ManifestSplittingConfig.from_dict(splitting)
    )
    repo.save_config()
    save_archive(archive, 3)
    ingest()
    before = manifests_of(repo, "/t")

    save_archive(archive, 2, first=3)
    ingest()

    after = manifests_of(repo, "/t")
    assert (len(before), len(after)) == (2, 3)
    assert before[0] == after[0]
    assert before[1] not in after
    xr.testing.assert_identical(read(repo), expect(archive))


def test_a_changed_file_comes_to_its_old_region(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 4)
    ingest()
    save_days(archive, 2, seed=1)
    save_archive(archive, 1, first=4)

    report = ingest()

    assert {(each.region, each.is_changed) for each in report.files} == {
        ((2, 4), True),
        ((8, 10), False),
    }
    xr.testing.assert_identical(read(repo), expect(archive))
    ledger = read(repo, "_frazil/ledger")
    assert ledger.source.values.tolist() == [each.as_uri() for each in sorted(archive.glob("*"))]
    assert ingest().snapshot_id is None


def test_a_changed_file_that_is_all_there_is_comes_to_its_old_region(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_days(archive, 0)
    ingest(append_dim=None)
    save_days(archive, 0, seed=1)

    ingest(append_dim=None)

    xr.testing.assert_identical(read(repo), expect(archive))


def test_a_changed_file_may_grow_and_not_shrink(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 2)
    changed = save_days(archive, 4, 4)
    ingest()
    save_days(archive, 4, 2)

    with pytest.raises(InvalidSourcesError, match="it brought 2000-01-05 to 2000-01-08") as caught:
        ingest()

    assert caught.value.files == (changed.as_uri(),)
    assert count_versions(repo) == 2
    save_days(archive, 4, 6)
    ingest()
    xr.testing.assert_identical(read(repo), expect(archive))


def test_an_overlap_is_refused_with_files_and_values(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 3)
    ingest()
    overlapping = save_days(archive, 5)

    with pytest.raises(InvalidSourcesError, match=r"holds data of .*0004.nc") as caught:
        ingest()

    assert caught.value.files == (overlapping.as_uri(),)
    assert count_versions(repo) == 2


def test_a_file_may_take_the_place_of_what_is_there(
    spark: SparkSession, repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 3)
    ingest()
    better = save_days(archive.parent / "better", 2, seed=1)

    report = frazil.spark.ingest(
        repo,
        better,
        append_dim="time",
        on_overlap="replace",
        job=frazil.spark.Job(run_on="spark"),
        spark=spark,
    )

    assert [(each.region, each.is_changed) for each in report.files] == [((2, 4), True)]
    shutil.copy2(better, archive / better.name)
    xr.testing.assert_identical(read(repo), expect(archive))
    assert count_versions(repo) == 3


def test_all_that_must_be_reencoded_is_reported_at_once(archive: Path, ingest: Ingest) -> None:
    save_archive(archive, 2)
    odd = archive / "0004.nc"
    make_days(4).to_netcdf(odd, encoding={"t": {"chunksizes": (2, 24, 16)}, "p": {"dtype": "i8"}})

    with pytest.raises(InvalidSourcesError) as caught:
        ingest(mode="virtual")

    assert "chunk shape is [2, 24, 16]" in str(caught.value)
    assert "data type is int64" in str(caught.value)
    assert caught.value.files == (odd.as_uri(),)
    assert (
        ingest(
            mode="virtual",
            source_options=frazil.spark.SourceOptions(skip=["t", "p"], load=["station"]),
        ).snapshot_id
        is not None
    )


def test_a_damaged_file_fails_the_job_or_is_skipped(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 3)
    damaged = archive / "0004.nc"
    damaged.write_bytes(damaged.read_bytes()[:3000])

    with pytest.raises(InvalidSourcesError) as caught:
        ingest()
    assert caught.value.files == (damaged.as_uri(),)
    assert count_versions(repo) == 1

    report = ingest(source_options=frazil.spark.SourceOptions(on_bad_file="skip"))
    assert [each.location for each in report.bad] == [damaged.as_uri()]
    assert "0004.nc" in str(report)
    save_days(archive, 4)
    ingest()
    xr.testing.assert_identical(read(repo), expect(archive))


def test_a_dry_run_reports_what_would_be_and_leaves_everything(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 2)

    report = ingest(dry_run=True)

    assert report.snapshot_id is None
    assert [each.region for each in report.files] == [(0, 2), (2, 4)]
    assert count_versions(repo) == 1
    saved = frazil.Repository.fetch_config(repo.storage)
    assert not (saved and saved.virtual_chunk_containers)


def test_a_frame_of_names_goes_to_a_group_under_other_names(
    spark: SparkSession, repo: frazil.Repository, archive: Path, tmp_path: Path
) -> None:
    paths = save_archive(archive, 2)
    frame = spark.createDataFrame([(1, str(path)) for path in paths], "number int, uri string")

    frazil.spark.ingest(
        tmp_path / "repo",
        frame,
        group="/era/daily",
        append_dim="day",
        source_options=frazil.spark.SourceOptions(rename={"time": "day", "t": "temperature"}),
        job=frazil.spark.Job(run_on="spark"),
        spark=spark,
    )

    expected = expect(archive).rename({"time": "day", "t": "temperature"})
    xr.testing.assert_identical(read(repo, "era/daily"), expected)


def test_files_that_a_stream_announces_are_ingested_once(
    spark: SparkSession, repo: frazil.Repository, archive: Path, tmp_path: Path
) -> None:
    def run(checkpoint: str) -> int:
        given = {"append_dim": "time", "on_bad_file": "skip"}
        stream = spark.readStream.option("maxFilesPerTrigger", 1).text(str(tmp_path / "queue"))
        query = (
            stream.writeStream.foreachBatch(frazil.spark.ingest_batches(repo, **given))
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return len(list(repo.ancestry(branch="main")))

    paths = save_archive(archive, 4)
    (tmp_path / "queue").mkdir()
    for number, names in enumerate([paths[:2], [], [paths[1], archive / "gone.nc", *paths[2:]]]):
        (tmp_path / "queue" / f"{number}.txt").write_text("\n".join(map(str, names)))

    assert run("first") == 3
    xr.testing.assert_equal(read(repo), expect(archive))
    assert run("second") == 3
    with pytest.raises(InvalidInputError, match="ingest_batches has no option 'append_dims'"):
        frazil.spark.ingest_batches(repo, append_dims="time")
