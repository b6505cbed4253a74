"""A few files are ingested without tasks, by the same plan."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidInputError, InvalidSourcesError
from frazil.format.ids import ManifestId
from frazil.storage.wrappers import NO_FAULT, ForwardingStorage, Injection, Request
from tests.repositories import split_every
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


class OthersCommit(ForwardingStorage):
    """Somebody else commits whenever an ingest is about to move the branch, some times."""

    def __init__(self, inner: frazil.Storage, times: int, commit: Callable[[], object]) -> None:
        super().__init__(inner)
        self._times = times
        self._commit = commit
        self.manifests: list[str] = []
        """Names of the manifests that the ingest has written."""

    def _begin(self, request: Request) -> Injection:
        if request.verb.is_write:
            parts = [each.partition("/") for each in request.keys]
            self.manifests += [name for folder, _, name in parts if folder == "manifests"]
            if request.keys[0] == "repo" and self._times:
                self._times -= 1
                self._commit()
        return NO_FAULT


@pytest.mark.parametrize("is_laid_out", [True, False])
def test_an_ingest_beside_an_appender_to_the_same_arrays_writes_its_manifests_once(
    tmp_path: Path, archive: Path, is_laid_out: bool
) -> None:
    storage = frazil.local_filesystem_storage(str(tmp_path / "repo"))
    frazil.Repository.create(storage, split_every(4)).save_config()
    paths, last = save_archive(archive, 20), 1000
    # With `expected` the ingest fills steps that are there; without, both make the arrays larger.
    expected = {"time": np.datetime64("2000-01-01") + np.arange(40)} if is_laid_out else {}
    frazil.ingest(frazil.Repository.open(storage), paths[0], append_dim="time", expected=expected)

    def append() -> None:
        nonlocal last
        session = frazil.Repository.open(storage).writable_session("main")
        last += 1
        for name in ("time", "t", "p", "quality"):
            array = zarr.open_array(session.store, path=name)
            array.resize((array.shape[0] + 1, *array.shape[1:]))
            array[-1] = last
        session.commit("theirs")

    meanwhile = OthersCommit(storage, 6, append)
    report = ingest_here(archive, frazil.Repository.open(meanwhile))

    assert len(report.files) == 19
    repository = frazil.Repository.open(storage)
    node = repository.readonly_session("main").state.view.get_node("/t")
    assert node.array is not None
    read_manifest = repository.protocol.assets.read_manifest
    written = [read_manifest(ManifestId.parse(each)).arrays.keys() for each in meanwhile.manifests]
    # The steps of others move behind those of the ingest: from a region, to one or two others.
    assert sum(node.id in each for each in written) <= (10 if is_laid_out else 10 + 6 * 3)
    found = read(repository)
    xr.testing.assert_identical(found.isel(time=slice(40)), expect(archive))
    assert found.t.values[40:, 0, 0].tolist() == list(range(1001, 1007))
