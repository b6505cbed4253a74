"""Walk the snapshots and manifests that are reachable from refs, within memory and request limits."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice, takewhile
from typing import Generic, TypeVar

from frazil.errors import InvalidInputError, ObjectNotFoundError, RefNotFoundError
from frazil.format.files import decode_native_manifests
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.manifest import Manifest, NativeChunks
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.expire import reachable_snapshots
from frazil.progress import count, find_length
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import CommitProtocol


def find_reachable(protocol: CommitProtocol) -> frozenset[SnapshotId]:
    """Return all snapshots that are reachable from a branch or a tag."""
    if protocol.has_repo_info:
        return reachable_snapshots(protocol.read_repo_info())
    found: set[SnapshotId] = set()
    for line in protocol.ancestries(list_tips(protocol)):
        found.update(info.id for info in line)
    return frozenset(found)


def find_new(protocol: CommitProtocol, known: Set[SnapshotId]) -> frozenset[SnapshotId]:
    """Return the snapshots that are reachable now and were not in `known`."""
    lines = protocol.ancestries(list_tips(protocol))
    is_new = [takewhile(lambda info: info.id not in known, line) for line in lines]
    return frozenset(info.id for line in is_new for info in line)


def list_tips(protocol: CommitProtocol) -> list[SnapshotId]:
    """Return the tips of branches and tags, without those that are deleted meanwhile."""
    tips: list[SnapshotId] = []
    for name in protocol.list_branches():
        with suppress(RefNotFoundError):
            tips.append(protocol.lookup_branch(name))
    for name in protocol.list_tags():
        with suppress(RefNotFoundError):
            tips.append(protocol.lookup_tag(name))
    return tips


T = TypeVar("T")


def in_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of a size; the last one may be shorter."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def pack(items: Sequence[T], sizes: Sequence[int], most: int) -> list[list[T]]:
    """Group consecutive items so that no group exceeds `most`, unless one item does."""
    groups: list[list[T]] = []
    filled = 0
    for item, size in zip(items, sizes, strict=True):
        if not groups or filled + size > most:
            groups.append([])
            filled = 0
        groups[-1].append(item)
        filled += size
    return groups


def read_ahead(*sources: Iterator[T]) -> Iterator[T]:
    """Yield the items of all sources in turn, the next ones fetched in the background."""
    with ThreadPoolExecutor(max(1, len(sources))) as pool:
        coming = deque((each, pool.submit(list, islice(each, 1))) for each in sources)
        while coming:
            source, fetched = coming.popleft()
            if found := fetched.result():
                coming.append((source, pool.submit(list, islice(source, 1))))
                yield from found


MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class WalkLimits:
    """Limits of a walk through all snapshots and manifests."""

    max_snapshots_in_memory: int = 50
    max_compressed_manifest_mem_bytes: int = 512 * MEBIBYTE
    max_decoded_manifest_mem_bytes: int = 4096 * MEBIBYTE
    max_concurrent_manifest_fetches: int = 500

    def __post_init__(self) -> None:
        _refuse_less_than_one(self)


@dataclass(frozen=True, slots=True)
class SweepLimits:
    """Limits of listing and deleting."""

    max_concurrent_deletes: int = 10
    max_consecutive_delete_failures: int = 50
    max_concurrent_listings: int | None = None
    """Maximum number of listings at once, each of an id range; None for one."""
    max_deletes_per_second: float | None = None
    """Maximum objects deleted per second; None for no limit."""

    def __post_init__(self) -> None:
        _refuse_less_than_one(self)


def _refuse_less_than_one(limits: "WalkLimits | SweepLimits") -> None:
    for each in fields(limits):
        value = getattr(limits, each.name)
        if value is not None and value < 1:
            raise InvalidInputError(f"invalid {each.name} {value}: it must be at least 1")


_READ_AT_ONCE_BYTES = 32 * MEBIBYTE
"""Approximate decoded size of the manifests that are read together."""
_DECODED_AT_ONCE_BYTES = MEBIBYTE
"""Approximate decoded size of the manifests that are decoded together; more is not faster."""
_DECODED_REF_BYTES = 64
"""Approximate decoded size of a chunk reference."""


@dataclass(frozen=True, slots=True)
class Reduction(Generic[T]):
    """Functions that reduce manifests to what a walk needs."""

    of_natives: Callable[[NativeChunks], T]
    """Reduces manifests that refer to native chunks only."""
    of_manifest: Callable[[Manifest], T]
    """Reduces one manifest with any references."""


def uncached(assets: Assets) -> Assets:
    """Return the assets without caches: a walk would evict what sessions need."""
    options = replace(assets.options, num_snapshot_nodes=0, num_chunk_refs=0)
    return Assets(assets.storage, assets.dialect, options)


def find_manifests(
    assets: Assets, snapshots: Iterable[SnapshotId], limits: WalkLimits
) -> dict[ManifestId, ManifestFileInfo]:
    """Return the distinct manifests of snapshots; raises ObjectNotFoundError for a missing snapshot."""
    found: dict[ManifestId, ManifestFileInfo] = {}
    done = count("reading snapshots", "snapshots", find_length(snapshots))
    for batch in in_batches(snapshots, limits.max_snapshots_in_memory):
        for infos in _read_used_manifests(assets, batch):
            found.update((info.id, info) for info in infos)
            done.add(1)
    return found


def map_manifests(
    assets: Assets,
    manifests: Collection[ManifestFileInfo],
    reduction: Reduction[T],
    limits: WalkLimits,
) -> Iterator[T]:
    """Yield the reductions of manifests, single or in groups; raises if one can't be read."""
    done = count("reading manifests", "manifests", len(manifests))
    for batch in plan_batches(manifests, _with_most_decoded(limits, _READ_AT_ONCE_BYTES)):
        files = iter(assets.read_manifests_data([info.id for info in batch]))
        for part in plan_batches(batch, _with_most_decoded(limits, _DECODED_AT_ONCE_BYTES)):
            yield from _reduce(assets, part, list(islice(files, len(part))), reduction)
            done.add(len(part))


