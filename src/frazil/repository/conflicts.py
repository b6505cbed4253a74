"""Conflicts between a session's changes and another commit: kinds, rules, and solvers."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from operator import le

from frazil.display import Item, Listed, field_items
from frazil.errors import InvalidTypeError
from frazil.format.coordinates import Coordinates
from frazil.format.ids import NodeId
from frazil.format.metadata import ROOT, parent_path
from frazil.format.snapshot import Node, TransactionLog
from frazil.lazy import dataclass
from frazil.repository.changes import ChangeSet, arrays_of, groups_of, updated_nodes


class ConflictType(Enum):
    """Kind of conflict between our changes (those of the session) and theirs (those on the branch)."""

    NewNodeConflictsWithExistingNode = 1
    NewNodeInInvalidGroup = 2
    ZarrMetadataDoubleUpdate = 3
    ZarrMetadataUpdateOfDeletedArray = 4
    ZarrMetadataUpdateOfDeletedGroup = 5
    ChunkDoubleUpdate = 6
    ChunksUpdatedInDeletedArray = 7
    ChunksUpdatedInUpdatedArray = 8
    DeleteOfUpdatedArray = 9
    DeleteOfUpdatedGroup = 10
    MoveOperationCannotBeRebased = 11

    def __str__(self) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", " ", self.name).capitalize()

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class Conflict(Listed):
    """Conflict in one node, with the conflicting chunks if any.

    Parameters
    ----------
    conflict_type
        Kind of conflict.
    path
        Path of the node.
    conflicted_chunks
        Coordinates of the conflicting chunks; None if the conflict is not about chunks.
    """

    conflict_type: ConflictType
    path: str
    conflicted_chunks: Sequence[Sequence[int]] | None = field(default=None, hash=False)

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields; chunks only if there are any."""
        return (item for item in field_items(self) if item.value is not None)


class VersionSelection(Enum):
    """Version to choose in a conflict."""

    Fail = 0
    UseOurs = 1
    UseTheirs = 2

    def __repr__(self) -> str:
        return str(self)


class ConflictSolver:
    """Base class of conflict solvers."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ConflictDetector(ConflictSolver):
    """Solver that resolves nothing and reports all conflicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicConflictSolver(ConflictSolver):
    """Solver for chunks that both sides wrote and for nodes that we deleted and they changed.

    Parameters
    ----------
    on_chunk_conflict
        Version to choose for a chunk that both sides wrote.
    fail_on_delete_of_updated_array, fail_on_delete_of_updated_group
        Fail if the session deleted a node that was changed on the branch.
    """

    on_chunk_conflict: VersionSelection = VersionSelection.UseOurs
    fail_on_delete_of_updated_array: bool = False
    fail_on_delete_of_updated_group: bool = False


@dataclass(frozen=True, slots=True)
class Ours:
    """Changes of a session, the nodes of its base, and the arrays whose chunks it changed."""

    changes: ChangeSet
    base: Mapping[str, Node]
    edited: Mapping[NodeId, Node]


@dataclass(frozen=True, slots=True)
class Theirs:
    """Changes of another commit, and the nodes of its snapshot."""

    log: TransactionLog
    nodes: Mapping[str, Node]

    @property
    def updated(self) -> frozenset[NodeId]:
        """Return the nodes whose metadata the commit changed."""
        return updated_nodes(self.log)

    def is_gone(self, node: Node) -> bool:
        """Return True if a node of our base no longer exists."""
        found = self.nodes.get(node.path)
        return found is None or found.id != node.id


@dataclass(frozen=True, slots=True)
class Clash:
    """Conflict in internal form."""

    conflict_type: ConflictType
    path: str
    node_id: NodeId | None = None
    chunks: Coordinates | None = None
    is_growth: bool = False
    """Whether they did nothing to the array but make it larger."""

    def to_conflict(self) -> Conflict:
        """Return the public form of the conflict."""
        chunks = None if self.chunks is None else self.chunks.tolist()
        return Conflict(self.conflict_type, self.path, chunks)


def describe_ours(changes: ChangeSet, base: Mapping[str, Node]) -> Ours:
    """Return our side of a comparison: a session's changes over its base."""
    nodes = {node.id: node for node in changes.nodes.values() if node is not None}
    if not changes.chunks.keys() <= nodes.keys():
        nodes = {node.id: node for node in base.values()} | nodes
    return Ours(changes, base, {id: nodes[id] for id in changes.chunks})


def find_clashes(ours: Ours, theirs: Theirs) -> list[Clash]:
    """Return all conflicts, in the order of the rules, then by path."""
    if theirs.log.moves:
        # The official library reports no path either: no path means the same node to both sides.
        return [Clash(ConflictType.MoveOperationCannotBeRebased, "")]
    return [
        clash
        for rule in _RULES
        for clash in sorted(rule(ours, theirs), key=lambda clash: clash.path)
    ]


