"""Doing what one commit did once more, on top of another branch.

The branch is to the commit what others' commits are to a session that is rebased: the same rules find
conflicts, the same solvers decide. All conflicts with the tip are told together. Nodes that the commit
made keep their ids, so that later commits to them can be picked as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.assets import Assets
from frazil.conflicts import ConflictSolver, ConflictType
from frazil.engine.branch_difference import compare_for
from frazil.engine.changes import ChangeSet
from frazil.engine.commits import CommitText
from frazil.engine.conflict_rules import Clash, Theirs, describe_ours, find_clashes
from frazil.engine.conflict_solving import plan_solution
from frazil.engine.finishing import commit
from frazil.engine.picked_changes import expired_parent, read_changes
from frazil.engine.rebased_changes import rebase_changes
from frazil.engine.rebasing import failed
from frazil.engine.state import SessionState, Surroundings
from frazil.errors import ConflictError, InvalidInputError, ObjectNotFoundError
from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import Node, Snapshot
from frazil.protocols.reserved_metadata import RESERVED
from frazil.protocols.snapshot_infos import read_snapshot
from frazil.states import SessionMode

_TRIES = 1000
"""As often as a commit with rebase, before somebody else's commits are too many."""


_OF_LIBRARIES = frozenset(("__icechunk", RESERVED))


@dataclass(frozen=True, slots=True)
class Picked:
    """A commit as it is to be done again."""

    id: SnapshotId
    parent: Snapshot
    changes: ChangeSet
    text: CommitText


def cherry_pick(
    surroundings: Surroundings,
    id: SnapshotId,
    onto: str,
    message: str | None,
    solver: ConflictSolver,
) -> SnapshotId:
    """Commit the changes of a commit to a branch; gives the id of the new one.

    Raises RebaseFailedError for conflicts that the solver may not decide and for moves,
    SessionStateError if nothing is left to be done or the commit's parent has expired, ReadOnlyError
    for a protected branch, SnapshotNotFoundError if garbage collection took the commit before this
    one landed. A commit that lands meanwhile is picked onto in turn.
    """
    protocol = surroundings.protocol
    if surroundings.assets.layout.transactions is None:
        raise protocol.unsupported("cherry-pick")
    protocol.refuse_unless_writable()
    tip = protocol.lookup_branch_to_change(onto)
    picked = _read_whole(surroundings, id, message)
    for _ in range(_TRIES):
        try:
            return _commit(surroundings, picked, onto, tip, solver)
        except ConflictError as error:
            if error.kind != ConflictError.default_kind:
                raise
        tip = protocol.lookup_branch_to_change(onto)
    return _commit(surroundings, picked, onto, tip, solver)


def _commit(
    surroundings: Surroundings, picked: Picked, onto: str, tip: SnapshotId, solver: ConflictSolver
) -> SnapshotId:
    base = read_snapshot(surroundings.assets, tip)
    state = SessionState(surroundings, base, mode=SessionMode.writable, branch=onto)
    state.rest_on(base, put_onto(picked, base, surroundings.assets, solver))
    return commit(state, picked.text)


def put_onto(picked: Picked, tip: Snapshot, assets: Assets, solver: ConflictSolver) -> ChangeSet:
    """A commit's changes over another snapshot; raises RebaseFailedError."""
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
    """Nodes of ours that the branch has already, and elsewhere: an id can't be in two places."""
    kind = ConflictType.NewNodeConflictsWithExistingNode
    return [
        Clash(kind, node.path, node.id)
        for node in tip.nodes.values()
        if node.id in changes.created and changes.created[node.id].path != node.path
    ]


def _without_nothing(changes: ChangeSet, nodes: Mapping[str, Node]) -> ChangeSet:
    """Changes without deletions of what is not there, and without arrays that kept no edit."""
    there = {node.id for node in nodes.values()}
    changes.deleted = {id: node for id, node in changes.deleted.items() if id in there}
    changes.chunks = {id: edits for id, edits in changes.chunks.items() if len(edits)}
    return changes


def _read_whole(surroundings: Surroundings, id: SnapshotId, message: str | None) -> Picked:
    try:
        return _read(surroundings, id, message)
    except ObjectNotFoundError:
        # If the commit is being collected, this says so.
        surroundings.protocol.lookup_snapshot(id)
        raise


def _read(surroundings: Surroundings, id: SnapshotId, message: str | None) -> Picked:
    assets = surroundings.assets
    info = surroundings.protocol.lookup_snapshot(id)
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
    text = CommitText(info.message if message is None else message, _describe(surroundings, info))
    changes = read_changes(assets, parent, snapshot, log)
    changes.sources.add(id)
    return Picked(id, parent, changes, text)


def _read_parent(assets: Assets, info: SnapshotInfo) -> Snapshot:
    """The snapshot that a commit was made on, also if it has expired and is not collected yet."""
    if info.parent_id is None:
        raise InvalidInputError(
            f"{info.id} is the first snapshot, and changed nothing", kind="invalid-snapshot-id"
        )
    *_, parent_id = (info.parent_id, *info.pruned_ancestor_tx_logs)
    try:
        return assets.read_snapshot(parent_id)
    except ObjectNotFoundError as error:
        raise expired_parent(info.id) from error


def _describe(surroundings: Surroundings, info: SnapshotInfo) -> Mapping[str, JsonValue]:
    """The metadata of the commit, over the defaults, and where it comes from."""
    # What libraries say there is about how that commit was made, not about what it did.
    said = {name: value for name, value in info.metadata.items() if name not in _OF_LIBRARIES}
    origin = {"cherry_picked_from": str(info.id)}
    return {**surroundings.default_commit_metadata, **said, RESERVED: origin}
