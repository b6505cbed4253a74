"""Repositories to copy, and what is compared of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import zarr

from frazil import Repository, RepositoryConfig
from frazil.format.manifest import VirtualRef
from frazil.repository.session import Session
from frazil.repository.store_io import read_ref
from frazil.storage import Storage
from frazil.storage.wrappers import NO_FAULT, ForwardingStorage, Injection, Request

ALL_NATIVE = RepositoryConfig(inline_chunk_threshold_bytes=0)
FOLDERS = ("snapshots", "manifests", "transactions", "chunks")


def create(storage: Storage, spec_version: int = 2) -> Repository:
    """A repository of two commits, a tag, a branch."""
    repo = Repository.create(storage, ALL_NATIVE, spec_version=spec_version)
    session = repo.writable_session("main")
    group = zarr.group(session.store)
    group.create_array("ocean/t", shape=(20, 3), chunks=(1, 3), dtype="i4")[:10] = 1
    group.create_array("land/h", shape=(4,), chunks=(2,), dtype="i4")[:] = 5
    repo.create_tag("v1", session.commit("first"))
    repo.create_branch("dev", repo.lookup_tag("v1"))
    fill(repo, slice(10, 20), 2)
    return repo


def fill(repo: Repository, rows: slice, value: int, branch: str = "main") -> str:
    """A commit to some rows."""
    session = repo.writable_session(branch)
    zarr.open_array(session.store, path="ocean/t")[rows] = value
    return session.commit(f"{value} in {rows.start}")


def values(repo: Repository, path: str = "ocean/t", branch: str = "main") -> Any:
    """The elements of an array."""
    session = repo.readonly_session(branch)
    return np.asarray(zarr.open_array(session.store, path=path, mode="r")[...])


def objects(storage: Storage) -> dict[str, bytes]:
    """All objects but the state of the repository and its backups."""
    found = [info.key for info in storage.list() if info.key.partition("/")[0] in FOLDERS]
    return {key: bytes(storage.get(key)) for key in found}


def history(repo: Repository, branch: str = "main") -> list[str]:
    """The snapshots of a branch, newest first."""
    return [info.id for info in repo.ancestry(branch=branch)]


def refs(repo: Repository) -> dict[str, str]:
    """All branches and tags."""
    branches = {f"branch {name}": repo.lookup_branch(name) for name in repo.list_branches()}
    return branches | {f"tag {name}": repo.lookup_tag(name) for name in repo.list_tags()}


def contents(session: Session) -> dict[object, object]:
    """Metadata and bytes of a version; references of virtual chunks."""
    state, found = session.state, dict[object, object]()
    for node in state.view.nodes():
        found[node.path] = node.user_data
        for table in state.view.tables(node) if node.array is not None else ():
            for row, coordinate in enumerate(table.coordinates.tolist()):
                ref = table.ref(row)
                is_virtual = isinstance(ref, VirtualRef)
                data = ref if is_virtual else bytes(read_ref(state, ref))
                found[node.path, tuple(coordinate)] = data
    return found


class Watched(ForwardingStorage):
    """Another storage; a function sees each request before it is done, and may raise."""

    def __init__(self, inner: Storage, see: Callable[[Request], None]) -> None:
        super().__init__(inner)
        self._see = see

    def _begin(self, request: Request) -> Injection:
        self._see(request)
        return NO_FAULT
