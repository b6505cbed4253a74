"""The repositories of every generation: opened, and compared with what is known about them.

Their `file://` references name a folder of the machine that made them. No configuration can say that
it is elsewhere, so the references are read as if they named the folder that was unpacked.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

import frazil
from frazil import IcechunkStore, Session
from frazil.credentials import LocalFileSystemAccess
from frazil.format.manifest import ETag, LastModified, VirtualRef
from frazil.storage.interface import Buffer, Storage
from frazil.storage.local import LocalStorage
from frazil.storage.store_config import ObjectStoreConfig
from frazil.virtual.access import VirtualChunkAccess
from frazil.virtual.containers import VirtualChunkContainer


class MovedFiles(VirtualChunkAccess):
    """Virtual chunks of files that were moved from one folder to another."""

    def __init__(self, before: str, now: str) -> None:
        # The one name that references of these repositories use: vcc://local/...
        container = VirtualChunkContainer(now, ObjectStoreConfig.LocalFileSystem(""), "local")
        super().__init__({now: container}, {now: LocalFileSystemAccess})
        self._before, self._now = before, now

    def read(self, ref: VirtualRef, start: int, end: int) -> Buffer:
        return super().read(self._move(ref), start, end)

    async def read_async(self, ref: VirtualRef, start: int, end: int) -> Buffer:
        return await super().read_async(self._move(ref), start, end)

    def _move(self, ref: VirtualRef) -> VirtualRef:
        return replace(ref, location=ref.location.replace(self._before, self._now))


def read_expectations(folder: Path) -> dict[str, Any]:
    """What a repository must read as."""
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_bytes())
    return expected


def open_known(folder: Path, storage: Storage | None = None) -> frazil.Repository:
    """The repository of a folder, or a copy of it elsewhere."""
    repository = frazil.Repository.open(storage or LocalStorage(folder / "repo"))
    before = read_expectations(folder).get("virtual_url_prefix")
    if before is None:
        return repository
    # A repository that was migrated refers to the files of the one that it was.
    owner = folder.parent / before.rstrip("/").split("/")[-2]
    opened = repository._repository
    virtual = MovedFiles(before, f"{(owner / 'virtual').as_uri()}/")
    context = replace(opened.context, virtual=virtual)
    return frazil.Repository(replace(opened, context=context))


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


def check_nodes(session: Session, nodes: dict[str, str], states: dict[str, Metadata]) -> None:
    """All nodes, with their metadata; `nodes` names the state of each."""
    found = {node.path: node.user_data for node in session.state.view.nodes()}
    assert set(found) == set(nodes)
    for path, key in nodes.items():
        data = read(session.store, node_key(path, "zarr.json"))
        assert data == found[path]
        assert simplify(json.loads(data)) == simplify(states[key]["zarr_json"])
        assert sha256(data) == states[key].get("zarr_json_sha256", sha256(data))


def check_arrays(session: Session, nodes: dict[str, str], states: dict[str, Metadata]) -> None:
    """All values and chunks."""
    for path, key in nodes.items():
        if states[key]["type"] == "array":
            check_chunks(session, path, states[key]["chunks"])
            check_array(session, path, states[key])


def check_virtual_refs(
    session: Session, refs: dict[str, dict[str, Metadata]], *, has_checksums: bool
) -> None:
    """Locations and, where the generation has a place for them, checksums."""
    view = session.state.view
    for path, chunks in refs.items():
        node = view.get_node(path)
        for chunk, known in chunks.items():
            ref = view.find_chunk(node, tuple(map(int, chunk.split("/"))))

            assert isinstance(ref, VirtualRef)
            assert (ref.location, ref.offset, ref.length) == (
                known["location"], known["offset"], known["length"],
            )  # fmt: skip
            e_tag = ref.checksum.value if isinstance(ref.checksum, ETag) else None
            seconds = ref.checksum.seconds if isinstance(ref.checksum, LastModified) else None
            if has_checksums:
                assert (e_tag, seconds) == (known.get("etag"), known.get("last_modified"))
