"""Collecting garbage: find what stays, let the history forget the rest, delete its files.

What refers to other files goes first: snapshots, then transaction logs, manifests and chunks. If some
files of a kind can't be deleted the kinds after it stay, so that no file refers to one that is gone.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from frazil.assets import Assets
from frazil.errors import ConflictError
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import GCRan, RepoInfo
from frazil.maintenance.deleting import Deleted, count_objects, delete_objects
from frazil.maintenance.garbage import GarbagePlan, drop_snapshots, plan_garbage, retained_logs
from frazil.maintenance.id_columns import IdSet, column_of
from frazil.maintenance.limits import SweepLimits, WalkLimits
from frazil.maintenance.listing import Folder, list_garbage
from frazil.maintenance.marking import Marks, mark, mark_more
from frazil.maintenance.reach import find_new, find_reachable
from frazil.maintenance.walking import uncached
from frazil.ops import GCSummary
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.repo_changes import Change
from frazil.protocols.v2 import RepoObject
from frazil.storage.interface import ObjectInfo

_MOST_ATTEMPTS = 100

Files = Mapping[SnapshotId, ObjectInfo]
"""Of snapshots."""


@dataclass(frozen=True, slots=True)
class CollectionOptions:
    """What is too old to stay without a reason, and how to go about it."""

    cutoff: datetime
    walk: WalkLimits
    sweep: SweepLimits
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Retained:
    """What stays."""

    snapshots: Set[SnapshotId]
    logs: Set[SnapshotId]
    marks: Marks


class HistoryMovedError(Exception):
    """Something has come to rest on what was to be dropped."""


class HistoryGrewError(Exception):
    """There are snapshots that nobody has looked at."""

    def __init__(self, info: RepoInfo) -> None:
        super().__init__(info)
        self.info = info


def collect_garbage(protocol: CommitProtocol, options: CollectionOptions) -> GCSummary:
    """Delete what no branch or tag leads to; a dry run only counts it.

    Raises, before anything is deleted, ReadOnlyError and whatever comes of a file that can't be read.
    """
    protocol.refuse_unless_writable()
    for _ in range(_MOST_ATTEMPTS):
        old = _list_old_snapshots(protocol.assets, options)
        try:
            retained = _retain(protocol, old, options)
        except HistoryMovedError:
            continue
        protocol.assets.drop_snapshots(old.keys() - retained.snapshots)
        return _sweep(protocol, old, retained, options)
    raise ConflictError(
        f"others built on snapshots that were to be dropped {_MOST_ATTEMPTS} times in a row",
        kind="update-attempts-exhausted",
    )


# What stays


def _retain(protocol: CommitProtocol, old: Files, options: CollectionOptions) -> Retained:
    if isinstance(protocol, RepoObject):
        return _retain_by_repo_info(protocol, old, options)
    reachable = find_reachable(protocol)
    marks = _mark(protocol.assets, reachable, options)
    # A ref to what was garbage when the walk began may have come since.
    new = find_new(protocol, reachable)
    if not new.isdisjoint(old):
        raise HistoryMovedError
    _mark_more(marks, protocol.assets, new, options)
    return Retained(reachable | new, reachable | new, marks)


def _retain_by_repo_info(protocol: RepoObject, old: Files, options: CollectionOptions) -> Retained:
    plan = plan_garbage(protocol.read_repo_info(), frozenset(old))
    marks = _mark(protocol.assets, plan.kept, options)
    if options.is_dry_run:
        after = drop_snapshots(plan.before, plan.dropped)
    else:
        after = _drop_in_repo_info(protocol, plan, marks, options)
    return Retained(after.snapshots.keys(), retained_logs(after), marks)


def _drop_in_repo_info(
    protocol: RepoObject, plan: GarbagePlan, marks: Marks, options: CollectionOptions
) -> RepoInfo:
    """Let the history forget what goes, once all that is in it then is marked."""
    for _ in range(_MOST_ATTEMPTS):
        try:
            return protocol.update(partial(_drop, plan=plan))
        except HistoryGrewError as error:
            new = error.info.snapshots.keys() - plan.before.snapshots.keys()
            _mark_more(marks, protocol.assets, new, options)
            plan = replace(plan, before=error.info)
    raise HistoryMovedError


def _drop(info: RepoInfo, plan: GarbagePlan) -> Change:
    if not plan.still_holds(info):
        raise HistoryMovedError
    # A commit can use chunks of a snapshot that it does not rest on: it was picked or amended from it.
    if info.snapshots.keys() - plan.before.snapshots.keys():
        raise HistoryGrewError(info)
    return Change(drop_snapshots(info, plan.dropped), GCRan())


def _mark(assets: Assets, snapshots: Iterable[SnapshotId], options: CollectionOptions) -> Marks:
    return mark(uncached(assets), snapshots, options.walk, _id_size(assets))


def _mark_more(
    marks: Marks, assets: Assets, snapshots: Iterable[SnapshotId], options: CollectionOptions
) -> None:
    mark_more(marks, uncached(assets), snapshots, options.walk, _id_size(assets))


# What goes


def _list_old_snapshots(assets: Assets, options: CollectionOptions) -> Files:
    folder = _metadata_folder(assets, assets.layout.snapshots)
    found = _list(assets, folder, IdSet(), options)
    return {SnapshotId.parse(folder.find_stem(info.key)): info for info in found}


def _sweep(
    protocol: CommitProtocol, old: Files, retained: Retained, options: CollectionOptions
) -> GCSummary:
    assets = protocol.assets
    id_size, layout = _id_size(assets), assets.layout
    snapshots = [info for id, info in old.items() if id not in retained.snapshots]
    manifests = _metadata_folder(assets, layout.manifests)
    chunks = Folder(layout.chunks, id_size)
    kinds = {
        "snapshots": snapshots,
        "transaction_logs": _list_logs(assets, retained, options),
        "manifests": _list(assets, manifests, retained.marks.manifests, options),
        "chunks": _list(assets, chunks, retained.marks.chunks, options),
    }
    done: dict[str, Deleted] = {}
    for kind, garbage in kinds.items():
        if any(each.failed for each in done.values()):
            break
        if kind == "manifests":
            _mark_late(protocol, retained, options)
        done[kind] = _delete(assets, garbage, options, kind)
    return _summarize(done, skipped=[kind for kind in kinds if kind not in done])


def _mark_late(protocol: CommitProtocol, retained: Retained, options: CollectionOptions) -> None:
    """Mark what commits use that landed before the snapshots were gone that they took chunks from.

    Later ones find that these are gone, and don't land; those of V2 ask the repo info.
    """
    if not isinstance(protocol, RepoObject) and not options.is_dry_run:
        late = find_new(protocol, retained.snapshots)
        _mark_more(retained.marks, protocol.assets, late, options)


def _delete(
    assets: Assets, garbage: Iterable[ObjectInfo], options: CollectionOptions, kind: str
) -> Deleted:
    if options.is_dry_run:
        return count_objects(garbage)
    return delete_objects(assets.storage, garbage, options.sweep, kind)


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
    name = assets.layout.transactions
    if name is None:
        return ()
    id_size = _id_size(assets)
    kept = IdSet(column_of(retained.logs, id_size))
    return _list(assets, Folder(name, id_size), kept, options)


def _list(
    assets: Assets, folder: Folder, kept: IdSet, options: CollectionOptions
) -> Iterable[ObjectInfo]:
    return list_garbage(assets.storage, folder, kept, options.cutoff)


def _metadata_folder(assets: Assets, name: str) -> Folder:
    layout = assets.layout
    return Folder(name, _id_size(assets), (layout.ending, *layout.other_endings))


def _id_size(assets: Assets) -> int:
    return 16 if assets.dialect is Dialect.DRAFT else 12
