"""Refs, history and state of every known repository are what is known about them."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil import FormatError, RefNotFoundError, SpecVersion
from tests.generations import REPOSITORY_NAMES
from tests.known_repositories import open_known, read_expectations

V2_NAMES = [name for name in REPOSITORY_NAMES if name.startswith("v2")]
PATHSORT_NAMES = [name for name in REPOSITORY_NAMES if name.endswith("pathsort")]
FULLY_KNOWN_NAMES = [name for name in REPOSITORY_NAMES if name not in PATHSORT_NAMES]
V2_STATE_NAMES = [name for name in V2_NAMES if name in FULLY_KNOWN_NAMES]


def ref_of(name: str) -> dict[str, str]:
    """`branch:main` and the like, as arguments."""
    kind, _, value = name.partition(":")
    return {"snapshot_id" if kind == "snapshot" else kind: value}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("name", REPOSITORY_NAMES)
def test_its_generation_is_recognised(generations: Path, name: str) -> None:
    repository = open_known(generations / name)

    known = {"v1": SpecVersion.v1, "v2": SpecVersion.v2, "draft": SpecVersion.draft}
    assert repository.spec_version == known.get(name.split("-")[0], SpecVersion.alpha)
    assert frazil.Repository.exists(repository.storage)
    assert frazil.Repository.fetch_spec_version(repository.storage) == repository.spec_version


@pytest.mark.parametrize("name", REPOSITORY_NAMES)
def test_its_branches_and_tags_are_those_expected(generations: Path, name: str) -> None:
    expected = read_expectations(generations / name)
    repository = open_known(generations / name)

    branches = {each: repository.lookup_branch(each) for each in repository.list_branches()}
    tags = {each: repository.lookup_tag(each) for each in repository.list_tags()}

    assert branches == expected["branches"]
    assert tags == expected.get("tags", {})
    for deleted in expected.get("deleted_tags", []):
        with pytest.raises(RefNotFoundError):
            repository.lookup_tag(deleted)
    for deleted in expected.get("deleted_branches", []):
        with pytest.raises(RefNotFoundError):
            repository.lookup_branch(deleted)


@pytest.mark.parametrize("name", FULLY_KNOWN_NAMES)
def test_its_history_is_the_one_expected(generations: Path, name: str) -> None:
    expected = read_expectations(generations / name)
    repository = open_known(generations / name)

    for ref, ids in expected["history"].items():
        infos = list(repository.ancestry(**ref_of(ref)))

        assert [info.id for info in infos] == ids
        for info in infos:
            known = expected["snapshots"][info.id]
            assert info.message == known["message"]
            assert info.parent_id == known["parent_id"]
            assert info.metadata == known["metadata"]
            assert info.written_at == moment(known["written_at"])
            assert repository.lookup_snapshot(info.id) == info


@pytest.mark.parametrize("name", FULLY_KNOWN_NAMES)
def test_its_history_is_the_same_for_an_event_loop(generations: Path, name: str) -> None:
    expected = read_expectations(generations / name)
    repository = open_known(generations / name)

    async def list_ids() -> list[str]:
        return [info.id async for info in repository.async_ancestry(branch="main")]

    assert asyncio.run(list_ids()) == expected["history"]["branch:main"]


def describe(diff: frazil.Diff) -> dict[str, Any]:
    return {
        "new_groups": sorted(diff.new_groups),
        "new_arrays": sorted(diff.new_arrays),
        "deleted_groups": sorted(diff.deleted_groups),
        "deleted_arrays": sorted(diff.deleted_arrays),
        "updated_groups": sorted(diff.updated_groups),
        "updated_arrays": sorted(diff.updated_arrays),
        "updated_chunks": {path: sorted(each) for path, each in diff.updated_chunks.items()},
        "moved_nodes": [list(each) for each in diff.moved_nodes],
    }


@pytest.mark.parametrize("name", [name for name in FULLY_KNOWN_NAMES if name.startswith("v")])
def test_each_commit_changed_what_is_expected(generations: Path, name: str) -> None:
    expected = read_expectations(generations / name)
    repository = open_known(generations / name)

    for id, snapshot in expected["snapshots"].items():
        known = snapshot.get("diff_from_parent")
        if known is None:
            continue
        diff = repository.diff(from_snapshot_id=snapshot["parent_id"], to_snapshot_id=id)

        found = describe(diff)
        assert {key: found[key] for key in known} == {
            key: sorted(value) if isinstance(value, list) and key != "moved_nodes" else value
            for key, value in known.items()
        }


@pytest.mark.parametrize("name", V2_STATE_NAMES)
def test_its_metadata_and_flags_are_those_expected(generations: Path, name: str) -> None:
    known = read_expectations(generations / name)["v2"]
    repository = open_known(generations / name)

    flags = {
        flag.name: (flag.id, flag.setting, flag.enabled) for flag in repository.feature_flags()
    }

    assert repository.metadata == known["repo_metadata"]
    assert flags == {
        flag["name"]: (flag["id"], flag["setting"], flag["enabled"])
        for flag in known["feature_flags"]
    }


@pytest.mark.parametrize("name", [name for name in V2_STATE_NAMES if name != "v2-2.0.0a3"])
def test_its_availability_is_the_one_expected(generations: Path, name: str) -> None:
    known = read_expectations(generations / name)["v2"]["status"]

    status = open_known(generations / name).status

    assert status.availability.name == known["availability"]
    assert status.limited_availability_reason == known["reason"]
    assert status.set_at == moment(known["set_at"])


@pytest.mark.parametrize("name", V2_STATE_NAMES)
def test_its_log_of_operations_is_the_one_expected(generations: Path, name: str) -> None:
    known = read_expectations(generations / name)["v2"]["ops_log"]
    repository = open_known(generations / name)

    found = list(repository.ops_log())

    assert len(found) == len(known)
    for update, entry in zip(found, known, strict=True):
        details = entry.keys() - {"kind", "updated_at", "backup_path"}
        # The first pre-releases of 2.0 called them PyBranchReset and so on.
        assert type(update.kind).__name__ == entry["kind"].removeprefix("Py")
        assert update.updated_at == moment(entry["updated_at"])
        assert update.backup_path == entry["backup_path"]
        assert {key: getattr(update.kind, key) for key in details} == {
            key: entry[key] for key in details
        }


@pytest.mark.parametrize("name", [n for n in REPOSITORY_NAMES if n not in V2_NAMES])
def test_what_only_v2_has_is_refused(generations: Path, name: str) -> None:
    repository = open_known(generations / name)

    for ask in (repository.get_metadata, repository.get_status, repository.feature_flags):
        with pytest.raises(FormatError, match="no such thing"):
            ask()
