"""Rebase a session onto commits that others made meanwhile."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

from frazil.async_names import run_concurrently
from frazil.errors import (
    ConflictError,
    IcechunkError,
    ObjectNotFoundError,
    RebaseFailedError,
    RefNotFoundError,
    SessionStateError,
    SnapshotNotFoundError,
)
from frazil.format import coordinates as coords_
from frazil.format.coordinates import Coordinates
from frazil.format.ids import NodeId, SnapshotId
from frazil.format.manifest import ChunkTable, concatenate
from frazil.format.metadata import JsonValue
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import ManifestRef, Node, Snapshot, TransactionLog
from frazil.lazy import dataclass
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import CommitProtocol
from frazil.protocols.v1_protocol import read_snapshot
from frazil.repository.changes import (
    ChangeSet,
    ChunkEdits,
    arrays_of,
    describe_move,
    groups_of,
    has_axes,
    node_over,
)
from frazil.repository.commit import (
    CommitText,
    encode_steps,
    keep_files,
    move_branch,
    refuse_nothing,
    require_branch,
)
from frazil.repository.conflicts import (
    Clash,
    ConflictSolver,
    Theirs,
    describe_ours,
    find_clashes,
    find_deleted_above,
    is_apart,
    plan_solution,
)
from frazil.repository.context import SessionState
from frazil.repository.diff import changed_chunks
from frazil.repository.view import manifests_of


def rebase_changes(changes: ChangeSet, base: Mapping[str, Node]) -> ChangeSet:
    """Return changes over the nodes of another base; conflicts must be resolved already."""
    rebased = changes.copy()
    rebased.nodes = dict(_rebase_nodes(changes, base))
    rebased.updated = {id: node_over(node, base[node.path]) for id, node in changes.updated.items()}
    for node in list(_left_hanging(changes, base)):
        rebased.delete(node)
    return rebased


def _rebase_nodes(
    changes: ChangeSet, base: Mapping[str, Node]
) -> Iterator[tuple[str, Node | None]]:
    for path, node in changes.nodes.items():
        if node is None:
            found = base.get(path)
            if found is not None and (found.id in changes.deleted or found.id in changes.moved):
                yield path, None
        elif node.id in changes.moved:
            yield path, replace(base[changes.moved[node.id]], path=path)
        elif node.id in changes.created:
            yield path, node
        else:
            yield path, node_over(node, base[path])


def _left_hanging(changes: ChangeSet, base: Mapping[str, Node]) -> Iterator[Node]:
    """Yield nodes that others created in groups that we delete; they are deleted, too."""
    if not changes.deleted:
        return
    for node in base.values():
        if node.id not in changes.deleted and find_deleted_above(changes, base, node.path):
            yield node


@dataclass(frozen=True, slots=True)
class Step:
    """Commit to rebase onto, and the logs of its expired ancestors to apply before its own."""

    snapshot_id: SnapshotId
    pruned_logs: tuple[SnapshotId, ...] = ()
    has_log: bool = True
    """False if the branch was reset to an ancestor: nothing was committed, but nodes may be gone."""


def plan_steps(protocol: CommitProtocol, base: SnapshotId, tip: SnapshotId) -> list[Step]:
    """Return the commits to rebase onto, oldest first; none if the base is the tip."""
    if base == tip:
        return []
    steps = find_steps(protocol.ancestry(tip), {base})
    if steps is None:
        infos = list(protocol.ancestry(tip))
        # The first snapshot is empty in every repository: all histories share it.
        steps = find_steps(infos, _find_history(protocol, base) | {infos[-1].id}) or []
    return steps[::-1] or [Step(tip, has_log=False)]


def find_steps(ancestry: Iterable[SnapshotInfo], known: Set[SnapshotId]) -> list[Step] | None:
    """Return the commits of an ancestry newer than a known one, newest first; None if none is known."""
    steps: list[Step] = []
    for info in ancestry:
        if info.id in known:
            return steps
        pruned = info.pruned_ancestor_tx_logs
        last = max((at for at, id in enumerate(pruned) if id in known), default=None)
        if last is not None:
            return [*steps, Step(info.id, pruned[last + 1 :])]
        steps.append(Step(info.id, pruned))
    return None


def _find_history(protocol: CommitProtocol, base: SnapshotId) -> set[SnapshotId]:
    """Return the base and its known ancestors; the base itself may have been collected."""
    try:
        infos = list(protocol.ancestry(base))
    except SnapshotNotFoundError:
        infos = []
    ids = {base}
    for info in infos:
        ids.update((info.id, *info.pruned_ancestor_tx_logs))
    return ids


_RESERVED = "__icechunk"
"""Key in commit metadata for entries of the library itself."""


def rebase(state: SessionState, solver: ConflictSolver) -> bool:
    """Make the tip of its branch the base of a session, and keep the session's changes.

    Returns whether they are what they were: a solver may give up some. Does nothing if the branch has
    not moved, or does not exist. Raises RebaseFailedError for the first commit with conflicts that the
    solver can't resolve, SessionStateError if a log has expired.
    """
    branch = require_branch(state)
    with state.lock:
        tip = _find_tip(state, branch)
        if tip is None or tip == state.view.snapshot_id:
            return True
        if state.assets.layout.transactions is None:
            raise state.context.protocol.unsupported("rebase")
        steps = plan_steps(state.context.protocol, state.view.snapshot_id, tip)
        passed: SnapshotId | None = None
        is_same = True
        try:
            for number, (step, logs) in enumerate(_read_steps(state.assets, steps)):
                # The first may follow on something else than the base, if the branch was reset.
                if number and all(is_apart(state.changes, log) for log in logs):
                    passed = step.snapshot_id
                    continue
                if passed is not None:
                    _move_base(state, passed)
                    passed = None
                is_same &= _pass(state, step, logs, solver)
        finally:
            if passed is not None:
                _move_base(state, passed)
    return is_same


def _move_base(state: SessionState, id: SnapshotId) -> None:
    """Make a commit the base of a session, after one that differs from it only in other chunks."""
    snapshot = read_snapshot(state.assets, id)
    state.set_base(snapshot, rebase_changes(state.changes, snapshot.nodes))


def commit_with_rebase(
    state: SessionState,
    text: CommitText,
    solver: ConflictSolver,
    tries: int,
    *,
    allow_empty: bool = False,
) -> SnapshotId:
    """Commit a session; after a concurrent commit rebase and retry, at most `tries` times."""
    attempts = 0
    logged_as: Sequence[SnapshotId] = ()
    with state.lock:
        while True:
            refuse_nothing(state, allow_empty=allow_empty)
            if attempts < tries and _is_known_behind(state):
                base = state.view.snapshot_id
                if not rebase(state, solver):
                    logged_as = ()
                attempts += state.view.snapshot_id != base
            recorded = _record_attempts(text, attempts)
            done = encode_steps(state, recorded, logged_as)
            try:
                move_branch(state, done)
            except ConflictError as error:
                if error.kind != ConflictError.default_kind or attempts >= tries:
                    raise
            else:
                return done.snapshot.id
            # Nothing refers to the snapshot, so the next attempt may write another one of this id.
            is_reused = state.context.protocol.has_repo_info
            if is_reused and not done.earlier:
                keep_files(state, done)
            is_same = rebase(state, solver)
            logged_as = done.ids if is_reused and is_same else ()
            attempts += 1


def _is_known_behind(state: SessionState) -> bool:
    """Return whether the branch has moved, as far as is known without a request."""
    known = state.context.protocol.guess(state.branch)
    return known is not None and known != state.view.snapshot_id


def _find_tip(state: SessionState, branch: str) -> SnapshotId | None:
    try:
        return state.context.protocol.lookup_branch(branch)
    except RefNotFoundError:
        return None


def _pass(
    state: SessionState, step: Step, logs: Sequence[TransactionLog], solver: ConflictSolver
) -> bool:
    """Rebase a session onto one commit; if that fails, raise and leave the session unchanged.

    Returns whether its changes are what they were.
    """
    snapshot = read_snapshot(state.assets, step.snapshot_id)
    changes = state.changes.copy()
    is_same = not changes.deleted
    for log in logs:
        theirs = Theirs(log, snapshot.nodes)
        clashes = find_clashes(describe_ours(changes, state.view.snapshot.nodes), theirs)
        given_up = plan_solution(clashes, solver)
        if given_up is None:
            raise failed(step.snapshot_id, clashes)
        for id, coordinates in given_up.items():
            changes.chunks[id].forget(coordinates)
            is_same = False
    state.set_base(snapshot, rebase_changes(changes, snapshot.nodes))
    return is_same


_STEPS_AT_ONCE = 16


def _read_steps(
    assets: Assets, steps: Sequence[Step]
) -> Iterator[tuple[Step, Sequence[TransactionLog]]]:
    """Yield steps with their logs, which are read some at once where requests take long."""
    if assets.storage.is_local:
        yield from zip(steps, map(partial(_read_logs, assets), steps), strict=True)
        return
    for start in range(0, len(steps), _STEPS_AT_ONCE):
        some = steps[start : start + _STEPS_AT_ONCE]
        read = partial(_try_to_read_logs, assets)
        for step, logs in zip(some, run_concurrently(read, some, len(some)), strict=True):
            if isinstance(logs, IcechunkError):
                raise logs
            yield step, logs


def _try_to_read_logs(assets: Assets, step: Step) -> list[TransactionLog] | IcechunkError:
    """Return the logs of a step, or the error, which is raised when it is the turn of the step."""
    try:
        return _read_logs(assets, step)
    except IcechunkError as error:
        return error


def _read_logs(assets: Assets, step: Step) -> list[TransactionLog]:
    logs: list[TransactionLog] = []
    for id in step.pruned_logs:
        try:
            logs.append(assets.read_transaction_log(id))
        except ObjectNotFoundError as error:
            raise SessionStateError(
                f"snapshot {step.snapshot_id} can't be rebased on: the transaction log {id} of an"
                " expired commit before it is gone, and with it what that commit changed",
                kind="rebase-tx-log-pruned",
            ) from error
    if step.has_log:
        return [*logs, assets.read_transaction_log(step.snapshot_id)]
    return [*logs, TransactionLog(step.snapshot_id)]


def failed(id: SnapshotId, clashes: Sequence[Clash]) -> RebaseFailedError:
    """Return the error that reports all conflicts with a commit."""
    return RebaseFailedError(str(id), tuple(clash.to_conflict() for clash in clashes))


def _record_attempts(text: CommitText, attempts: int) -> CommitText:
    said = text.metadata.get(_RESERVED)
    reserved: Mapping[str, JsonValue] = said if isinstance(said, Mapping) else {}
    metadata = {**text.metadata, _RESERVED: {**reserved, "rebase_attempts": attempts}}
    return replace(text, metadata=metadata)


def read_changes(
    assets: Assets, parent: Snapshot, snapshot: Snapshot, log: TransactionLog
) -> ChangeSet:
    """Return the changes of a commit over its parent, without moves.

    Raises SessionStateError if the snapshots differ by more than the log records: then commits
    between the two have expired, and the changes of this one alone are unknown.
    """
    before = {node.id: node for node in parent.nodes.values()}
    after = {node.id: node for node in snapshot.nodes.values()}
    _refuse_gap(snapshot, log, before, after)
    changes = ChangeSet.of(assets.dialect)
    for id in before.keys() - after.keys():
        changes.delete(before[id])
    for id in after.keys() - before.keys():
        changes.create(_without_manifests(after[id]))
    for id in after.keys() & before.keys():
        if after[id].user_data != before[id].user_data:
            changes.update(after[id])
    for id, coordinates in log.updated_chunks.items():
        if has_axes(after.get(id), coordinates):
            changes.chunks[id] = _read_edits(assets, after[id], coordinates, changes.id_size)
    return changes


def _refuse_gap(
    snapshot: Snapshot,
    log: TransactionLog,
    before: Mapping[NodeId, Node],
    after: Mapping[NodeId, Node],
) -> None:
    is_recorded = after.keys() - before.keys() <= log.new_groups | log.new_arrays and (
        before.keys() - after.keys() <= log.deleted_groups | log.deleted_arrays
    )
    if not is_recorded:
        raise expired_parent(snapshot.id)


def expired_parent(id: SnapshotId) -> SessionStateError:
    """Return the error for a commit whose parent has expired."""
    return SessionStateError(
        f"the commit before {id} has expired, so the changes of {id} alone are unknown",
        kind="rebase-tx-log-pruned",
    )


def _without_manifests(node: Node) -> Node:
    return node if node.array is None else replace(node, array=replace(node.array, manifests=()))


def _read_edits(assets: Assets, node: Node, coordinates: Coordinates, id_size: int) -> ChunkEdits:
    edits = ChunkEdits(coordinates.shape[1], id_size)
    written = read_references(assets, node, coordinates)
    deleted = coords_.without(coordinates, written.coordinates)
    if len(deleted):
        edits.delete_many(deleted)
    if len(written):
        edits.set_table(written)
    return edits


def read_references(assets: Assets, node: Node, coordinates: Coordinates) -> ChunkTable:
    """Return the references of some chunks of an array, without chunks that have none."""
    assert node.array is not None
    axes = coordinates.shape[1]
    id_size = ChangeSet.of(assets.dialect).id_size
    found = [ChunkTable.empty(axes, id_size)]
    for ref in manifests_of(node.array, assets.dialect):
        wanted = coordinates[coords_.rows_inside(coordinates, ref.extents)]
        if len(wanted):
            table = assets.read_manifest(ref.id).table(node.id, axes)
            rows = table.locate(wanted)
            found.append(table.take(rows[rows >= 0]))
    return concatenate(found)


_Pair = tuple[Node, Node]
"""Node before and after."""


def compare_for(
    changes: ChangeSet, assets: Assets, base: Snapshot, tip: Snapshot
) -> TransactionLog:
    """Return the difference between a base and a tip as a transaction log.

    It includes only chunks that `changes` set or delete, and those of arrays that `changes` delete.
    """
    before = {node.id: node for node in base.nodes.values()}
    after = {node.id: node for node in tip.nodes.values()}
    created = {id: after[id] for id in after.keys() - before.keys()}
    deleted = {id: before[id] for id in before.keys() - after.keys()}
    kept = {id: (before[id], after[id]) for id in after.keys() & before.keys()}
    updated = {id: new for id, (old, new) in kept.items() if old.user_data != new.user_data}
    return TransactionLog(
        id=tip.id,
        new_groups=groups_of(created),
        new_arrays=arrays_of(created),
        deleted_groups=groups_of(deleted),
        deleted_arrays=arrays_of(deleted),
        updated_groups=groups_of(updated),
        updated_arrays=arrays_of(updated),
        updated_chunks=_compare_chunks(changes, assets, kept),
        moves=tuple(describe_move(old, new) for old, new in kept.values() if old.path != new.path),
    )


def _compare_chunks(
    changes: ChangeSet, assets: Assets, kept: dict[NodeId, _Pair]
) -> dict[NodeId, Coordinates]:
    found: dict[NodeId, Coordinates] = {}
    for id in kept.keys() & changes.chunks.keys():
        coordinates = changes.chunks[id].coordinates()
        old, new = (read_references(assets, node, coordinates) for node in kept[id])
        found[id] = changed_chunks(old, new)
    for id in kept.keys() & arrays_of(changes.deleted):
        old, new = _read_different(assets, kept[id])
        found[id] = changed_chunks(old, new)
    return {id: coordinates for id, coordinates in found.items() if len(coordinates)}


def _read_different(assets: Assets, pair: _Pair) -> tuple[ChunkTable, ChunkTable]:
    """Return the references of an array before and after, without those of shared manifests."""
    refs = [manifests_of(node.array, assets.dialect) for node in pair if node.array is not None]
    shared = set(refs[0]) & set(refs[1])
    old, new = (
        _read_tables(assets, node, [ref for ref in each if ref not in shared])
        for node, each in zip(pair, refs, strict=True)
    )
    return old, new


def _read_tables(assets: Assets, node: Node, refs: list[ManifestRef]) -> ChunkTable:
    assert node.array is not None
    axes = len(node.array.shape)
    tables = [assets.read_manifest(ref.id).table(node.id, axes) for ref in refs]
    return concatenate([ChunkTable.empty(axes, ChangeSet.of(assets.dialect).id_size), *tables])
