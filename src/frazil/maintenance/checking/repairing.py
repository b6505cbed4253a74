"""Repairing what a check found, where that takes no guess.

Rules kept here: nothing that a ref leads to is deleted; what is written is a new object, or replaces
just the version that was looked at. Every repair first looks again whether it is still needed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from frazil.assets import Assets
from frazil.errors import FormatError, IcechunkError, ObjectNotFoundError
from frazil.format.files import decode_transaction_log, encode_transaction_log
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import GCRan, RepoInfo
from frazil.maintenance.checking.leftovers import check_leftovers, list_leftovers
from frazil.maintenance.checking.logs import check_log_file
from frazil.maintenance.checking.problems import Problem, Repair
from frazil.maintenance.checking.rebuilding import parent_of, rebuild_log
from frazil.maintenance.checking.report import CheckReport
from frazil.maintenance.checking.restoring import restore_repo
from frazil.maintenance.garbage import drop_snapshots
from frazil.maintenance.parents import reachable_snapshots
from frazil.maintenance.walking import uncached
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.repo_changes import Change
from frazil.protocols.v2 import RepoObject
from frazil.rendering import Block, Item
from frazil.storage.interface import Versioned


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a problem."""

    problem: Problem
    is_repaired: bool
    """In a dry run, whether it would be."""
    what: str


@dataclass(frozen=True, slots=True, repr=False)
class RepairReport(Block):
    """What became of the problems of a report that name a repair."""

    outcomes: tuple[Outcome, ...]
    is_dry_run: bool

    @property
    def repaired(self) -> tuple[Problem, ...]:
        """The problems that are no more."""
        return tuple(each.problem for each in self.outcomes if each.is_repaired)

    def shown_items(self) -> Iterator[Item]:
        """A line for each problem."""
        yield Item("dry run", "yes" if self.is_dry_run else "no")
        for each in self.outcomes:
            yield Item(each.problem.object, each.what)

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        told = [asdict(each) | {"problem": each.problem.to_dict()} for each in self.outcomes]
        return {"outcomes": told, "is_dry_run": self.is_dry_run}


class NothingToRepairError(Exception):
    """A problem that is no more."""


def repair_repository(
    protocol: CommitProtocol, report: CheckReport, *, dry_run: bool = False
) -> RepairReport:
    """Repair what a report names a repair for; what fails is told, and the rest is done.

    Raises ReadOnlyError where the repository is not to be written to.
    """
    repairs = [each.repair for each in report.problems]
    if Repair.RESTORE_REPO not in repairs:
        protocol.refuse_unless_writable()
    acts: Mapping[Repair, Callable[[Problem], str]] = {
        Repair.DROP_SNAPSHOT: lambda each: _drop(protocol, each, dry_run=dry_run),
        Repair.REBUILD_LOG: lambda each: _rebuild(protocol, each, dry_run=dry_run),
        Repair.REMOVE_LEFTOVER: lambda each: _remove(protocol.assets, each, dry_run=dry_run),
        Repair.RESTORE_REPO: lambda _: _restore(protocol.assets, dry_run=dry_run),
    }
    # One file may have several problems that one repair ends.
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


# Snapshots that are listed and have no file


def _drop(protocol: CommitProtocol, problem: Problem, *, dry_run: bool) -> str:
    id = _id_of(problem)
    if not isinstance(protocol, RepoObject):
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
    """The repo info without a snapshot; raises NothingToRepairError if a ref leads to it."""
    if id not in info.snapshots:
        raise NothingToRepairError("the snapshot is not in the repo info any more")
    if id in reachable_snapshots(info):
        raise NothingToRepairError("a ref leads to the snapshot by now")
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


# The rest


def _remove(assets: Assets, problem: Problem, *, dry_run: bool) -> str:
    still = [each for each in list_leftovers(assets.storage) if each.key == problem.object]
    if not any(each.repair for each in check_leftovers(still, datetime.now(UTC))):
        raise NothingToRepairError("the temporary file is gone, or in use")
    if not dry_run:
        _refuse_failures(assets.storage.delete_many([problem.object]).failed.values())
    return "the temporary file is deleted"


def _refuse_failures(reasons: Iterable[str]) -> None:
    for reason in reasons:
        raise NothingToRepairError(f"it can't be deleted: {reason}")


def _restore(assets: Assets, *, dry_run: bool) -> str:
    restored = restore_repo(assets.storage, dry_run=dry_run)
    return f"the repository is what it was in {restored.backup}"
