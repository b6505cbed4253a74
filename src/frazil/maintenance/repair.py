"""Repair problems found by a check, if the repair is unambiguous."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from frazil.display import Block, Item
from frazil.errors import (
    FormatError,
    IcechunkError,
    ObjectNotFoundError,
    SessionStateError,
    StorageError,
)
from frazil.format.files import decode_repo_info, decode_transaction_log, encode_transaction_log
from frazil.format.ids import NodeId, SnapshotId, encode_base32
from frazil.format.repo_info import GCRan, RepoInfo
from frazil.format.snapshot import Move, Node, NodeType, Snapshot, TransactionLog, nodes_by_path
from frazil.maintenance.check_metadata import check_log_file
from frazil.maintenance.expire import reachable_snapshots
from frazil.maintenance.findings import CheckReport, Problem, Repair
from frazil.maintenance.gc import drop_snapshots
from frazil.maintenance.inventory import check_temporary_files, list_temporary_files
from frazil.maintenance.reachability import uncached
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import CommitProtocol, read_clock
from frazil.protocols.repo_changes import Change
from frazil.protocols.v2_protocol import BACKUPS, REPO, backup_name, newest_time
from frazil.repository.changes import separate_attribute_changes
from frazil.repository.diff import compare_snapshots
from frazil.storage.interface import Storage, Version, Versioned

Nodes = Mapping[NodeId, Node]


def rebuild_log(assets: Assets, parent: Snapshot | None, snapshot: Snapshot) -> TransactionLog:
    """Rebuild the transaction log of a commit from its snapshot and its parent.

    Changes that the commit reverted itself are not in it. Raises FormatError or StorageError if a
    manifest can't be read.
    """
    if parent is None:
        return TransactionLog(snapshot.id)
    before, after = _by_id(parent), _by_id(snapshot)
    kept = [replace(node, path=after[id].path) for id, node in before.items() if id in after]
    diff = compare_snapshots(assets, replace(parent, nodes=nodes_by_path(kept)), snapshot)
    paths = {node.path: node for node in after.values()}
    deleted = [node for id, node in before.items() if id not in after]
    log = TransactionLog(
        snapshot.id,
        new_groups=frozenset(paths[each].id for each in diff.new_groups),
        new_arrays=frozenset(paths[each].id for each in diff.new_arrays),
        deleted_groups=frozenset(node.id for node in deleted if node.array is None),
        deleted_arrays=frozenset(node.id for node in deleted if node.array is not None),
        updated_groups=frozenset(paths[each].id for each in diff.updated_groups),
        updated_arrays=frozenset(paths[each].id for each in diff.updated_arrays),
        updated_chunks={paths[path].id: chunks for path, chunks in diff.chunk_coordinates.items()},
        moves=find_moves(before, after),
    )
    if not assets.dialect.is_legacy:
        return log
    return separate_attribute_changes(log, before, after)


def find_moves(before: Nodes, after: Nodes) -> tuple[Move, ...]:
    """Return the moves of nodes whose path has changed."""
    return tuple(
        Move(before[id].path, node.path, id, NodeType.ARRAY if node.array else NodeType.GROUP)
        for id, node in after.items()
        if id in before and before[id].path != node.path
    )


def _by_id(snapshot: Snapshot) -> dict[NodeId, Node]:
    return {node.id: node for node in snapshot.nodes.values()}


def parent_of(assets: Assets, parent_id: SnapshotId | None) -> Snapshot | None:
    """Return the parent snapshot, or None; raises ObjectNotFoundError if it has no file."""
    return None if parent_id is None else assets.read_snapshot(parent_id)


_PREFIX = f"{BACKUPS}/{REPO}."


@dataclass(frozen=True, slots=True)
class Restored:
    """Result of a restore: the key of the backup, and the new key of the damaged `repo`."""

    backup: str
    damaged: str | None
    """None in a dry run, or if there was no `repo`."""


def list_backups(storage: Storage) -> Iterator[str]:
    """Return the keys of backups, newest first: their names count down."""
    return iter(sorted(info.key for info in storage.list(_PREFIX)))


def restore_repo(storage: Storage, *, dry_run: bool = False) -> Restored:
    """Replace an unreadable or missing `repo` with the newest readable backup; nothing is deleted.

    Parameters
    ----------
    storage
        The storage of the repository.
    dry_run
        Whether to write nothing.

    Returns
    -------
    Restored
        The backup that was used, and the key of the damaged `repo`.

    Raises
    ------
    SessionStateError
        If `repo` can be read.
    FormatError
        If no backup can be read.
    VersionMismatchError, ObjectExistsError
        If another process wrote `repo` first.
    """
    current = _find_current(storage)
    if current is not None and _is_readable(current.data):
        raise SessionStateError(f"{REPO!r} can be read, and needs no backup")
    key, data = _find_newest(storage, list_backups(storage))
    if dry_run:
        return Restored(key, None)
    if current is None:
        storage.create(REPO, data)
        return Restored(key, None)
    return Restored(key, _replace(storage, data, current.version))


def _replace(storage: Storage, data: bytes, version: Version) -> str:
    name = backup_name(read_clock(), encode_base32(os.urandom(12)))
    damaged = f"{BACKUPS}/damaged-{name}"
    storage.copy(REPO, damaged, version)
    storage.replace(REPO, data, version)
    return damaged


def _find_current(storage: Storage) -> Versioned | None:
    try:
        return storage.get_versioned(REPO)
    except ObjectNotFoundError:
        return None


def _find_newest(storage: Storage, keys: Iterable[str]) -> tuple[str, bytes]:
    # Names have milliseconds, and updates are faster: those of one are told apart by their times.
    for _, group in groupby(keys, lambda key: key.rpartition(".")[0]):
        found = []
        for key in group:
            try:
                data = bytes(storage.get(key))
            except StorageError:
                continue
            if _is_readable(data):
                found.append((newest_time(decode_repo_info(data).value), key, data))
        if found:
            return max(found)[1:]
    raise FormatError(f"none of the backups in {BACKUPS}/ can be read")


def _is_readable(data: object) -> bool:
    try:
        info = decode_repo_info(bytes(data)).value  # type: ignore[call-overload]
        # Values that are decoded lazily must be readable, too.
        return all((list(info.snapshots.values()), list(info.latest_updates)))
    except FormatError:
        return False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a repair."""

    problem: Problem
    is_repaired: bool
    """In a dry run, whether it would be repaired."""
    what: str


