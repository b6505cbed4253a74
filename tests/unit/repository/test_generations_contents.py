"""Nodes, values and chunks of every known repository are what is known about them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

from frazil import IcechunkStore, NotFoundError, Session, SpecVersion
from frazil.format.references import ETag, LastModified, VirtualRef
from tests.generations import REPOSITORY_NAMES
from tests.known_repositories import open_known, read_expectations

PATHSORT_NAMES = [name for name in REPOSITORY_NAMES if name.endswith("pathsort")]
FULLY_KNOWN_NAMES = [name for name in REPOSITORY_NAMES if name not in PATHSORT_NAMES]
Metadata = dict[str, Any]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def simplify(metadata: Metadata) -> Metadata:
    """Metadata without the nulls and empty lists that mean nothing to old generations."""
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


def read(store: IcechunkStore, key: str) -> bytes:
    data = store.get_sync(key)
    assert data is not None, key
    return data.to_bytes()


def node_key(path: str, rest: str) -> str:
    return f"{path}/{rest}".lstrip("/")


def little_endian_bytes(values: NDArray[Any]) -> bytes:
    return values.astype(values.dtype.newbyteorder("<")).tobytes()


def chunk_names(session: Session, path: str) -> set[str]:
    node, _ = session.state.view.get_array(path)
    return {
        "/".join(map(str, each)) for rows in session.state.view.coordinates(node) for each in rows
    }


def check_array(session: Session, path: str, state: Metadata) -> None:
    known = state["data"]
    if known is None or _is_beyond_zarr(state["zarr_json"]):
        return
    with zarr.config.set({"array.rectilinear_chunks": True}):
        values = np.asarray(zarr.open_array(session.store, path=path, mode="r")[...])
    assert list(values.shape) == known["shape"]
    if "sha256_le_c_bytes" in known:
        assert str(values.dtype.newbyteorder("=")) == known["dtype"]
        assert sha256(little_endian_bytes(values)) == known["sha256_le_c_bytes"]
    else:
        assert values.tolist() == known["values"]


def _is_beyond_zarr(metadata: Metadata) -> bool:
    """Chunks of many sizes came to Zarr with 3.2; their bytes are checked all the same."""
    is_rectilinear = metadata["chunk_grid"]["name"] == "rectilinear"
    return is_rectilinear and tuple(map(int, zarr.__version__.split(".")[:2])) < (3, 2)


def check_chunks(session: Session, path: str, chunks: dict[str, Metadata | None]) -> None:
    assert chunk_names(session, path) == set(chunks)
    for name, known in chunks.items():
        coordinates = [int(index) for index in name.split("/") if index]
        kind = session.chunk_type(path, coordinates).name
        if known is None:
            assert kind == "virtual"
            continue
        if "kind" in known:
            assert kind == known["kind"]
        if "sha256" in known:
            key = node_key(path, f"c/{name}".rstrip("/"))
            data = read(session.store, key)
            assert (len(data), sha256(data)) == (known["length"], known["sha256"])


@pytest.mark.parametrize("name", FULLY_KNOWN_NAMES)
def test_its_nodes_and_their_metadata_are_those_expected(generations: Path, name: str) -> None:
    expected = read_expectations(generations / name)
    repository = open_known(generations / name)

    for id, snapshot in expected["snapshots"].items():
        session = repository.readonly_session(snapshot_id=id)
        found = {node.path: node.user_data for node in session.state.view.nodes()}

        assert set(found) == set(snapshot["nodes"])
        for path, key in snapshot["nodes"].items():
            state = expected["node_states"][key]
            data = read(session.store, node_key(path, "zarr.json"))
            assert data == found[path]
            assert simplify(json.loads(data)) == simplify(state["zarr_json"])
            assert sha256(data) == state.get("zarr_json_sha256", sha256(data))


@pytest.mark.parametrize("name", FULLY_KNOWN_NAMES)
def test_its_values_and_chunks_are_those_expected(generations: Path, name: str) -> None:
    expected = read_expectations(generations / name)
    repository = open_known(generations / name)

    for id, snapshot in expected["snapshots"].items():
        session = repository.readonly_session(snapshot_id=id)
        for path, key in snapshot["nodes"].items():
            state = expected["node_states"][key]
            if state["type"] == "array":
                check_chunks(session, path, state["chunks"])
                check_array(session, path, state)


@pytest.mark.parametrize("name", FULLY_KNOWN_NAMES)
def test_its_virtual_references_are_those_expected(generations: Path, name: str) -> None:
    expected = read_expectations(generations / name)
    repository = open_known(generations / name)
    id = expected.get("virtual_refs_in", expected["branches"]["main"])
    view = repository.readonly_session(snapshot_id=id).state.view

    for path, chunks in expected.get("virtual_refs", {}).items():
        node = view.get_node(path)
        for chunk, known in chunks.items():
            ref = view.find_chunk(node, tuple(map(int, chunk.split("/"))))

            assert isinstance(ref, VirtualRef)
            assert (ref.location, ref.offset, ref.length) == (
                known["location"], known["offset"], known["length"],
            )  # fmt: skip
            e_tag = ref.checksum.value if isinstance(ref.checksum, ETag) else None
            seconds = ref.checksum.seconds if isinstance(ref.checksum, LastModified) else None
            if repository.spec_version != SpecVersion.draft:  # which has no place for checksums
                assert (e_tag, seconds) == (known.get("etag"), known.get("last_modified"))


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
