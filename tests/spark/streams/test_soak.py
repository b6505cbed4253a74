"""A stream whose driver and workers are killed again and again: every batch is one commit, once."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import frazil
from frazil import Repository
from tests.spark.clusters.processes import PATIENCE_SECONDS, kill_group
from tests.spark.tables.streams import batches, expected, put_file, values

pytestmark = pytest.mark.xdist_group("spark-tables")

IS_DEEP = "FRAZIL_DEEP" in os.environ
BATCHES, BATCHES_PER_DRIVER = (200, 20) if IS_DEEP else (8, 4)
SHARE_OF_KILLS = 0.05
ROOT = Path(__file__).parents[3]


def start_driver(folder: Path) -> subprocess.Popen[bytes]:
    """Another process that writes the stream, with a Java of its own."""
    arguments = [
        sys.executable,
        "-m",
        "tests.spark.streams.driver",
        str(folder),
        str(SHARE_OF_KILLS),
    ]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            arguments,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *_paths()])},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _paths() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def wait_for_batch(
    driver: subprocess.Popen[bytes], repo: Repository, count: int, log: Path
) -> None:
    """Until so many batches are there."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(batches(repo)) < count:
        if driver.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"no batch {count}:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.2)


def test_every_row_of_a_stream_is_there_once_when_any_process_is_killed(tmp_path: Path) -> None:
    repo = Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))
    for number in range(BATCHES):
        put_file(tmp_path / "files", number)
    generator = random.Random(8)

    for count in range(BATCHES_PER_DRIVER, BATCHES, BATCHES_PER_DRIVER):
        driver = start_driver(tmp_path)
        try:
            wait_for_batch(driver, repo, count, tmp_path / "log")
            # Anywhere between a commit and the next one.
            time.sleep(generator.random())
        finally:
            kill_group(driver)

    driver = start_driver(tmp_path)
    try:
        assert driver.wait(PATIENCE_SECONDS) == 0, (tmp_path / "log").read_text()[-4000:]
    finally:
        kill_group(driver)
    # Where Spark died between its two logs, it takes two files for the next batch.
    known = [int(each.name) for each in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")]
    count = max(known) + 1
    assert BATCHES - BATCHES // BATCHES_PER_DRIVER <= count <= BATCHES
    assert batches(repo) == list(range(count))
    assert len(list(repo.ancestry(branch="main"))) == count + 1
    assert values(repo).tolist() == expected(BATCHES).tolist()
