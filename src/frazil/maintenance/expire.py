"""Expire snapshots by age or by the retention policies of refs. No file is deleted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import takewhile

from frazil.config.settings import RetentionPolicy
from frazil.errors import InvalidTypeError
from frazil.format.files import encode_snapshot
from frazil.format.header import Decoded
from frazil.format.ids import SnapshotId
from frazil.format.metadata import JsonValue, Nanoseconds, from_datetime, require_zone
from frazil.format.repo_info import ExpirationRan, RepoInfo, SnapshotInfo
from frazil.format.snapshot import History, HistoryEntry, Snapshot
from frazil.ops import ExpirySummary
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import MAIN, CommitProtocol
from frazil.protocols.repo_changes import Change, read_protected, read_section, with_section
from frazil.protocols.v1_protocol import LONGEST_TEXT

Snapshots = Mapping[SnapshotId, SnapshotInfo]


def ancestors_of(snapshots: Snapshots, snapshot: SnapshotInfo) -> Iterator[SnapshotInfo]:
    """Yield the ancestors of a snapshot, nearest first."""
    while snapshot.parent_id is not None:
        snapshot = snapshots[snapshot.parent_id]
        yield snapshot


def give_parent(
    snapshot: SnapshotInfo, parent_id: SnapshotId | None, skipped: Sequence[SnapshotInfo]
) -> SnapshotInfo:
    """Return a snapshot with another parent, which takes over the logs of the skipped ancestors.

    `skipped` has the nearest ancestor first. The logs stay in the order in which they were written, so
    that a diff across them stays complete.
    """
    logs: list[SnapshotId] = []
    for each in reversed(skipped):
        logs += [*each.pruned_ancestor_tx_logs, each.id]
    pruned = (*logs, *snapshot.pruned_ancestor_tx_logs)
    return replace(snapshot, parent_id=parent_id, pruned_ancestor_tx_logs=pruned)


def pass_over(
    snapshots: Snapshots, snapshot: SnapshotInfo, passed: Set[SnapshotId]
) -> SnapshotInfo:
    """Return a snapshot whose parent is its nearest ancestor that is not in `passed`."""
    skipped = list(
        takewhile(lambda ancestor: ancestor.id in passed, ancestors_of(snapshots, snapshot))
    )
    last = skipped[-1] if skipped else snapshot
    return give_parent(snapshot, last.parent_id, skipped)


def release(info: RepoInfo, released: Set[SnapshotId], passed: Set[SnapshotId]) -> RepoInfo:
    """Return a repo info without the released snapshots; orphaned children skip those in `passed`."""
    left = {
        id: each if each.parent_id not in released else pass_over(info.snapshots, each, passed)
        for id, each in info.snapshots.items()
        if id not in released
    }
    return replace(info, snapshots=left)


def reachable_snapshots(info: RepoInfo) -> frozenset[SnapshotId]:
    """Return all snapshots that are reachable from a branch or a tag."""
    found: set[SnapshotId] = set()
    for tip in (*info.branches.values(), *info.tags.values()):
        current: SnapshotId | None = tip
        while current is not None and current not in found:
            found.add(current)
            current = info.snapshots[current].parent_id
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class ExpiryPolicy:
    """Cutoff of an expiry, and whether refs to expired snapshots are deleted."""

    older_than: Nanoseconds
    deletes_branches: bool = False
    deletes_tags: bool = False

    def is_expired(self, snapshot: SnapshotInfo) -> bool:
        """Return whether a snapshot is older than the cutoff."""
        return snapshot.flushed_at < self.older_than


@dataclass(frozen=True, slots=True)
class ExpiryPlan:
    """Plan of an expiry in a V2 repository."""

    released: frozenset[SnapshotId]
    """Snapshots to remove from the history."""
    info: RepoInfo
    """Repo info after the expiry."""


def plan_expiry(info: RepoInfo, policy: ExpiryPolicy) -> ExpiryPlan:
    """Plan the expiry of a V2 repository."""
    candidates = frozenset(
        id
        for id, each in info.snapshots.items()
        if each.parent_id is not None and policy.is_expired(each)
    )
    released = candidates - _protected(info, policy)
    lasting = _lasting(info)
    branches = {
        name: tip
        for name, tip in info.branches.items()
        if name in lasting or not policy.deletes_branches or tip not in candidates
    }
    tags = {
        name: tip
        for name, tip in info.tags.items()
        if not policy.deletes_tags or tip not in candidates
    }
    left = replace(
        info,
        branches=branches,
        tags=tags,
        deleted_tags=info.deleted_tags | (info.tags.keys() - tags.keys()),
    )
    return ExpiryPlan(released, release(left, released, candidates))


def _protected(info: RepoInfo, policy: ExpiryPolicy) -> set[SnapshotId]:
    """Return the snapshots that never expire."""
    protected = {info.branches[name] for name in _lasting(info) & info.branches.keys()}
    if not policy.deletes_branches:
        protected.update(info.branches.values())
    if not policy.deletes_tags:
        protected.update(info.tags.values())
    return protected


def _lasting(info: RepoInfo) -> set[str]:
    """Return the branches that an expiry never deletes."""
    return {MAIN, *read_protected(info.metadata)}


Line = tuple[SnapshotInfo, ...]
"""Ancestry: a snapshot and its ancestors, newest first."""


@dataclass(frozen=True, slots=True)
class FileExpiryPlan:
    """Plan of an expiry in a repository before V2."""

    released: frozenset[SnapshotId]
    lines: tuple[Line, ...]
    """Remaining ancestry of each ref that loses snapshots; always ends with the first snapshot."""
    branches: tuple[str, ...]
    """Names of branches to delete."""
    tags: tuple[str, ...]
    """Names of tags to delete."""


def plan_file_expiry(
    branches: Mapping[str, Line], tags: Mapping[str, Line], policy: ExpiryPolicy
) -> FileExpiryPlan:
    """Plan the expiry of a repository before V2 from the full ancestry of each ref."""
    released: set[SnapshotId] = set()
    lines = []
    for line in (*branches.values(), *tags.values()):
        left = plan_line(line, policy)
        if len(left) < len(line):
            lines.append(left)
            released |= _ids(line) - _ids(left) | _ids(filter(policy.is_expired, line[:1]))
    others = {name: line for name, line in branches.items() if name != MAIN}
    return FileExpiryPlan(
        frozenset(released),
        tuple(lines),
        _expired_refs(others, policy) if policy.deletes_branches else (),
        _expired_refs(tags, policy) if policy.deletes_tags else (),
    )


def plan_line(line: Line, policy: ExpiryPolicy) -> Line:
    """Return the remaining ancestry: from the tip to the oldest recent snapshot, and the first."""
    *others, first = line
    while len(others) > 1 and policy.is_expired(others[-1]):
        others.pop()
    return (*others, first)


def _expired_refs(refs: Mapping[str, Line], policy: ExpiryPolicy) -> tuple[str, ...]:
    return tuple(sorted(name for name, line in refs.items() if policy.is_expired(line[0])))


def _ids(snapshots: Iterable[SnapshotInfo]) -> set[SnapshotId]:
    return {each.id for each in snapshots}


def expire_snapshots(protocol: CommitProtocol, policy: ExpiryPolicy) -> frozenset[SnapshotId]:
    """Remove old snapshots from the history; no file is deleted.

    Parameters
    ----------
    protocol
        The commit protocol of the repository.
    policy
        Cutoff, and whether expired refs are deleted.

    Returns
    -------
    frozenset of SnapshotId
        The released snapshots.

    Raises
    ------
    ReadOnlyError
        If the repository is not writable.
    FormatError
        If the generation can't delete tags; then nothing is changed.
    """
    if protocol.has_repo_info:
        return _expire_in_repo_info(protocol, policy)
    plan = _plan_in_files(protocol, policy)
    _expire_in_files(protocol, plan)
    return plan.released


def find_expired(protocol: CommitProtocol, policy: ExpiryPolicy) -> frozenset[SnapshotId]:
    """Return the snapshots that an expiry would release now; nothing is changed."""
    if protocol.has_repo_info:
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


def _expire_in_repo_info(protocol: CommitProtocol, policy: ExpiryPolicy) -> frozenset[SnapshotId]:
    plans: list[ExpiryPlan] = []

    def expire(info: RepoInfo) -> Change:
        plans.append(plan_expiry(info, policy))
        return Change(plans[-1].info, ExpirationRan())

    protocol.update(expire)
    return plans[-1].released


def _expire_in_files(protocol: CommitProtocol, plan: FileExpiryPlan) -> None:
    # Refs first: a generation that can't delete tags raises before anything is written.
    for name in plan.tags:
        protocol.delete_tag(name)
    for name in plan.branches:
        protocol.delete_branch(name)
    for line in plan.lines:
        for decoded in _shortened(protocol.assets, line):
            _rewrite(protocol.assets, decoded)
    protocol.assets.storage.flush()


def _shortened(assets: Assets, line: Line) -> Iterator[Decoded[Snapshot]]:
    """Yield the snapshots of an ancestry that must be rewritten, oldest first."""
    oldest = len(line) - 2
    newest = 0 if assets.dialect.records_history else oldest
    for at in range(oldest, newest - 1, -1):
        decoded = assets.read_snapshot_file_anew(line[at].id)
        shortened = with_ancestors(decoded.value, line[at + 1 :])
        if shortened != decoded.value:
            yield replace(decoded, value=shortened)


def with_ancestors(snapshot: Snapshot, ancestors: Line) -> Snapshot:
    """Return a snapshot with these ancestors: only the parent, or in older generations all."""
    if snapshot.history is None:
        return replace(snapshot, parent_id=ancestors[0].id)
    entries = tuple(map(_describe, ancestors))
    kept = entries[:LONGEST_TEXT]
    history = History(len(entries), len(kept), kept, snapshot.history.started_at)
    return replace(snapshot, parent_id=kept[0].id, history=history)


def _describe(ancestor: SnapshotInfo) -> HistoryEntry:
    return HistoryEntry(ancestor.id, ancestor.flushed_at, ancestor.message)


def _rewrite(assets: Assets, decoded: Decoded[Snapshot]) -> None:
    """Rewrite a snapshot file in its own dialect."""
    snapshot = decoded.value
    data = encode_snapshot(snapshot, decoded.dialect, assets.options.encoding)
    assets.storage.put(assets.layout.snapshot_key(snapshot.id), data, assets.describe("snapshot"))
    assets.drop_snapshots([snapshot.id])


_SECTION = "retention"

Policies = Mapping[str, RetentionPolicy]
"""Retention policies by pattern of ref names (`fnmatch`, case-sensitive)."""


def read_policies(metadata: Mapping[str, JsonValue]) -> dict[str, RetentionPolicy]:
    """Return the policies in a repository's metadata; raises FormatError for an invalid one."""
    entries = read_section(metadata, _SECTION)
    return {pattern: RetentionPolicy.decode(tree) for pattern, tree in entries.items()}


