"""The state of a repository of any generation as a repo info, read once."""

from collections.abc import Mapping, Sequence

from frazil.errors import SnapshotNotFoundError
from frazil.format.ids import SnapshotId
from frazil.format.metadata import Value
from frazil.format.repo_info import RepoInfo, RepoStatus, SnapshotInfo
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.v1 import RefFiles
from frazil.protocols.v2 import RepoObject


def read_state(protocol: CommitProtocol) -> RepoInfo:
    """Refs, history and configuration; of the generations before V2, what their files say."""
    if isinstance(protocol, RepoObject):
        return protocol.read_repo_info()
    branches = {name: protocol.lookup_branch(name) for name in sorted(protocol.list_branches())}
    tags = {name: protocol.lookup_tag(name) for name in sorted(protocol.list_tags())}
    config = protocol.read_config()
    return RepoInfo(
        branches=branches,
        tags=tags,
        deleted_tags=frozenset(read_deleted_tags(protocol)),
        snapshots=_read_history(protocol, [*branches.values(), *tags.values()]),
        status=RepoStatus(),
        latest_updates=(),
        config=None if config is None else Value(config),
    )


def read_deleted_tags(protocol: CommitProtocol) -> Mapping[str, SnapshotId]:
    """The tags that a V1 repository had, whose names stay taken, and where they pointed."""
    return protocol.list_deleted_tags() if isinstance(protocol, RefFiles) else {}


def _read_history(
    protocol: CommitProtocol, tips: Sequence[SnapshotId]
) -> dict[SnapshotId, SnapshotInfo]:
    found: dict[SnapshotId, SnapshotInfo] = {}
    for line in protocol.ancestries(tips):
        for info in line:
            if info.id in found:
                break
            found[info.id] = info
    return found


def is_written(protocol: CommitProtocol, id: SnapshotId) -> bool:
    """Whether a repository has the file of a snapshot, in its history or not."""
    try:
        protocol.lookup_snapshot(id)
    except SnapshotNotFoundError:
        return False
    return True
