"""The draft and the alphas: a branch moves by a new file that only one writer can create."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

from frazil.assets import Assets
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.refs import Ref
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import Snapshot
from frazil.protocols.clock import read_clock
from frazil.protocols.file_protocol import FileProtocol
from frazil.protocols.interface import MAIN
from frazil.protocols.recorded_history import RecordedHistory
from frazil.protocols.sequence_files import (
    ALPHA_BRANCHES,
    DRAFT_BRANCHES,
    SequencedBranches,
    SequenceFile,
)
from frazil.protocols.snapshot_infos import (
    describe_snapshot,
    follow_parents,
    read_snapshot_anew,
)
from frazil.protocols.tag_files import ALPHA_FOLDERS, DRAFT_FILES, TagFiles

_WITHOUT_CONFIG = frozenset((Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_B))
_WITHOUT_TOMBSTONES = frozenset(Dialect) - {Dialect.ALPHA_H, Dialect.V1, Dialect.V2}


class SequenceFiles(FileProtocol[SequenceFile]):
    """Refs and history of a repository of the draft or of an alpha."""

    def __init__(self, assets: Assets) -> None:
        storage, is_draft = assets.storage, assets.dialect is Dialect.DRAFT
        make_ref = make_timed_ref if is_draft else Ref
        branches = SequencedBranches(
            storage, DRAFT_BRANCHES if is_draft else ALPHA_BRANCHES, make_ref
        )
        tags = TagFiles(storage, DRAFT_FILES if is_draft else ALPHA_FOLDERS)
        super().__init__(assets, branches, tags, make_ref)
        self._sequences = branches

    def _on(self, assets: Assets) -> "SequenceFiles":
        return SequenceFiles(assets)

    def delete_tag(self, name: str) -> None:
        if self.dialect in _WITHOUT_TOMBSTONES:
            raise self.unsupported("deleted tags")
        super().delete_tag(name)

    # History

    def lookup_snapshot(self, id: SnapshotId) -> SnapshotInfo:
        snapshot = read_snapshot_anew(self.assets, id)
        if snapshot.history is None:
            return describe_snapshot(snapshot)
        return self._recorded_history().describe(snapshot, snapshot.history)

    def ancestries(self, ids: Iterable[SnapshotId]) -> Iterator[Iterator[SnapshotInfo]]:
        lookup = cache(self.lookup_snapshot)
        return (self._follow(read_snapshot_anew(self.assets, id), lookup) for id in ids)

    def _follow(
        self, snapshot: Snapshot, lookup: Callable[[SnapshotId], SnapshotInfo]
    ) -> Iterator[SnapshotInfo]:
        if snapshot.history is None:
            return follow_parents(lookup, describe_snapshot(snapshot))
        return self._recorded_history().follow(snapshot, snapshot.history)

    def _recorded_history(self) -> RecordedHistory:
        return RecordedHistory(self.assets, lambda: self._sequences.find_first(MAIN))

    # Configuration

    def read_config(self) -> dict[str, JsonValue] | None:
        return None if self.dialect in _WITHOUT_CONFIG else super().read_config()

    def write_config(self, config: Mapping[str, JsonValue]) -> None:
        if self.dialect in _WITHOUT_CONFIG:
            raise self.unsupported("saved configuration")
        super().write_config(config)


def make_timed_ref(snapshot_id: SnapshotId) -> Ref:
    """A ref as the draft has it, with the time at which it was written."""
    return Ref(snapshot_id, timestamp=read_clock())
