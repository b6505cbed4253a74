"""Commands that run on Spark."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import zarr
from pyarrow import csv, ipc, parquet
from pyspark.sql import SparkSession

import frazil
from frazil import Repository
from frazil.cli.demo import write_archive
from tests.command_line import Frazil, make_frazil

MOST_LINES = 5
"""Of standard error, where a command fails."""

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.xdist_group("spark-tables")]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository with an array that was written twice."""
    place = tmp_path / "repo"
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=0)
    repo = Repository.create(frazil.local_filesystem_storage(str(place)), config)
    session = repo.writable_session("main")
    zarr.create_array(
        session.store, name="t", data=np.arange(24.0), chunks=(6,), dimension_names=["time"]
    )
    session.commit("values")
    return place


@pytest.fixture(scope="module")
def run() -> Frazil:
    """Runs a command line."""
    return make_frazil()


def read(place: Path) -> Repository:
    return Repository.open(frazil.local_filesystem_storage(str(place)))


def test_doctor_checks_a_session_of_spark(run: Frazil) -> None:
    checked = run("doctor", "--spark", "--json")

    assert (checked.code, checked.json["problems"]) == (0, [])
    assert checked.json["spark"].startswith("4.")


def test_an_ingest_creates_the_repository_if_asked_to(run: Frazil, tmp_path: Path) -> None:
    write_archive(tmp_path / "archive", "2024-01-01", 2)
    command = ("ingest", tmp_path / "new", tmp_path / "archive" / "*.nc", "--append-dim", "time")

    refused, dry = run(*command), run(*command, "--create", "--dry-run")
    assert (refused.code, dry.code) == (3, 3)
    assert not (tmp_path / "new").exists()
    assert run(*command, "--create").code == 0
    assert run(*command, "--create").code == 0  # nothing is new
    assert len(list(read(tmp_path / "new").ancestry(branch="main"))) == 2


def test_an_array_gets_other_chunks(run: Frazil, place: Path) -> None:
    done = run("rechunk", place, "t", "--chunks", "time=8", "--message", "wider", "--json")

    repo = read(place)
    array = zarr.open_array(repo.readonly_session("main").store, path="t")
    assert (done.code, done.json["snapshot_id"]) == (0, repo.lookup_branch("main"))
    assert array.chunks == (8,)
    np.testing.assert_array_equal(array[:], np.arange(24.0))
    assert run("rechunk", place, "t", "--chunks", "time").code == 2


def test_a_cluster_checks_counts_and_collects_as_this_process_does(
    run: Frazil, place: Path
) -> None:
    session = read(place).writable_session("main")
    zarr.open_array(session.store, path="t")[:] = 1.0  # and no commit
    session.flush("left")
    garbage = ("gc", place, "--older-than", "2100-01-01T00:00Z", "--json")

    checked = run("check", place, "--deep", "--spark", "--json")
    counted = [run("stats", place, *each, "--json").json for each in ((), ("--spark",))]
    planned = [run(*garbage, "--dry-run", *each).json for each in ((), ("--spark",))]
    refused = run(*garbage, "--spark")
    collected = run(*garbage, "--spark", "--yes")

    assert (checked.code, checked.json["problems"]) == (0, [])
    assert counted[0] == counted[1]
    assert planned[0] == planned[1]
    assert refused.code == 1
    assert collected.json == planned[0]
    assert collected.json["chunks_deleted"] == 4
    assert run("check", place, "--deep").code == 0


def test_damage_that_a_cluster_finds_is_the_same_exit_code(run: Frazil, place: Path) -> None:
    next((place / "chunks").iterdir()).unlink()

    assert run("check", place, "--spark").code == 8


@pytest.fixture
def virtual(tmp_path: Path) -> Path:
    """A repository with an array whose first chunk is its own and whose second is virtual."""
    (tmp_path / "data.bin").write_bytes(np.arange(6.0).tobytes())
    prefix = f"file://{tmp_path}/"
    config = frazil.RepositoryConfig.default()
    store = frazil.ObjectStoreConfig.LocalFileSystem(str(tmp_path))
    config.set_virtual_chunk_container(frazil.VirtualChunkContainer(prefix, store))
    place = tmp_path / "virtual"
    repo = Repository.create(frazil.local_filesystem_storage(str(place)), config)
    repo.save_config()
    session = repo.writable_session("main")
    array = zarr.create_array(
        session.store, name="t", shape=(12,), chunks=(6,), dtype="f8", compressors=None,
        dimension_names=["time"],
    )  # fmt: skip
    array[:6] = 1.0
    spec = frazil.VirtualChunkSpec([1], f"{prefix}data.bin", 0, 48)
    session.store.set_virtual_refs("t", [spec], validate_containers=True)
    session.commit("mixed")
    return place


