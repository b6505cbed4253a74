"""Which snapshots the refs of a repository lead to, whatever its generation."""

from collections.abc import Set
from contextlib import suppress
from itertools import takewhile

from frazil.errors import RefNotFoundError
from frazil.format.ids import SnapshotId
from frazil.maintenance.parents import reachable_snapshots
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.v2 import RepoObject


def find_reachable(protocol: CommitProtocol) -> frozenset[SnapshotId]:
    """All snapshots that a branch or a tag leads to."""
    if isinstance(protocol, RepoObject):
        return reachable_snapshots(protocol.read_repo_info())
    found: set[SnapshotId] = set()
    for line in protocol.ancestries(list_tips(protocol)):
        found.update(info.id for info in line)
    return frozenset(found)


def find_new(protocol: CommitProtocol, known: Set[SnapshotId]) -> frozenset[SnapshotId]:
    """Those that a branch or a tag leads to by now, where it was known what they lead to before."""
    lines = protocol.ancestries(list_tips(protocol))
    is_new = [takewhile(lambda info: info.id not in known, line) for line in lines]
    return frozenset(info.id for line in is_new for info in line)


def list_tips(protocol: CommitProtocol) -> list[SnapshotId]:
    """Where branches and tags point, without those that are deleted meanwhile."""
    tips: list[SnapshotId] = []
    for name in protocol.list_branches():
        with suppress(RefNotFoundError):
            tips.append(protocol.lookup_branch(name))
    for name in protocol.list_tags():
        with suppress(RefNotFoundError):
            tips.append(protocol.lookup_tag(name))
    return tips