def with_policies(metadata: Mapping[str, JsonValue], policies: Policies) -> dict[str, JsonValue]:
    """Return the metadata with its policies replaced; raises InvalidTypeError."""
    for pattern, policy in policies.items():
        if not isinstance(policy, RetentionPolicy):
            raise InvalidTypeError(
                f"invalid policy {policy!r} of {pattern!r}: give a RetentionPolicy"
            )
    tree = {pattern: policy.encode() for pattern, policy in policies.items()}
    return with_section(metadata, _SECTION, tree)


def plan_retention(
    info: RepoInfo, now: Nanoseconds, policies: Policies | None = None
) -> ExpiryPlan:
    """Plan an expiry by policies; None for those of the repository."""
    if policies is None:
        policies = read_policies(info.metadata)
    reached: set[SnapshotId] = set()
    kept: set[SnapshotId] = set()
    for name, tip in (*info.branches.items(), *info.tags.items()):
        newest = info.snapshots[tip]
        line = [newest, *ancestors_of(info.snapshots, newest)]
        reached.update(each.id for each in line)
        fitting = [policy for pattern, policy in policies.items() if fnmatchcase(name, pattern)]
        kept.update(_kept_by(fitting, line, now))
    released = frozenset(reached - kept)
    return ExpiryPlan(released, release(info, released, released))