@pytest.mark.parametrize(
    "query", ["SELECT * FROM t WHERE time > 7", "SELECT * FROM t", "SELECT sum(t) FROM t"]
)
def test_a_query_that_may_not_read_its_files_names_the_option_once(
    run: Frazil, spark: SparkSession, virtual: Path, query: str
) -> None:
    before = count_failures(spark)

    refused = run("sql", virtual, query)

    assert refused.code == 6
    assert "is not authorized" in refused.err
    assert "--authorize" in refused.err
    assert len(refused.err.splitlines()) <= MOST_LINES
    # What no plan can know is found by a task, once.
    assert count_failures(spark) - before == (0 if "WHERE" in query else 1)


def test_a_query_of_chunks_that_need_no_authorization_is_answered(
    run: Frazil, virtual: Path
) -> None:
    assert run("sql", virtual, "SELECT t FROM t WHERE time < 2", "--json").json == [{"t": 1.0}] * 2
    summed = run("sql", virtual, "SELECT sum(t) AS s FROM t", "--authorize", "*", "--json")
    assert summed.json == [{"s": 21.0}]


def test_rows_are_written_in_the_format_that_a_file_is_named_after(
    run: Frazil, place: Path, tmp_path: Path
) -> None:
    query = "SELECT time, t FROM t WHERE time < 3 ORDER BY time"
    read: dict[str, Callable[[str], Any]] = {
        "csv": csv.read_csv,
        "parquet": parquet.read_table,
        "arrow": lambda path: ipc.open_file(path).read_all(),
        "json": lambda path: pyarrow.Table.from_pylist(json.loads(Path(path).read_text())),
    }

    for form, reader in read.items():
        path = tmp_path / f"rows.{form}"
        done = run("sql", place, query, "--output", path)
        assert done.code == 0, form
        assert f"3 rows in {path}" in " ".join(done.err.split()), form
        assert reader(str(path)).to_pydict() == {"time": [0, 1, 2], "t": [0.0, 1.0, 2.0]}
    assert run("sql", place, query, "--format", "csv").out.splitlines()[1:] == ["0,0", "1,1", "2,2"]


def test_a_format_that_no_file_can_have_is_refused(run: Frazil, place: Path) -> None:
    for options in (
        ["-o", "rows.xls"],
        ["-o", "a.csv", "--format", "table"],
        ["--json", "--format", "csv"],
    ):
        assert run("sql", place, "SELECT * FROM t", *options).code == 2


def count_failures(spark: SparkSession) -> int:
    """How many tasks have failed by themselves so far."""
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    return sum(jobs.apply(number).numFailedTasks() for number in range(jobs.size()))


def test_a_query_that_spark_refuses_is_reported_in_one_line(run: Frazil, place: Path) -> None:
    unknown, broken = run("sql", place, "SELECT tt FROM t"), run("sql", place, "SELECT FROM WHERE")

    assert (unknown.code, broken.code) == (2, 2)
    assert "`t`" in unknown.err
    assert [len(each.err.splitlines()) for each in (unknown, broken)] == [1, 1], (unknown, broken)


def test_a_command_that_starts_spark_says_nothing_of_it(place: Path) -> None:
    query = "SELECT * FROM t WHERE t > 1 LIMIT 2"
    program = [sys.executable, "-m", "frazil.cli", "sql", str(place), query, "--json"]

    done = subprocess.run(program, capture_output=True, text=True, check=True)

    assert len(json.loads(done.stdout)) == 2
    assert done.stderr == ""


def test_procedures_that_may_lose_data_are_confirmed(run: Frazil, place: Path) -> None:
    tagged = run("sql", place, "CALL system.create_tag('v1')", "--json")
    refused = run("sql", place, "CALL system.delete_tag('v1')")
    kept = set(read(place).list_tags())
    deleted = run("sql", place, "CALL system.delete_tag('v1')", "--yes")
    explained = run("sql", place, "EXPLAIN SELECT count(*) FROM t")

    assert (tagged.code, tagged.json[0]["tag"]) == (0, "v1")
    assert (refused.code, kept) == (1, {"v1"})
    assert (deleted.code, read(place).list_tags()) == (0, set())
    assert (explained.code, explained.out.splitlines()[0]) == (0, "== Frazil Scan Plan ==")
