"""Repositories of many releases, every file rewritten by Frazil, as the official library reads them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.generations import REPOSITORY_NAMES
from tests.interop.official_library import Container, OfficialLibrary, OfficialRepository
from tests.interop.rewriting import rewrite_repository

FLATBUFFERS = [name for name in REPOSITORY_NAMES if name.startswith(("v1-", "v2-"))]
ODD_NAMES = [name for name in FLATBUFFERS if name.endswith("-pathsort")]
ORDINARY = [name for name in FLATBUFFERS if name not in ODD_NAMES]
VERSION_2 = [name for name in ORDINARY if name.startswith("v2-")]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A repository after the rewrite, and what it must read as."""

    expected: dict[str, Any]
    original: OfficialRepository
    repository: OfficialRepository
    virtual: Container

    def relocate(self, location: str) -> str:
        """Where a virtual chunk is now, relative locations made absolute."""
        for prefix in (self.expected.get("virtual_url_prefix"), f"vcc://{self.virtual.name}/"):
            if prefix is not None and location.startswith(prefix):
                return self.virtual.url_prefix + location.removeprefix(prefix)
        return location


@pytest.fixture(scope="module")
def rewritten_before() -> dict[str, Rewritten]:
    """Repositories that need not be rewritten again."""
    return {}


@pytest.fixture
def rewritten(
    request: pytest.FixtureRequest,
    official: OfficialLibrary,
    generations: Path,
    tmp_path_factory: pytest.TempPathFactory,
    rewritten_before: dict[str, Rewritten],
) -> Rewritten:
    """The repository that the test's parameter names."""
    name: str = request.param
    if name not in rewritten_before:
        target = tmp_path_factory.mktemp("rewritten") / "repo"
        rewritten_before[name] = _rewrite(official, generations, name, target)
    return rewritten_before[name]


def _rewrite(official: OfficialLibrary, generations: Path, name: str, target: Path) -> Rewritten:
    expected = json.loads((generations / name / "expected.json").read_text())
    # Migrated repositories read the files of the one that they were made from.
    prefix: str = expected.get("virtual_url_prefix", f"file:///nowhere/{name}/virtual/")
    directory = generations / Path(prefix).parent.name / "virtual"
    virtual = Container.of(directory, expected.get("virtual_container_name"))

    def relocate(location: str) -> str:
        return location.replace(prefix, virtual.url_prefix)

    source = generations / name / "repo"
    rewrite_repository(source, target, relocate)
    return Rewritten(expected, official.open(source), official.open(target, [virtual]), virtual)


# Compared with what the official library says about the original


@pytest.mark.parametrize("rewritten", FLATBUFFERS, indirect=True)
def test_every_file_is_inspected_to_be_the_same(rewritten: Rewritten) -> None:
    inspected = 0
    for directory, call, argument in (
        ("snapshots", "inspect_snapshot", "snapshot_id"),
        ("manifests", "inspect_manifest", "manifest_id"),
        ("transactions", "inspect_transaction_log", "snapshot_id"),
    ):
        for path in (rewritten.original.path / directory).glob("*"):
            original = rewritten.original.call(call, **{argument: path.name})
            found = rewritten.repository.call(call, **{argument: path.name})
            assert _without_encoding(found) == _without_encoding(original)
            inspected += 1

    assert inspected > 2


@pytest.mark.parametrize("rewritten", VERSION_2, indirect=True)
def test_the_repo_info_is_inspected_to_be_the_same(rewritten: Rewritten) -> None:
    original = rewritten.original.call("inspect_repo_info")

    found = rewritten.repository.call("inspect_repo_info")

    assert _without_encoding(found) == _without_encoding(original)
    assert rewritten.repository.call("read_ops_log") == rewritten.original.call("read_ops_log")


@pytest.mark.parametrize("rewritten", FLATBUFFERS, indirect=True)
def test_the_configuration_is_the_same(rewritten: Rewritten) -> None:
    assert rewritten.repository.call("read_config") == rewritten.original.call("read_config")


def _without_encoding(inspected: dict[str, Any]) -> dict[str, Any]:
    """What a file means, without who wrote it, how large it became and in which order.

    Releases of the official library before 2 did not sort all that must be sorted.
    """
    header = inspected["header"]
    nodes = inspected.get("nodes", ())
    updated_chunks = inspected.get("updated_chunks", ())
    return {
        **_without_size(inspected),
        "header": {name: header[name] for name in ("spec_version", "file_type", "compression")},
        "manifests": [_without_size(manifest) for manifest in inspected.get("manifests", ())],
        "nodes": sorted(nodes, key=lambda node: str(node["path"])),
        "updated_chunks": [
            {**array, "chunks": sorted(array["chunks"])} for array in updated_chunks
        ],
        "compression": None,
    }


def _without_size(inspected: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in inspected.items() if name != "size_bytes"}


@pytest.mark.parametrize("rewritten", ORDINARY, indirect=True)
def test_all_references_are_the_same(rewritten: Rewritten) -> None:
    for id_, snapshot in rewritten.expected["snapshots"].items():
        question = {"snapshot_id": id_, "unreadable": list(snapshot["nodes"])}

        original = rewritten.original.call("read_contents", **question)
        found = rewritten.repository.call("read_contents", **question)

        for ref in (ref for node in original.values() for ref in node.get("refs", ())):
            ref["place"] = rewritten.relocate(ref["place"])
        assert found == original


# Compared with what is known about it


