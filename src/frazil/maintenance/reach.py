"""Which snapshots the refs of a repository lead to, whatever its generation."""

from frazil.assets import Assets
from frazil.format.ids import SnapshotId
from frazil.maintenance.parents import reachable_snapshots
from frazil.protocols.interface import CommitProtocol, UpdatePolicy
from frazil.protocols.v2 import RepoObject


def find_reachable(protocol: CommitProtocol) -> frozenset[SnapshotId]:
    """All snapshots that a branch or a tag leads to."""
    if isinstance(protocol, RepoObject):
        return reachable_snapshots(protocol.read_repo_info())
    found: set[SnapshotId] = set()
    for tip in list_tips(protocol):
        found.update(info.id for info in protocol.ancestry(tip))
    return frozenset(found)


def list_tips(protocol: CommitProtocol) -> list[SnapshotId]:
    """Where branches and tags point."""
    return [
        *map(protocol.lookup_branch, protocol.list_branches()),
        *map(protocol.lookup_tag, protocol.list_tags()),
    ]


def with_empty_caches(protocol: CommitProtocol) -> CommitProtocol:
    """The same repository, read anew: before V2 an expiry rewrites snapshots where they are."""
    if isinstance(protocol, RepoObject):
        return protocol
    assets = protocol.assets
    return protocol.reopen(Assets(assets.storage, assets.dialect, assets.options), UpdatePolicy())
