"""Repositories on a disk with something wrong in each, for checks by threads and by tasks."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import zarr

from frazil import Repository
from frazil.config import RepositoryConfig
from frazil.credentials import LocalFileSystemAccess
from frazil.format.manifest import NativeRef
from frazil.storage.interface import Storage
from frazil.storage.store_config import ObjectStoreConfig
from frazil.virtual.containers import VirtualChunkContainer
from tests.damages import (
    NATIVE,
    SMALL,
    ancestor,
    chunk_keys,
    cut,
    delete,
    describe_size,
    flip,
    log_key,
    manifest_key,
    manifest_of,
    read_node,
    rewrite_manifest,
    snapshot_key,
    tip,
    with_refs,
)

Damage = Callable[[Repository], object]


def leave(repository: Repository) -> None:
    """Damage nothing."""


def lose_chunks(repository: Repository) -> None:
    """Lose a chunk and the end of another, and have two that nothing refers to."""
    first, second, *_ = chunk_keys(repository)
    delete(repository, first)
    cut(repository, second, 999)
    for data in (b"nobody's", b"nobody's either"):
        repository.protocol.assets.write_chunk(data)
    repository.storage.put(f"{first.rpartition('/')[0]}/readme", b"no id names this")


def lose_all_chunks(repository: Repository) -> None:
    """Lose every chunk."""
    for key in chunk_keys(repository):
        delete(repository, key)


def lose_metadata(repository: Repository) -> None:
    """Lose a manifest, a snapshot, and if there are such, a log."""
    delete(repository, manifest_key(repository, SMALL))
    delete(repository, snapshot_key(repository, ancestor(repository, 2)))
    if repository.protocol.assets.layout.transactions is not None:
        delete(repository, log_key(repository, tip(repository)))


def cut_metadata(repository: Repository) -> None:
    """Cut a manifest, and change a byte of a snapshot."""
    cut(repository, manifest_key(repository, NATIVE))
    flip(repository, snapshot_key(repository, ancestor(repository, 1)), 45)


def tell_wrong_numbers(repository: Repository) -> None:
    """Let snapshots say other sizes and counts of a manifest than it has."""
    describe_size(repository, manifest_of(repository, SMALL), 1, 99)


def shorten_a_reference(repository: Repository) -> None:
    """Let a reference end before its chunk does, which only decoding tells."""
    node, array = read_node(repository, NATIVE)
    assets = repository.protocol.assets
    refs = dict(assets.read_manifest(array.manifests[0].id).table(node.id, 2).refs())
    first = refs[0, 0]
    assert isinstance(first, NativeRef)
    refs[0, 0] = replace(first, length=998)
    size = len(first.chunk_id)
    rewrite_manifest(repository, NATIVE, lambda manifest: with_refs(manifest, node, refs, size))


def orphan_history(repository: Repository) -> None:
    """Go back in history, so that nothing leads to what came after, and expire what came before."""
    repository.reset_branch("main", str(ancestor(repository, 2)))
    repository.expire_snapshots(datetime.now(UTC) + timedelta(days=1))


def create_virtual(folder: Path, storage: Storage) -> Repository:
    """Two virtual chunks in each of six files, one of which is gone and one of which is cut."""
    prefix = f"{folder.as_uri()}/"
    config = RepositoryConfig()
    store = ObjectStoreConfig.LocalFileSystem(str(folder))
    config.set_virtual_chunk_container(VirtualChunkContainer(prefix, store))
    repository = Repository.create(storage, config, {prefix: LocalFileSystemAccess})
    repository.save_config()
    session = repository.writable_session("main")
    zarr.create_array(
        session.store, name="virtual", shape=(120,), chunks=(10,), dtype="u1", compressors=None
    )
    for chunk in range(12):
        file = folder / f"{chunk // 2}.raw"
        file.write_bytes(bytes(20))
        session.store.set_virtual_ref(
            f"virtual/c/{chunk}", f"{prefix}{file.name}", offset=chunk % 2 * 10, length=10
        )
    session.commit("virtual")
    (folder / "2.raw").unlink()
    (folder / "4.raw").write_bytes(bytes(15))
    return repository


DAMAGES: tuple[Damage, ...] = (
    leave, lose_chunks, lose_all_chunks, lose_metadata, cut_metadata, tell_wrong_numbers,
    shorten_a_reference, orphan_history,
)  # fmt: skip
