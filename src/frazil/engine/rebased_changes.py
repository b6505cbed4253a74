"""A session's changes as they are on top of another base.

A changed node holds its whole metadata, which stays, and the manifests of the base that it came from,
which must become those of the new one. Nodes keep their paths: a base that moved nodes is refused
before.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from frazil.engine.changes import ChangeSet
from frazil.engine.conflict_rules import find_deleted_above
from frazil.engine.forks import node_over
from frazil.format.snapshot import Node


def rebase_changes(changes: ChangeSet, base: Mapping[str, Node]) -> ChangeSet:
    """The same changes over other nodes, which nothing in them contradicts any more."""
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
    """What others put into groups that we delete: it goes with them."""
    if not changes.deleted:
        return
    for node in base.values():
        if node.id not in changes.deleted and find_deleted_above(changes, base, node.path):
            yield node