def is_apart(changes: ChangeSet, log: TransactionLog) -> bool:
    """Return whether a commit only changed chunks that our changes have nothing to do with.

    Then there is no conflict, and our changes are the same over its snapshot as over its parent.
    """
    if (
        log.new_groups or log.new_arrays or log.deleted_groups or log.deleted_arrays
        or log.updated_groups or log.updated_arrays or log.updated_attributes or log.moves
        or changes.deleted or changes.moved
    ):  # fmt: skip
        return False
    return not any(
        changes.chunks[id].touches(log.updated_chunks[id])
        for id in changes.chunks.keys() & log.updated_chunks.keys()
    )


# Nodes of ours


def _new_on_existing(ours: Ours, theirs: Theirs) -> Iterator[Clash]:
    for node in ours.changes.created.values():
        found = theirs.nodes.get(node.path)
        if found is not None and found.id not in ours.changes.deleted:
            yield Clash(ConflictType.NewNodeConflictsWithExistingNode, node.path, node.id)


def _new_in_invalid_group(ours: Ours, theirs: Theirs) -> Iterator[Clash]:
    for node in ours.changes.created.values():
        for path in _ancestors(node.path):
            if _is_array(theirs, path) or _is_lost(ours, theirs, path):
                yield Clash(ConflictType.NewNodeInInvalidGroup, path, node.id)
                break


def _is_array(theirs: Theirs, path: str) -> bool:
    found = theirs.nodes.get(path)
    return found is not None and found.array is not None


def _is_lost(ours: Ours, theirs: Theirs, path: str) -> bool:
    """Return True if a group of our base that we did not change no longer exists."""
    return path in ours.base and path not in ours.changes.nodes and path not in theirs.nodes


def _double_update(ours: Ours, theirs: Theirs) -> Iterator[Clash]:
    for id in ours.changes.updated.keys() & theirs.updated:
        path = ours.changes.updated[id].path
        yield Clash(ConflictType.ZarrMetadataDoubleUpdate, path, id)


def _update_of_deleted_array(ours: Ours, theirs: Theirs) -> Iterator[Clash]:
    for node in ours.changes.updated.values():
        if node.array is not None and theirs.is_gone(node):
            yield Clash(ConflictType.ZarrMetadataUpdateOfDeletedArray, node.path, node.id)


def _update_of_deleted_group(ours: Ours, theirs: Theirs) -> Iterator[Clash]:
    for node in ours.changes.updated.values():
        if node.array is None and theirs.is_gone(node):
            yield Clash(ConflictType.ZarrMetadataUpdateOfDeletedGroup, node.path, node.id)


# Chunks of ours


def _chunks_in_deleted_array(ours: Ours, theirs: Theirs) -> Iterator[Clash]:
    for id, node in ours.edited.items():
        if id not in ours.changes.created and theirs.is_gone(node):
            yield Clash(ConflictType.ChunksUpdatedInDeletedArray, node.path, id)


def _chunks_in_updated_array(ours: Ours, theirs: Theirs) -> Iterator[Clash]:
    for id in ours.edited.keys() & theirs.updated:
        path = ours.edited[id].path
        is_growth = _has_grown(ours.base.get(path), theirs.nodes.get(path))
        yield Clash(ConflictType.ChunksUpdatedInUpdatedArray, path, id, is_growth=is_growth)


def _has_grown(before: Node | None, after: Node | None) -> bool:
    """Return whether two states of an array differ in nothing but a larger shape."""
    if before is None or after is None or before.id != after.id:
        return False
    old, new = json.loads(before.user_data), json.loads(after.user_data)
    lengths, grown = old.pop("shape", ()), new.pop("shape", ())
    return bool(old == new and len(lengths) == len(grown) and all(map(le, lengths, grown)))


def _chunk_double_update(ours: Ours, theirs: Theirs) -> Iterator[Clash]:
    for id in ours.edited.keys() & theirs.log.updated_chunks.keys():
        both = ours.changes.chunks[id].common(theirs.log.updated_chunks[id])
        if len(both):
            yield Clash(ConflictType.ChunkDoubleUpdate, ours.edited[id].path, id, both)


# Deletions of ours


def _delete_of_updated_array(ours: Ours, theirs: Theirs) -> Iterator[Clash]:
    changed = theirs.updated | theirs.log.updated_chunks.keys()
    for id in arrays_of(ours.changes.deleted):
        path = ours.changes.deleted[id].path
        if changed & {id, _find_id(theirs, path)}:
            yield Clash(ConflictType.DeleteOfUpdatedArray, path, id)