@dataclass(frozen=True, slots=True, repr=False)
class RepairReport(Block):
    """Outcomes of the repairs that a check suggested."""

    outcomes: tuple[Outcome, ...]
    is_dry_run: bool

    @property
    def repaired(self) -> tuple[Problem, ...]:
        """Problems that were repaired."""
        return tuple(each.problem for each in self.outcomes if each.is_repaired)

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields of the summary."""
        yield Item("dry run", "yes" if self.is_dry_run else "no")
        for each in self.outcomes:
            yield Item(each.problem.object, each.what)

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        listed = [asdict(each) | {"problem": each.problem.to_dict()} for each in self.outcomes]
        return {"outcomes": listed, "is_dry_run": self.is_dry_run}


class NothingToRepairError(Exception):
    """The problem no longer exists, or can't be repaired."""


def repair_repository(
    protocol: CommitProtocol, report: CheckReport, *, dry_run: bool = False
) -> RepairReport:
    """Repair the problems of a report; a failed repair is reported and does not stop the others.

    Parameters
    ----------
    protocol
        The commit protocol of the repository.
    report
        The report of a check.
    dry_run
        Whether to write nothing.

    Returns
    -------
    RepairReport
        The outcome of each repair.

    Raises
    ------
    ReadOnlyError
        If the repository is not writable.
    """
    repairs = [each.repair for each in report.problems]
    if Repair.RESTORE_REPO not in repairs:
        protocol.refuse_unless_writable()
    acts: Mapping[Repair, Callable[[Problem], str]] = {
        Repair.DROP_SNAPSHOT: lambda each: _drop(protocol, each, dry_run=dry_run),
        Repair.REBUILD_LOG: lambda each: _rebuild(protocol, each, dry_run=dry_run),
        Repair.REMOVE_TEMPORARY_FILE: lambda each: _remove(protocol.assets, each, dry_run=dry_run),
        Repair.RESTORE_REPO: lambda _: _restore(protocol.assets, dry_run=dry_run),
    }
    # One repair may solve several problems of a file.
    wanted = {(each.object, each.repair): each for each in reversed(report.problems)}
    outcomes = [
        _try(acts[each.repair], each)
        for each in reversed(wanted.values())
        if each.repair is not None and each.repair in acts
    ]
    if not dry_run:
        protocol.assets.storage.flush()
    return RepairReport(tuple(outcomes), dry_run)