def _kept_by(
    policies: list[RetentionPolicy], line: list[SnapshotInfo], now: Nanoseconds
) -> Iterator[SnapshotId]:
    """Yield the snapshots of an ancestry that a ref keeps; always its tip and the first snapshot."""
    for number, each in enumerate(line):
        age = timedelta(microseconds=(now - each.flushed_at) // 1000)
        is_end = number == 0 or each.parent_id is None
        if is_end or not policies or any(policy.keeps(number, age) for policy in policies):
            yield each.id


def set_policies(protocol: CommitProtocol, policies: Policies) -> None:
    """Replace the retention policies of a repository."""
    _refuse_unless_kept(protocol)
    protocol.update_metadata(lambda before: with_policies(before, policies))


def expire_by_policies(
    protocol: CommitProtocol, now: Nanoseconds, policies: Policies | None = None, *, dry_run: bool
) -> ExpirySummary:
    """Remove snapshots from the history that no policy of a ref keeps.

    Uses the policies of the repository, unless others are given. Nothing is written in a dry run, or if
    no snapshot is released.
    """
    _refuse_unless_kept(protocol)
    plans = [plan_retention(protocol.read_repo_info(), now, policies)]

    def expire(info: RepoInfo) -> Change:
        plans.append(plan_retention(info, now, policies))
        return Change(plans[-1].info, ExpirationRan())

    if plans[0].released and not dry_run:
        protocol.update(expire)
    return summarize(plans[-1])


def summarize(plan: ExpiryPlan) -> ExpirySummary:
    """Return the summary of a plan."""
    return ExpirySummary(set(map(str, plan.released)), len(plan.info.snapshots))


def _refuse_unless_kept(protocol: CommitProtocol) -> None:
    if not protocol.has_repo_info:
        raise protocol.unsupported("retention policies")


def policy_of(older_than: datetime, deletes_branches: bool, deletes_tags: bool) -> ExpiryPolicy:
    """Return the policy of a time, which needs a zone, and of options."""
    return ExpiryPolicy(
        from_datetime(require_zone(older_than, "older_than")),
        deletes_branches=deletes_branches,
        deletes_tags=deletes_tags,
    )
