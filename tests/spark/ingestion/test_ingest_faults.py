"""Ingests that are disturbed: the branch has the commits that it should, and nothing else."""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import xarray as xr
import zarr
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import InvalidSourcesError, JobCancelledError
from frazil.spark import Job
from frazil.spark.ingestion import ingest_tasks
from frazil.spark.ingestion.discovery import SourceFile, discover, list_files
from frazil.spark.ingestion.ingest_tasks import _digest_of, find_kept, keep_files, name_folder
from frazil.spark.ingestion.source_data import Reading, group_files
from frazil.storage import Storage
from frazil.storage.wrappers import NO_FAULT, ForwardingStorage, Injection, Request
from frazil.virtual import FileVersion
from tests.spark.ingestion.archives import Ingest, expect, read, save_archive

pytestmark = pytest.mark.xdist_group("spark")

OPENING, WRITING = "opening files", "writing references"


class Meanwhile(Job):
    """A job at whose step something else happens, once."""

    def __init__(self, step: str, happen: Callable[[], object]) -> None:
        super().__init__()
        self._step = step
        self._happen: Callable[[], object] | None = happen
        self.finished = 0
        """How often the step was finished."""

    def show(self, what: str, done: int, total: int) -> None:
        """Let it happen."""
        if what == self._step and self._happen is not None:
            happen, self._happen = self._happen, None
            happen()
        self.finished += what == self._step and done == total
        super().show(what, done, total)


class KillsWorker(ForwardingStorage):
    """Kills the first worker that writes a manifest, once."""

    def __init__(self, inner: Storage, marker: Path) -> None:
        super().__init__(inner)
        self._marker = marker
        self._driver = os.getpid()

    def _begin(self, request: Request) -> Injection:
        is_manifest = request.verb.is_write and request.keys[0].startswith("manifests/")
        if is_manifest and os.getpid() != self._driver and not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return NO_FAULT


def messages(repo: frazil.Repository) -> list[str]:
    return [each.message for each in repo.ancestry(branch="main")][:-1]


def test_a_worker_that_is_killed_changes_nothing(
    spark: SparkSession, repo: frazil.Repository, archive: Path, tmp_path: Path
) -> None:
    save_archive(archive, 3)
    marker = tmp_path / "killed"
    deadly = frazil.Repository.open(KillsWorker(repo.storage, marker))

    report = frazil.spark.ingest(
        deadly, archive, append_dim="time", job=frazil.spark.Job(run_on="spark"), spark=spark
    )

    assert marker.exists()
    assert report.metrics["retries"] == 1
    assert messages(repo) == ["ingest 3 files"]
    xr.testing.assert_identical(read(repo), expect(archive))


@pytest.mark.parametrize("step", [OPENING, WRITING])
def test_a_cancelled_ingest_leaves_no_commit(
    repo: frazil.Repository, archive: Path, ingest: Ingest, step: str
) -> None:
    save_archive(archive, 3)
    job = Meanwhile(step, lambda: job.cancel())

    with pytest.raises(JobCancelledError):
        ingest(job=job)

    assert messages(repo) == []
    ingest()
    xr.testing.assert_identical(read(repo), expect(archive))


def test_others_may_commit_elsewhere_meanwhile(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 3)
    ingest(message="first")
    save_archive(archive, 2, first=3)

    def commit() -> None:
        session = repo.writable_session("main")
        zarr.create_group(session.store, path="elsewhere")
        session.commit("theirs")

    report = ingest(job=Meanwhile(WRITING, commit), message="ours")

    assert messages(repo) == ["ours", "theirs", "first"]
    assert report.metrics["tasks"] < 10
    xr.testing.assert_identical(read(repo), expect(archive))


def test_an_ingest_into_another_place_costs_no_manifests(
    repo: frazil.Repository, archive: Path, ingest: Ingest, tmp_path: Path
) -> None:
    save_archive(archive, 3)
    ingest(message="first")
    save_archive(archive, 2, first=3)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    save_archive(elsewhere, 1)

    def ingest_elsewhere() -> None:  # whose rows of the ledger are where ours would be
        frazil.ingest(repo, elsewhere, append_dim="time", group="elsewhere", message="theirs")

    job = Meanwhile(WRITING, ingest_elsewhere)
    ingest(job=job, message="ours")

    assert messages(repo) == ["ours", "theirs", "first"]
    assert job.finished == 1
    xr.testing.assert_identical(read(repo), expect(archive))
    xr.testing.assert_identical(read(repo, "elsewhere"), expect(elsewhere))


