"""What refs lead to in a repository of the draft or of an alpha."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from frazil.format.ids import SnapshotId
from frazil.format.repo_info import SnapshotInfo
from frazil.protocols.file_protocol import FileProtocol
from frazil.protocols.interface import MAIN
from frazil.protocols.sequence_files import SequenceFile


@dataclass(frozen=True, slots=True)
class OldRefs:
    """Branches and tags, and where deleted tags pointed."""

    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    deleted_tags: Mapping[str, SnapshotId]

    @property
    def tips(self) -> list[SnapshotId]:
        """What they point to, `main` first."""
        main = self.branches[MAIN]
        return list(dict.fromkeys((main, *self.branches.values(), *self.tags.values())))


def read_refs(protocol: FileProtocol[SequenceFile]) -> OldRefs:
    """All refs, as they are now."""
    return OldRefs(
        branches={name: protocol.lookup_branch(name) for name in protocol.list_branches()},
        tags={name: protocol.lookup_tag(name) for name in protocol.list_tags()},
        deleted_tags=dict(protocol.list_deleted_tags()),
    )


def read_history(
    protocol: FileProtocol[SequenceFile], tips: Iterable[SnapshotId]
) -> dict[SnapshotId, SnapshotInfo]:
    """All that tips lead to, parents before children, the first snapshot of the first tip first."""
    found: dict[SnapshotId, SnapshotInfo] = {}
    for tip in tips:
        line: list[SnapshotInfo] = []
        for info in protocol.ancestry(tip) if tip not in found else ():
            if info.id in found:
                break
            line.append(info)
        found.update((info.id, info) for info in reversed(line))
    return found