@pytest.mark.parametrize("rewritten", ORDINARY, indirect=True)
def test_refs_and_history_are_the_same(rewritten: Rewritten) -> None:
    expected, repository = rewritten.expected, rewritten.repository

    refs = repository.call("read_refs")

    assert refs == {"branches": expected["branches"], "tags": expected["tags"]}
    for start, ids in expected["history"].items():
        kind, _, name = start.partition(":")
        ancestry = repository.call(
            "read_ancestry", **{"snapshot_id" if kind == "snapshot" else kind: name}
        )
        assert [info["id"] for info in ancestry] == ids
        for info in ancestry:
            _assert_same_commit(info, expected["snapshots"][info["id"]])


def _assert_same_commit(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert found["parent_id"] == expected["parent_id"]
    assert found["message"] == expected["message"]
    assert found["metadata"] == expected["metadata"]
    assert found["written_at"] == datetime.fromisoformat(expected["written_at"])


@pytest.mark.parametrize("rewritten", ORDINARY, indirect=True)
def test_transaction_logs_give_the_same_diffs(rewritten: Rewritten) -> None:
    diffs = {
        id_: snapshot
        for id_, snapshot in rewritten.expected["snapshots"].items()
        if "diff_from_parent" in snapshot
    }

    for id_, snapshot in diffs.items():
        diff = rewritten.repository.call(
            "read_diff", from_snapshot_id=snapshot["parent_id"], to_snapshot_id=id_
        )
        expected = snapshot["diff_from_parent"]
        assert {name: diff[name] for name in expected} == expected

    assert diffs


@pytest.mark.parametrize("rewritten", ORDINARY, indirect=True)
def test_nodes_references_and_values_are_the_same(rewritten: Rewritten) -> None:
    states = rewritten.expected["node_states"]
    for id_, snapshot in rewritten.expected["snapshots"].items():
        nodes = {path: states[key] for path, key in snapshot["nodes"].items()}
        unreadable = [path for path, state in nodes.items() if state.get("data") is None]

        contents = rewritten.repository.call(
            "read_contents", snapshot_id=id_, unreadable=unreadable
        )

        assert contents.keys() == nodes.keys()
        for path, state in nodes.items():
            _assert_same_node(contents[path], state)


def _assert_same_node(found: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    assert hashlib.sha256(found["metadata"]).hexdigest() == state["zarr_json_sha256"]
    if state["type"] == "group":
        return
    refs = {"/".join(map(str, ref["coordinates"])): ref for ref in found["refs"]}
    assert refs.keys() == state["chunks"].keys()
    if state["data"] is None:
        return
    _assert_same_values(found["array"], state["data"])
    values = {key.rpartition("c")[2].strip("/"): data for key, data in found["chunks"].items()}
    for key, chunk in state["chunks"].items():
        assert refs[key]["length"] == chunk["length"]
        assert refs[key]["kind"] == chunk.get("kind", refs[key]["kind"])
        assert hashlib.sha256(values[key]).hexdigest() == chunk["sha256"]


def _assert_same_values(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert found["shape"] == expected["shape"]
    if expected["dtype"] == "string":
        assert found["texts"] == expected["values"]
    else:
        assert found["dtype"] == expected["dtype"]
        assert hashlib.sha256(found["data"]).hexdigest() == expected["sha256_le_c_bytes"]


@pytest.mark.parametrize("rewritten", ORDINARY, indirect=True)
def test_virtual_references_are_the_same(rewritten: Rewritten) -> None:
    for path, chunks in rewritten.expected.get("virtual_refs", {}).items():
        refs = rewritten.repository.call(
            "read_chunk_refs", snapshot_id=rewritten.expected["virtual_refs_in"], path=path
        )

        found = {
            "/".join(map(str, ref["coordinates"])): (ref["place"], ref["offset"], ref["length"])
            for ref in refs
        }
        assert found == {
            key: (rewritten.relocate(chunk["location"]), chunk["offset"], chunk["length"])
            for key, chunk in chunks.items()
        }


@pytest.mark.parametrize("rewritten", VERSION_2, indirect=True)
def test_state_and_ops_log_are_the_same(rewritten: Rewritten) -> None:
    expected = rewritten.expected["v2"]

    state = rewritten.repository.call("read_state")
    log = rewritten.repository.call("read_ops_log")
    info = rewritten.repository.call("inspect_repo_info")

    assert state["metadata"] == expected["repo_metadata"]
    assert state["feature_flags"] == {
        flag["name"]: flag["setting"] for flag in expected["feature_flags"]
    }
    # The first pre-release could not yet say its status.
    if "status" in expected:
        assert state["status"] == {
            "availability": expected["status"]["availability"],
            "set_at": datetime.fromisoformat(expected["status"]["set_at"]),
            "limited_availability_reason": expected["status"]["reason"],
        }
    assert info["deleted_tags"] == rewritten.expected.get("deleted_tags", [])
    for found, update in zip(log, expected["ops_log"], strict=True):
        assert found["kind"] == update["kind"].removeprefix("Py")
        assert found["updated_at"] == datetime.fromisoformat(update["updated_at"])
        rest = update.keys() - {"kind", "updated_at"}
        assert {name: found[name] for name in rest} == {name: update[name] for name in rest}


@pytest.mark.parametrize("rewritten", ODD_NAMES, indirect=True)
def test_nodes_with_odd_names_are_all_found(rewritten: Rewritten) -> None:
    expected = rewritten.expected

    contents = rewritten.repository.call(
        "read_contents", snapshot_id=expected["branches"]["main"], unreadable=[]
    )

    assert contents.keys() == {*expected["groups"], *expected["arrays"]}
    for path, values in expected["arrays"].items():
        assert contents[path]["array"]["data"] == np.array(values, "<i4").tobytes()
