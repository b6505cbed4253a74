"""Collect garbage: mark what is reachable, drop the rest from the history, delete its files."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, compress, islice
from threading import Event
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from frazil.async_names import run_both
from frazil.errors import (
    ConflictError,
    IncompleteResponseError,
    StorageError,
    StorageUnreachableError,
    ThrottledError,
)
from frazil.format.ids import SnapshotId
from frazil.format.manifest import Manifest
from frazil.format.repo_info import GCRan, RepoInfo
from frazil.maintenance.expire import reachable_snapshots, release
from frazil.maintenance.leases import LeaseInfo, delete_expired, list_leases, spare
from frazil.maintenance.reachability import (
    IdRange,
    Ids,
    IdSet,
    Reduction,
    SweepLimits,
    WalkLimits,
    column_of,
    distinct,
    find_manifests,
    find_new,
    find_reachable,
    ids_of,
    in_batches,
    map_manifests,
    parse_names,
    read_ahead,
    split_ids_at_most,
    uncached,
    unite_columns,
)
from frazil.ops import GCSummary
from frazil.progress import count, find_length
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import CommitProtocol
from frazil.protocols.repo_changes import Change
from frazil.storage.interface import KEYS_PER_BATCH, Choice, ObjectInfo, Storage


@dataclass(frozen=True, slots=True)
class Marks:
    """Ids of manifests and chunks that must not be deleted."""

    manifests: IdSet
    chunks: IdSet


def mark(
    assets: Assets, snapshots: Iterable[SnapshotId], limits: WalkLimits, id_size: int
) -> Marks:
    """Mark everything these snapshots refer to; raises if one of their files can't be read."""
    marks = Marks(IdSet(), IdSet())
    mark_more(marks, assets, snapshots, limits, id_size)
    return marks


def mark_more(
    marks: Marks,
    assets: Assets,
    snapshots: Iterable[SnapshotId],
    limits: WalkLimits,
    id_size: int,
) -> None:
    """Mark what further snapshots refer to; manifests that are already marked are not read again."""
    found = find_manifests(assets, snapshots, limits)
    is_new = marks.manifests.add(column_of(found, id_size))
    new = [found[id] for id in compress(sorted(found), is_new)]
    for ids in unite_columns(map_manifests(assets, new, CHUNK_IDS, limits)):
        marks.chunks.add(ids)


def distinct_chunk_ids(manifest: Manifest) -> Ids:
    """Return the distinct ids of a manifest's native chunks, sorted."""
    return distinct(chunk_ids(manifest))


def chunk_ids(manifest: Manifest) -> Ids:
    """Return the ids of a manifest's native chunks, in any order."""
    columns = [ids_of(refs.natives().ids) for refs in manifest.arrays.values()]
    filled = [column for column in columns if len(column)]
    return np.concatenate(filled) if filled else np.empty(0, "S12")


CHUNK_IDS: Reduction[Ids] = Reduction(lambda natives: ids_of(natives.ids), chunk_ids)
"""Reduction of manifests to the ids of their native chunks, in any order."""

_SECOND = timedelta(seconds=1)


def is_older(created_at: datetime, cutoff: datetime) -> bool:
    """Return whether an object was certainly written before the cutoff.

    A time without a fraction comes from a storage that rounds down: it may be up to a second later.
    """
    if created_at.microsecond == 0:
        return created_at + _SECOND <= cutoff
    return created_at < cutoff


@dataclass(frozen=True, slots=True)
class GarbagePlan:
    """Plan of the snapshots to drop from the history of a V2 repository."""

    before: RepoInfo
    """Repo info that the plan is based on."""
    old: frozenset[SnapshotId]
    """Snapshots with files older than the cutoff."""
    dropped: frozenset[SnapshotId]
    """Unreachable snapshots of the history, with files older than the cutoff."""

    @property
    def kept(self) -> Set[SnapshotId]:
        """Snapshots whose manifests and chunks are kept."""
        return self.before.snapshots.keys() - self.dropped

    def kept_by_age(self) -> list[SnapshotId]:
        """Return the kept snapshots, oldest first, to mark snapshots of similar age together."""
        known = self.before.snapshots
        return sorted(self.kept, key=lambda id: (known[id].flushed_at, id))

    def still_holds(self, now: RepoInfo) -> bool:
        """Return whether no new ref or snapshot depends on what is to be dropped."""
        new = now.snapshots.keys() - self.before.snapshots.keys()
        parents = {now.snapshots[id].parent_id for id in new}
        needed = parents | reachable_snapshots(now)
        return self.dropped.isdisjoint(needed) and self.old.isdisjoint(new)


