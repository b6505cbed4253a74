"""The second reader of old repositories agrees with what is known about them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.alpha_reader import OldNode, OldRepository
from tests.generations import REPOSITORY_NAMES

NAMES = [name for name in REPOSITORY_NAMES if name.startswith(("alpha", "draft"))]


def expectations(folder: Path) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_bytes())
    return expected


def simplify(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata without the nulls and empty lists that mean nothing."""
    codecs = [
        {name: value for name, value in codec.items() if value is not None}
        for codec in metadata.get("codecs", [])
    ]
    kept = {
        name: value
        for name, value in metadata.items()
        if value is not None and (name != "storage_transformers" or value)
    }
    return kept | ({"codecs": codecs} if codecs else {})


def digests(node: OldNode) -> dict[str, str]:
    return {
        "/".join(map(str, where)): hashlib.sha256(data).hexdigest()
        for where, data in node.chunks.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_refs_and_history_are_those_expected(generations: Path, name: str) -> None:
    expected = expectations(generations / name)
    repository = OldRepository(generations / name / "repo")

    assert repository.branches() == expected["branches"]
    assert repository.tags() == expected["tags"]
    for branch in expected["branches"]:
        history = repository.read_branch(branch).history
        assert [commit.id for commit in history] == expected["history"][f"branch:{branch}"]
        for commit in history:
            known = expected["snapshots"][commit.id]
            assert (commit.message, commit.metadata) == (known["message"], known["metadata"])


@pytest.mark.parametrize("name", NAMES)
def test_nodes_and_chunks_are_those_expected(generations: Path, name: str) -> None:
    expected = expectations(generations / name)
    repository = OldRepository(generations / name / "repo")

    for branch, tip in expected["branches"].items():
        nodes = repository.read_branch(branch).nodes
        states = {
            path: expected["node_states"][key]
            for path, key in expected["snapshots"][tip]["nodes"].items()
        }
        assert set(nodes) == set(states)
        for path, node in nodes.items():
            assert simplify(node.metadata) == simplify(states[path]["zarr_json"])
            chunks = states[path].get("chunks", {})
            assert digests(node) == {
                where: chunk["sha256"]
                for where, chunk in chunks.items()
                if chunk["kind"] != "virtual"
            }
            assert len(node.virtual) == sum(c["kind"] == "virtual" for c in chunks.values())
