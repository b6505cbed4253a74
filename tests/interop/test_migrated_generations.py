"""The official library reads what Frazil migrated from the draft and from the alphas."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.format.header import Dialect
from frazil.storage.local import Durability, LocalStorage
from tests.interop.official_library import OfficialLibrary, OfficialRepository
from tests.known_repositories import read_expectations, simplify
from tests.legacy_files import ALPHA_NAMES, DRAFT_NAMES
from tests.unit.maintenance.legacy_repositories import OLD, contents_of, create_old, fill

NAMES = [*ALPHA_NAMES, *DRAFT_NAMES]


@dataclass(frozen=True, slots=True)
class Migrated:
    """A migrated repository as both libraries see it, and what it must read as, by its old ids."""

    expected: dict[str, Any]
    frazil: frazil.Repository
    official: OfficialRepository
    ids: dict[str, str]
    """New ones by old ones."""


@pytest.fixture(scope="module")
def migrated_before() -> dict[str, Migrated]:
    """Repositories that need not be migrated again."""
    return {}


@pytest.fixture
def migrated(
    request: pytest.FixtureRequest,
    official: OfficialLibrary,
    generations: Path,
    tmp_path_factory: pytest.TempPathFactory,
    migrated_before: dict[str, Migrated],
) -> Migrated:
    """A migrated copy of the repository that the test's parameter names."""
    name: str = request.param
    if name not in migrated_before:
        target = tmp_path_factory.mktemp("migrated") / "repo"
        shutil.copytree(generations / name / "repo", target)
        expected = read_expectations(generations / name)
        migrated_before[name] = _migrate(expected, target, official)
    return migrated_before[name]


def _migrate(expected: dict[str, Any], path: Path, official: OfficialLibrary) -> Migrated:
    repository = migrate(path)
    infos = repository.protocol.read_repo_info().snapshots.values()
    ids = {_origin_of(info.metadata): str(info.id) for info in infos}
    return Migrated(expected, repository, official.open(path), ids)


def migrate(path: Path) -> frazil.Repository:
    storage = LocalStorage(path, durability=Durability.NONE)
    return frazil.upgrade_icechunk_repository(frazil.Repository.open(storage), dry_run=False)


def _origin_of(metadata: Mapping[str, Any]) -> str:
    origin: str = metadata["__frazil"]["migrated_from"]
    return origin


@pytest.mark.parametrize("migrated", NAMES, indirect=True)
def test_refs_and_history_are_the_same(migrated: Migrated) -> None:
    expected, ids = migrated.expected, migrated.ids

    refs = migrated.official.call("read_refs")

    assert refs["branches"] == {name: ids[id_] for name, id_ in expected["branches"].items()}
    assert refs["tags"] == {name: ids[id_] for name, id_ in expected["tags"].items()}
    for start, line in expected["history"].items():
        kind, _, name = start.partition(":")
        ancestry = migrated.official.call("read_ancestry", **{kind: name})
        assert [info["id"] for info in ancestry] == [ids[id_] for id_ in line]
        for id_, info in zip(line, ancestry, strict=True):
            _assert_same_commit(info, expected["snapshots"][id_], id_)


def _assert_same_commit(found: Mapping[str, Any], known: Mapping[str, Any], old_id: str) -> None:
    assert found["message"] == known["message"]
    assert found["written_at"] == datetime.fromisoformat(known["written_at"])
    assert found["metadata"] == {**known["metadata"], "__frazil": {"migrated_from": old_id}}


@pytest.mark.parametrize("migrated", NAMES, indirect=True)
def test_deleted_tags_and_the_log_of_operations_are_there(migrated: Migrated) -> None:
    info = migrated.official.call("inspect_repo_info")
    log = migrated.official.call("read_ops_log")

    assert info["deleted_tags"] == sorted(migrated.expected["deleted_tags"])
    assert [log[0]["kind"], log[-1]["kind"]] == ["RepoMigrated", "RepoInitialized"]
    assert len(log) == len(list(migrated.frazil.ops_log()))


@pytest.mark.parametrize("migrated", NAMES, indirect=True)
def test_nodes_references_and_values_are_the_same(migrated: Migrated) -> None:
    states = migrated.expected["node_states"]
    for old_id, snapshot in migrated.expected["snapshots"].items():
        nodes = {path: states[key] for path, key in snapshot["nodes"].items()}
        unreadable = [path for path, state in nodes.items() if _is_unreadable(state)]

        contents = migrated.official.call(
            "read_contents", snapshot_id=migrated.ids[old_id], unreadable=unreadable
        )

        assert contents.keys() == nodes.keys()
        for path, state in nodes.items():
            _assert_same_node(contents[path], state, is_readable=path not in unreadable)


