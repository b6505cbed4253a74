"""What a repository has, as it is compared before and after a job."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from frazil import Repository, Session, local_filesystem_storage
from frazil.format.manifest import ChunkRef, NativeRef
from frazil.repository.store_io import read_ref

VALUES = np.random.default_rng(5).integers(0, 2**62, (30, 30))

Place = tuple[str, tuple[int, ...]]
"""The path of an array, and a chunk of it."""


def references(session: Session) -> dict[Place, ChunkRef]:
    """All chunk references."""
    view = session.state.view
    return {
        (node.path, place): ref
        for node in view.nodes()
        if node.array is not None
        for place, ref in view.table(node).refs().items()
    }


def stored_bytes(session: Session) -> dict[Place, bytes]:
    """All chunks as they are stored."""
    found = references(session)
    return {place: bytes(read_ref(session.state, ref)) for place, ref in found.items()}


def objects_of(session: Session) -> set[str]:
    """The chunk objects that are referred to."""
    natives = [ref for ref in references(session).values() if isinstance(ref, NativeRef)]
    return {f"chunks/{ref.chunk_id}" for ref in natives}


def chunk_keys(repo: Repository) -> set[str]:
    """The chunk objects that are there."""
    return {info.key for info in repo.storage.list("chunks/")}


def read_values(session: Any, path: str = "data/a") -> Any:
    """The values of an array, through either library."""
    return np.asarray(zarr.open_array(session.store, path=path, mode="r")[...])


def change(folder: Path, message: str, edit: Callable[[Session], object]) -> None:
    """Somebody else's commit."""
    session = Repository.open(local_filesystem_storage(str(folder))).writable_session("main")
    edit(session)
    session.commit(message)


def set_values(path: str, place: Any, value: Any) -> Callable[[Session], None]:
    """An edit of some values."""

    def edit(session: Session) -> None:
        zarr.open_array(session.store, path=path, mode="r+")[place] = value

    return edit


def messages(repo: Repository) -> list[str]:
    """Those of the commits to main, the newest first."""
    return [each.message for each in repo.ancestry(branch="main")]
