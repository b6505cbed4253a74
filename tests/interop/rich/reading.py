"""Reads all of the repository through Zarr, with `icechunk` or `frazil`, into plain values."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from tests.interop.rich.writing import container_of


def read_rich_repository(library: Any, storage: Any, files: Path) -> dict[str, Any]:
    """Contents, history and changes of all refs."""
    config = library.RepositoryConfig()
    config.set_virtual_chunk_container(container_of(library, files))
    access = {f"file://{files}/": library.credentials.LocalFileSystemAccess}
    repository = library.Repository.open(storage, config, access)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Zarr warns of types that it alone has so far
        return {
            **{f"branch {name}": _read(repository, branch=name) for name in ("main", "dev")},
            **{
                f"tag {name}": _read(repository, tag=name)
                for name in ("first", "second", "flushed")
            },
        }


def _read(repository: Any, **ref: str) -> dict[str, Any]:
    session = repository.readonly_session(**ref)
    with zarr.config.set({"array.rectilinear_chunks": True}):
        root = zarr.open_group(session.store, mode="r")
        members = dict(root.members(None))
    return {
        "attributes": dict(root.attrs),
        "members": {path: _describe(member) for path, member in sorted(members.items())},
        "history": [[each.message, each.metadata] for each in repository.ancestry(**ref)],
        "locations": sorted(session.all_virtual_chunk_locations()),
    }


def _describe(member: Any) -> dict[str, Any]:
    attributes = dict(member.attrs)
    if isinstance(member, zarr.Group):
        consolidated = member.metadata.consolidated_metadata
        return {"attributes": attributes, "is_consolidated": consolidated is not None}
    return {
        "attributes": attributes,
        "metadata": _without_attributes(member),
        "values": _values(member[...]),
    }


def _without_attributes(array: Any) -> str:
    metadata = array.metadata.to_dict()
    return repr({key: metadata[key] for key in sorted(metadata) if key != "attributes"})


def _values(found: Any) -> Any:
    values = np.asarray(found)
    if values.dtype.kind in "OT":
        return [str(each) for each in values.tolist()]
    return [str(values.dtype), list(values.shape), values.tobytes()]