def _is_unreadable(state: Mapping[str, Any]) -> bool:
    """Virtual chunks are in files of another machine."""
    chunks = state.get("chunks", {}).values()
    kinds = ["virtual" if chunk is None else chunk.get("kind") for chunk in chunks]
    return state.get("data") is None or "virtual" in kinds


def _assert_same_node(
    found: Mapping[str, Any], state: Mapping[str, Any], *, is_readable: bool
) -> None:
    assert simplify(json.loads(found["metadata"])) == simplify(state["zarr_json"])
    if state["type"] == "group":
        return
    refs = {"/".join(map(str, ref["coordinates"])): ref for ref in found["refs"]}
    assert refs.keys() == state["chunks"].keys()
    if not is_readable:
        return
    _assert_same_values(found["array"], state["data"])
    values = {key.rpartition("c")[2].strip("/"): data for key, data in found["chunks"].items()}
    for key, chunk in state["chunks"].items():
        assert refs[key]["kind"] == chunk.get("kind", refs[key]["kind"])
        assert hashlib.sha256(values[key]).hexdigest() == chunk.get("sha256", _hash(values[key]))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _assert_same_values(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert found["shape"] == expected["shape"]
    if "sha256_le_c_bytes" in expected:
        assert found["dtype"] == expected["dtype"]
        assert _hash(found["data"]) == expected["sha256_le_c_bytes"]
    else:
        assert found["texts"] == expected["values"]


@pytest.mark.parametrize("migrated", NAMES, indirect=True)
def test_virtual_references_are_the_same(migrated: Migrated) -> None:
    expected = migrated.expected
    old_id = expected.get("virtual_refs_in", expected["branches"]["main"])

    for path, chunks in expected["virtual_refs"].items():
        refs = migrated.official.call(
            "read_chunk_refs", snapshot_id=migrated.ids[old_id], path=path
        )

        found = {
            "/".join(map(str, ref["coordinates"])): (ref["place"], ref["offset"], ref["length"])
            for ref in refs
            if ref["kind"] == "virtual"
        }
        assert found == {
            key: (chunk["location"], chunk["offset"], chunk["length"])
            for key, chunk in chunks.items()
        }


@pytest.mark.parametrize("migrated", NAMES, indirect=True)
def test_both_libraries_report_the_same_diffs(migrated: Migrated) -> None:
    for branch in migrated.expected["branches"]:
        for child, parent in pairwise(migrated.frazil.ancestry(branch=branch)):
            ends = {"from_snapshot_id": parent.id, "to_snapshot_id": child.id}

            theirs = migrated.official.call("read_diff", **ends)

            assert _plain(theirs) == _plain(vars_of(migrated.frazil.diff(**ends)))


def vars_of(diff: frazil.Diff) -> dict[str, Any]:
    names = (
        "new_groups", "new_arrays", "deleted_groups", "deleted_arrays", "updated_groups",
        "updated_arrays", "updated_chunks", "moved_nodes",
    )  # fmt: skip
    return {name: getattr(diff, name) for name in names}


def _plain(diff: Mapping[str, Any]) -> dict[str, Any]:
    chunks = {path: sorted(map(list, each)) for path, each in diff["updated_chunks"].items()}
    sets = {name: sorted(value) for name, value in diff.items() if name != "updated_chunks"}
    return {**sets, "updated_chunks": chunks}


@pytest.mark.parametrize("dialect", OLD, ids=lambda dialect: dialect.value)
def test_repositories_that_frazil_made_are_read_and_committed_to(
    official: OfficialLibrary, tmp_path: Path, dialect: Dialect
) -> None:
    fill(create_old(dialect, LocalStorage(tmp_path, durability=Durability.NONE)))
    repository, theirs = migrate(tmp_path), official.open(tmp_path)

    for info in repository.ancestry(branch="side"):
        ours = contents_of(repository.readonly_session(snapshot_id=info.id))
        contents = theirs.call("read_contents", snapshot_id=info.id, unreadable=[])
        assert {path: node["metadata"] for path, node in contents.items()} == {
            path: metadata for path, (metadata, _) in ours.items()
        }
        for path, (_, chunks) in ours.items():
            found = contents[path].get("chunks")
            assert (found is None) == (chunks is None)
            assert sorted((found or {}).values()) == sorted((chunks or {}).values())
    theirs.call("write_group", branch="side", path="new", message="theirs")

    again = frazil.Repository.open(repository.storage)
    messages = [info.message for info in again.ancestry(branch="side")]
    assert messages == ["theirs", "aside", "begin", "Repository initialized"]
    assert again.readonly_session("side").get_node_id("/new")
