"""What the official library says about a repository, as plain values."""

import asyncio
import json
from typing import Any

import icechunk
import numpy as np
import zarr
from zarr.core.buffer import default_buffer_prototype

_KINDS = {int(getattr(icechunk.ChunkType, name)): name for name in ("native", "virtual", "inline")}


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
    return asyncio.run(_keys(_store(repository, snapshot_id), prefix))


def read_values(
    repository: icechunk.Repository, snapshot_id: str, keys: list[str]
) -> dict[str, bytes | None]:
    """The bytes behind keys of the store."""
    return asyncio.run(_values(_store(repository, snapshot_id), keys))


def read_nodes(repository: icechunk.Repository, snapshot_id: str) -> dict[str, bytes]:
    """The metadata of every node, found by listing and then asked for one by one."""
    return asyncio.run(_nodes(_store(repository, snapshot_id)))


def read_chunk_refs(
    repository: icechunk.Repository, snapshot_id: str, path: str
) -> list[dict[str, Any]]:
    """Every reference of an array, in order of coordinates; relative locations made absolute."""
    return asyncio.run(_chunk_refs(_store(repository, snapshot_id), path))


def read_array(repository: icechunk.Repository, snapshot_id: str, path: str) -> dict[str, Any]:
    """An array's values: little-endian bytes in C order, or a list of texts."""
    return _array(_store(repository, snapshot_id), path)


def read_locations(repository: icechunk.Repository, snapshot_id: str) -> list[str]:
    """The locations of all virtual chunks, relative ones made absolute."""
    session = repository.readonly_session(snapshot_id=snapshot_id)
    return sorted(session.all_virtual_chunk_locations())


def read_contents(
    repository: icechunk.Repository, snapshot_id: str, unreadable: list[str]
) -> dict[str, dict[str, Any]]:
    """Every node with its metadata; arrays with references, and values unless they are unreadable."""
    store = _store(repository, snapshot_id)
    contents = asyncio.run(_contents(store, unreadable))
    for path, node in contents.items():
        if "chunks" in node:
            node["array"] = _array(store, path)
    return contents


def _store(repository: icechunk.Repository, snapshot_id: str) -> icechunk.IcechunkStore:
    return repository.readonly_session(snapshot_id=snapshot_id).store


async def _contents(
    store: icechunk.IcechunkStore, unreadable: list[str]
) -> dict[str, dict[str, Any]]:
    contents: dict[str, dict[str, Any]] = {}
    for path, metadata in (await _nodes(store)).items():
        contents[path] = {"metadata": metadata}
        if json.loads(metadata)["node_type"] == "array":
            refs = await _chunk_refs(store, path)
            contents[path]["refs"] = refs
            if path not in unreadable:
                keys = [_chunk_key(path, ref["coordinates"]) for ref in refs]
                contents[path]["chunks"] = await _values(store, keys)
    return contents


def _chunk_key(path: str, coordinates: list[int]) -> str:
    return "/".join([path.lstrip("/"), "c", *map(str, coordinates)])


async def _keys(store: icechunk.IcechunkStore, prefix: str) -> list[str]:
    return sorted([key async for key in store.list_prefix(prefix)])


async def _values(store: icechunk.IcechunkStore, keys: list[str]) -> dict[str, bytes | None]:
    prototype = default_buffer_prototype()
    found = await asyncio.gather(*(store.get(key, prototype) for key in keys))
    values = (None if value is None else value.to_bytes() for value in found)
    return dict(zip(keys, values, strict=True))


async def _nodes(store: icechunk.IcechunkStore) -> dict[str, bytes]:
    suffix = "zarr.json"
    keys = [key for key in await _keys(store, "") if f"/{key}".endswith(f"/{suffix}")]
    values = await _values(store, keys)
    return {
        "/" + key.removesuffix(suffix).rstrip("/"): value
        for key, value in values.items()
        if value is not None
    }


async def _chunk_refs(store: icechunk.IcechunkStore, path: str) -> list[dict[str, Any]]:
    refs = []
    async for coords, kinds, places, offsets, lengths, inlined in store.array_chunk_iterator(path):
        columns = (coords.tolist(), kinds.tolist(), places, offsets.tolist(), lengths.tolist())
        refs += [
            {
                "coordinates": coordinates,
                "kind": _KINDS[kind],
                "place": place,
                "offset": offset,
                "length": length,
                "inline": inlined.get(row),
            }
            for row, (coordinates, kind, place, offset, length) in enumerate(
                zip(*columns, strict=True)
            )
        ]
    return sorted(refs, key=lambda ref: ref["coordinates"])


def _array(store: icechunk.IcechunkStore, path: str) -> dict[str, Any]:
    values = np.asarray(zarr.open_array(store, path=path, mode="r")[...])
    if values.dtype.kind in "TUO":
        return {"shape": list(values.shape), "texts": values.tolist()}
    little = values.astype(values.dtype.newbyteorder("<"), order="C")
    return {"shape": list(values.shape), "dtype": little.dtype.name, "data": little.tobytes()}


# Files


def inspect_snapshot(repository: icechunk.Repository, snapshot_id: str) -> dict[str, Any]:
    """A snapshot file."""
    return dict(repository.inspect_snapshot(snapshot_id))


def inspect_manifest(repository: icechunk.Repository, manifest_id: str) -> dict[str, Any]:
    """A manifest file."""
    return dict(repository.inspect_manifest(manifest_id))


def inspect_transaction_log(repository: icechunk.Repository, snapshot_id: str) -> dict[str, Any]:
    """A transaction log, together with those of pruned ancestors."""
    return dict(repository.inspect_transaction_log(snapshot_id))


def inspect_repo_info(repository: icechunk.Repository) -> dict[str, Any]:
    """The repo info file."""
    return dict(repository.inspect_repo_info())