def test_of_two_ingests_of_the_same_files_one_finds_nothing_to_do(
    repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    save_archive(archive, 3)

    report = ingest(job=Meanwhile(WRITING, lambda: ingest(message="theirs")), message="ours")

    assert messages(repo) == ["theirs"]
    assert report.snapshot_id is None
    assert len(report.known) == 3
    assert len(read(repo, "_frazil/ledger").source) == 3
    xr.testing.assert_identical(read(repo), expect(archive))


def test_an_ingest_of_more_files_takes_the_rest_after_one_of_fewer(
    spark: SparkSession, repo: frazil.Repository, archive: Path, ingest: Ingest
) -> None:
    paths = save_archive(archive, 4)

    def ingest_two() -> None:
        frazil.spark.ingest(repo, paths[:2], append_dim="time", message="theirs", spark=spark)

    report = ingest(job=Meanwhile(WRITING, ingest_two), message="ours")

    assert messages(repo) == ["ours", "theirs"]
    assert (len(report.files), len(report.known)) == (2, 2)
    xr.testing.assert_identical(read(repo), expect(archive))


_KILLED_DRIVER = """
import os, signal, sys
import frazil, frazil.spark
from frazil.spark.ingestion import ingest_tasks

class KillsDriver(frazil.spark.Job):
    def show(self, what, done, total):
        if what == "writing references":
            os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    ingest_tasks.KEPT_SECONDS = 0.0
    spark = frazil.spark.session(master="local[2]", config={"spark.ui.enabled": "false"})
    repo = frazil.Repository.open(frazil.local_filesystem_storage(sys.argv[1]))
    job = KillsDriver(run_on="spark", files_per_task=1)
    frazil.spark.ingest(repo, sys.argv[2], append_dim="time", mode="virtual", job=job, spark=spark)
"""


def test_a_job_whose_driver_was_killed_opens_its_files_only_once(
    spark: SparkSession, repo: frazil.Repository, archive: Path, tmp_path: Path
) -> None:
    paths = save_archive(archive, 3)
    expected = expect(archive)
    script = tmp_path / "driver.py"
    script.write_text(_KILLED_DRIVER)
    command = [sys.executable, str(script), str(tmp_path / "repo"), f"{archive}/*.nc"]
    done = subprocess.run(
        command, check=False, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    kept = [each.key for each in repo.storage.list("_frazil/parsed/")]
    contents = [path.read_bytes() for path in paths]
    times = [path.stat().st_mtime_ns for path in paths]

    def fill(path: Path, data: bytes, moment: int) -> None:
        path.write_bytes(data)
        os.utime(path, ns=(moment, moment))

    # As files of the same versions that can't be opened again. One of them was not kept.
    repo.storage.delete_many(kept[:1])
    (lost,) = (row for row, key in enumerate(_keys(paths, repo)) if key == kept[0])
    for row, path in enumerate(paths):
        if row != lost:
            fill(path, bytes(len(contents[row])), times[row])
    report = frazil.spark.ingest(
        repo, f"{archive}/*.nc", append_dim="time", mode="virtual", spark=spark,
        job=Job(run_on="spark", files_per_task=1),
    )  # fmt: skip
    for path, data, moment in zip(paths, contents, times, strict=True):
        fill(path, data, moment)

    assert done.returncode == -signal.SIGKILL
    assert len(kept) == 3
    assert report.metrics["files"] == 3
    xr.testing.assert_identical(read(repo), expected)
    assert not list(repo.storage.list("_frazil/parsed/"))


def test_a_job_with_a_bad_file_is_run_again_without_it_and_opens_no_other(
    spark: SparkSession, repo: frazil.Repository, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_tasks, "KEPT_SECONDS", 0.0)
    _save_old(archive, 3)
    expected = expect(archive)
    bad = archive / "bad.nc"
    bad.write_bytes(b"no data")

    def ingest() -> frazil.spark.IngestReport:
        return frazil.spark.ingest(
            repo, f"{archive}/*.nc", append_dim="time", mode="virtual", spark=spark,
            job=Job(run_on="spark", files_per_task=1),
        )  # fmt: skip

    with pytest.raises(InvalidSourcesError, match=r"bad\.nc"):
        ingest()
    bad.unlink()
    contents = {path: path.read_bytes() for path in archive.iterdir()}
    for path, data in contents.items():  # of the same version, and can't be opened again
        path.write_bytes(bytes(len(data)))
        os.utime(path, (1e9, 1e9))
    report = ingest()
    for path, data in contents.items():
        path.write_bytes(data)
        os.utime(path, (1e9, 1e9))

    assert len(report.files) == 3
    xr.testing.assert_identical(read(repo), expected)
    assert not list(repo.storage.list("_frazil/parsed/"))


def _keys(paths: list[Path], repo: frazil.Repository) -> list[str | None]:
    folder = name_folder(READING)
    return [keep_files([each], repo.storage, folder, 0.0).key for each in _find_files(paths)]


READING = Reading(dims=("time",))


def _find_files(paths: list[Path]) -> list[SourceFile]:
    return list_files(discover(paths, READING.open_stores()))


def _save_old(archive: Path, count: int) -> list[SourceFile]:
    """Files that nobody has modified just now."""
    paths = save_archive(archive, count)
    for path in paths:
        os.utime(path, (1e9, 1e9))
    return _find_files(paths)


def _render(parsed: object) -> bytes:
    """All of what was parsed; objects that are loaded share others than those that were not."""
    return pickle.dumps(pickle.loads(pickle.dumps(parsed)))


def test_of_what_was_parsed_only_headers_are_loaded(repo: frazil.Repository, archive: Path) -> None:
    folder = name_folder(READING)
    kept = keep_files(_save_old(archive, 1), repo.storage, folder, 0.0)
    first = kept.parse(READING)
    assert kept.key is not None
    stored = bytes(repo.storage.get(kept.key))
    again = kept.parse(READING)
    digest = stored[:16]
    spoilt = {
        "cut": stored[:-1],
        "other": digest + zstandard.compress(pickle.dumps((time.time(), [os.system], []))),
        "old": digest + zstandard.compress(pickle.dumps((0.0, [], []))),
        "of another file": bytes(16) + stored[16:],
    }

    assert _render(again) == _render(first)
    for data in spoilt.values():
        repo.storage.put(kept.key, data)
        assert len(kept.parse(READING)[0]) == 1
    repo.storage.delete_many([kept.key])
    Path(archive, "0000.nc").write_bytes(b"no data")
    kept.parse(READING)
    assert not list(repo.storage.list("_frazil/parsed/"))


def test_options_tell_apart_what_was_parsed() -> None:
    others = [Reading(dims=("step",)), Reading(dims=("time",), skip={"p"})]

    assert len({name_folder(each) for each in (READING, *others)}) == 3
    assert name_folder(Reading(coords={"time": lambda _: 0})) is None


@given(st.data())
def test_a_job_finds_what_others_have_parsed_of_its_files(data: st.DataObject) -> None:
    storage = frazil.in_memory_storage()
    version = FileVersion(None, datetime(2026, 1, 1, tzinfo=UTC), 1)
    files = [SourceFile(f"file:///{number}", version) for number in range(9)]
    # Jobs with tasks of several sizes have kept some of theirs.
    kept: set[SourceFile] = set()
    for size in data.draw(st.lists(st.integers(1, 4), max_size=3)):
        for group in group_files(files, 1, size):
            if data.draw(st.booleans()):
                key = keep_files(group, storage, "_frazil/parsed/a", 0.0).key
                storage.put(str(key), b"".join(map(_digest_of, group)))
                kept.update(group)
    changed = replace(version, size_bytes=2)
    is_changed = data.draw(st.lists(st.booleans(), min_size=9, max_size=9))
    wanted = [
        replace(each, version=changed) if is_new else each
        for each, is_new in zip(files, is_changed, strict=True)
        if data.draw(st.booleans())
    ]

    found, others = find_kept(wanted, storage, "_frazil/parsed/a", 0.0)

    taken = [file for each in found for file in each.files]
    assert sorted(taken, key=str) == sorted((e for e in wanted if e in kept), key=str)
    assert others == [each for each in wanted if each not in kept]
    assert find_kept(wanted, storage, None, 0.0) == ([], wanted)


def test_of_a_kept_task_only_the_files_of_a_job_are_taken(
    repo: frazil.Repository, archive: Path
) -> None:
    files, folder = _save_old(archive, 3), name_folder(READING)
    whole = keep_files(files, repo.storage, folder, 0.0).parse(READING)
    (kept,), others = find_kept(files[1:], repo.storage, folder, 0.0)
    for path in archive.iterdir():
        path.unlink()

    outcomes, references = kept.parse(READING)

    assert others == []
    assert _render((outcomes, references)) == _render((whole[0][1:], whole[1][1:]))
