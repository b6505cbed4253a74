"""Writing an old history as V2: for each snapshot its manifests, its own file and its log."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from frazil.assets import Assets
from frazil.errors import FormatError, ObjectNotFoundError
from frazil.format.dialect import Decoded, Dialect
from frazil.format.ids import FIRST_SNAPSHOT_ID, SnapshotId
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import Node, Snapshot
from frazil.format.transaction_log import TransactionLog
from frazil.maintenance.checking.rebuilding import rebuild_log
from frazil.maintenance.legacy.chunk_copies import ChunkCopies
from frazil.maintenance.legacy.conversion import (
    build_snapshot,
    convert_info,
    convert_log,
    find_origin,
)
from frazil.maintenance.legacy.manifests import ManifestWriter
from frazil.maintenance.legacy.names import name_node, name_snapshot
from frazil.maintenance.legacy.old_files import is_free_for_v2
from frazil.maintenance.legacy.tables import TableReader, arrays_of, read_all
from frazil.watching import count, find_length


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one repository: those that there are, and those that are written."""

    old: Assets
    new: Assets


def check_history(old: Assets, history: Iterable[SnapshotInfo]) -> None:
    """Read all that `HistoryWriter` reads, and write nothing."""
    reader = TableReader(old)
    done = count("reading snapshots", "snapshots", find_length(history))
    for info in history:
        file = find_snapshot(old, info)
        for _ in read_all(reader, file) if file is not None else ():
            pass
        done.add(1)


def find_snapshot(assets: Assets, info: SnapshotInfo) -> Decoded[Snapshot] | None:
    """The file of an entry of the history; None where the file is gone.

    That is no loss of the first snapshot, which is empty in every repository. Of the others those
    histories tell that are texts.
    """
    try:
        return assets.read_snapshot_file(info.id)
    except ObjectNotFoundError:
        if info.parent_id is not None:
            return None
        return Decoded(Snapshot(info.id, None, info.flushed_at, info.message), assets.dialect)


class HistoryWriter:
    """Writes snapshots, each after its parent."""

    def __init__(self, files: Files) -> None:
        self._old, self._new = files.old, files.new
        self._copies = ChunkCopies(files.old, files.new)
        self._manifests = ManifestWriter(TableReader(files.old), files.new, self._copies.adopt)
        self.ids: dict[SnapshotId, SnapshotId] = {}
        """New ids by old ones; of a snapshot whose file is gone, that of the nearest ancestor."""
        self.infos: dict[SnapshotId, SnapshotInfo] = {}
        """What V2's history says of those that were written."""

    def write_all(self, history: Iterable[SnapshotInfo]) -> None:
        """Write all snapshots, parents first; raises ObjectNotFoundError where a manifest is lost."""
        if self._old.dialect is Dialect.DRAFT:
            self._copies.find_copies()
        done = count("writing snapshots", "snapshots", find_length(history))
        for info in history:
            file = find_snapshot(self._old, info)
            if file is None:
                assert info.parent_id is not None
                self.ids[info.id] = self.ids[info.parent_id]
            else:
                self._write(info, file)
            done.add(1)

    def _write(self, old: SnapshotInfo, file: Decoded[Snapshot]) -> None:
        parent_id = None if old.parent_id is None else self.ids[old.parent_id]
        info = convert_info(old, self._name(old.id), parent_id)
        snapshot = build_snapshot(info, self._convert_nodes(file), self._manifests.files)
        self._new.write_snapshot(snapshot)
        self._new.write_transaction_log(self._convert_log(old, parent_id, snapshot))
        self.ids[old.id] = info.id
        self.infos[info.id] = info

    def _name(self, old: SnapshotId) -> SnapshotId:
        key = self._new.layout.snapshot_key(FIRST_SNAPSHOT_ID)
        is_first = not self.ids
        if is_first and is_free_for_v2(self._new.storage, key):
            return FIRST_SNAPSHOT_ID
        return name_snapshot(old)

    def _convert_nodes(self, file: Decoded[Snapshot]) -> list[Node]:
        dialect = file.dialect
        nodes = [
            replace(node, id=name_node(node, dialect))
            for node in file.value.nodes.values()
            if node.array is None
        ]
        for node, array in arrays_of(file.value):
            id = name_node(node, dialect)
            refs = self._manifests.write(node, array, dialect, id)
            nodes.append(replace(node, id=id, array=replace(array, manifests=refs)))
        return nodes

    def _convert_log(
        self, old: SnapshotInfo, parent_id: SnapshotId | None, snapshot: Snapshot
    ) -> TransactionLog:
        if parent_id is None:
            return TransactionLog(snapshot.id)
        parent = self._new.read_snapshot(parent_id)
        # A log tells of changes since the parent that its commit had.
        has_lost_parent = find_origin(parent.metadata) != str(old.parent_id)
        log = None if has_lost_parent else self._find_log(old.id)
        if log is None:
            return rebuild_log(self._new, parent, snapshot)
        return convert_log(log, snapshot.id, parent, snapshot)

    def _find_log(self, id: SnapshotId) -> TransactionLog | None:
        """What a commit changed, if that was kept and can be read."""
        try:
            return self._old.read_transaction_log(id)
        except (ObjectNotFoundError, FormatError):
            return None
