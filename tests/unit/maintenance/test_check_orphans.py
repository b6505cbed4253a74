"""Objects that nothing refers to, and what killed writers leave."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zarr

from frazil.format.header import Dialect
from frazil.maintenance.findings import Orphans, Repair, Severity
from frazil.storage.local import LocalStorage
from tests.damages import ALL_DIALECTS, create_sample, what_matters


@pytest.mark.parametrize("dialect", ALL_DIALECTS)
def test_an_orphan_chunk_is_counted(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    repository.protocol.assets.write_chunk(b"nobody's")

    report = repository.check()

    assert what_matters(report) == []
    assert report.orphans == (Orphans("chunks", 1, 8),)
    assert [(each.severity, each.repair) for each in report.problems] == [
        (Severity.NOTE, Repair.COLLECT_GARBAGE)
    ]


@pytest.mark.parametrize("dialect", [Dialect.DRAFT, Dialect.ALPHA_D, Dialect.V1])
def test_a_flushed_snapshot_that_no_ref_leads_to_is_an_orphan(dialect: Dialect) -> None:
    repository = create_sample(dialect)
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="small")[:] = 1
    session.flush("for nobody")

    report = repository.check()

    assert what_matters(report) == []
    kinds = {each.kind: each.count for each in report.orphans}
    assert (kinds["snapshots"], kinds["manifests"]) == (1, 1)


def test_a_detached_snapshot_of_v2_is_no_orphan() -> None:
    repository = create_sample()
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="small")[:] = 1
    session.flush("for later")

    report = repository.check()

    assert report.problems == ()
    assert report.counts.snapshots == 5


def test_objects_of_other_names_are_counted() -> None:
    repository = create_sample()
    repository.storage.put("chunks/README", b"hello")

    assert repository.check().orphans == (Orphans("objects of other names", 1, 5),)


def test_a_backup_that_no_update_names_is_counted() -> None:
    repository = create_sample()
    repository.storage.put("overwritten/repo.30729294865234.S0CHS5WSF158RN937BP0", b"lost race")

    assert repository.check().orphans == (Orphans("backups", 1, 9),)


def test_garbage_collection_leaves_no_orphans() -> None:
    repository = create_sample()
    repository.protocol.assets.write_chunk(b"nobody's")
    repository.garbage_collect(datetime.now(UTC) + timedelta(hours=1))

    assert repository.check().problems == ()


def _leave_behind(folder: Path, age: timedelta) -> str:
    name = "chunks/000G40R40M30E209185G#5764607523034234881"
    (folder / name).write_bytes(b"half")
    time = (datetime.now(UTC) - age).timestamp()
    os.utime(folder / name, (time, time))
    return name


def test_what_a_killed_writer_left_is_found(tmp_path: Path) -> None:
    repository = create_sample(storage=LocalStorage(tmp_path))
    name = _leave_behind(tmp_path, timedelta(days=1))

    (problem,) = repository.check().problems

    assert (problem.object, problem.repair) == (name, Repair.REMOVE_TEMPORARY_FILE)
    assert problem.severity is Severity.WARNING


def test_a_file_that_is_just_being_written_is_only_noted(tmp_path: Path) -> None:
    repository = create_sample(storage=LocalStorage(tmp_path))
    _leave_behind(tmp_path, timedelta(minutes=1))

    (problem,) = repository.check().problems

    assert (problem.severity, problem.repair) == (Severity.NOTE, None)
