"""Repositories from before V1 with a bit of everything, and all that can be read in a repository."""

from typing import Any

import zarr

from frazil import Repository, RepositoryConfig, Session, create_legacy
from frazil.format.header import Dialect
from frazil.format.manifest import VirtualRef
from frazil.protocols.repo_changes import RESERVED
from frazil.storage.interface import Storage
from frazil.storage.memory import MemoryStorage

OLD = [dialect for dialect in Dialect if dialect not in (Dialect.V1, Dialect.V2)]

_SOME_INLINE = RepositoryConfig(inline_chunk_threshold_bytes=8)


def create_old(dialect: Dialect, storage: Storage | None = None) -> Repository:
    """An empty repository; its chunks of up to 8 bytes go inline."""
    return create_legacy(storage or MemoryStorage(), dialect.value).reopen(_SOME_INLINE)


def fill(repository: Repository) -> Repository:
    """Commits on two branches that make, change, resize and delete, tags, and a tip without chunks."""
    first = _commit(repository, "begin", _begin)
    _commit(repository, "change", _change)
    repository.create_branch("side", first)
    _commit(repository, "aside", _go_aside, branch="side")
    repository.create_tag("first", first)
    if repository.dialect is Dialect.ALPHA_H:
        repository.create_tag("gone", first)
        repository.delete_tag("gone")
    _commit(repository, "clear", _clear)
    return repository


def _commit(repository: Repository, message: str, edit: Any, branch: str = "main") -> str:
    session = repository.writable_session(branch)
    edit(zarr.open_group(session.store))
    return session.commit(message, metadata={"of": message})


def _begin(root: zarr.Group) -> None:
    numbers = root.create_array("numbers", shape=(6, 4), chunks=(2, 2), dtype="i4", fill_value=-1)
    numbers[:] = 1
    root.create_array("small", shape=(4,), chunks=(2,), dtype="i2", fill_value=0)[:] = 2
    root.create_array("scalar", shape=(), chunks=(), dtype="f8", fill_value=0)[...] = 3
    root.create_group("group", attributes={"a": 1}).create_array(
        "empty", shape=(4,), chunks=(2,), dtype="u1", fill_value=7
    )


def _change(root: zarr.Group) -> None:
    numbers = _array(root, "numbers")
    numbers[:2, :2] = 4
    numbers.resize((4, 4))
    root["group"].attrs["a"] = 2
    del root["small"]
    root.create_array("small", shape=(2, 2), chunks=(1, 2), dtype="i4", fill_value=0)[:] = 5


def _go_aside(root: zarr.Group) -> None:
    _array(root, "small")[2:] = 6
    _array(root, "scalar")[...] = 7


def _clear(root: zarr.Group) -> None:
    for name in ("numbers", "small", "scalar", "group"):
        del root[name]


def _array(root: zarr.Group, name: str) -> "zarr.Array[Any]":
    found = root[name]
    assert isinstance(found, zarr.Array)
    return found


# Reading


def describe(repository: Repository) -> dict[str, Any]:
    """All refs with their histories and what is in each snapshot, without any ids."""
    branches, tags = repository.list_branches(), repository.list_tags()
    return {
        **{f"branch {name}": _describe_line(repository, branch=name) for name in branches},
        **{f"tag {name}": _describe_line(repository, tag=name) for name in tags},
    }


def _describe_line(repository: Repository, **ref: str) -> list[Any]:
    return [
        (
            info.message,
            info.written_at,
            {name: value for name, value in info.metadata.items() if name != RESERVED},
            contents_of(repository.readonly_session(snapshot_id=info.id)),
        )
        for info in repository.ancestry(**ref)
    ]


def contents_of(session: Session) -> dict[str, Any]:
    """The nodes of a session with their metadata, arrays with the bytes or places of their chunks."""
    return {
        node.path: (node.user_data, None if node.array is None else _chunks(session, node.path))
        for node in session.state.view.nodes()
    }


def _chunks(session: Session, path: str) -> dict[tuple[int, ...], Any]:
    view = session.state.view
    refs = view.table(view.get_node(path)).refs()
    return {
        place: ref if isinstance(ref, VirtualRef) else _read_chunk(session, path, place)
        for place, ref in refs.items()
    }


def _read_chunk(session: Session, path: str, place: tuple[int, ...]) -> bytes:
    data = session.store.get_sync("/".join([path.lstrip("/"), "c", *map(str, place)]))
    assert data is not None
    return data.to_bytes()


def listing(storage: Storage) -> dict[str, bytes]:
    """All objects."""
    return {info.key: bytes(storage.get(info.key)) for info in storage.list()}
