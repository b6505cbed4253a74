"""Performing an expiry. No file is deleted: that is what garbage is collected for."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from frazil.assets import Assets
from frazil.format.dialect import Decoded
from frazil.format.files import encode_snapshot
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import ExpirationRan, RepoInfo, SnapshotInfo
from frazil.format.snapshot import History, HistoryEntry, Snapshot
from frazil.maintenance.expiry import ExpiryPlan, ExpiryPolicy, plan_expiry
from frazil.maintenance.file_expiry import FileExpiryPlan, Line, plan_file_expiry
from frazil.protocols.history import LONGEST_TEXT, has_history
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.repo_changes import Change
from frazil.protocols.v2 import RepoObject


def expire_snapshots(protocol: CommitProtocol, policy: ExpiryPolicy) -> frozenset[SnapshotId]:
    """Take old snapshots out of the history; gives those that were released.

    Raises ReadOnlyError, and FormatError for tags that the generation can't delete; then nothing
    is changed.
    """
    if isinstance(protocol, RepoObject):
        return _expire_in_repo_info(protocol, policy)
    plan = _plan_in_files(protocol, policy)
    _expire_in_files(protocol, plan)
    return plan.released


def find_expired(protocol: CommitProtocol, policy: ExpiryPolicy) -> frozenset[SnapshotId]:
    """The snapshots that an expiry would release now; nothing is changed."""
    if isinstance(protocol, RepoObject):
        return plan_expiry(protocol.read_repo_info(), policy).released
    return _plan_in_files(protocol, policy).released


def _plan_in_files(protocol: CommitProtocol, policy: ExpiryPolicy) -> FileExpiryPlan:
    return plan_file_expiry(
        _lines(protocol, {name: protocol.lookup_branch(name) for name in protocol.list_branches()}),
        _lines(protocol, {name: protocol.lookup_tag(name) for name in protocol.list_tags()}),
        policy,
    )


def _lines(protocol: CommitProtocol, tips: Mapping[str, SnapshotId]) -> dict[str, Line]:
    return dict(zip(tips, map(tuple, protocol.ancestries(tips.values())), strict=True))


def _expire_in_repo_info(protocol: RepoObject, policy: ExpiryPolicy) -> frozenset[SnapshotId]:
    plans: list[ExpiryPlan] = []

    def expire(info: RepoInfo) -> Change:
        plans.append(plan_expiry(info, policy))
        return Change(plans[-1].info, ExpirationRan())

    protocol.update(expire)
    return plans[-1].released


def _expire_in_files(protocol: CommitProtocol, plan: FileExpiryPlan) -> None:
    # Refs first: a generation that can't delete a tag refuses before anything is written.
    for name in plan.tags:
        protocol.delete_tag(name)
    for name in plan.branches:
        protocol.delete_branch(name)
    for line in plan.lines:
        for decoded in _shortened(protocol.assets, line):
            _rewrite(protocol.assets, decoded)
    protocol.assets.storage.flush()


def _shortened(assets: Assets, line: Line) -> Iterator[Decoded[Snapshot]]:
    """The snapshots of a line that must say something else than they do, oldest first."""
    oldest = len(line) - 2
    newest = 0 if has_history(assets.dialect) else oldest
    for at in range(oldest, newest - 1, -1):
        decoded = assets.read_snapshot_file_anew(line[at].id)
        shortened = with_ancestors(decoded.value, line[at + 1 :])
        if shortened != decoded.value:
            yield replace(decoded, value=shortened)


def with_ancestors(snapshot: Snapshot, ancestors: Line) -> Snapshot:
    """A snapshot that tells of just these ancestors: its parent, or in older generations all."""
    if snapshot.history is None:
        return replace(snapshot, parent_id=ancestors[0].id)
    entries = tuple(map(_describe, ancestors))
    kept = entries[:LONGEST_TEXT]
    history = History(len(entries), len(kept), kept, snapshot.history.started_at)
    return replace(snapshot, parent_id=kept[0].id, history=history)


def _describe(ancestor: SnapshotInfo) -> HistoryEntry:
    return HistoryEntry(ancestor.id, ancestor.flushed_at, ancestor.message)


def _rewrite(assets: Assets, decoded: Decoded[Snapshot]) -> None:
    """Replace a snapshot's file, in the dialect that it has."""
    snapshot = decoded.value
    data = encode_snapshot(snapshot, decoded.dialect, assets.options.encoding)
    assets.storage.put(assets.layout.snapshot_key(snapshot.id), data, assets.describe("snapshot"))
    assets.drop_snapshots([snapshot.id])
