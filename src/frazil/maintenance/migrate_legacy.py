"""Migrate a draft or alpha repository: rewrite all metadata as V2."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from frazil.errors import FormatError, ObjectNotFoundError
from frazil.format.header import HEADER_SIZE, Decoded, Dialect, has_header
from frazil.format.ids import (
    FIRST_SNAPSHOT_ID,
    ChunkId,
    ManifestId,
    NodeId,
    SnapshotId,
    encode_base32,
)
from frazil.format.manifest import ChunkKind, ChunkTable, Manifest, concatenate
from frazil.format.metadata import JsonValue, Metadata
from frazil.format.ragged import Strings
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import (
    ArrayData,
    ManifestFileInfo,
    ManifestRef,
    Node,
    Snapshot,
    TransactionLog,
    nodes_by_path,
)
from frazil.maintenance.reachability import IdSet, distinct, ids_of, in_batches, parse_names
from frazil.maintenance.repair import rebuild_log
from frazil.progress import count, find_length
from frazil.protocols.assets import Assets, Layout
from frazil.protocols.protocol import MAIN
from frazil.protocols.repo_changes import RESERVED
from frazil.protocols.sequence_protocol import ALPHA_BRANCHES, DRAFT_BRANCHES, SequenceFile
from frazil.protocols.v1_protocol import KEY as CONFIG_KEY
from frazil.protocols.v1_protocol import FileProtocol, delete_files
from frazil.repository.changes import updated_nodes
from frazil.repository.view import manifests_of
from frazil.storage.interface import ByteRange, ObjectInfo, Storage


def name_snapshot(old: SnapshotId) -> SnapshotId:
    """Return the new id of a snapshot and its transaction log."""
    return SnapshotId(_digest(b"snapshot", old)[:12])


def name_chunk(old: ChunkId) -> ChunkId:
    """Return the new id of a chunk file whose name is too long for V2."""
    return ChunkId(_digest(b"chunk", old)[:12])


def name_node(node: Node, dialect: Dialect) -> NodeId:
    """Return the id of a node: its old one, unless that is a number.

    Numbers are reused after a deletion, so that number, path and kind together identify a node.
    """
    if not dialect.numbers_nodes:
        return node.id
    kind = b"group" if node.array is None else b"array"
    return NodeId(_digest(b"node", node.id, kind, node.path.encode())[:8])


def name_manifest(node_id: NodeId, table: ChunkTable) -> ManifestId:
    """Return the id of the manifest of an array's references; equal references have equal ids."""
    locations, location = _rank(table.locations, table.location)
    etags, etag = _rank(table.etags, table.etag)
    columns = (
        table.coordinates, table.kind, table.offset, table.length, table.chunk_id,
        table.last_modified, location, etag, table.inline,
    )  # fmt: skip
    texts = repr((table.coordinates.shape, locations, etags)).encode()
    blocks = (np.ascontiguousarray(column).data for column in columns)
    return ManifestId(_digest(b"manifest", node_id, texts, *blocks)[:12])


def _rank(texts: Strings, codes: NDArray[np.int32]) -> tuple[list[str], NDArray[np.int32]]:
    """Return the sorted texts and codes into them, independent of the original numbering."""
    ordered = sorted(set(texts))
    ranks = {text: rank for rank, text in enumerate(ordered)}
    # The last entry is for the code -1, "no text", which indexes from the end.
    numbers = np.array([*(ranks[text] for text in texts), -1], np.int32)
    return ordered, numbers[codes]