def _find_id(theirs: Theirs, path: str) -> NodeId | None:
    """Return the id of the node at a path now, which may differ from the node of our base."""
    found = theirs.nodes.get(path)
    return None if found is None else found.id


def _delete_of_updated_group(ours: Ours, theirs: Theirs) -> Iterator[Clash]:
    groups = groups_of(ours.changes.deleted)
    changed = theirs.updated | (_groups_with_new_nodes(ours, theirs) if groups else frozenset())
    for id in groups & changed:
        yield Clash(ConflictType.DeleteOfUpdatedGroup, ours.changes.deleted[id].path, id)


def _groups_with_new_nodes(ours: Ours, theirs: Theirs) -> frozenset[NodeId]:
    """Return the groups that we delete and in which they created nodes."""
    new = theirs.log.new_groups | theirs.log.new_arrays
    paths = [node.path for node in theirs.nodes.values() if node.id in new]
    return frozenset(
        found.id
        for path in paths
        if (found := find_deleted_above(ours.changes, theirs.nodes, path)) is not None
    )


def find_deleted_above(changes: ChangeSet, nodes: Mapping[str, Node], path: str) -> Node | None:
    """Return the nearest ancestor of a path that our changes delete."""
    for above in _ancestors(path):
        node = nodes.get(above)
        if node is not None and node.id in changes.deleted:
            return node
    return None


# Moves of ours


def _moves(ours: Ours, theirs: Theirs) -> Iterator[Clash]:
    """Find moves whose source or target group is gone, whose target exists, or that orphan nodes."""
    if not ours.changes.moved:
        return
    origins = set(ours.changes.moved.values())
    places = {move.to_path for move in ours.changes.moves()}
    problems = [path for path in origins if theirs.is_gone(ours.base[path])]
    problems += [path for path in places if path in theirs.nodes and path not in origins]
    problems += [path for path in map(parent_path, places) if not _is_group(ours, theirs, path)]
    problems += [
        path for path in theirs.nodes if path not in origins and parent_path(path) in origins
    ]
    for path in dict.fromkeys(problems):
        yield Clash(ConflictType.MoveOperationCannotBeRebased, path)


def _is_group(ours: Ours, theirs: Theirs, path: str) -> bool:
    found = ours.changes.nodes.get(path) or theirs.nodes.get(path)
    return found is not None and found.array is None


Rule = Callable[[Ours, Theirs], Iterator[Clash]]

_RULES: tuple[Rule, ...] = (
    _new_on_existing,
    _new_in_invalid_group,
    _double_update,
    _update_of_deleted_array,
    _update_of_deleted_group,
    _chunks_in_deleted_array,
    _chunks_in_updated_array,
    _chunk_double_update,
    _delete_of_updated_array,
    _delete_of_updated_group,
    _moves,
)


def _ancestors(path: str) -> Iterator[str]:
    """Yield the ancestors of a path, nearest first."""
    while path != ROOT:
        path = parent_path(path)
        yield path


def plan_solution(
    clashes: Sequence[Clash], solver: ConflictSolver
) -> dict[NodeId, Coordinates] | None:
    """Return the chunks of ours to give up, by array; None if the solver can't resolve a conflict."""
    given_up: dict[NodeId, Coordinates] = {}
    for clash in clashes:
        if not _may_solve(clash, solver):
            return None
        if clash.chunks is not None and _takes_theirs(solver):
            assert clash.node_id is not None
            given_up[clash.node_id] = clash.chunks
    return given_up


class GrowthDetector(ConflictDetector):
    """Solver of jobs: chunks of an array stay where they are if others make it larger."""


def _may_solve(clash: Clash, solver: ConflictSolver) -> bool:
    if isinstance(solver, ConflictDetector):
        return clash.is_growth and isinstance(solver, GrowthDetector)
    if not isinstance(solver, BasicConflictSolver):
        raise InvalidTypeError(
            f"invalid solver {solver!r}: expected a ConflictDetector or a BasicConflictSolver"
        )
    match clash.conflict_type:
        case ConflictType.ChunkDoubleUpdate:
            return solver.on_chunk_conflict is not VersionSelection.Fail
        case ConflictType.DeleteOfUpdatedArray:
            return not solver.fail_on_delete_of_updated_array
        case ConflictType.DeleteOfUpdatedGroup:
            return not solver.fail_on_delete_of_updated_group
    return False


def _takes_theirs(solver: ConflictSolver) -> bool:
    return (
        isinstance(solver, BasicConflictSolver)
        and solver.on_chunk_conflict is VersionSelection.UseTheirs
    )


__all__ = [
    "BasicConflictSolver",
    "Conflict",
    "ConflictDetector",
    "ConflictSolver",
    "ConflictType",
    "VersionSelection",
]
