"""Cycles of a dataset: duplicates, deadlines, steps that stay incomplete, signals, killed processes."""

import os
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from frazil.datasets import load, run
from tests.datasets.forecasts import DECLARATION, LEADS, MEMBERS, START, find_wrong, save
from tests.datasets.test_month import Reader


class Archive:
    """A folder of files, the declaration of a dataset of them, and what was published."""

    def __init__(self, folder: Path, *, guards: str = "", delay: str = "3h") -> None:
        text = DECLARATION.format(repository="repo", mode="native", engine="driver", more="")
        text = text.replace('duplicates = "replace"', guards).replace(
            'delay = "3h"', f'delay = "{delay}"'
        )
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
    copy = shutil.copy2(original, original.with_name(f"{original.stem}-copy.h5"))

    report = archive.run()

    assert (report.outcome, [*report.left_out]) == ("incomplete", [copy.as_uri()])
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