def plan_garbage(info: RepoInfo, old: frozenset[SnapshotId]) -> GarbagePlan:
    """Plan the snapshots to drop, given those with files older than the cutoff."""
    unreached = info.snapshots.keys() - reachable_snapshots(info)
    return GarbagePlan(info, old, old & unreached)


def drop_snapshots(info: RepoInfo, dropped: Set[SnapshotId]) -> RepoInfo:
    """Return the repo info without some snapshots; children get the nearest remaining ancestor."""
    return release(info, dropped, dropped)


def retained_logs(info: RepoInfo) -> frozenset[SnapshotId]:
    """Return the snapshots whose transaction logs are needed, including expired ones."""
    pruned = (log for each in info.snapshots.values() for log in each.pruned_ancestor_tx_logs)
    return frozenset(info.snapshots) | frozenset(pruned)


_LISTED_AHEAD = 2_000
ALL = IdRange()


@dataclass(frozen=True, slots=True)
class Folder:
    """Folder of one kind of files, with the extensions of their names."""

    name: str
    id_size: int
    endings: tuple[str, ...] = ("",)

    def find_stems(self, keys: Sequence[str]) -> list[str]:
        """Return the part of each key that may spell an id."""
        if self.endings == ("",):
            start = len(self.name) + 1
            return [key[start:] for key in keys]
        return list(map(self.find_stem, keys))

    def find_stem(self, key: str) -> str:
        """Return the part of a key that may spell an id."""
        name = key[len(self.name) + 1 :]
        for ending in self.endings:
            if ending and name.endswith(ending):
                return name.removesuffix(ending)
        return name if "" in self.endings else ""


def chunk_folder(assets: Assets) -> Folder:
    """Return the folder of native chunks."""
    return Folder(assets.layout.chunks, find_id_size(assets))


def log_folder(assets: Assets) -> Folder | None:
    """Return the folder of transaction logs, or None if the generation has none."""
    name = assets.layout.transactions
    return None if name is None else Folder(name, find_id_size(assets))


def metadata_folder(assets: Assets, name: str) -> Folder:
    """Return the folder of snapshots or manifests."""
    layout = assets.layout
    return Folder(name, find_id_size(assets), (layout.ending, *layout.other_endings))


def find_id_size(assets: Assets) -> int:
    """Return the size of file ids in bytes."""
    return assets.dialect.id_size


def list_garbage(
    storage: Storage,
    folder: Folder,
    kept: IdSet,
    cutoff: datetime,
    id_range: IdRange = ALL,
    *,
    listings: int | None = None,
) -> Iterator[ObjectInfo]:
    """List the files of a folder, or of an id range, that are older than the cutoff and not kept.

    Listing is lazy, with some read-ahead on remote storage, so that memory use does not grow with the
    number of files. A storage that lists in order runs as many `listings` at once, of an id range each.
    """
    done = count(f"looking through {folder.name}", "files")
    ranges = [id_range]
    if id_range == ALL and storage.lists_in_order:
        ranges = split_ids_at_most(listings or 1)

    def find(each: IdRange) -> Iterator[ObjectInfo]:
        def select(keys: Sequence[str]) -> NDArray[np.bool_]:
            done.add(len(keys))
            return select_garbage(keys, folder, kept, each)

        return _list_selected(storage, folder, each, select)

    if storage.is_local:
        found = find(id_range)
    else:
        batches = [in_batches(find(each), _LISTED_AHEAD) for each in ranges]
        found = chain.from_iterable(read_ahead(*batches))
    for info in found:
        if is_older(info.created_at, cutoff):
            yield info


def _list_selected(
    storage: Storage, folder: Folder, id_range: IdRange, select: Choice
) -> Iterator[ObjectInfo]:
    if id_range == ALL or storage.is_local:  # which lists only names, and always the whole folder
        yield from storage.list_selected(f"{folder.name}/", select)
        return
    after, before = (f"{folder.name}/{name}" for name in id_range.find_names())
    found = storage.list_between(f"{folder.name}/", after, before)
    for batch in in_batches(found, KEYS_PER_BATCH):
        yield from compress(batch, select([info.key for info in batch]))


