"""The repositories that upkeep is measured on, made by Frazil.

    python -m benchmarks.support.upkeep_preparing '{"workload": "history", …}'

Native chunks are written and referred to without Zarr: two hundred thousand of them take seconds.
"""

import os
from pathlib import Path
from typing import Any

import zarr

import frazil
from benchmarks.support.measuring import Figures, answer
from benchmarks.support.upkeep_workloads import COLUMNS, set_references
from frazil.format.ids import ChunkId
from frazil.format.manifest import NativeRef
from frazil.repository.store_io import set_ref

NOTHING: Figures = {}
PREFIX = "file:///nowhere/"
ARRAYS = 10
"""Each has one manifest in each snapshot."""
CHUNKS = 100
"""Of each of these arrays."""


def prepare_history(folder: str, snapshots: int) -> Figures:
    """Snapshots in each of which all chunks are new; no branch leads to half of them."""
    repo = frazil.Repository.create(frazil.local_filesystem_storage(folder))
    session = repo.writable_session("main")
    for path in _array_paths():
        zarr.create_array(
            session.store, name=path, shape=(CHUNKS,), chunks=(1,), dtype="u1", compressors=None
        )
    first = session.commit("arrays")
    for branch in ("main", "abandoned"):
        if branch != "main":
            repo.create_branch(branch, first)
        for number in range(snapshots // 2):
            _commit_new_chunks(repo, branch, folder, number)
    repo.delete_branch("abandoned")
    return NOTHING


def _array_paths() -> list[str]:
    return [f"/array-{number}" for number in range(ARRAYS)]


def _commit_new_chunks(repo: Any, branch: str, folder: str, number: int) -> None:
    session = repo.writable_session(branch)
    chunks = Path(folder, "chunks")
    chunks.mkdir(exist_ok=True)
    for path in _array_paths():
        for place in range(CHUNKS):
            id = ChunkId(os.urandom(12))
            (chunks / str(id)).write_bytes(b"1")
            set_ref(session.store._state, path, (place,), NativeRef(id, 0, 1))
    session.commit(f"{branch} {number}")


def prepare_references(folder: str, rows: int) -> Figures:
    """An array of virtual references: the first half of its rows in one commit, all in the next."""
    store = frazil.local_filesystem_store("/nowhere/")
    config = frazil.RepositoryConfig.default()
    config.set_virtual_chunk_container(frazil.VirtualChunkContainer(PREFIX, store))
    repo = frazil.Repository.create(frazil.local_filesystem_storage(folder), config)
    repo.save_config()
    for number, start in enumerate((0, rows)):
        session = repo.writable_session("main")
        if number == 0:
            shape = (2 * rows, COLUMNS)
            zarr.create_array(
                session.store, name="a", shape=shape, chunks=(1, 1), dtype="u1", compressors=None
            )
        set_references(session, start, rows)
        session.commit(f"references {number}")
    return NOTHING


if __name__ == "__main__":
    answer({"history": prepare_history, "references": prepare_references})
