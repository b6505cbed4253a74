"""Going through all manifests of a repository, within limits of memory and of requests.

A manifest is read, reduced to something small where it was read, and let go.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Generic, TypeVar

from frazil.assets import Assets
from frazil.errors import ObjectNotFoundError
from frazil.format.files import decode_native_manifests
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.manifest import Manifest
from frazil.format.native_chunks import NativeChunks
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.batches import in_batches
from frazil.maintenance.limits import MEBIBYTE, WalkLimits
from frazil.protocols.history import has_history
from frazil.watching import count, find_length

T = TypeVar("T")

_READ_AT_ONCE_BYTES = 32 * MEBIBYTE
"""Files of manifests that take about so many bytes when they are decoded are read together."""
_DECODED_AT_ONCE_BYTES = MEBIBYTE
"""And so many of them decoded together: more would be no quicker."""
_DECODED_REF_BYTES = 64
"""About what a chunk reference takes as columns."""


@dataclass(frozen=True, slots=True)
class Reduction(Generic[T]):
    """What becomes of manifests when they are read."""

    of_natives: Callable[[NativeChunks], T]
    """Of manifests that refer to native chunks only."""
    of_manifest: Callable[[Manifest], T]
    """Of one that may refer to others."""


def uncached(assets: Assets) -> Assets:
    """The same files, read anew each time: a walk would only push out what sessions need."""
    options = replace(assets.options, num_snapshot_nodes=0, num_chunk_refs=0)
    return Assets(assets.storage, assets.dialect, options)


def find_manifests(
    assets: Assets, snapshots: Iterable[SnapshotId], limits: WalkLimits
) -> dict[ManifestId, ManifestFileInfo]:
    """The manifests of these snapshots, each once; raises ObjectNotFoundError for a lost snapshot."""
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
    """What manifests are reduced to, some alone and some together; raises where one can't be read."""
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
    """Manifests that may be in memory together; one that is too large for the limits is alone."""
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
    if assets.storage.is_local:  # which answers sooner than a thread would start
        yield from map(read, snapshots)
        return
    with ThreadPoolExecutor(min(len(snapshots), assets.storage.concurrency)) as pool:
        yield from pool.map(read, snapshots)


def _find_used_manifests(assets: Assets, id: SnapshotId) -> Sequence[ManifestFileInfo]:
    try:
        return assets.read_used_manifests(id)
    except ObjectNotFoundError:
        # Where the history is a text, it may tell of snapshots whose files were never kept.
        if has_history(assets.dialect):
            return ()
        raise
