"""Collecting garbage: find what stays, let the history forget the rest, delete its files.

What refers to other files goes first: snapshots, then transaction logs, manifests and chunks. If some
files of a kind can't be deleted the kinds after it stay, so that no file refers to one that is gone.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from frazil.assets import Assets
from frazil.errors import ConflictError
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import GCRan, RepoInfo
from frazil.maintenance.collectors import (
    CollectionOptions,
    Collector,
    HireCollector,
    LocalCollector,
)
from frazil.maintenance.deleting import Deleted
from frazil.maintenance.garbage import GarbagePlan, drop_snapshots, plan_garbage, retained_logs
from frazil.maintenance.id_columns import IdSet, column_of
from frazil.maintenance.leases import delete_expired, list_leases, spare
from frazil.maintenance.listing import list_garbage, log_folder, metadata_folder
from frazil.maintenance.reach import find_new, find_reachable
from frazil.ops import GCSummary
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.repo_changes import Change
from frazil.protocols.v2 import RepoObject
from frazil.storage.interface import ObjectInfo

_MOST_ATTEMPTS = 100

Files = Mapping[SnapshotId, ObjectInfo]
"""Of snapshots."""


@dataclass(frozen=True, slots=True)
class Retained:
    """What stays."""

    snapshots: Set[SnapshotId]
    logs: Set[SnapshotId]
    collector: Collector
    """Who knows which manifests and chunks."""


class HistoryMovedError(Exception):
    """Something has come to rest on what was to be dropped."""


class HistoryGrewError(Exception):
    """There are snapshots that nobody has looked at."""

    def __init__(self, info: RepoInfo) -> None:
        super().__init__(info)
        self.info = info


def collect_garbage(
    protocol: CommitProtocol, options: CollectionOptions, hire: HireCollector = LocalCollector
) -> GCSummary:
    """Delete what no branch or tag leads to; a dry run only counts it.

    What running jobs have written stays: they hold leases. Raises, before anything is deleted,
    ReadOnlyError and whatever comes of a file that can't be read.
    """
    protocol.refuse_unless_writable()
    storage, now = protocol.assets.storage, datetime.now(UTC)
    leases = list_leases(storage)
    summary = _collect(protocol, replace(options, cutoff=spare(options.cutoff, leases, now)), hire)
    if not options.is_dry_run:
        delete_expired(storage, leases, now)
    return summary


def _collect(
    protocol: CommitProtocol, options: CollectionOptions, hire: HireCollector
) -> GCSummary:
    for _ in range(_MOST_ATTEMPTS):
        old = _list_old_snapshots(protocol.assets, options)
        collector = hire(protocol.assets, options)
        try:
            retained = _retain(protocol, old, collector, options)
        except HistoryMovedError:
            continue
        protocol.assets.drop_snapshots(old.keys() - retained.snapshots)
        return _sweep(protocol, old, retained, options)
    raise ConflictError(
        message=f"others built on snapshots that were to be dropped {_MOST_ATTEMPTS} times in a row",
        kind="update-attempts-exhausted",
    )


# What stays


def _retain(
    protocol: CommitProtocol, old: Files, collector: Collector, options: CollectionOptions
) -> Retained:
    if isinstance(protocol, RepoObject):
        return _retain_by_repo_info(protocol, old, collector, options)
    reachable = find_reachable(protocol)
    collector.mark(sorted(reachable))
    # A ref to what was garbage when the walk began may have come since.
    new = find_new(protocol, reachable)
    if not new.isdisjoint(old):
        raise HistoryMovedError
    collector.mark(new)
    return Retained(reachable | new, reachable | new, collector)


def _retain_by_repo_info(
    protocol: RepoObject, old: Files, collector: Collector, options: CollectionOptions
) -> Retained:
    plan = plan_garbage(protocol.read_repo_info(), frozenset(old))
    collector.mark(plan.kept_by_age())
    if options.is_dry_run:
        after = drop_snapshots(plan.before, plan.dropped)
    else:
        after = _drop_in_repo_info(protocol, plan, collector)
    return Retained(after.snapshots.keys(), retained_logs(after), collector)


def _drop_in_repo_info(protocol: RepoObject, plan: GarbagePlan, collector: Collector) -> RepoInfo:
    """Let the history forget what goes, once all that is in it then is marked."""
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
    # A commit can use chunks of a snapshot that it does not rest on: it was picked or amended from it.
    if info.snapshots.keys() - plan.before.snapshots.keys():
        raise HistoryGrewError(info)
    return Change(drop_snapshots(info, plan.dropped), GCRan())


# What goes


def _list_old_snapshots(assets: Assets, options: CollectionOptions) -> Files:
    folder = metadata_folder(assets, assets.layout.snapshots)
    found = list_garbage(assets.storage, folder, IdSet(), options.cutoff)
    return {SnapshotId.parse(folder.find_stem(info.key)): info for info in found}


def _sweep(
    protocol: CommitProtocol, old: Files, retained: Retained, options: CollectionOptions
) -> GCSummary:
    assets, collector = protocol.assets, retained.collector
    if not options.is_dry_run:
        # A loss of power must not bring back refs to what is deleted now.
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
    """Mark what commits use that landed before the snapshots were gone that they took chunks from.

    Later ones find that these are gone, and don't land; those of V2 ask the repo info.
    """
    if not isinstance(protocol, RepoObject) and not options.is_dry_run:
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
    return list_garbage(assets.storage, folder, kept, options.cutoff)


def _list_manifests(
    assets: Assets, retained: Retained, options: CollectionOptions
) -> Iterable[ObjectInfo]:
    folder = metadata_folder(assets, assets.layout.manifests)
    return list_garbage(assets.storage, folder, retained.collector.manifests, options.cutoff)
