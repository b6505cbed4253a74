"""Nothing is published that checks don't let pass."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import FailedChecksError, InvalidInputError
from frazil.spark import checks
from tests.spark.ingestion.archives import (
    ENCODING,
    Ingest,
    expect,
    make_days,
    read,
    save_archive,
    save_days,
)
from tests.spark.ingestion.test_ingest_faults import Meanwhile, messages

pytestmark = pytest.mark.xdist_group("spark")

ALL = (
    checks.monotonic(),
    checks.monotonic("y"),
    checks.complete(step="1D"),
    checks.unique(),
    checks.same_metadata(),
    checks.samples_equal_source(share=0.2),
    checks.fill_share(at_most=0.1),
    checks.values_between(0, 400, ["t"]),
)
MOSTLY_THERE = checks.fill_share(at_most=0.5, variables=["t"])


@pytest.fixture
def ingest_here(repo: frazil.Repository, archive: Path) -> Ingest:
    """Ingest the archive in this process."""

    def run(**options: object) -> frazil.spark.IngestReport:
        given = {"append_dim": "time", **options}
        return frazil.ingest(repo, f"{archive}/*.nc", **given)  # type: ignore[arg-type]

    return run


def save_without_values(folder: Path, start: int) -> str:
    """A file whose temperatures are all missing; gives its location."""
    path = folder / f"{start:04}.nc"
    days = make_days(start)
    days["t"] = days["t"] * np.float32(np.nan)
    days.to_netcdf(path, engine="netcdf4", encoding=ENCODING)
    return path.as_uri()


def damage_a_chunk(path: Path) -> None:
    """Let the bytes of a chunk be others."""
    with h5py.File(path) as file:
        chunk = file["t"].id.get_chunk_info(3)
    data = bytearray(path.read_bytes())
    data[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(data)


def objects_of(repo: frazil.Repository) -> set[str]:
    return {each.key for each in repo.storage.list() if not each.key.startswith("overwritten/")}


def test_what_passes_all_checks_is_committed_and_says_by_which(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 3)
    ingest(checks=ALL)
    save_archive(archive, 2, first=3)

    report = ingest(checks=ALL)

    xr.testing.assert_identical(read(repo), expect(archive))
    assert messages(repo) == ["ingest 2 files", "ingest 3 files"]
    assert report.metrics["checks"] == [each.name for each in ALL]
    assert report.quarantined == ()


def test_a_failed_check_leaves_the_branch_and_what_was_written_is_garbage(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 3)
    empty = save_without_values(archive, 2)
    before = objects_of(repo)

    with pytest.raises(FailedChecksError) as failed:
        ingest(checks=[MOSTLY_THERE])

    assert failed.value.files == (empty,)
    text = "100.0% of its values are missing, more than 50.0%"
    assert failed.value.findings == [checks.Finding(text, "fill_share", "t", (empty,), (2, 4))]
    assert f"fill_share  t         [2:4]   {empty}  {text}" in str(failed.value)
    assert messages(repo) == []
    saved = frazil.Repository.fetch_config(repo.storage)
    assert not (saved and saved.virtual_chunk_containers)
    assert objects_of(repo) > before
    repo.garbage_collect(datetime.now(UTC) + timedelta(seconds=1))
    assert objects_of(repo) == before


def test_files_in_quarantine_are_left_out_and_tried_again(
    repo: frazil.Repository, archive: Path, ingest: Ingest, ingest_here: Ingest
) -> None:
    save_archive(archive, 3)
    empty = save_without_values(archive, 6)

    report = ingest(
        checks=[MOSTLY_THERE],
        source_options=frazil.spark.SourceOptions(on_failed_check="quarantine"),
    )

    (quarantined,) = report.quarantined
    assert quarantined.source == empty
    assert [each.check for each in quarantined.findings] == ["fill_share"]
    assert "3 new, 1 quarantined" in str(report)
    assert "100.0% of its values are missing" in str(report)
    assert report.metrics["quarantined"] == 1
    assert messages(repo) == ["ingest 3 files"]
    assert empty not in read(repo, "_frazil/ledger").source.values
    again = ingest_here(
        checks=[MOSTLY_THERE],
        source_options=frazil.spark.SourceOptions(on_failed_check="quarantine"),
    )
    assert (again.snapshot_id, [each.source for each in again.quarantined]) == (None, [empty])

    save_days(archive, 6)
    assert (
        len(
            ingest_here(
                checks=[MOSTLY_THERE],
                source_options=frazil.spark.SourceOptions(on_failed_check="quarantine"),
            ).files
        )
        == 1
    )
    xr.testing.assert_identical(read(repo), expect(archive))


def test_own_functions_run_on_workers_for_each_file(archive: Path, ingest: Ingest) -> None:
    save_archive(archive, 3)
    driver = os.getpid()

    def is_warm(dataset: xr.Dataset, region: checks.FileRegion) -> str | None:
        assert os.getpid() != driver, "it runs in the driver"
        mean = float(dataset.t.mean())
        return None if mean < 200 else f"{dataset.sizes['time']} days from {region.start}"

    with pytest.raises(FailedChecksError) as failed:
        ingest(checks=[is_warm])

    found = failed.value.findings
    assert [(e.check, e.message, e.region) for e in found if isinstance(e, checks.Finding)] == [
        ("is_warm", "2 days from 0", (0, 2)),
        ("is_warm", "2 days from 2", (2, 4)),
        ("is_warm", "2 days from 4", (4, 6)),
    ]


def test_after_a_conflict_the_new_plan_is_checked(
    spark: SparkSession, repo: frazil.Repository, archive: Path, ingest: Ingest, tmp_path: Path
) -> None:
    paths = save_archive(archive, 3)
    seen = tmp_path / "seen"
    seen.mkdir()

    def note(dataset: xr.Dataset, region: checks.FileRegion) -> None:
        (seen / f"{dataset.sizes['time']} of {region.file[-7:-3]} at {region.start}").touch()

    def ingest_the_second() -> None:
        frazil.spark.ingest(repo, paths[1], append_dim="time", message="theirs", spark=spark)

    paths[0].unlink()
    save_days(archive, 6)

    report = ingest(checks=[note], job=Meanwhile("checking", ingest_the_second), message="ours")

    assert messages(repo) == ["ours", "theirs"]
    assert (len(report.files), len(report.known)) == (2, 1)
    assert {each.name for each in seen.iterdir()} == {
        "2 of 0002 at 0", "2 of 0004 at 2", "2 of 0006 at 4",
    }  # fmt: skip


def test_what_is_behind_a_gap_waits_for_what_is_missing(
    repo: frazil.Repository, archive: Path, ingest_here: Ingest
) -> None:
    first, second, third, fourth = save_archive(archive, 4)
    second.rename(second.with_suffix(".later"))

    report = ingest_here(
        checks=[checks.complete()],
        source_options=frazil.spark.SourceOptions(on_failed_check="quarantine"),
    )
    assert [each.source for each in report.files] == [first.as_uri()]
    assert [each.source for each in report.quarantined] == [third.as_uri(), fourth.as_uri()]

    second.with_suffix(".later").rename(second)
    report = ingest_here(
        checks=[checks.complete()],
        source_options=frazil.spark.SourceOptions(on_failed_check="quarantine"),
    )
    assert (len(report.files), report.quarantined) == (3, ())
    xr.testing.assert_identical(read(repo), expect(archive))


def test_a_quarantined_file_stops_nobody_and_is_inserted_once_it_is_mended(
    repo: frazil.Repository, archive: Path, ingest_here: Ingest
) -> None:
    save_archive(archive, 3)
    empty = save_without_values(archive, 2)
    ingest_here(
        checks=[MOSTLY_THERE],
        source_options=frazil.spark.SourceOptions(on_failed_check="quarantine"),
    )
    added = save_days(archive, 6)

    report = ingest_here(
        checks=[MOSTLY_THERE],
        source_options=frazil.spark.SourceOptions(on_failed_check="quarantine"),
    )

    assert [each.source for each in report.files] == [added.as_uri()]
    assert [each.source for each in report.quarantined] == [empty]

    save_days(archive, 2)
    report = ingest_here(
        checks=[MOSTLY_THERE],
        source_options=frazil.spark.SourceOptions(on_failed_check="quarantine"),
    )
    assert [each.source for each in report.files] == [empty]
    xr.testing.assert_identical(read(repo), expect(archive))


def test_a_finding_that_names_no_file_fails_also_in_quarantine(
    repo: frazil.Repository, archive: Path, ingest_here: Ingest
) -> None:
    save_archive(archive, 2)

    with pytest.raises(FailedChecksError, match="it raised ValueError: there is no coordinate 'z'"):
        ingest_here(
            checks=[checks.unique("z")],
            source_options=frazil.spark.SourceOptions(on_failed_check="quarantine"),
        )

    assert messages(repo) == []


def test_a_chunk_that_can_not_be_decoded_is_found(archive: Path, ingest_here: Ingest) -> None:
    paths = save_archive(archive, 3)
    damage_a_chunk(paths[1])

    report = ingest_here(
        checks=[checks.samples_equal_source(share=1.0)],
        source_options=frazil.spark.SourceOptions(on_failed_check="quarantine"),
    )

    assert [each.source for each in report.quarantined] == [paths[1].as_uri()]
    assert "it raised" in report.quarantined[0].findings[0].message


def test_samples_are_compared_with_any_kind_of_source(
    repo: frazil.Repository, tmp_path: Path
) -> None:
    days = make_days(0)
    days.to_zarr(tmp_path / "days.zarr", zarr_format=3, consolidated=False)
    same = checks.samples_equal_source(share=1.0)

    report = frazil.ingest(
        repo,
        tmp_path / "days.zarr",
        append_dim="time",
        checks=[same],
        source_options=frazil.spark.SourceOptions(rename={"t": "temperature"}),
    )

    assert report.snapshot_id is not None
    np.testing.assert_array_equal(read(repo).temperature, days.t)


def test_values_that_were_written_anew_are_checked_as_well(
    repo: frazil.Repository, archive: Path, ingest_here: Ingest
) -> None:
    save_archive(archive, 3)

    report = ingest_here(mode="native", chunks={"time": 3, "y": 10}, checks=ALL)

    assert report.quarantined == ()
    np.testing.assert_array_equal(read(repo).t, expect(archive).t)


def test_metadata_that_differs_is_found_with_its_file(archive: Path, ingest_here: Ingest) -> None:
    save_archive(archive, 2)
    ingest_here()
    days = make_days(4)
    days["t"].attrs["standard_name"] = "air_temperature"
    path = archive / "0004.nc"
    days.to_netcdf(path, engine="netcdf4", encoding=ENCODING)

    with pytest.raises(FailedChecksError) as failed:
        ingest_here(checks=[checks.same_metadata()])

    assert failed.value.files == (path.as_uri(),)
    assert 'standard_name is "air_temperature" in the file, null in the repo' in str(failed.value)


@pytest.mark.parametrize("wrong", [{"checks": ["monotonic"]}, {"on_failed_check": "warn"}])
def test_what_is_no_check_is_refused(wrong: dict[str, object], ingest_here: Ingest) -> None:
    with pytest.raises(InvalidInputError):
        ingest_here(**wrong)