def select_garbage(
    keys: Sequence[str], folder: Folder, kept: IdSet, id_range: IdRange = ALL
) -> NDArray[np.bool_]:
    """Return which keys are named by an id of the range that is not kept."""
    ids, is_garbage = parse_names(folder.find_stems(keys), folder.id_size)
    goes = ~kept.contains(ids)
    is_garbage[is_garbage] = goes if id_range == ALL else goes & id_range.contains(ids)
    return is_garbage


_OBJECTS_PER_REQUEST = 1000
_PAUSES_SECONDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_MOST_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Deleted:
    """Result of deleting some objects."""

    count: int = 0
    size_bytes: int = 0
    failed: int = 0
    throttled: int = 0
    """Requests retried because the storage throttled them."""
    errors: tuple[str, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Return whether no object was deleted although some should have been."""
        return self.failed > 0 and self.count == 0

    def __add__(self, other: "Deleted") -> "Deleted":
        return Deleted(
            self.count + other.count,
            self.size_bytes + other.size_bytes,
            self.failed + other.failed,
            self.throttled + other.throttled,
            (*self.errors, *other.errors)[:_MOST_ERRORS],
        )


def count_objects(objects: Iterable[ObjectInfo]) -> Deleted:
    """Return the result that deleting would have without failures."""
    total = Deleted()
    for batch in in_batches(objects, _OBJECTS_PER_REQUEST):
        total += Deleted(len(batch), _size_bytes(batch))
    return total


def delete_objects(
    storage: Storage, objects: Iterable[ObjectInfo], limits: SweepLimits, what: str
) -> Deleted:
    """Delete objects and return the result.

    Raises StorageError of kind `gc-deletes-failing` after as many consecutive failed requests as the
    limits allow.
    """
    total, failures = Deleted(), 0
    done = count(f"deleting {what.replace('_', ' ')}", "files", find_length(objects))
    for report in _delete_batches(storage, objects, limits):
        total += report
        done.add(report.count + report.failed)
        failures = failures + 1 if report.has_failed else 0
        if failures >= limits.max_consecutive_delete_failures:
            raise StorageError(
                f"{failures} requests to delete {what} failed one after the other: "
                f"{report.errors[0]}",
                kind="gc-deletes-failing",
            )
    return total


def _delete_batches(
    storage: Storage, objects: Iterable[ObjectInfo], limits: SweepLimits
) -> Iterator[Deleted]:
    concurrency, per_second = limits.max_concurrent_deletes, limits.max_deletes_per_second
    batches = _paced(in_batches(objects, _OBJECTS_PER_REQUEST), per_second)
    if storage.is_local:  # which deletes the files of a folder one by one anyway
        yield from (_delete_batch(storage, batch) for batch in batches)
        return
    with ThreadPoolExecutor(concurrency) as pool:
        # Submit only as many as run concurrently, so that giving up leaves the rest untouched.
        for wave in in_batches(batches, concurrency):
            yield from pool.map(lambda batch: _delete_batch(storage, batch), wave)


def _paced(
    batches: Iterator[list[ObjectInfo]], per_second: float | None
) -> Iterator[list[ObjectInfo]]:
    """Yield the batches, delayed to respect the rate limit."""
    due = time.monotonic()
    for batch in batches:
        if per_second is not None:
            time.sleep(max(0.0, due - time.monotonic()))
            due = max(due, time.monotonic()) + len(batch) / per_second
        yield batch


def _delete_batch(storage: Storage, batch: Sequence[ObjectInfo]) -> Deleted:
    throttled = 0
    for pause in (*_PAUSES_SECONDS, None):
        try:
            report = storage.delete_many([each.key for each in batch])
        except (ThrottledError, StorageUnreachableError, IncompleteResponseError) as error:
            if pause is None:
                return _failure(batch, error, throttled)
            throttled += isinstance(error, ThrottledError)
            time.sleep(pause)
        except StorageError as error:
            return _failure(batch, error, throttled)
        else:
            break
    gone = [each for each in batch if each.key not in report.failed]
    reasons = tuple(f"{key}: {reason}" for key, reason in report.failed.items())
    return Deleted(len(gone), _size_bytes(gone), len(reasons), throttled, reasons[:_MOST_ERRORS])


def _failure(batch: Sequence[ObjectInfo], error: StorageError, throttled: int) -> Deleted:
    return Deleted(failed=len(batch), throttled=throttled, errors=(str(error),))


def _size_bytes(objects: Iterable[ObjectInfo]) -> int:
    return sum(each.size_bytes for each in objects)


@dataclass(frozen=True, slots=True)
class CollectionOptions:
    """Cutoff, limits and mode of a garbage collection."""

    cutoff: datetime
    walk: WalkLimits
    sweep: SweepLimits
    is_dry_run: bool = False


class Collector(Protocol):
    """Collector that marks what to keep and deletes the rest; a dry run only counts it."""

    @property
    def manifests(self) -> IdSet:
        """Ids of marked manifests."""

    def mark(self, snapshots: Iterable[SnapshotId]) -> None:
        """Mark what these snapshots refer to; raises if one of their files can't be read."""

    def delete(self, kind: str, garbage: Iterable[ObjectInfo]) -> Deleted:
        """Delete objects, or count them in a dry run."""

    def look_ahead(self, pool: Executor) -> Callable[[], None]:
        """Begin to list chunks in the background; return what to call when everything is marked."""

    def delete_chunks(self) -> Deleted:
        """Delete the native chunks that are not marked, or count them in a dry run."""


class _MarksToCome(IdSet):
    """Ids that are still being marked: which it contains is told when all are."""

    def __init__(self, marked: IdSet) -> None:
        super().__init__()
        self._marked = marked
        self.are_complete = Event()

    def contains(self, column: Ids) -> NDArray[np.bool_]:
        self.are_complete.wait()
        return self._marked.contains(column)


MakeCollector = Callable[[Assets, CollectionOptions], Collector]


class LocalCollector:
    """Collector that runs in this process and keeps its marks in memory."""

    def __init__(self, assets: Assets, options: CollectionOptions) -> None:
        self._assets = assets
        self._options = options
        self._marks = Marks(IdSet(), IdSet())
        self._garbage: Iterable[ObjectInfo] | None = None

    @property
    def manifests(self) -> IdSet:
        """Ids of marked manifests."""
        return self._marks.manifests

    def mark(self, snapshots: Iterable[SnapshotId]) -> None:
        """Mark what these snapshots refer to; manifests that are already marked are not read again."""
        assets = self._assets
        walk, id_size = self._options.walk, find_id_size(assets)
        mark_more(self._marks, uncached(assets), snapshots, walk, id_size)

    def delete(self, kind: str, garbage: Iterable[ObjectInfo]) -> Deleted:
        """Delete objects, or count them in a dry run."""
        if self._options.is_dry_run:
            return count_objects(garbage)
        return delete_objects(self._assets.storage, garbage, self._options.sweep, kind)

    def look_ahead(self, pool: Executor) -> Callable[[], None]:
        """Begin to list chunks in the background; return what to call when everything is marked."""
        marks = _MarksToCome(self._marks.chunks)
        garbage = self._list_chunks(marks)
        first = pool.submit(list, islice(garbage, 1))
        self._garbage = chain.from_iterable(each() for each in (first.result, lambda: garbage))
        return marks.are_complete.set

    def delete_chunks(self) -> Deleted:
        """Delete the native chunks that are not marked, or count them in a dry run."""
        garbage = self._garbage
        return self.delete(
            "chunks", self._list_chunks(self._marks.chunks) if garbage is None else garbage
        )

    def _list_chunks(self, kept: IdSet) -> Iterator[ObjectInfo]:
        storage, cutoff = self._assets.storage, self._options.cutoff
        folder = chunk_folder(self._assets)
        listings = self._options.sweep.max_concurrent_listings
        return list_garbage(storage, folder, kept, cutoff, listings=listings)


_MOST_ATTEMPTS = 100

One = TypeVar("One")
Two = TypeVar("Two")
Files = Mapping[SnapshotId, ObjectInfo]
"""Files of snapshots."""


@dataclass(frozen=True, slots=True)
class Retained:
    """Objects to keep."""

    snapshots: Set[SnapshotId]
    logs: Set[SnapshotId]
    collector: Collector
    """Collector that holds the marked manifests and chunks."""


class HistoryMovedError(Exception):
    """A new ref or snapshot depends on a snapshot that was to be dropped."""


class HistoryGrewError(Exception):
    """The history has new snapshots that are not marked yet."""

    def __init__(self, info: RepoInfo) -> None:
        super().__init__(info)
        self.info = info


def collect_garbage(
    protocol: CommitProtocol,
    options: CollectionOptions,
    make_collector: MakeCollector = LocalCollector,
) -> GCSummary:
    """Delete what is not reachable from a branch or a tag; a dry run only counts it.

    Objects of running jobs are kept, because jobs hold leases. Errors other than failing deletes are
    raised before anything is deleted, except, before V2, for unreadable files of commits that landed
    meanwhile.

    Parameters
    ----------
    protocol
        The commit protocol of the repository.
    options
        Cutoff, limits and mode.
    make_collector
        Creates the collector; the default runs in this process.

    Returns
    -------
    GCSummary
        Numbers of deleted objects and bytes, and failures.

    Raises
    ------
    ReadOnlyError
        If the repository is not writable.
    ConflictError
        If others kept building on snapshots that were to be dropped.
    FormatError, ObjectNotFoundError
        If a file that must be read is damaged or missing.
    StorageError
        Of kind `gc-deletes-failing`, after too many consecutive failed deletes.
    """
    storage, now = protocol.assets.storage, datetime.now(UTC)
    list_old = partial(_list_old_snapshots, protocol.assets, options)
    list_both = partial(_do_both, storage, partial(list_leases, storage), list_old)
    _, (leases, old) = _do_both(storage, protocol.refuse_unless_writable, list_both)
    cutoff = spare(options.cutoff, leases, now)
    old = {id: info for id, info in old.items() if is_older(info.created_at, cutoff)}
    summary, _ = _do_both(
        storage,
        partial(_collect, protocol, replace(options, cutoff=cutoff), make_collector, old),
        partial(_delete_leases, storage, leases, now, options),
    )
    return summary


def _do_both(storage: Storage, one: Callable[[], One], other: Callable[[], Two]) -> tuple[One, Two]:
    """Call two functions, concurrently if their requests have a latency."""
    return (one(), other()) if storage.is_local else run_both(one, other)


def _delete_leases(
    storage: Storage, leases: Sequence[LeaseInfo], now: datetime, options: CollectionOptions
) -> None:
    if not options.is_dry_run:
        delete_expired(storage, leases, now)


def _collect(
    protocol: CommitProtocol, options: CollectionOptions, make_collector: MakeCollector, old: Files
) -> GCSummary:
    # Only in V2 is everything marked before the first file is deleted.
    is_ahead = protocol.has_repo_info and not protocol.assets.storage.is_local
    for _ in range(_MOST_ATTEMPTS):
        collector = make_collector(protocol.assets, options)
        with ThreadPoolExecutor(1) as pool:
            end = collector.look_ahead(pool) if is_ahead else None
            try:
                retained = _retain(protocol, old, collector, options)
            except HistoryMovedError:
                old = _list_old_snapshots(protocol.assets, options)
                continue
            finally:
                if end is not None:
                    end()
            protocol.assets.drop_snapshots(old.keys() - retained.snapshots)
            return _sweep(protocol, old, retained, options)
    raise ConflictError(
        message=f"others committed onto snapshots to delete {_MOST_ATTEMPTS} times in a row: try again",
        kind="update-attempts-exhausted",
    )


# Mark


def _retain(
    protocol: CommitProtocol, old: Files, collector: Collector, options: CollectionOptions
) -> Retained:
    if protocol.has_repo_info:
        return _retain_by_repo_info(protocol, old, collector, options)
    reachable = find_reachable(protocol)
    collector.mark(sorted(reachable))
    # A ref to former garbage may have been created since the walk started.
    new = find_new(protocol, reachable)
    if not new.isdisjoint(old):
        raise HistoryMovedError
    collector.mark(new)
    return Retained(reachable | new, reachable | new, collector)


def _retain_by_repo_info(
    protocol: CommitProtocol, old: Files, collector: Collector, options: CollectionOptions
) -> Retained:
    plan = plan_garbage(protocol.read_repo_info(), frozenset(old))
    collector.mark(plan.kept_by_age())
    if options.is_dry_run:
        after = drop_snapshots(plan.before, plan.dropped)
    else:
        after = _drop_in_repo_info(protocol, plan, collector)
    return Retained(after.snapshots.keys(), retained_logs(after), collector)


def _drop_in_repo_info(
    protocol: CommitProtocol, plan: GarbagePlan, collector: Collector
) -> RepoInfo:
    """Drop the planned snapshots from the history, after marking all that remain."""
    for _ in range(_MOST_ATTEMPTS):
        try:
            return protocol.update(partial(_drop, plan=plan))
        except HistoryGrewError as error:
            collector.mark(error.info.snapshots.keys() - plan.before.snapshots.keys())
            plan = replace(plan, before=error.info)
    raise HistoryMovedError


def _drop(info: RepoInfo, plan: GarbagePlan) -> Change:
    if not plan.still_holds(info):
        raise HistoryMovedError
    # A commit can use chunks of a snapshot that is not its ancestor: after cherry-pick or amend.
    if info.snapshots.keys() - plan.before.snapshots.keys():
        raise HistoryGrewError(info)
    return Change(drop_snapshots(info, plan.dropped), GCRan())


# Sweep


def _list_old_snapshots(assets: Assets, options: CollectionOptions) -> Files:
    folder = metadata_folder(assets, assets.layout.snapshots)
    found = list_garbage(
        assets.storage,
        folder,
        IdSet(),
        options.cutoff,
        listings=options.sweep.max_concurrent_listings,
    )
    return {SnapshotId.parse(folder.find_stem(info.key)): info for info in found}


def _sweep(
    protocol: CommitProtocol, old: Files, retained: Retained, options: CollectionOptions
) -> GCSummary:
    assets, collector = protocol.assets, retained.collector
    if not options.is_dry_run:
        # A power loss must not restore refs to what is deleted now.
        assets.storage.flush_all()
    snapshots = [info for id, info in old.items() if id not in retained.snapshots]
    kinds: dict[str, Callable[[], Deleted]] = {
        "snapshots": lambda: collector.delete("snapshots", snapshots),
        "transaction_logs": lambda: collector.delete(
            "transaction_logs", _list_logs(assets, retained, options)
        ),
        "manifests": lambda: collector.delete(
            "manifests", _list_manifests(assets, retained, options)
        ),
        "chunks": collector.delete_chunks,
    }
    done: dict[str, Deleted] = {}
    for kind, delete in kinds.items():
        if any(each.failed for each in done.values()):
            break
        if kind == "manifests":
            _mark_late(protocol, retained, options)
        done[kind] = delete()
    return _summarize(done, skipped=[kind for kind in kinds if kind not in done])


def _mark_late(protocol: CommitProtocol, retained: Retained, options: CollectionOptions) -> None:
    """Mark what commits use that landed before their source snapshots were deleted.

    Later commits notice that their sources are gone and fail. V2 commits check the repo info instead.
    """
    if not protocol.has_repo_info and not options.is_dry_run:
        retained.collector.mark(find_new(protocol, retained.snapshots))


def _summarize(done: Mapping[str, Deleted], skipped: list[str]) -> GCSummary:
    total = sum(done.values(), Deleted())
    counts = {f"{kind}_deleted": each.count for kind, each in done.items()}
    return GCSummary(
        bytes_deleted=total.size_bytes,
        objects_failed_to_delete=total.failed,
        throttled_batches=total.throttled,
        delete_errors=list(total.errors),
        skipped_phases=skipped,
        **counts,
    )


def _list_logs(
    assets: Assets, retained: Retained, options: CollectionOptions
) -> Iterable[ObjectInfo]:
    folder = log_folder(assets)
    if folder is None:
        return ()
    kept = IdSet(column_of(retained.logs, folder.id_size))
    return list_garbage(
        assets.storage, folder, kept, options.cutoff, listings=options.sweep.max_concurrent_listings
    )


def _list_manifests(
    assets: Assets, retained: Retained, options: CollectionOptions
) -> Iterable[ObjectInfo]:
    folder = metadata_folder(assets, assets.layout.manifests)
    return list_garbage(
        assets.storage,
        folder,
        retained.collector.manifests,
        options.cutoff,
        listings=options.sweep.max_concurrent_listings,
    )