def _digest(*parts: bytes | memoryview) -> bytes:
    digest = sha256()
    for part in parts:
        digest.update(memoryview(part).nbytes.to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


_ID_SIZE = 12
_LISTED_AT_ONCE = 10_000
_COPIED_AT_ONCE = 1_000

IdRows = NDArray[np.uint8]


class ChunkCopies:
    """Copies of a repository's chunk files under their new ids."""

    def __init__(self, old: Assets, new: Assets) -> None:
        self._old = old
        self._new = new
        self._taken = IdSet()
        """Old ids that were processed."""
        self._there = IdSet()
        """New ids that an earlier migration has copied."""

    def find_copies(self) -> None:
        """Find the chunks that an earlier migration has copied."""
        if self._new.storage.is_local:
            return  # after a power loss or a failed sync, a file can exist without its bytes
        folder = f"{self._new.layout.chunks}/"
        names = (info.key.removeprefix(folder) for info in self._new.storage.list(folder))
        for batch in in_batches(names, _LISTED_AT_ONCE):
            ids, _ = parse_names(batch, _ID_SIZE)
            self._there.add(distinct(ids))

    def adopt(self, table: ChunkTable) -> ChunkTable:
        """Copy the chunks of a table, and return the table with references to the copies.

        A chunk whose file is missing stays missing. No other column changes.
        """
        if table.chunk_id.shape[1] == _ID_SIZE:
            return table
        old = table.distinct_chunk_ids()
        new = _name_all(old)
        wanted = self._taken.add(ids_of(old)) & ~self._there.contains(ids_of(new))
        self._copy_all(old[wanted], new[wanted])
        return replace(table, chunk_id=_translate(table, old, new))

    def _copy_all(self, old: IdRows, new: IdRows) -> None:
        pairs = zip(map(_chunk_id, old), map(_chunk_id, new), strict=True)
        with ThreadPoolExecutor(self._new.storage.concurrency) as pool:
            for batch in in_batches(pairs, _COPIED_AT_ONCE):
                list(pool.map(self._copy, batch))

    def _copy(self, pair: Sequence[ChunkId]) -> None:
        old, new = pair
        with suppress(ObjectNotFoundError):
            self._new.storage.copy(self._old.layout.chunk_key(old), self._new.layout.chunk_key(new))


def _name_all(old: IdRows) -> IdRows:
    data = b"".join(name_chunk(_chunk_id(row)) for row in old)
    return np.frombuffer(data, np.uint8).reshape(-1, _ID_SIZE)


def _chunk_id(row: IdRows) -> ChunkId:
    return ChunkId(row.tobytes())


def _translate(table: ChunkTable, old: IdRows, new: IdRows) -> IdRows:
    """Return the column of new ids; zeros for rows that are not native."""
    is_native = table.kind == ChunkKind.NATIVE
    translated = np.zeros((len(table), _ID_SIZE), np.uint8)
    translated[is_native] = new[np.searchsorted(ids_of(old), ids_of(table.chunk_id[is_native]))]
    return translated


_ORIGIN = "migrated_from"


def record_origin(metadata: Mapping[str, JsonValue], old: SnapshotId) -> Metadata:
    """Return the metadata of a commit with its old id added."""
    reserved = metadata.get(RESERVED)
    kept = reserved if isinstance(reserved, dict) else {}
    return Metadata({**metadata, RESERVED: {**kept, _ORIGIN: str(old)}})


def find_origin(metadata: Mapping[str, JsonValue]) -> str | None:
    """Return the id of a commit before the migration, or None."""
    reserved = metadata.get(RESERVED)
    found = reserved.get(_ORIGIN) if isinstance(reserved, dict) else None
    return found if isinstance(found, str) else None


def convert_info(info: SnapshotInfo, id: SnapshotId, parent_id: SnapshotId | None) -> SnapshotInfo:
    """Return the V2 history entry of a snapshot."""
    metadata = record_origin(info.metadata, info.id)
    return replace(info, id=id, parent_id=parent_id, metadata=metadata)


def build_snapshot(
    info: SnapshotInfo, nodes: Iterable[Node], files: Mapping[ManifestId, ManifestFileInfo]
) -> Snapshot:
    """Return the snapshot of a history entry."""
    ordered = sorted(nodes, key=lambda node: node.path.encode())
    arrays = (node.array for node in ordered if node.array is not None)
    used = {ref.id for array in arrays for ref in array.manifests}
    return Snapshot(
        id=info.id,
        parent_id=None,
        flushed_at=info.flushed_at,
        message=info.message,
        metadata=info.metadata,
        nodes=nodes_by_path(ordered),
        manifest_files=tuple(files[id] for id in sorted(used)),
    )


def convert_log(
    log: TransactionLog, id: SnapshotId, parent: Snapshot, snapshot: Snapshot
) -> TransactionLog:
    """Convert the transaction log of a commit between two converted snapshots.

    The alphas record attributes separately, and list new nodes among those with updated attributes.
    """
    nodes = {node.id: node for each in (parent, snapshot) for node in each.nodes.values()}
    updated = (updated_nodes(log) - log.new_groups - log.new_arrays) & nodes.keys()
    groups = frozenset[NodeId](each for each in updated if nodes[each].array is None)
    return replace(
        log,
        id=id,
        updated_groups=groups,
        updated_arrays=updated - groups,
        updated_attributes=frozenset(),
        updated_chunks={node: rows for node, rows in log.updated_chunks.items() if len(rows)},
    )


@dataclass(frozen=True, slots=True)
class OldRefs:
    """Branches, tags and deleted tags, with the snapshots they point to."""

    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]
    deleted_tags: Mapping[str, SnapshotId]

    @property
    def tips(self) -> list[SnapshotId]:
        """Distinct snapshots that branches and tags point to, that of `main` first."""
        main = self.branches[MAIN]
        return list(dict.fromkeys((main, *self.branches.values(), *self.tags.values())))


