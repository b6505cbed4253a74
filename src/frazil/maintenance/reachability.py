"""Walks over the snapshots and manifests that refs reach, and sets of their ids by range."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import compress, islice, takewhile
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from frazil.async_names import run_concurrently
from frazil.errors import InvalidInputError, ObjectNotFoundError, RefNotFoundError
from frazil.format.files import decode_native_manifests
from frazil.format.ids import ALPHABET, ManifestId, SnapshotId
from frazil.format.manifest import Manifest, NativeChunks
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.expire import reachable_snapshots
from frazil.progress import count, find_length
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import CommitProtocol

Ids = NDArray[np.bytes_]
"""Column of ids of equal width."""

_MANY = 1 << 16
"""Number of ids to sort at once: many small columns are slow."""
_NO_DIGIT = 255
_BITS = 5
_DIGIT_OF = np.full(256, _NO_DIGIT, np.uint8)
_DIGIT_OF[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(len(ALPHABET))


def ids_of(rows: NDArray[np.uint8]) -> Ids:
    """Return rows of bytes as a column of ids."""
    count, size = rows.shape
    return np.ascontiguousarray(rows).view(f"S{size}").reshape(count)


def column_of(ids: Iterable[bytes], size: int) -> Ids:
    """Return distinct ids as a sorted column."""
    rows = np.frombuffer(b"".join(sorted(set(ids))), np.uint8)
    return ids_of(rows.reshape(-1, size))


def distinct(ids: Ids) -> Ids:
    """Return the distinct ids, sorted; several times faster than `np.unique`, which hashes strings."""
    ordered = np.sort(ids)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def unite_columns(columns: Iterable[Ids]) -> Iterator[Ids]:
    """Merge many columns into fewer; each is sorted and has no duplicates."""
    waiting: list[Ids] = []
    count = 0
    for column in columns:
        waiting.append(column)
        count += len(column)
        if count >= _MANY:
            yield distinct(np.concatenate(waiting))
            waiting, count = [], 0
    if count:
        yield distinct(np.concatenate(waiting))


def parse_names(names: Sequence[str], size: int) -> tuple[Ids, NDArray[np.bool_]]:
    """Return the ids that names spell, and which names spell one canonically."""
    length = (size * 8 + _BITS - 1) // _BITS
    is_name = np.fromiter((len(n) == length and n.isascii() for n in names), np.bool_, len(names))
    letters = np.frombuffer("".join(compress(names, is_name)).encode(), np.uint8)
    digits = _DIGIT_OF[letters].reshape(-1, length)
    bits = np.unpackbits(digits[:, :, np.newaxis], axis=2)[:, :, 8 - _BITS :]
    bits = bits.reshape(len(digits), length * _BITS)
    is_canonical = (digits != _NO_DIGIT).all(axis=1) & ~bits[:, size * 8 :].any(axis=1)
    is_name[is_name] = is_canonical
    return ids_of(np.packbits(bits[is_canonical, : size * 8], axis=1)), is_name


class IdSet:
    """Set of ids, stored as a few sorted columns."""

    def __init__(self, column: Ids | None = None) -> None:
        self._runs: list[Ids] = []
        if column is not None:
            self.add(column)

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, column: Ids) -> NDArray[np.bool_]:
        """Add a sorted column without duplicates; returns which of its ids are new."""
        is_new = ~self.contains(column)
        run = column[is_new]
        # Each column is more than twice as long as the next, so there are few to search.
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        if len(run):
            self._runs.append(run)
        return is_new

    def contains(self, column: Ids) -> NDArray[np.bool_]:
        """Return which ids of a column, in any order, are in the set."""
        found = np.zeros(len(column), np.bool_)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, column), len(run) - 1)
            found |= run[at] == column
        return found


ID_SLICES = 64
"""Number of slices, the smallest id ranges."""


@dataclass(frozen=True, slots=True)
class IdRange:
    """One of several equal id ranges; their count divides the number of slices."""

    number: int = 0
    count: int = 1

    @property
    def slices(self) -> range:
        """Return the numbers of the slices of the range."""
        size = ID_SLICES // self.count
        return range(self.number * size, (self.number + 1) * size)

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        """Return which ids belong to the range."""
        slices = find_slices(ids)
        return (slices >= self.slices.start) & (slices < self.slices.stop)

    def find_names(self) -> tuple[str, str]:
        """Return exclusive lower and upper bounds of the names of its ids."""
        return name_slice(self.number, self.count), name_slice(self.number + 1, self.count)


def split_ids(count: int) -> list[IdRange]:
    """Split all ids into at least `count` ranges, at most one per slice."""
    whole = 1
    while whole < min(count, ID_SLICES):
        whole *= 2
    return [IdRange(number, whole) for number in range(whole)]


def split_ids_at_most(count: int) -> list[IdRange]:
    """Split all ids into at most `count` ranges."""
    ranges = split_ids(count)
    return ranges if len(ranges) <= count else split_ids(len(ranges) // 2)


def find_slices(ids: Ids) -> NDArray[np.uint8]:
    """Return the slice number of each id; sorted ids have sorted slices."""
    rows = np.ascontiguousarray(ids).view(np.uint8).reshape(len(ids), ids.dtype.itemsize)
    return rows[:, 0] >> np.uint8(2)


def name_slice(number: int, count: int) -> str:
    """Return a two-letter lower bound of the names in one of `count` equal slices of all ids.

    For `count` itself, return a letter above all names.
    """
    if number == count:
        return chr(ord(ALPHABET[-1]) + 1)
    high, low = divmod(number * len(ALPHABET) ** 2 // count, len(ALPHABET))
    return ALPHABET[high] + ALPHABET[low]


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
    yield from run_concurrently(read, snapshots, assets.storage.concurrency)


def _find_used_manifests(assets: Assets, id: SnapshotId) -> Sequence[ManifestFileInfo]:
    try:
        return assets.read_used_manifests(id)
    except ObjectNotFoundError:
        # A history recorded in snapshots may name snapshots without files.
        if assets.dialect.records_history:
            return ()
        raise
