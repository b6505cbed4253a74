"""Repositories with something of everything, and ways to damage them that no writer has."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import zarr

from frazil import Repository, create_legacy
from frazil.format.files import (
    decode_manifest,
    decode_repo_info,
    decode_snapshot,
    decode_transaction_log,
    encode_manifest,
    encode_repo_info,
    encode_snapshot,
    encode_transaction_log,
)
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.manifest import ChunkRef, ChunkTable, Manifest
from frazil.format.repo_info import RepoInfo
from frazil.format.snapshot import ArrayData, ManifestFileInfo, Node, Snapshot, TransactionLog
from frazil.maintenance.check import check_storage
from frazil.maintenance.findings import CheckReport, Problem, Severity
from frazil.storage.interface import Storage
from frazil.storage.memory import MemoryStorage

NATIVE, SMALL = "/group/native", "/small"

ALL_DIALECTS = list(Dialect)

Refs = Mapping[tuple[int, ...], ChunkRef]
"""References of an array, by coordinate."""


# Making


def create(dialect: Dialect = Dialect.V2, storage: Storage | None = None) -> Repository:
    """An empty repository of any generation."""
    storage = storage or MemoryStorage()
    if dialect in (Dialect.V1, Dialect.V2):
        return Repository.create(storage, spec_version=int(dialect.value))
    return create_legacy(storage, dialect.value)


def create_sample(dialect: Dialect = Dialect.V2, storage: Storage | None = None) -> Repository:
    """Three commits, native and inline chunks, a branch and a tag."""
    repository = create(dialect, storage)
    session = repository.writable_session("main")
    root = zarr.open_group(session.store, mode="w")
    chance = np.random.default_rng(7)
    native = root.create_array(
        "group/native", shape=(4, 1000), chunks=(1, 1000), dtype="uint8", compressors=None
    )
    native[:3] = chance.integers(0, 255, (3, 1000), dtype=np.uint8)
    small = root.create_array("small", shape=(6,), chunks=(2,), dtype="int16", compressors=None)
    small[...] = np.arange(6)
    session.commit("first")
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="group/native")[3] = 9
    second = session.commit("second")
    repository.create_branch("dev", second)
    repository.create_tag("v1", second)
    session = repository.writable_session("main")
    zarr.open_array(session.store, path="small")[:2] = 77
    session.commit("third")
    return repository


def reopen(repository: Repository) -> Repository:
    """The same repository, as another process sees it."""
    return Repository.open(repository.storage)


# Looking


def what_matters(report: CheckReport) -> list[Problem]:
    """Problems that are no notes."""
    return [each for each in report.problems if each.severity is not Severity.NOTE]


def find_only(repository: Repository) -> Problem:
    """The one problem that a check finds, also where the repository does not open."""
    found = what_matters(check_storage(repository.storage))
    assert len(found) == 1, found
    return found[0]


def tip(repository: Repository, branch: str = "main") -> SnapshotId:
    """Where a branch points."""
    return SnapshotId.parse(repository.lookup_branch(branch))


def ancestor(repository: Repository, generations: int) -> SnapshotId:
    """A snapshot of `main` from so many commits ago."""
    return SnapshotId.parse(list(repository.ancestry(branch="main"))[generations].id)


def snapshot_key(repository: Repository, id: SnapshotId) -> str:
    """The file of a snapshot."""
    return repository.protocol.assets.layout.snapshot_key(id)


def log_key(repository: Repository, id: SnapshotId) -> str:
    """The file of a transaction log."""
    key = repository.protocol.assets.layout.find_transaction_log_key(id)
    assert key is not None
    return key


def read_snapshot(repository: Repository, id: SnapshotId) -> Snapshot:
    """A snapshot, past all caches."""
    return decode_snapshot(bytes(repository.storage.get(snapshot_key(repository, id)))).value


def read_node(repository: Repository, path: str) -> tuple[Node, ArrayData]:
    """An array of the tip of `main`."""
    node = read_snapshot(repository, tip(repository)).nodes[path]
    assert node.array is not None
    return node, node.array


def manifest_of(repository: Repository, path: str) -> ManifestId:
    """The manifest of an array of the tip of `main`."""
    return read_node(repository, path)[1].manifests[0].id


def manifest_key(repository: Repository, path: str) -> str:
    """The file of that."""
    return repository.protocol.assets.layout.manifest_key(manifest_of(repository, path))


def chunk_keys(repository: Repository) -> list[str]:
    """All chunk files."""
    folder = repository.protocol.assets.layout.chunks
    return sorted(info.key for info in repository.storage.list(f"{folder}/"))


# Damaging


def delete(repository: Repository, key: str) -> None:
    """Lose an object."""
    repository.storage.head(key)
    repository.storage.delete_many([key])


def cut(repository: Repository, key: str, size: int = 60) -> None:
    """Lose the end of an object."""
    repository.storage.put(key, bytes(repository.storage.get(key))[:size])


def flip(repository: Repository, key: str, at: int) -> None:
    """Change a byte of an object."""
    data = bytearray(repository.storage.get(key))
    data[at] ^= 0xFF
    repository.storage.put(key, bytes(data))


def rewrite_repo(repository: Repository, change: Callable[[RepoInfo], RepoInfo]) -> None:
    """Write another `repo`, as no writer would."""
    info = decode_repo_info(bytes(repository.storage.get("repo"))).value
    repository.storage.put("repo", encode_repo_info(change(info)))


def rewrite_snapshot(
    repository: Repository, id: SnapshotId, change: Callable[[Snapshot], Snapshot]
) -> None:
    """Write another snapshot in the place of one."""
    key = snapshot_key(repository, id)
    decoded = decode_snapshot(bytes(repository.storage.get(key)))
    repository.storage.put(key, encode_snapshot(change(decoded.value), decoded.dialect))


def rewrite_node(
    repository: Repository, path: str, change: Callable[[Node, ArrayData], Node]
) -> None:
    """Write another node into the tip of `main`."""

    def rewrite(snapshot: Snapshot) -> Snapshot:
        node = snapshot.nodes[path]
        assert node.array is not None
        return replace(snapshot, nodes={**snapshot.nodes, path: change(node, node.array)})

    rewrite_snapshot(repository, tip(repository), rewrite)


def rewrite_manifest(
    repository: Repository, path: str, change: Callable[[Manifest], Manifest]
) -> None:
    """Write another manifest in the place of an array's one; snapshots know its size."""
    key = manifest_key(repository, path)
    decoded = decode_manifest(bytes(repository.storage.get(key)))
    manifest = change(decoded.value)
    data = encode_manifest(manifest, decoded.dialect)
    repository.storage.put(key, data)
    describe_size(repository, manifest_of(repository, path), len(data), len(manifest))


