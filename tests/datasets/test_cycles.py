"""Cycles of a dataset: duplicates, deadlines, steps that stay incomplete, signals, killed processes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from frazil.datasets import follow, load, run
from frazil.datasets.opened_dataset import Opened
from frazil.errors import StorageError
from tests.datasets.forecasts import DECLARATION, LEADS, MEMBERS, START, find_wrong, save
from tests.datasets.test_month import Reader


class Archive:
    """A folder of files, the declaration of a dataset of them, and what was published."""

    def __init__(self, folder: Path, *, guards: str = "") -> None:
        text = DECLARATION.format(repository="repo", mode="native", engine="driver", more="")
        # Processes have the clock of the machine, years after the files.
        text = text.replace('lookback = "5d"', 'lookback = "50 years"')
        text = text.replace('duplicates = "replace"', guards)
        self.folder, self.declaration = folder / "in", folder / "dataset.toml"
        self.folder.mkdir()
        self.declaration.write_text(text)

    def send(self, day: int, *, leads: Any = LEADS, version: int = 0) -> None:
        """Write the files of a day."""
        for lead in leads:
            for member in MEMBERS:
                save(self.path(day, lead, member), day, lead, member, version)

    def path(self, day: int, lead: int = 0, member: int = 0) -> Path:
        """Return the path of a file."""
        return self.folder / f"{START + timedelta(days=day):%Y%m%d}_{lead}_{member}.h5"

    def run(self, day: int = 1, hours: int = 4, **options: Any) -> Any:
        """Run a cycle at a time."""
        return run(self.declaration, now=at(day, hours), **options)

    def find_wrong(self, versions: dict[tuple[int, int, int], int]) -> list[tuple[int, int, int]]:
        """Return the published pieces that have not these versions."""
        return find_wrong(Reader(load(self.declaration)).read(), versions)


def at(day: int, hours: int = 4) -> Callable[[], datetime]:
    return lambda: START + timedelta(days=day, hours=hours)


def pieces(day: int, version: int = 0) -> dict[tuple[int, int, int], int]:
    return {(day, lead, member): version for lead in LEADS for member in MEMBERS}


def test_a_copy_is_left_out_and_its_original_can_be_corrected(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.send(0)
    original = archive.path(0)
    # Both have one age, and the name of the copy sorts first.
    copy = original.with_name(f"{original.stem}-copy.h5")
    shutil.copy2(original, copy)

    report = archive.run()

    assert (report.outcome, [*report.left_out]) == ("published", [])
    save(original, 0, 0, 0, 1)
    report = archive.run()
    assert [Path(each).name for each in report.files] == [original.name]
    assert archive.find_wrong(pieces(0) | {(0, 0, 0): 1}) == []


def test_neither_of_two_files_that_differ_is_taken_for_one_place(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.send(0)
    original = archive.path(0)
    copy = original.with_name(f"{original.stem}b.h5")
    shutil.copy2(original, copy)
    # The original was corrected before the first run: it is newer than its copy.
    save(original, 0, 0, 0, 1)
    os.utime(original, (2_000_000_000,) * 2)

    report = archive.run()

    assert {copy.as_uri(), original.as_uri()} <= report.left_out.keys()
    assert "remove one of them, or declare duplicates = 'replace'" in report.left_out[copy.as_uri()]
    assert report.snapshot_id is None
    copy.unlink()
    assert archive.run().outcome == "published"
    assert archive.find_wrong(pieces(0) | {(0, 0, 0): 1}) == []


def test_declared_chunks_are_written_unless_files_are_virtual(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    text = archive.declaration.read_text().replace('mode = "native"', "chunks = { y = 4 }")
    archive.declaration.write_text(text)
    archive.send(0)

    assert archive.run().outcome == "published"
    assert Reader(load(archive.declaration)).read().t2m.encoding["chunks"][-2:] == (4, 40)


def test_an_incomplete_step_is_published_when_it_is_overdue(tmp_path: Path) -> None:
    archive = Archive(tmp_path, guards='partial_after = "6h"')
    archive.send(0, leads=LEADS[:1])

    # Files are due after 3 hours, and awaited for 6 more.
    early = archive.run(day=0, hours=8)
    late = archive.run(day=0, hours=9)

    assert (early.outcome, early.snapshot_id, len(early.waiting)) == ("unchanged", None, 2)
    assert (late.outcome, late.newest, late.newest_complete) == (
        "published",
        "2026-01-01T00:00Z",
        None,
    )
    archive.send(0, leads=LEADS[1:])
    assert archive.run(day=0, hours=9).newest_complete == "2026-01-01T00:00Z"
    assert archive.find_wrong(pieces(0)) == []


@pytest.mark.parametrize("arrives", [True, False])
def test_a_run_waits_for_the_step_that_is_due_until_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    archive = Archive(tmp_path)
    archive.send(0)
    clock, pauses = [START + timedelta(days=1, hours=4)], list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += timedelta(seconds=seconds)
        if arrives and len(pauses) == 3:
            archive.send(1)

    patched = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr("frazil.datasets.cycle.time", patched)
    deadline = clock[0] + timedelta(seconds=6)

    report = run(archive.declaration, until=deadline, now=lambda: clock[0])

    if arrives:
        assert (report.exit_code, report.newest_complete) == (0, "2026-01-02T00:00Z")
        assert pauses == [1, 1.5, 2.25]
    else:
        assert (report.outcome, report.exit_code, sum(pauses)) == ("stale", 14, 6)
        assert report.problems == ("step 2026-01-02T00:00Z is not complete by the deadline",)


def start(archive: Archive, verb: str, *options: str) -> "subprocess.Popen[str]":
    """Start a command of the dataset in a process of its own."""
    command = [sys.executable, "-m", "frazil.cli", verb, str(archive.declaration), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def list_audits(archive: Archive) -> list[str]:
    names = Opened.open(load(archive.declaration)).repository.list_branches()
    return [name for name in names if name != "main"]


def test_follow_takes_files_that_arrive_and_ends_by_a_signal(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.send(0)
    following = start(archive, "follow", "--every", "1s")
    assert following.stdout is not None
    for day in (1, 2):
        while "published" not in following.stdout.readline():
            assert following.poll() is None
        archive.send(day)

    following.send_signal(signal.SIGTERM)
    following.communicate(timeout=60)

    assert following.returncode == 0
    assert archive.find_wrong(pieces(0) | pieces(1)) == []
    assert list_audits(archive) == []
    assert archive.run(day=3).newest_complete == "2026-01-03T00:00Z"


def test_follow_tries_again_after_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive(tmp_path)
    archive.send(0)
    reports, calls = list[str](), list[int]()
    stop = Event()
    real = Opened.discover

    def discover(self: Opened, *arguments: Any) -> Any:
        calls.append(len(calls))
        if len(calls) < 3:
            raise (StorageError if len(calls) == 1 else OSError)("the store does not respond")
        return real(self, *arguments)

    def show(report: Any) -> None:
        reports.append(report.outcome)
        stop.set()

    monkeypatch.setattr(Opened, "discover", discover)

    cycles = follow(archive.declaration, every=timedelta(0), stop=stop, on_report=show, now=at(1))

    assert (cycles, reports) == (3, ["published"])


def test_a_run_that_is_killed_is_made_good_by_the_next(tmp_path: Path) -> None:
    archive, repo = Archive(tmp_path), tmp_path / "repo"
    archive.send(0)
    archive.run()
    truth, killed = pieces(0), 0
    for day, objects in enumerate((2, 10), start=1):
        archive.send(day)
        truth |= pieces(day)
        before = count_objects(repo)
        running = start(archive, "run", "--no-progress")
        # Each process dies after it has written some more of its objects.
        while running.poll() is None and count_objects(repo) < before + objects:
            time.sleep(0.01)
        running.kill()
        running.communicate()
        killed += running.returncode == -signal.SIGKILL
        found = Reader(load(archive.declaration))
        found.look()
        assert (
            find_wrong(found.read(), {e: n for e, n in truth.items() if e[0] in found.complete})
            == []
        )

    assert killed > 0
    assert archive.run(day=5).newest_complete == "2026-01-03T00:00Z"
    assert archive.find_wrong(truth) == []
    assert find_wrong(Reader(load(archive.declaration)).read("series"), truth) == []


def count_objects(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))
