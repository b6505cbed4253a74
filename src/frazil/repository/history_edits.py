"""Edit history: cherry-pick, squash, fast-forward."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from frazil.errors import ConflictError, DivergedError, InvalidInputError, ObjectNotFoundError
from frazil.format.ids import SnapshotId
from frazil.format.metadata import JsonValue, Metadata
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import Node, Snapshot, TransactionLog
from frazil.lazy import dataclass
from frazil.ops import SessionMode
from frazil.protocols.assets import Assets, new_snapshot_id
from frazil.protocols.protocol import CommitProtocol, Replaced, read_clock, time_after
from frazil.protocols.repo_changes import RESERVED
from frazil.protocols.v1_protocol import continue_history, read_snapshot, snapshot_parent_id
from frazil.repository.changes import ChangeSet, net_log
from frazil.repository.commit import CommitText, commit
from frazil.repository.conflicts import (
    Clash,
    ConflictSolver,
    ConflictType,
    Theirs,
    describe_ours,
    find_clashes,
    plan_solution,
)
from frazil.repository.context import RepositoryContext, SessionState
from frazil.repository.diff import commits_between
from frazil.repository.rebase import (
    compare_for,
    expired_parent,
    failed,
    find_steps,
    read_changes,
    rebase_changes,
)

_TRIES = 1000
"""Maximum retries after concurrent commits, as for a commit with rebase."""


_OF_LIBRARIES = frozenset(("__icechunk", RESERVED))


@dataclass(frozen=True, slots=True)
class Picked:
    """Commit to apply again: its changes over its parent, and its text."""

    id: SnapshotId
    parent: Snapshot
    changes: ChangeSet
    text: CommitText


def cherry_pick(
    context: RepositoryContext,
    id: SnapshotId,
    onto: str,
    message: str | None,
    solver: ConflictSolver,
) -> SnapshotId:
    """Commit the changes of a commit to a branch, and return the id of the new commit.

    If somebody else commits to the branch meanwhile, the changes are applied to that commit in turn.
    Raises RebaseFailedError for conflicts that the solver can't resolve and for moves,
    SessionStateError if no changes remain or the commit's parent has expired, ReadOnlyError for a
    protected branch, SnapshotNotFoundError if garbage collection deleted the commit meanwhile.
    """
    protocol = context.protocol
    if context.assets.layout.transactions is None:
        raise protocol.unsupported("cherry-pick")
    protocol.refuse_unless_writable()
    tip = protocol.lookup_branch_to_change(onto)
    picked = _read_whole(context, id, message)
    for _ in range(_TRIES):
        try:
            return _commit(context, picked, onto, tip, solver)
        except ConflictError as error:
            if error.kind != ConflictError.default_kind:
                raise
        tip = protocol.lookup_branch_to_change(onto)
    return _commit(context, picked, onto, tip, solver)


def _commit(
    context: RepositoryContext, picked: Picked, onto: str, tip: SnapshotId, solver: ConflictSolver
) -> SnapshotId:
    base = read_snapshot(context.assets, tip)
    state = SessionState(context, base, mode=SessionMode.writable, branch=onto)
    state.set_base(base, put_onto(picked, base, context.assets, solver))
    return commit(state, picked.text)


def put_onto(picked: Picked, tip: Snapshot, assets: Assets, solver: ConflictSolver) -> ChangeSet:
    """Return a commit's changes rebased onto another snapshot; raises RebaseFailedError."""
    changes = picked.changes.copy()
    theirs = Theirs(compare_for(changes, assets, picked.parent, tip), tip.nodes)
    clashes = [
        *find_clashes(describe_ours(changes, picked.parent.nodes), theirs),
        *_find_moved_twins(changes, tip),
    ]
    given_up = plan_solution(clashes, solver)
    if given_up is None:
        raise failed(tip.id, clashes)
    for id, coordinates in given_up.items():
        changes.chunks[id].forget(coordinates)
    return _without_nothing(rebase_changes(changes, tip.nodes), tip.nodes)


def _find_moved_twins(changes: ChangeSet, tip: Snapshot) -> list[Clash]:
    """Find created nodes that the branch already has at another path: a node has one path."""
    kind = ConflictType.NewNodeConflictsWithExistingNode
    return [
        Clash(kind, node.path, node.id)
        for node in tip.nodes.values()
        if node.id in changes.created and changes.created[node.id].path != node.path
    ]


def _without_nothing(changes: ChangeSet, nodes: Mapping[str, Node]) -> ChangeSet:
    """Drop deletions of nodes that don't exist, and arrays without chunk edits."""
    there = {node.id for node in nodes.values()}
    changes.deleted = {id: node for id, node in changes.deleted.items() if id in there}
    changes.chunks = {id: edits for id, edits in changes.chunks.items() if len(edits)}
    return changes


def _read_whole(context: RepositoryContext, id: SnapshotId, message: str | None) -> Picked:
    try:
        return _read(context, id, message)
    except ObjectNotFoundError:
        # Raises SnapshotNotFoundError if the commit is being collected.
        context.protocol.lookup_snapshot(id)
        raise


