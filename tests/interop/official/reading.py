"""What the official library says about a repository, as plain values."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import icechunk
import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype

T = TypeVar("T")

_KINDS = {int(getattr(icechunk.ChunkType, name)): name for name in ("native", "virtual", "inline")}


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


# Refs and history


def read_refs(repository: icechunk.Repository) -> dict[str, Any]:
    """Branches and tags with the snapshots that they point to."""
    branches, tags = repository.list_branches(), repository.list_tags()
    return {
        "branches": {name: repository.lookup_branch(name) for name in branches},
        "tags": {name: repository.lookup_tag(name) for name in tags},
    }


def read_ancestry(repository: icechunk.Repository, **start: str) -> list[dict[str, Any]]:
    """From a branch, a tag or a snapshot to the first snapshot."""
    return [
        {
            "id": info.id,
            "parent_id": info.parent_id,
            "written_at": info.written_at,
            "message": info.message,
            "metadata": info.metadata,
        }
        for info in repository.ancestry(**start)
    ]


def read_diff(repository: icechunk.Repository, **ends: str) -> dict[str, Any]:
    """What changed between two snapshots; `ends` as `Repository.diff` takes them."""
    diff = repository.diff(**ends)
    return {
        "new_groups": diff.new_groups,
        "new_arrays": diff.new_arrays,
        "deleted_groups": diff.deleted_groups,
        "deleted_arrays": diff.deleted_arrays,
        "updated_groups": diff.updated_groups,
        "updated_arrays": diff.updated_arrays,
        "updated_chunks": {path: list(chunks) for path, chunks in diff.updated_chunks.items()},
        "moved_nodes": diff.moved_nodes,
    }


def read_ops_log(repository: icechunk.Repository) -> list[dict[str, Any]]:
    """All updates, newest first."""
    return [
        {
            "kind": type(update.kind).__name__.removeprefix("UpdateType_"),
            "updated_at": update.updated_at,
            "backup_path": update.backup_path,
            **_fields_of(update.kind),
        }
        for update in repository.ops_log()
    ]


def _fields_of(kind: Any) -> dict[str, Any]:
    names = type(kind).__match_args__
    values = {name: getattr(kind, name) for name in names}
    return {
        name: _status(value) if isinstance(value, icechunk.RepoStatus) else value
        for name, value in values.items()
    }


# The repository itself


def read_spec_version(repository: icechunk.Repository) -> int:
    """1 or 2."""
    return int(repository.spec_version)


def read_config(repository: icechunk.Repository) -> Any:
    """The saved configuration as a tree of plain values, conditions and stores as text."""
    return _plain(icechunk.Repository.fetch_config(repository.storage))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if not type(value).__name__.endswith(("Config", "Settings", "Container")):
        return repr(value)
    attributes = {name: getattr(value, name) for name in dir(value) if not name.startswith("_")}
    return {name: _plain(item) for name, item in attributes.items() if not callable(item)}


def read_state(repository: icechunk.Repository) -> dict[str, Any]:
    """Metadata, status and feature flags of a V2 repository."""
    return {
        "metadata": repository.metadata,
        "status": _status(repository.status),
        "feature_flags": {flag.name: flag.setting for flag in repository.feature_flags()},
    }


def _status(status: icechunk.RepoStatus) -> dict[str, Any]:
    return {
        "availability": str(status.availability).rpartition(".")[2].lower(),
        "set_at": status.set_at,
        "limited_availability_reason": status.limited_availability_reason,
    }


# Nodes and chunks


def read_keys(repository: icechunk.Repository, snapshot_id: str, prefix: str = "") -> list[str]:
    """Every key of the store below a prefix."""
    store = repository.readonly_session(snapshot_id=snapshot_id).store

    async def collect() -> list[str]:
        return [key async for key in store.list_prefix(prefix)]

    return sorted(_run(collect()))


def read_values(
    repository: icechunk.Repository, snapshot_id: str, keys: list[str]
) -> dict[str, bytes | None]:
    """The bytes behind keys of the store."""
    store = repository.readonly_session(snapshot_id=snapshot_id).store

    async def collect() -> dict[str, bytes | None]:
        prototype = default_buffer_prototype()
        found = {key: await store.get(key, prototype) for key in keys}
        return {key: None if value is None else value.to_bytes() for key, value in found.items()}

    return _run(collect())


def read_nodes(repository: icechunk.Repository, snapshot_id: str) -> dict[str, bytes]:
    """The metadata of every node, found by listing and then asked for one by one."""
    keys = [key for key in read_keys(repository, snapshot_id) if _is_metadata(key)]
    values = read_values(repository, snapshot_id, keys)
    return {_path_of(key): value for key, value in values.items() if value is not None}


def _is_metadata(key: str) -> bool:
    return key == "zarr.json" or key.endswith("/zarr.json")


def _path_of(key: str) -> str:
    return "/" + key.removesuffix("zarr.json").rstrip("/")


def read_chunk_refs(
    repository: icechunk.Repository, snapshot_id: str, path: str
) -> list[dict[str, Any]]:
    """Every reference of an array, in order of coordinates."""
    store = repository.readonly_session(snapshot_id=snapshot_id).store

    async def collect() -> list[dict[str, Any]]:
        refs = []
        async for coords, kinds, places, offsets, lengths, inlined in store.array_chunk_iterator(
            path
        ):
            columns = (coords.tolist(), kinds.tolist(), places, offsets.tolist(), lengths.tolist())
            for row, (coord, kind, place, offset, length) in enumerate(zip(*columns, strict=True)):
                refs.append(
                    {
                        "coordinates": coord,
                        "kind": _KINDS[kind],
                        "place": place,
                        "offset": offset,
                        "length": length,
                        "inline": inlined.get(row),
                    }
                )
        return refs

    return sorted(_run(collect()), key=lambda ref: ref["coordinates"])


def read_locations(repository: icechunk.Repository, snapshot_id: str) -> list[str]:
    """The locations of all virtual chunks, as they are stored."""
    session = repository.readonly_session(snapshot_id=snapshot_id)
    return sorted(session.all_virtual_chunk_locations())


def read_array(repository: icechunk.Repository, snapshot_id: str, path: str) -> dict[str, Any]:
    """An array's values: little-endian bytes in C order, or a list of texts."""
    store = repository.readonly_session(snapshot_id=snapshot_id).store
    array = zarr.open_array(store, path=path, mode="r")
    values = np.asarray(array[...])
    if values.dtype.kind in "TUO":
        return {"shape": list(values.shape), "texts": values.tolist()}
    little = values.astype(values.dtype.newbyteorder("<"), order="C")
    return {"shape": list(values.shape), "dtype": little.dtype.name, "data": little.tobytes()}


# Files


def inspect_snapshot(repository: icechunk.Repository, snapshot_id: str) -> dict[str, Any]:
    """A snapshot file."""
    return repository.inspect_snapshot(snapshot_id)


def inspect_manifest(repository: icechunk.Repository, manifest_id: str) -> dict[str, Any]:
    """A manifest file."""
    return repository.inspect_manifest(manifest_id)


def inspect_transaction_log(repository: icechunk.Repository, snapshot_id: str) -> dict[str, Any]:
    """A transaction log, together with those of pruned ancestors."""
    return repository.inspect_transaction_log(snapshot_id)


def inspect_repo_info(repository: icechunk.Repository) -> dict[str, Any]:
    """The repo info file."""
    return repository.inspect_repo_info()