def describe_size(repository: Repository, id: ManifestId, size: int, count: int) -> None:
    """Let all snapshots say that a manifest file has a size and a number of references."""
    for info in repository.ancestry(branch="main"):
        rewrite_snapshot(
            repository,
            SnapshotId.parse(info.id),
            lambda snapshot: replace(
                snapshot,
                manifest_files=tuple(
                    _with_size(each, size, count) if each.id == id else each
                    for each in snapshot.manifest_files
                ),
            ),
        )


def _with_size(info: ManifestFileInfo, size: int, count: int) -> ManifestFileInfo:
    return replace(
        info,
        size_bytes=None if info.size_bytes is None else size,
        num_chunk_refs=None if info.num_chunk_refs is None else count,
    )


def with_refs(manifest: Manifest, node: Node, refs: Refs, id_size: int = 12) -> Manifest:
    """A manifest with other references of an array."""
    assert node.array is not None
    table = ChunkTable.of(len(node.array.shape), refs, id_size)
    return replace(manifest, arrays={**manifest.arrays, node.id: table})


def rewrite_log(
    repository: Repository, id: SnapshotId, change: Callable[[TransactionLog], TransactionLog]
) -> None:
    """Write another transaction log in the place of one."""
    key = log_key(repository, id)
    decoded = decode_transaction_log(bytes(repository.storage.get(key)), id)
    repository.storage.put(key, encode_transaction_log(change(decoded.value), decoded.dialect))
