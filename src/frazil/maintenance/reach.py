"""Which snapshots the refs of a repository lead to, whatever its generation."""

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


def list_tips(protocol: CommitProtocol) -> list[SnapshotId]:
    """Where branches and tags point."""
    return [
        *map(protocol.lookup_branch, protocol.list_branches()),
        *map(protocol.lookup_tag, protocol.list_tags()),
    ]
