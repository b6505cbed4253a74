import shutil
from pathlib import Path

import pytest

import frazil
from tests.command_line import Frazil


def open_repository(place: Path) -> frazil.Repository:
    return frazil.Repository.open(frazil.local_filesystem_storage(str(place)))


def test_stats_report_bytes_by_kind(run: Frazil, place: Path) -> None:
    found = run("stats", place, "--json").json

    assert found["inlined_bytes"] > 0
    assert found["native_bytes"] == found["virtual_bytes"] == 0
    assert "inline" in run("stats", place).out


def test_a_healthy_repository_is_reported_so(run: Frazil, place: Path) -> None:
    done = run("check", place, "--deep", "--json")

    assert done.code == 0
    assert done.json["is_healthy"]


def test_damage_is_an_exit_code_of_its_own(run: Frazil, place: Path) -> None:
    shutil.rmtree(place / "manifests")

    done = run("check", place)

    assert done.code == 8
    assert "manifests/" in done.out


def test_repair_shows_its_plan_and_does_it_with_a_yes(run: Frazil, place: Path) -> None:
    shutil.rmtree(place / "transactions")

    planned = run("check", place, "--repair", "--dry-run")
    asked = run("check", place, "--repair")
    done = run("check", place, "--repair", "--yes")

    assert (planned.code, asked.code, done.code) == (8, 1, 0)
    assert run("check", place).code == 0


def test_a_repair_that_leaves_damage_is_no_success(run: Frazil, place: Path) -> None:
    shutil.rmtree(place / "transactions")
    shutil.rmtree(place / "manifests")

    reported = run("check", place, "--repair", "--yes", "--json")
    again = run("check", place, "--repair", "--yes")

    assert reported.code == again.code == 8
    assert not reported.json["check_after"]["is_healthy"]
    assert "healthy: no" in again.out
    assert len(list((place / "transactions").iterdir())) > 0


def test_a_repair_is_reported_with_what_holds_afterwards(run: Frazil, place: Path) -> None:
    shutil.rmtree(place / "transactions")

    done = run("check", place, "--repair", "--yes", "--json")

    assert done.code == 0
    assert not done.json["check"]["is_healthy"]
    assert done.json["repair"]["outcomes"]
    assert done.json["check_after"]["is_healthy"]


def test_nothing_is_asked_where_nothing_can_be_repaired(run: Frazil, place: Path) -> None:
    assert run("check", place, "--repair").code == 0
    shutil.rmtree(place / "manifests")
    assert run("check", place, "--repair").code == 8


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_repository_that_does_not_open_is_checked_and_restored(
    run: Frazil, place: Path, is_gone: bool
) -> None:
    (place / "repo").unlink() if is_gone else (place / "repo").write_bytes(b"not what it was")

    found = run("check", place, "--json")
    planned = run("check", place, "--repair", "--dry-run")
    asked = run("check", place, "--repair")
    assert open_fails(place)
    done = run("check", place, "--repair", "--yes")

    assert (found.code, planned.code, asked.code, done.code) == (8, 8, 1, 0)
    assert found.json["problems"][0]["repair"] == "restore-repo"
    assert run("info", place).code == 0


def open_fails(place: Path) -> bool:
    try:
        open_repository(place)
    except frazil.IcechunkError:
        return True
    return False


def test_a_branch_to_check_that_is_not_there(run: Frazil, place: Path) -> None:
    failed = run("check", place, "--branch", "nothing")

    assert failed.code == 3
    assert "frazil branch list" in failed.err


def test_nothing_is_asked_where_nothing_is_to_be_deleted(run: Frazil, place: Path) -> None:
    assert run("gc", place, "--older-than", "7d").code == 0
    assert run("expire", place, "--older-than", "7d").code == 0


def test_old_versions_expire_and_their_files_go(run: Frazil, place: Path) -> None:
    run("branch", "delete", place, "experiment", "--yes")
    run("tag", "delete", place, "v1", "--yes")

    planned = run("expire", place, "--older-than", "0s", "--dry-run", "--json").json
    asked = run("expire", place, "--older-than", "0s")
    done = run("expire", place, "--older-than", "0s", "--yes", "--json").json
    garbage = run("gc", place, "--older-than", "0s", "--dry-run", "--json").json
    collected = run("gc", place, "--older-than", "0s", "--yes", "--json").json

    assert asked.code == 1
    assert planned["released_snapshots"] == done["released_snapshots"]
    assert len(done["released_snapshots"]) == 1
    assert garbage == collected
    assert collected["snapshots_deleted"] == 1
    messages = [each.message for each in open_repository(place).ancestry(branch="main")]
    assert messages == ["ten more", "Repository initialized"]


def test_expiry_goes_by_saved_policies(run: Frazil, place: Path) -> None:
    done = run("expire", place, "--yes", "--json")

    assert done.code == 0
    assert done.json["released_snapshots"] == []


@pytest.mark.parametrize("age", ["yesterday", "7 lightyears", ""])
def test_an_age_that_is_none(run: Frazil, place: Path, age: str) -> None:
    assert run("gc", place, "--older-than", age, "--dry-run").code == 2


@pytest.mark.parametrize("verb", ["gc", "expire"])
def test_a_time_without_a_zone_deletes_nothing(run: Frazil, place: Path, verb: str) -> None:
    before = sorted(place.rglob("*"))

    for time in ("2100-01-31", "2100-01-31T12:00"):
        refused = run(verb, place, "--older-than", time, "--yes")
        assert (refused.code, "has no time zone: say 2100-01-31T" in refused.err) == (2, True)
    assert sorted(place.rglob("*")) == before


def test_an_old_repository_is_migrated(run: Frazil, generations: Path, tmp_path: Path) -> None:
    found = next(iter(sorted(generations.glob("alpha*"))))
    old = shutil.copytree(found / "repo", tmp_path / "old")

    planned = run("migrate", old, "--dry-run", "--json").json
    asked = run("migrate", old)
    done = run("migrate", old, "--yes", "--json").json

    assert planned["from"] == done["from"]
    assert asked.code == 1
    assert done["to"] == "2"
    assert int(open_repository(old).spec_version) == 2


def test_doctor_reports_what_is_installed(run: Frazil, place: Path) -> None:
    found = run("doctor", place, "--json").json

    assert found["packages"]["zarr"]
    assert found["containers"] == []
