"""Commands that run on Spark."""

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil import Repository
from tests.command_line import Frazil, make_frazil

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
