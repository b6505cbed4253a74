"""Nodes, values and chunks of every known repository are what is known about them."""

from pathlib import Path

import numpy as np
import pytest
import zarr

from frazil import NotFoundError, SpecVersion
from tests.generations import REPOSITORY_NAMES
from tests.known_repositories import (
    check_arrays,
    check_nodes,
    check_virtual_refs,
    open_known,
    read_expectations,
)

PATHSORT_NAMES = [name for name in REPOSITORY_NAMES if name.endswith("pathsort")]
FULLY_KNOWN_NAMES = [name for name in REPOSITORY_NAMES if name not in PATHSORT_NAMES]


@pytest.mark.parametrize("name", FULLY_KNOWN_NAMES)
def test_its_nodes_and_their_metadata_are_those_expected(generations: Path, name: str) -> None:
    expected = read_expectations(generations / name)
    repository = open_known(generations / name)

    for id, snapshot in expected["snapshots"].items():
        session = repository.readonly_session(snapshot_id=id)
        check_nodes(session, snapshot["nodes"], expected["node_states"])


@pytest.mark.parametrize("name", FULLY_KNOWN_NAMES)
def test_its_values_and_chunks_are_those_expected(generations: Path, name: str) -> None:
    expected = read_expectations(generations / name)
    repository = open_known(generations / name)

    for id, snapshot in expected["snapshots"].items():
        session = repository.readonly_session(snapshot_id=id)
        check_arrays(session, snapshot["nodes"], expected["node_states"])


@pytest.mark.parametrize("name", FULLY_KNOWN_NAMES)
def test_its_virtual_references_are_those_expected(generations: Path, name: str) -> None:
    expected = read_expectations(generations / name)
    repository = open_known(generations / name)
    id = expected.get("virtual_refs_in", expected["branches"]["main"])
    has_checksums = repository.spec_version != SpecVersion.draft

    session = repository.readonly_session(snapshot_id=id)

    check_virtual_refs(session, expected.get("virtual_refs", {}), has_checksums=has_checksums)


@pytest.mark.parametrize("name", PATHSORT_NAMES)
def test_names_that_orders_disagree_about_are_all_found(generations: Path, name: str) -> None:
    expected = read_expectations(generations / name)
    repository = open_known(generations / name)
    session = repository.readonly_session("main")

    found = {node.path: node.array is None for node in session.state.view.nodes()}

    assert {path for path, is_group in found.items() if is_group} == set(expected["groups"])
    assert {path for path, is_group in found.items() if not is_group} == set(expected["arrays"])
    for path in expected["groups"]:
        assert zarr.open_group(session.store, path=path, mode="r").path == path.strip("/")
    for path, values in expected["arrays"].items():
        array = zarr.open_array(session.store, path=path, mode="r")
        assert str(array.dtype) == expected["array_dtype"]
        assert np.asarray(array[...]).tolist() == values
    assert next(repository.ancestry(branch="main")).message == expected["message"]


@pytest.mark.parametrize("name", REPOSITORY_NAMES)
def test_a_node_that_is_not_there_is_not_found(generations: Path, name: str) -> None:
    session = open_known(generations / name).readonly_session("main")

    assert session.store.get_sync("no/such/node/zarr.json") is None
    with pytest.raises(NotFoundError):
        session.get_node_id("/no/such/node")
