"""Repositories for tests of what lies above the commit protocols, made through the public surface."""

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import zarr

from frazil import Repository, Session
from frazil.config import ManifestSplittingConfig, RepositoryConfig
from frazil.config.conditions import ManifestSplitCondition, ManifestSplitDimCondition
from frazil.config.settings import ManifestConfig
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import NativeRef
from frazil.storage.interface import Storage
from frazil.storage.memory import MemoryStorage


def split_every(chunks: int, *, inline_up_to: int | None = None) -> RepositoryConfig:
    """A configuration with manifests of so many chunks along every axis."""
    rule = (ManifestSplitCondition.AnyArray(), ((ManifestSplitDimCondition.Any(), chunks),))
    splitting = ManifestSplittingConfig(split_sizes=(rule,))
    return RepositoryConfig(
        inline_chunk_threshold_bytes=inline_up_to, manifest=ManifestConfig(splitting=splitting)
    )


def create(
    storage: Storage | None = None, config: RepositoryConfig | None = None, spec_version: int = 2
) -> Repository:
    """A new repository, in memory unless told otherwise."""
    return Repository.create(storage or MemoryStorage(), config, spec_version=spec_version)


def keys_of(session: Session) -> set[str]:
    """All keys of a session's store."""

    async def collect() -> set[str]:
        return {key async for key in session.store.list()}

    return asyncio.run(collect())


def values_of(session: Session, path: str) -> Any:
    """The elements of an array, as lists."""
    return np.asarray(zarr.open_array(session.store, path=path, mode="r")[...]).tolist()


def manifest_ids(session: Session, path: str) -> list[str]:
    """The manifests of an array, in the order in which it names them."""
    _, array = session.state.view.get_array(path)
    return [str(ref.id) for ref in array.manifests]


def dangling_files(repository: Repository) -> set[str]:
    """Files that snapshots of any branch or tag name, and that are not there."""
    there = {info.key for info in repository.storage.list()}
    return set(_named_files(repository)) - there


def _named_files(repository: Repository) -> Iterator[str]:
    protocol = repository.protocol
    layout = protocol.assets.layout
    tips = [protocol.lookup_branch(name) for name in protocol.list_branches()]
    tips += [protocol.lookup_tag(name) for name in protocol.list_tags()]
    known = {info.id: info for tip in tips for info in protocol.ancestry(tip)}
    tables: set[tuple[ManifestId, NodeId, int]] = set()
    for id, info in known.items():
        yield layout.snapshot_key(id)
        log_key = layout.find_transaction_log_key(id)
        # The first snapshot of the generations before V2 has none.
        if log_key is not None and info.parent_id is not None:
            yield log_key
        snapshot = protocol.assets.read_snapshot(id)
        yield from (layout.manifest_key(file.id) for file in snapshot.manifest_files)
        tables |= {
            (ref.id, node.id, len(node.array.shape))
            for node in snapshot.nodes.values()
            if node.array is not None
            for ref in node.array.manifests
        }
    for manifest_id, node_id, axes in tables:
        yield layout.manifest_key(manifest_id)
        refs = protocol.assets.read_manifest(manifest_id).table(node_id, axes).refs()
        chunk_ids = (ref.chunk_id for ref in refs.values() if isinstance(ref, NativeRef))
        yield from map(layout.chunk_key, chunk_ids)