def read_refs(protocol: FileProtocol[SequenceFile]) -> OldRefs:
    """Read all refs."""
    return OldRefs(
        branches={name: protocol.lookup_branch(name) for name in protocol.list_branches()},
        tags={name: protocol.lookup_tag(name) for name in protocol.list_tags()},
        deleted_tags=dict(protocol.list_deleted_tags()),
    )


def read_history(
    protocol: FileProtocol[SequenceFile], tips: Iterable[SnapshotId]
) -> dict[SnapshotId, SnapshotInfo]:
    """Return all snapshots reachable from tips, parents first; the first tip's root comes first."""
    found: dict[SnapshotId, SnapshotInfo] = {}
    for tip in tips:
        line: list[SnapshotInfo] = []
        for info in protocol.ancestry(tip) if tip not in found else ():
            if info.id in found:
                break
            line.append(info)
        found.update((info.id, info) for info in reversed(line))
    return found


class TableReader:
    """Reader of chunk references that keeps one manifest in memory."""

    def __init__(self, assets: Assets) -> None:
        self._assets = assets
        self._held: tuple[ManifestId, Manifest] | None = None

    def read(self, node: Node, array: ArrayData, dialect: Dialect) -> ChunkTable:
        """Read the references of an array that lie inside its grid.

        Drops references of other arrays that the first alphas copied into its entries, as far as their
        number of axes tells them apart. Raises ObjectNotFoundError for a missing manifest.
        """
        axes = len(array.shape)
        refs = manifests_of(array, dialect)
        tables = [self._manifest(ref.id).table(node.id, axes) for ref in refs]
        filled = [table for table in tables if len(table)]
        if not filled:
            return ChunkTable.empty(axes)
        return concatenate(filled).select(grid_of(array)).compact()

    def _manifest(self, id: ManifestId) -> Manifest:
        if self._held is None or self._held[0] != id:
            self._held = None
            self._held = (id, self._assets.read_manifest(id))
        return self._held[1]


def grid_of(array: ArrayData) -> tuple[tuple[int, int], ...]:
    """Return the extents of an array's chunk grid."""
    return tuple((0, each.num_chunks) for each in array.shape)


def arrays_of(snapshot: Snapshot) -> list[tuple[Node, ArrayData]]:
    """Return the arrays of a snapshot, grouped by their manifests."""
    arrays = [(node, node.array) for node in snapshot.nodes.values() if node.array is not None]
    return sorted(arrays, key=lambda each: [ref.id for ref in each[1].manifests])


def read_all(reader: TableReader, file: Decoded[Snapshot]) -> Iterator[ChunkTable]:
    """Yield the references of each array of a snapshot."""
    for node, array in arrays_of(file.value):
        yield reader.read(node, array, file.dialect)


class ManifestWriter:
    """Writer of the V2 manifests of one repository."""

    def __init__(
        self, reader: TableReader, assets: Assets, adopt: Callable[[ChunkTable], ChunkTable]
    ) -> None:
        self._reader = reader
        self._assets = assets
        self._adopt = adopt
        self._known: dict[object, tuple[ManifestRef, ...]] = {}
        """Written manifests by old manifests, node id and grid, which identify unread references."""
        self.files: dict[ManifestId, ManifestFileInfo] = {}
        """All manifests that were written."""

    def write(
        self, node: Node, array: ArrayData, dialect: Dialect, node_id: NodeId
    ) -> tuple[ManifestRef, ...]:
        """Write the manifest of an array, whose id in V2 is `node_id`; none if it has no chunks."""
        key = (array.manifests, node_id, grid_of(array))
        if key not in self._known:
            table = self._reader.read(node, array, dialect)
            self._known[key] = self._write(node_id, self._adopt(table)) if len(table) else ()
        return self._known[key]

    def _write(self, node_id: NodeId, table: ChunkTable) -> tuple[ManifestRef, ...]:
        id = name_manifest(node_id, table)
        if id not in self.files:
            self.files[id] = self._assets.write_manifest(Manifest(id, {node_id: table}), id)
        return (ManifestRef(id, table.extents()),)


_BATCH = 1_000
_SPEC_VERSION_AT = 36
_NAME_LENGTH = len(encode_base32(bytes(12)))


@dataclass(frozen=True, slots=True)
class OldPlaces:
    """Locations of the files of an old generation, in the order of deletion."""

    prefixes: tuple[str, ...]
    """Prefixes that contain only old files. Those of `main` come first: without them the repository is
    no longer detected as an old one.
    """
    shared_folders: tuple[str, ...] = ()
    """Folders that also contain V2 files."""


_DRAFT = Layout.of(Dialect.DRAFT)
DRAFT_PLACES = OldPlaces(
    (
        *(f"{start}{MAIN}/" for start in DRAFT_BRANCHES.starts),
        *DRAFT_BRANCHES.starts,
        *(f"{name}/" for name in (_DRAFT.snapshots, _DRAFT.manifests, _DRAFT.chunks)),
    )
)