def _try(act: Callable[[Problem], str], problem: Problem) -> Outcome:
    try:
        return Outcome(problem, True, act(problem))
    except NothingToRepairError as nothing:
        return Outcome(problem, False, str(nothing))
    except IcechunkError as failure:
        return Outcome(problem, False, f"it could not be repaired: {failure.message}")


# Listed snapshots without a file


def _drop(protocol: CommitProtocol, problem: Problem, *, dry_run: bool) -> str:
    id = _id_of(problem)
    if not protocol.has_repo_info:
        raise NothingToRepairError("only a repo info lists snapshots")
    try:
        protocol.assets.storage.head(problem.object)
    except ObjectNotFoundError:
        pass
    else:
        raise NothingToRepairError("the snapshot has its file again")
    plan_drop(protocol.read_repo_info(), id)
    if not dry_run:
        protocol.update(lambda info: plan_drop(info, id))
    return f"snapshot {id} is no more in the repo info"


def plan_drop(info: RepoInfo, id: SnapshotId) -> Change:
    """Return the repo info without a snapshot; raises NothingToRepairError if it is reachable."""
    if id not in info.snapshots:
        raise NothingToRepairError("the snapshot is not in the repo info any more")
    if id in reachable_snapshots(info):
        raise NothingToRepairError("a branch or tag references the snapshot by now")
    return Change(drop_snapshots(info, {id}), GCRan())


# Transaction logs


def _rebuild(protocol: CommitProtocol, problem: Problem, *, dry_run: bool) -> str:
    assets, id = uncached(protocol.assets), _id_of(problem)
    parent_id = protocol.lookup_snapshot(id).parent_id
    current = _find(assets, problem.object)
    if current is not None and _is_sound(assets, current, id, is_first=parent_id is None):
        raise NothingToRepairError("the log can be read again")
    log = rebuild_log(assets, parent_of(assets, parent_id), assets.read_snapshot(id))
    if dry_run:
        return "the log can be written anew"
    data = encode_transaction_log(log, assets.dialect, assets.options.encoding)
    options = assets.describe("transaction-log")
    if current is None:
        assets.storage.create(problem.object, data, options)
    else:
        assets.storage.replace(problem.object, data, current.version, options)
    return "the log was written anew, from what is different in the snapshot and its parent"


def _find(assets: Assets, key: str) -> Versioned | None:
    try:
        return assets.storage.get_versioned(key)
    except ObjectNotFoundError:
        return None


def _is_sound(assets: Assets, found: Versioned, id: SnapshotId, *, is_first: bool) -> bool:
    data = bytes(found.data)
    try:
        decode_transaction_log(data, id)
        return not check_log_file(data, id, "", assets.dialect, is_first=is_first)
    except FormatError:
        return False


def _id_of(problem: Problem) -> SnapshotId:
    return SnapshotId.parse(problem.object.rpartition("/")[2].partition(".")[0])


# Temporary files and the repo info


def _remove(assets: Assets, problem: Problem, *, dry_run: bool) -> str:
    still = [each for each in list_temporary_files(assets.storage) if each.key == problem.object]
    if not any(each.repair for each in check_temporary_files(still, datetime.now(UTC))):
        raise NothingToRepairError("the temporary file is gone, or in use")
    if not dry_run:
        for reason in assets.storage.delete_many([problem.object]).failed.values():
            raise NothingToRepairError(f"it can't be deleted: {reason}")
    return "the temporary file is deleted"


def _restore(assets: Assets, *, dry_run: bool) -> str:
    restored = restore_repo(assets.storage, dry_run=dry_run)
    return f"the repository is what it was in {restored.backup}"