def _read(context: RepositoryContext, id: SnapshotId, message: str | None) -> Picked:
    assets = context.assets
    info = context.protocol.lookup_snapshot(id)
    snapshot, log = read_snapshot(assets, id), assets.read_transaction_log(id)
    parent = _read_parent(assets, info)
    paths = {node.id: node.path for node in parent.nodes.values()}
    moved = [
        Clash(ConflictType.MoveOperationCannotBeRebased, node.path, node.id)
        for node in snapshot.nodes.values()
        if paths.get(node.id, node.path) != node.path
    ]
    if moved:
        raise failed(id, moved)
    text = CommitText(info.message if message is None else message, _describe(context, info))
    changes = read_changes(assets, parent, snapshot, log)
    changes.sources.add(id)
    return Picked(id, parent, changes, text)


def _read_parent(assets: Assets, info: SnapshotInfo) -> Snapshot:
    """Return the parent snapshot of a commit, even if it has expired but is not collected yet."""
    if info.parent_id is None:
        raise InvalidInputError(
            f"{info.id} is the first snapshot: it has no changes to pick",
            kind="invalid-snapshot-id",
        )
    *_, parent_id = (info.parent_id, *info.pruned_ancestor_tx_logs)
    try:
        return assets.read_snapshot(parent_id)
    except ObjectNotFoundError as error:
        raise expired_parent(info.id) from error


def _describe(context: RepositoryContext, info: SnapshotInfo) -> Mapping[str, JsonValue]:
    """Return the metadata of a commit merged over the defaults, with the id of its origin."""
    # Reserved entries describe how that commit was made, not what it changed.
    said = {name: value for name, value in info.metadata.items() if name not in _OF_LIBRARIES}
    origin = {"cherry_picked_from": str(info.id)}
    return {**context.default_commit_metadata, **said, RESERVED: origin}


def squash(
    context: RepositoryContext,
    branch: str,
    since: SnapshotId,
    message: str | None,
    metadata: Mapping[str, JsonValue],
) -> SnapshotId:
    """Replace all commits of a branch after a snapshot with one, and return its id.

    Raises InvalidInputError unless the snapshot is an ancestor of the tip, ReadOnlyError for a
    protected branch, ConflictError after a concurrent commit, which the branch then keeps.
    """
    protocol, assets = context.protocol, context.assets
    protocol.refuse_unless_writable()
    tip_id = protocol.lookup_branch_to_change(branch)
    commits = commits_between(protocol, since, tip_id)[::-1]
    base, tip = read_snapshot(assets, since), read_snapshot(assets, tip_id)
    text = list_messages(commits) if message is None else message
    said = {**context.default_commit_metadata, **metadata}
    snapshot = _build(base, tip, CommitText(text, said), assets)
    logs, lost = _read_logs(assets, commits)
    log = assets.encode_transaction_log(net_log(logs, base, tip, snapshot.id))
    objects = [assets.encode_snapshot(snapshot), *log]
    protocol.squash(branch, snapshot, Replaced(since, tip_id, lost), objects)
    return snapshot.id


def list_messages(commits: Sequence[SnapshotInfo]) -> str:
    """Return the message of a commit that replaces others, oldest first."""
    if len(commits) == 1:
        return commits[0].message
    lines = [f"- {commit.message}" for commit in commits]
    return "\n".join([f"Squashed {len(commits)} commits:", "", *lines])


def _build(base: Snapshot, tip: Snapshot, text: CommitText, assets: Assets) -> Snapshot:
    """Return a snapshot with the tip's nodes and manifests whose parent is the base."""
    now = read_clock()
    return replace(
        tip,
        id=new_snapshot_id(assets.dialect),
        parent_id=snapshot_parent_id(base, assets.dialect),
        flushed_at=time_after(tip.flushed_at, now),
        message=text.message,
        metadata=Metadata(text.metadata),
        history=continue_history(assets, base.id, now),
    )


def _read_logs(
    assets: Assets, commits: Iterable[SnapshotInfo]
) -> tuple[list[TransactionLog], tuple[SnapshotId, ...]]:
    """Return the logs of commits, in their order, and the ids of expired commits without a log."""
    logs: list[TransactionLog] = []
    lost: list[SnapshotId] = []
    if assets.layout.transactions is None:
        return logs, ()
    for info in commits:
        for id in info.pruned_ancestor_tx_logs:
            try:
                logs.append(assets.read_transaction_log(id))
            except ObjectNotFoundError:
                lost.append(id)
        logs.append(assets.read_transaction_log(info.id))
    return logs, tuple(lost)


def fast_forward(protocol: CommitProtocol, branch: str, to: str) -> SnapshotId:
    """Move a branch, even a protected one, to the tip of another, and return that tip.

    Raises DivergedError if the branch has commits that the other does not have, and ConflictError
    after a concurrent commit.
    """
    tip, target = protocol.lookup_branch(branch), protocol.lookup_branch(to)
    if tip == target:
        return target
    # Expiration may have removed the tip from the ancestry, but not from the list of logs.
    if find_steps(protocol.ancestry(target), {tip}) is None:
        raise DivergedError(
            message=f"branch {branch!r} can't be fast-forwarded to {target}, the tip of {to!r}: its own"
            f" tip {tip} is no ancestor of that, so that commits would be lost; cherry-pick"
            " commits instead, or reset the branch",
            expected_parent=str(tip),
            actual_parent=str(target),
        )
    protocol.advance_branch(branch, target, tip)
    return target