_ALPHA = Layout.of(Dialect.V2)
ALPHA_PLACES = OldPlaces(
    (*(f"{start}{MAIN}/" for start in ALPHA_BRANCHES.starts), "refs/", CONFIG_KEY),
    (_ALPHA.manifests, f"{_ALPHA.transactions}", _ALPHA.snapshots),
)


def delete_old_files(storage: Storage, places: OldPlaces) -> None:
    """Delete all old files; raises StorageError if any of them can't be deleted."""
    for keys in _find_stages(storage, places):
        for batch in in_batches(keys, _BATCH):
            delete_files(storage, batch)


def has_old_files(storage: Storage, places: OldPlaces) -> bool:
    """Return whether there are any old files."""
    return any(True for keys in _find_stages(storage, places) for _ in keys)


def _find_stages(storage: Storage, places: OldPlaces) -> Iterator[Iterator[str]]:
    """Yield the keys of all old files, grouped into stages of deletion."""
    for place in places.prefixes:
        is_folder = place.endswith("/")
        yield (info.key for info in storage.list(place) if is_folder or info.key == place)
    for folder in places.shared_folders:
        yield _find_old_among_new(storage, folder)


def _find_old_among_new(storage: Storage, folder: str) -> Iterator[str]:
    for batch in in_batches(storage.list(f"{folder}/"), _BATCH):
        yield from _select_old(storage, folder, batch)


def is_free_for_v2(storage: Storage, key: str) -> bool:
    """Return whether a key is unused, or was written by an earlier migration."""
    try:
        return not _is_old(storage, storage.head(key))
    except ObjectNotFoundError:
        return True


def _select_old(storage: Storage, folder: str, files: list[ObjectInfo]) -> list[str]:
    named = [file for file in files if len(file.key) == len(folder) + 1 + _NAME_LENGTH]
    with ThreadPoolExecutor(storage.concurrency) as pool:
        old = list(pool.map(lambda file: _is_old(storage, file), named))
    return [file.key for file in compress(named, old)]


def _is_old(storage: Storage, file: ObjectInfo) -> bool:
    if file.size_bytes < HEADER_SIZE:
        return True
    start = bytes(storage.get(file.key, ByteRange(0, HEADER_SIZE)))
    return not has_header(start) or start[_SPEC_VERSION_AT] != 2


@dataclass(frozen=True, slots=True)
class Files:
    """Old and new files of one repository."""

    old: Assets
    new: Assets


def check_history(old: Assets, history: Iterable[SnapshotInfo]) -> None:
    """Read everything that `HistoryWriter` reads, without writing."""
    reader = TableReader(old)
    done = count("reading snapshots", "snapshots", find_length(history))
    for info in history:
        file = find_snapshot(old, info)
        for _ in read_all(reader, file) if file is not None else ():
            pass
        done.add(1)


def find_snapshot(assets: Assets, info: SnapshotInfo) -> Decoded[Snapshot] | None:
    """Return the snapshot file of a history entry, or None if it is missing.

    A missing first snapshot is replaced: it is empty in every repository. Other files can be missing
    only where the history is recorded in the snapshots.
    """
    try:
        return assets.read_snapshot_file(info.id)
    except ObjectNotFoundError:
        if info.parent_id is not None:
            return None
        return Decoded(Snapshot(info.id, None, info.flushed_at, info.message), assets.dialect)


class HistoryWriter:
    """Writer of V2 snapshots, each after its parent."""

    def __init__(self, files: Files) -> None:
        self._old, self._new = files.old, files.new
        self._copies = ChunkCopies(files.old, files.new)
        self._manifests = ManifestWriter(TableReader(files.old), files.new, self._copies.adopt)
        self.ids: dict[SnapshotId, SnapshotId] = {}
        """New ids by old ids; a snapshot without a file has that of its nearest ancestor."""
        self.infos: dict[SnapshotId, SnapshotInfo] = {}
        """V2 history entries of the snapshots that were written."""

    def write_all(self, history: Iterable[SnapshotInfo]) -> None:
        """Write all snapshots, parents first; raises ObjectNotFoundError for a missing manifest."""
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
        # A log records the changes since the original parent of its commit.
        has_lost_parent = find_origin(parent.metadata) != str(old.parent_id)
        log = None if has_lost_parent else self._find_log(old.id)
        if log is None:
            return rebuild_log(self._new, parent, snapshot)
        return convert_log(log, snapshot.id, parent, snapshot)

    def _find_log(self, id: SnapshotId) -> TransactionLog | None:
        """Return the transaction log of a commit, or None if it is missing or damaged."""
        try:
            return self._old.read_transaction_log(id)
        except (ObjectNotFoundError, FormatError):
            return None