def _reduce(
    assets: Assets,
    manifests: Sequence[ManifestFileInfo],
    files: Sequence[bytes],
    reduction: Reduction[T],
) -> Iterator[T]:
    natives, others = decode_native_manifests(files)
    if len(natives):
        yield reduction.of_natives(natives)
    for number in others:
        yield reduction.of_manifest(assets.decode_manifest(manifests[number].id, files[number]))


def _with_most_decoded(limits: WalkLimits, most_bytes: int) -> WalkLimits:
    most_bytes = min(most_bytes, limits.max_decoded_manifest_mem_bytes)
    return replace(limits, max_decoded_manifest_mem_bytes=most_bytes)


def plan_batches(
    manifests: Iterable[ManifestFileInfo], limits: WalkLimits
) -> Iterator[list[ManifestFileInfo]]:
    """Yield batches of manifests within the limits; one that exceeds them is alone in its batch."""
    batch: list[ManifestFileInfo] = []
    compressed = decoded = 0
    for info in manifests:
        compressed += info.size_bytes or 0
        decoded += (info.num_chunk_refs or 0) * _DECODED_REF_BYTES
        is_full = (
            len(batch) == limits.max_concurrent_manifest_fetches
            or compressed > limits.max_compressed_manifest_mem_bytes
            or decoded > limits.max_decoded_manifest_mem_bytes
        )
        if batch and is_full:
            yield batch
            batch = []
            compressed = info.size_bytes or 0
            decoded = (info.num_chunk_refs or 0) * _DECODED_REF_BYTES
        batch.append(info)
    if batch:
        yield batch


def _read_used_manifests(
    assets: Assets, snapshots: Sequence[SnapshotId]
) -> Iterator[Sequence[ManifestFileInfo]]:
    read = partial(_find_used_manifests, assets)
    if assets.storage.is_local:  # which responds faster than a thread starts
        yield from map(read, snapshots)
        return
    with ThreadPoolExecutor(min(len(snapshots), assets.storage.concurrency)) as pool:
        yield from pool.map(read, snapshots)


def _find_used_manifests(assets: Assets, id: SnapshotId) -> Sequence[ManifestFileInfo]:
    try:
        return assets.read_used_manifests(id)
    except ObjectNotFoundError:
        # A history recorded in snapshots may name snapshots without files.
        if assets.dialect.records_history:
            return ()
        raise
