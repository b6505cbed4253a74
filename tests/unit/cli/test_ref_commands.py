from pathlib import Path

import pytest
import zarr

import frazil
from tests.command_line import Frazil


def open_repository(place: Path) -> frazil.Repository:
    return frazil.Repository.open(frazil.local_filesystem_storage(str(place)))


@pytest.mark.parametrize("version", [1, 2])
def test_create_makes_a_repository_of_a_generation(
    run: Frazil, tmp_path: Path, version: int
) -> None:
    done = run("create", tmp_path / "new", "--spec-version", version, "--json")

    assert done.code == 0
    assert done.json["generation"] == str(version)
    assert int(open_repository(tmp_path / "new").spec_version) == version


def test_branches_are_made_moved_and_deleted(run: Frazil, place: Path) -> None:
    repo = open_repository(place)
    tip, old = repo.lookup_branch("main"), repo.lookup_tag("v1")

    made = run("branch", "create", place, "other", "--json").json
    moved = run("branch", "move", place, "other", "--at", "v1", "--yes", "--json").json
    listed = run("branch", "list", place, "--json").json
    deleted = run("branch", "delete", place, "other", "--yes")

    assert made == {"branch": "other", "snapshot_id": tip}
    assert moved == {"branch": "other", "from": tip, "snapshot_id": old}
    assert (listed["other"]["snapshot_id"], listed["other"]["message"]) == (old, "ten days")
    assert "ten more" in run("branch", "list", place).out
    assert deleted.code == 0
    assert open_repository(place).list_branches() == {"main", "experiment"}


def test_tags_are_made_and_deleted(run: Frazil, place: Path) -> None:
    assert run("tag", "create", place, "v2").code == 0
    assert sorted(run("tag", "list", place, "--json").json) == ["v1", "v2"]
    assert run("tag", "delete", place, "v2", "--yes").code == 0
    assert run("tag", "create", place, "v2").code == 4


@pytest.mark.parametrize(
    "command",
    [
        ("branch", "delete", "{}", "experiment"),
        ("branch", "move", "{}", "main", "--at", "v1"),
        ("tag", "delete", "{}", "v1"),
        ("squash", "{}", "--since", "v1"),
    ],
)
def test_nothing_is_destroyed_without_a_yes(
    run: Frazil, place: Path, command: tuple[str, ...]
) -> None:
    before = (place / "repo").read_bytes()

    asked = run(*(each.format(place) for each in command))

    assert asked.code == 1
    assert "--yes" in asked.err
    assert (place / "repo").read_bytes() == before


def test_squash_makes_one_commit_of_many(run: Frazil, place: Path) -> None:
    first = list(open_repository(place).ancestry(branch="main"))[-1].id

    done = run("squash", place, "--since", first, "-m", "all at once", "--yes", "--json")

    history = list(open_repository(place).ancestry(branch="main"))
    assert [each.message for each in history] == ["all at once", "Repository initialized"]
    assert done.json["snapshot_id"] == history[0].id


def test_cherry_pick_does_a_commit_again(run: Frazil, place: Path) -> None:
    done = run("cherry-pick", place, "main", "--onto", "experiment")

    assert done.code == 0
    store = open_repository(place).readonly_session("experiment").store
    assert zarr.open_array(store, path="surface/t2m")[19, 0] == 7


def test_fast_forward_moves_a_branch_ahead(run: Frazil, place: Path) -> None:
    done = run("fast-forward", place, "experiment", "main", "--json")

    assert done.json["snapshot_id"] == open_repository(place).lookup_branch("experiment")
