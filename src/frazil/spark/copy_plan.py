"""Plan a copy, by refs, snapshots and objects that the target lacks, and copy objects in tasks."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from frazil.errors import (
    AlreadyExistsError,
    DivergedError,
    FormatError,
    InvalidInputError,
    NodeNotFoundError,
    ObjectNotFoundError,
    RefNotFoundError,
    SnapshotNotFoundError,
    StorageError,
)
from frazil.format.files import encode_snapshot
from frazil.format.header import Decoded, Dialect
from frazil.format.ids import ALPHABET, ChunkId, ManifestId, SnapshotId
from frazil.format.manifest import Manifest, NativeChunks
from frazil.format.metadata import ROOT, JsonValue, Nanoseconds, Value
from frazil.format.repo_info import GCRan, RepoInfo, RepoStatus, SnapshotInfo
from frazil.format.snapshot import ManifestFileInfo, Node, Snapshot, nodes_by_path
from frazil.maintenance.expire import ancestors_of, reachable_snapshots, release, with_ancestors
from frazil.maintenance.gc import retained_logs
from frazil.maintenance.reachability import (
    Ids,
    Reduction,
    WalkLimits,
    distinct,
    find_manifests,
    ids_of,
    map_manifests,
    name_slice,
    uncached,
)
from frazil.protocols.assets import Assets
from frazil.protocols.detection import detect_dialect
from frazil.protocols.protocol import MAIN, CommitProtocol
from frazil.protocols.repo_changes import read_section, with_section
from frazil.repository.repository import Repository
from frazil.spark.job import Copied
from frazil.storage.constructors import storage_from_url
from frazil.storage.interface import NO_OPTIONS, PutOptions, Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.urls import Location, parse_location

AT_ONCE = 16
_AT_ONCE_ON_DISKS = 4
"""More concurrent requests are not faster on local disks."""
_WORTH_LISTING = 200
"""Number of objects from which one listing is cheaper than a request per object."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Source and target of a copy, with the operations that copy objects."""

    source: Assets
    target: Assets
    is_empty: bool
    """True if the target has no objects yet."""
    at_once: int = AT_ONCE
    """Maximum number of objects a task holds in memory."""

    def copy_chunks(self, keys: Sequence[str], after: str, before: str) -> Copied:
        """Copy chunk objects whose names are all after one name and before another."""
        storage = self.target.storage
        if self.is_empty or storage.is_local or len(keys) < _WORTH_LISTING:
            return self.copy(keys)
        there = self._list_sizes(storage, after, before)
        try:
            here = self._list_sizes(self.source.storage, after, before) if there else {}
        except StorageError:  # plain HTTP servers can't list
            return self.copy(keys)
        missing = [key for key in keys if key not in there or there[key] != here.get(key)]
        copied = self._run(missing, self._copy_always)
        return copied + Copied(present=len(keys) - len(missing))

    def _list_sizes(self, storage: Storage, after: str, before: str) -> Mapping[str, int]:
        folder = f"{self.source.layout.chunks}/"
        found = storage.list_between(folder, folder + after, folder + before)
        return {info.key: info.size_bytes for info in found}

    def copy(self, keys: Sequence[str]) -> Copied:
        """Copy objects of any kind; skip those the target has with the same size."""
        return self._run(keys, self._copy_always if self.is_empty else self._copy_missing)

    def copy_again(self, keys: Sequence[str]) -> Copied:
        """Copy objects even if present: before V2 an expiry rewrites snapshots in place."""
        return self._run(keys, self._copy_always)

    def _run(self, keys: Sequence[str], copy: Callable[[str], Copied]) -> Copied:
        is_local = self.source.storage.is_local and self.target.storage.is_local
        at_once = min(self.at_once, _AT_ONCE_ON_DISKS) if is_local else self.at_once
        with ThreadPoolExecutor(at_once) as pool:
            return sum(pool.map(copy, keys), Copied())

    def _copy_missing(self, key: str) -> Copied:
        size = find_size(self.target.storage, key)
        if size is not None and size == find_size(self.source.storage, key):
            return Copied(present=1)
        return self._copy_always(key)

    def _copy_always(self, key: str) -> Copied:
        for spelled in self._spellings(key):
            try:
                data = self.source.storage.get(spelled)
            except ObjectNotFoundError:
                continue
            self.target.storage.put(spelled, data, self._describe(key))
            return Copied(1, len(data))
        if self._may_be_missing(key):
            return Copied()
        raise ObjectNotFoundError(
            f"{key} is not in the source any more: if it has expired and was collected since the copy"
            " began, copy again; otherwise check the source"
        )

    def _spellings(self, key: str) -> Iterable[str]:
        layout = self.source.layout
        return (key,) if key.startswith(f"{layout.chunks}/") else layout.spellings(key)

    def _may_be_missing(self, key: str) -> bool:
        layout = self.source.layout
        folder = key.partition("/")[0]
        # The recorded history may name snapshots whose objects were never kept.
        is_recorded = folder == layout.snapshots and self.source.dialect.records_history
        return folder == layout.transactions or is_recorded

    def _describe(self, key: str) -> PutOptions:
        layout = self.source.layout
        kinds = {
            layout.snapshots: "snapshot",
            layout.manifests: "manifest",
            layout.transactions: "transaction-log",
        }
        kind = kinds.get(key.partition("/")[0])
        return NO_OPTIONS if kind is None else self.target.describe(kind)


@dataclass(frozen=True, slots=True)
class CopyFiles:
    """Task that copies metadata objects."""

    passage: Passage
    is_always: bool = False

    def __call__(self, keys: Sequence[str]) -> Copied:
        """Copy objects and flush the target."""
        copied = (self.passage.copy_again if self.is_always else self.passage.copy)(keys)
        self.passage.target.storage.flush()
        return copied


def find_size(storage: Storage, key: str) -> int | None:
    """Return the size of an object, or None if it does not exist."""
    try:
        return storage.head(key).size_bytes
    except ObjectNotFoundError:
        return None


SLICES = len(ALPHABET) ** 2
"""One slice for all ids whose spelling starts with the same two letters."""
_BITS = 10
_MOST_BYTES_AT_ONCE = 256 << 20

Natives = tuple[Ids, int]
"""Ids, and the total bytes of all references."""


@dataclass(frozen=True, slots=True)
class ChunkList:
    """Ids of native chunks, sorted."""

    data: bytes
    """Concatenated ids, unless they are in `file`."""
    file: ChunkId | None
    starts: NDArray[np.int64]
    """Index at which each slice begins, and at which the last one ends."""
    id_size: int
    bytes: int
    """Total of all references; a chunk that two manifests reference counts twice."""

    def __len__(self) -> int:
        return int(self.starts[-1])

    def read(self, assets: Assets, number: int) -> Ids:
        """Return the ids of a slice."""
        start, stop = self.starts[number : number + 2].tolist()
        if start == stop:
            return np.empty(0, f"S{self.id_size}")
        first, last = start * self.id_size, stop * self.id_size
        data = (
            self.data[first:last]
            if self.file is None
            else assets.read_chunk(self.file, first, last)
        )
        return ids_of(np.frombuffer(data, np.uint8).reshape(-1, self.id_size))


@dataclass(frozen=True, slots=True)
class ListChunks:
    """Task that lists the chunks of manifests."""

    assets: Assets
    """Assets that hold the manifests."""
    target: Assets
    limits: WalkLimits
    id_size: int
    most_returned: int

    def __call__(self, manifests: Sequence[ManifestFileInfo]) -> ChunkList:
        """Return the chunks of these manifests, each once."""
        source = uncached(self.assets)
        found = list(map_manifests(source, manifests, _NATIVES, self.limits))
        columns = [ids for ids, _ in found if len(ids)]
        ids = distinct(np.concatenate(columns)) if columns else np.empty(0, f"S{self.id_size}")
        data, file = ids.tobytes(), None
        if len(ids) > self.most_returned:
            file, data = self.target.write_chunk(data), b""
            self.target.storage.flush()
        total = sum(size for _, size in found)
        return ChunkList(data, file, find_starts(ids, self.id_size), self.id_size, total)


def find_starts(ids: Ids, id_size: int) -> NDArray[np.int64]:
    """Return the index at which each slice of a sorted column begins, and the end of the last one."""
    rows = np.frombuffer(ids.tobytes(), np.uint8).reshape(-1, id_size)
    heads = rows[:, 0].astype(np.int64) << 8 | rows[:, 1]
    return np.searchsorted(heads >> (16 - _BITS), np.arange(SLICES + 1)).astype(np.int64)


def cut_slices(lists: Sequence[ChunkList], most: int) -> list[range]:
    """Group neighbouring slices into tasks of about `most` chunks, counted once per list."""
    sizes = sum((np.diff(each.starts) for each in lists), np.zeros(SLICES, np.int64))
    ends = np.cumsum(sizes)
    task = (ends - 1) // max(most, 1)
    cuts = [0, *(np.flatnonzero(task[1:] != task[:-1]) + 1).tolist(), SLICES]
    return [range(*each) for each in pairwise(cuts) if sizes[each[0] : each[1]].any()]


@dataclass(frozen=True, slots=True)
class CopyChunks:
    """Task that copies the chunks of slices."""

    passage: Passage
    lists: tuple[ChunkList, ...]
    known: tuple[ChunkList, ...]
    """Chunks present in the target."""

    def __call__(self, slices: range) -> Copied:
        """Copy the chunks of these slices and flush the target."""
        layout = self.passage.source.layout
        keys = [layout.chunk_key(id) for number in slices for id in self._find_missing(number)]
        after, before = (name_slice(each, SLICES) for each in (slices.start, slices.stop))
        passage = replace(self.passage, at_once=self._find_at_once())
        copied = passage.copy_chunks(keys, after, before) if keys else Copied()
        self.passage.target.storage.flush()
        return copied

    def _find_at_once(self) -> int:
        """Return how many chunks of average size fit in the memory limit."""
        count, size = sum(map(len, self.lists)), sum(each.bytes for each in self.lists)
        return max(1, min(AT_ONCE, _MOST_BYTES_AT_ONCE * count // max(size, 1)))

    def _find_missing(self, number: int) -> Iterator[ChunkId]:
        wanted, known = self._read(self.lists, number), self._read(self.known, number)
        missing = np.setdiff1d(wanted, known, assume_unique=True)
        data, size = missing.tobytes(), missing.dtype.itemsize
        return (ChunkId(data[at : at + size]) for at in range(0, len(data), size))

    def _read(self, lists: Sequence[ChunkList], number: int) -> Ids:
        columns = [each.read(self.passage.target, number) for each in lists]
        filled = [column for column in columns if len(column)]
        return distinct(np.concatenate(filled)) if filled else np.empty(0, "S12")


def _reduce_natives(natives: NativeChunks) -> Natives:
    return ids_of(natives.ids), int(natives.lengths.sum())


def _reduce_manifest(manifest: Manifest) -> Natives:
    found = [refs.natives() for refs in manifest.arrays.values()]
    columns = [ids_of(each.ids) for each in found if len(each)]
    ids = np.concatenate(columns) if columns else np.empty(0, "S12")
    return ids, sum(int(each.lengths.sum()) for each in found)


_NATIVES: Reduction[Natives] = Reduction(_reduce_natives, _reduce_manifest)


@dataclass(frozen=True, slots=True)
class Choice:
    """Refs and snapshots to copy; None for all."""

    branches: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    last: int | None = None
    """Number of snapshots to keep of each branch."""

    def __post_init__(self) -> None:
        if self.last is not None and self.last < 1:
            raise InvalidInputError(f"invalid last {self.last}: it must be at least 1")


def select_refs(info: RepoInfo, choice: Choice) -> RepoInfo:
    """Return the repository with the selected refs and the snapshots they reach.

    Raises RefNotFoundError if a ref does not exist.
    """
    branches = _pick(info.branches, choice.branches, "branch")
    tags = _pick(info.tags, choice.tags, "tag")
    first = find_first(info)
    selected = replace(info, branches={MAIN: first.id, **branches}, tags=tags)
    reached = reachable_snapshots(selected)
    left = {id: each for id, each in info.snapshots.items() if id in reached}
    selected = replace(selected, snapshots=left)
    if choice.last is None:
        return selected
    released = reached - frozenset(_kept(selected, choice.last))
    return release(selected, released, released)


def find_first(info: RepoInfo) -> SnapshotInfo:
    """Return the first snapshot of a repository, the root of every history."""
    *_, first = line_of(info, info.branches[MAIN])
    return first


def line_of(info: RepoInfo, tip: SnapshotId) -> Iterator[SnapshotInfo]:
    """Yield a snapshot and its ancestors, newest first."""
    yield info.snapshots[tip]
    yield from ancestors_of(info.snapshots, info.snapshots[tip])


def _kept(info: RepoInfo, last: int) -> Iterator[SnapshotId]:
    yield find_first(info).id
    yield from info.tags.values()
    for tip in info.branches.values():
        for number, each in enumerate(line_of(info, tip)):
            if number >= last:
                break
            yield each.id


def _pick(
    refs: Mapping[str, SnapshotId], names: Iterable[str] | None, kind: str
) -> dict[str, SnapshotId]:
    if names is None:
        return dict(refs)
    missing = sorted(set(names) - refs.keys())
    if missing:
        raise RefNotFoundError(f"the source has no {kind} {', '.join(map(repr, missing))}")
    return {name: refs[name] for name in names}


_SECTION = "copy"
_MICROSECOND = 1000


@dataclass(frozen=True, slots=True)
class Guard:
    """Preconditions on the target, checked before it is changed and when its state is replaced."""

    source: RepoInfo
    place: str
    """Opaque name of the location of the source."""
    group: str
    is_known: Callable[[SnapshotId], bool]
    """Function that returns True if the source has a snapshot, or derived it for the copied group."""

    def refuse_others(self, target: RepoInfo) -> None:
        """Raise AlreadyExistsError for another repository, DivergedError if the copy was written to."""
        if _identity(target) != _identity(self.source):
            raise AlreadyExistsError(
                "the target holds another repository: copy to a place where nothing is"
            )
        record = read_section(target.metadata, _SECTION)
        group = record.get("group", self.group)
        if group != self.group:
            raise AlreadyExistsError(
                f"the target is a copy of the group {group}, not of {self.group}: copy it elsewhere"
            )
        for what, tip in _moved(target, record if record.get("source") == self.place else {}):
            if not self.is_known(tip):
                raise DivergedError(
                    message=f"the {what} of the target is at {tip}, which the source does not know:"
                    " somebody has written to the copy; nothing was changed there",
                )

    def with_record(self, wanted: RepoInfo) -> dict[str, JsonValue]:
        """Return the metadata of a copy, which records its source and the tips of its refs."""
        branches: dict[str, JsonValue] = {name: str(tip) for name, tip in wanted.branches.items()}
        tags: dict[str, JsonValue] = {name: str(tip) for name, tip in wanted.tags.items()}
        section: dict[str, JsonValue] = {
            "source": self.place, "group": self.group, "branches": branches, "tags": tags,
        }  # fmt: skip
        return with_section(wanted.metadata, _SECTION, section)


def newest_collection(info: RepoInfo) -> Nanoseconds:
    """Return the time of the last garbage collection in the newest page of the ops log; 0 if none."""
    times = (each.updated_at for each in info.latest_updates if isinstance(each.kind, GCRan))
    return max(times, default=0)


def _identity(info: RepoInfo) -> tuple[SnapshotId, Nanoseconds] | None:
    if MAIN not in info.branches:
        return None
    first = find_first(info)
    return first.id, first.flushed_at // _MICROSECOND


def _moved(target: RepoInfo, record: Mapping[str, JsonValue]) -> Iterator[tuple[str, SnapshotId]]:
    """Yield the refs that have moved since the last copy."""
    for kind, refs in (("branch", target.branches), ("tag", target.tags)):
        left = record.get("branches" if kind == "branch" else "tags")
        known = left if isinstance(left, dict) else {}
        for name, tip in refs.items():
            if known.get(name) != str(tip):
                yield f"{kind} {name!r}", tip


@dataclass(frozen=True, slots=True)
class Part:
    """Repository with only a part of the hierarchy."""

    info: RepoInfo
    made: Mapping[SnapshotId, Snapshot]
    """Snapshots that have no object yet."""


def take_part(assets: Assets, info: RepoInfo, group: str, *, is_named: bool) -> Part:
    """Return a repository with the nodes at and below a path, at the tips of branches.

    Branches without the path and all tags are dropped. Raises NodeNotFoundError if no branch has the
    path, or a named branch lacks it, and FormatError for generations before V1.
    """
    if assets.dialect.is_legacy:
        raise FormatError(
            f"a part of a repository of the generation {assets.dialect.value} can't be copied: copy"
            " all of it, or migrate it first",
            kind="unsupported-operation-for-version",
        )
    first = find_first(info)
    made: dict[SnapshotId, Snapshot] = {}
    tips: dict[str, SnapshotId] = {}
    infos = {first.id: first}
    for name, tip in info.branches.items():
        snapshot = assets.read_snapshot(tip)
        if group in snapshot.nodes and tip != first.id:
            id = derive_id(tip, group)
            parent_id = first.id if assets.dialect.names_parents else None
            made[id] = cut_snapshot(snapshot, group, id, parent_id)
            infos[id] = _describe(info.snapshots[tip], id, first)
            tips[name] = id
        elif is_named and tip != first.id:
            raise NodeNotFoundError(f"the branch {name!r} has no node at {group}")
    if not tips:
        raise NodeNotFoundError(f"no branch has a node at {group}")
    branches = {"main": first.id, **tips}
    return Part(replace(info, branches=branches, tags={}, snapshots=infos), made)


def derive_id(id: SnapshotId, group: str) -> SnapshotId:
    """Return the id of the snapshot derived from another for a group."""
    return SnapshotId(hashlib.sha256(bytes(id) + group.encode()).digest()[: len(id)])


def cut_snapshot(
    snapshot: Snapshot, group: str, id: SnapshotId, parent_id: SnapshotId | None
) -> Snapshot:
    """Return a snapshot with the nodes at and below a path, and the groups above it."""
    nodes = [node for path, node in snapshot.nodes.items() if _belongs(path, group)]
    used = _used_manifests(nodes)
    return replace(
        snapshot,
        id=id,
        parent_id=parent_id,
        nodes=nodes_by_path(nodes),
        manifest_files=tuple(each for each in snapshot.used_manifests() if each.id in used),
    )


def _belongs(path: str, group: str) -> bool:
    is_below = path == group or group == ROOT or path.startswith(f"{group}/")
    return is_below or path == ROOT or group.startswith(f"{path}/")


def _used_manifests(nodes: list[Node]) -> set[object]:
    arrays = [node.array for node in nodes if node.array is not None]
    return {ref.id for array in arrays for ref in array.manifests}


def _describe(tip: SnapshotInfo, id: SnapshotId, first: SnapshotInfo) -> SnapshotInfo:
    return replace(tip, id=id, parent_id=first.id, pruned_ancestor_tx_logs=())


def read_state(protocol: CommitProtocol) -> RepoInfo:
    """Read refs, history and configuration; before V2, from their separate objects."""
    if protocol.has_repo_info:
        return protocol.read_repo_info()
    branches = {name: protocol.lookup_branch(name) for name in sorted(protocol.list_branches())}
    tags = {name: protocol.lookup_tag(name) for name in sorted(protocol.list_tags())}
    config = protocol.read_config()
    return RepoInfo(
        branches=branches,
        tags=tags,
        deleted_tags=frozenset(protocol.list_deleted_tags()),
        snapshots=_read_history(protocol, [*branches.values(), *tags.values()]),
        status=RepoStatus(),
        latest_updates=(),
        config=None if config is None else Value(config),
    )


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
    """Return True if a repository has the object of a snapshot, in its history or not."""
    try:
        protocol.lookup_snapshot(id)
    except SnapshotNotFoundError:
        return False
    return True


LIMITS = WalkLimits()
Manifests = dict[ManifestId, ManifestFileInfo]
_UNKNOWN = 10_000
"""Assumed references of a manifest whose count is not recorded."""
_FEW = 1_000
"""Number of objects up to which tasks are not worth it."""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Objects to copy, and those the driver writes itself."""

    first_id: SnapshotId
    new_snapshots: frozenset[SnapshotId]
    files: tuple[str, ...]
    """Metadata objects that may be present already."""
    changing_files: tuple[str, ...]
    """Metadata objects that may be present with other content."""
    manifests: tuple[ManifestFileInfo, ...]
    """Manifests whose chunks are copied."""
    replaced: tuple[ManifestFileInfo, ...]
    """Manifests of the target, whose chunks are present."""
    written: Mapping[str, bytes]
    """Encoded snapshots that differ from those of the source, by key."""
    made: tuple[Snapshot, ...]
    """Derived snapshots; their transaction logs are still to be made."""

    @property
    def is_small(self) -> bool:
        """True if the copy fits in one task."""
        return sum(map(count_references, self.manifests)) + len(self.files) <= _FEW


def count_references(info: ManifestFileInfo) -> int:
    """Return the number of references of a manifest, estimated if it is not recorded."""
    return _UNKNOWN if info.num_chunk_refs is None else info.num_chunk_refs


def plan_copy(passage: Passage, part: Part, before: RepoInfo | None) -> CopyPlan:
    """Plan the objects that a target with the state `before` lacks."""
    wanted, source = part.info, passage.source
    known = frozenset() if before is None else frozenset(before.snapshots)
    new = frozenset(wanted.snapshots) - known
    copied = new - part.made.keys()
    manifests, replaced = _find_manifests(passage, part, before, new)
    logs = retained_logs(wanted) - part.made.keys()
    logs -= frozenset() if before is None else retained_logs(before)
    layout = source.layout
    snapshots = [layout.snapshot_key(id) for id in sorted(copied)]
    files = [layout.manifest_key(id) for id in sorted(manifests)]
    files += [key for id in sorted(logs) if (key := layout.find_transaction_log_key(id))]
    changing: list[str] = []
    written: dict[str, bytes] = {}
    if not source.dialect.has_repo_info:
        written = dict(_rewrite(source, part))
        every = frozenset(wanted.snapshots) - part.made.keys()
        changing = [k for id in sorted(every) if (k := layout.snapshot_key(id)) not in written]
        snapshots = []
    made = tuple(each for id, each in part.made.items() if id in new)
    return CopyPlan(
        first_id=find_first(wanted).id,
        new_snapshots=new,
        files=(*files, *snapshots),
        changing_files=tuple(changing),
        manifests=tuple(manifests.values()),
        replaced=tuple(replaced.values()),
        written=written,
        made=made,
    )


def _find_manifests(
    passage: Passage, part: Part, before: RepoInfo | None, new: frozenset[SnapshotId]
) -> tuple[Manifests, Manifests]:
    """Return the manifests only of new snapshots, and those only of their neighbours in the target.

    An append rewrites a manifest, and most of its chunks are those of the manifest it replaces.
    """
    found = find_manifests(uncached(passage.source), sorted(new - part.made.keys()), LIMITS)
    for id, snapshot in part.made.items():
        if id in new:
            found.update((info.id, info) for info in snapshot.manifest_files)
    if before is None or not found:
        return found, {}
    parents = [part.info.snapshots[id].parent_id for id in new]
    tips = before.branches.values()
    near = {id for id in (*parents, *tips) if id is not None and id in before.snapshots}
    there = find_manifests(uncached(passage.target), sorted(near), LIMITS)
    return (
        {id: info for id, info in found.items() if id not in there},
        {id: info for id, info in there.items() if id not in found},
    )


def _rewrite(source: Assets, part: Part) -> Iterator[tuple[str, bytes]]:
    """Yield the encoded snapshots whose ancestors must change."""
    for id in part.info.snapshots.keys() - part.made.keys():
        _, *ancestors = line_of(part.info, id)
        decoded = _find_snapshot(source, id)
        if ancestors and decoded is not None and _differs(decoded.value, ancestors):
            shortened = with_ancestors(decoded.value, tuple(ancestors))
            data = encode_snapshot(shortened, decoded.dialect, source.options.encoding)
            yield source.layout.snapshot_key(id), data


def _differs(snapshot: Snapshot, ancestors: Sequence[SnapshotInfo]) -> bool:
    if snapshot.history is None:
        return snapshot.parent_id != ancestors[0].id
    return snapshot.history.total_parents != len(ancestors)


def _find_snapshot(source: Assets, id: SnapshotId) -> Decoded[Snapshot] | None:
    try:
        return source.read_snapshot_file(id)
    except ObjectNotFoundError:
        # The recorded history may name snapshots whose objects were never kept.
        if source.dialect.records_history:
            return None
        raise


_LOOKED_AT = 1000
"""Number of keys inspected to find out whether a location is in use."""
_FOLDERS = frozenset(
    {
        "snapshots", "manifests", "transactions", "chunks", "refs", "overwritten", "_frazil",
        "s", "m", "c", "r",
    }
)  # fmt: skip
"""Top-level folders that copies of all generations write."""


def refuse_target(target: Storage, dialect: Dialect, *, incremental: bool) -> None:
    """Raise if the target can't take the copy."""
    if target.is_bucket_root:
        raise InvalidInputError(
            "the root of a bucket can't hold a repository: give the target a prefix",
            kind="empty-prefix-creation",
        )
    found = detect_dialect(target)
    if found is None:
        _refuse_unless_clean(target)
    elif not incremental:
        raise AlreadyExistsError("the target has a repository: copy to a place where nothing is")
    elif found is not dialect:
        raise InvalidInputError(
            f"the source is of the generation {dialect.value}, and the copy at the target of"
            f" {found.value}: migrate the older one, or copy to a place where nothing is"
        )


def _refuse_unless_clean(target: Storage) -> None:
    """Raise InvalidInputError if there are objects that no copy writes."""
    for number, info in enumerate(target.list()):
        folder, slash, _ = info.key.partition("/")
        if info.key != "config.yaml" and (not slash or folder not in _FOLDERS):
            raise InvalidInputError(
                f"the target must be empty, but it has the object {info.key!r}",
                kind="parent-directory-not-clean",
            )
        if number == _LOOKED_AT:
            break


def has_nothing(assets: Assets) -> bool:
    """Return True if there are no objects, not even of an interrupted copy."""
    layout = assets.layout
    folders = (layout.chunks, layout.manifests, layout.snapshots)
    return not any(next(iter(assets.storage.list(f"{each}/")), None) for each in folders)


def refuse_same_place(source: Storage, target: Storage, id: str) -> None:
    """Raise InvalidInputError if the source and the target are the same location."""
    key = f"_frazil/copies/{id}"
    target.put(key, b"")
    try:
        if find_size(source, key) is not None:
            raise InvalidInputError("the source and the target are the same place")
    finally:
        target.delete_many([key])


AnyPlace = Repository | Storage | Location
"""A repository, a storage, or the URL or path of one."""


def find_storage(place: AnyPlace) -> Storage:
    """Return the storage of a location."""
    if isinstance(place, Repository):
        return place.storage
    return place if isinstance(place, Storage) else storage_from_url(parse_location(place))


def name_place(storage: Storage) -> str:
    """Return a short hash that identifies a location without revealing it."""
    if isinstance(storage, MemoryStorage):
        text = "memory"
    else:  # the text of earlier releases, whose hashes are stored in repositories
        kind = "local filesystem, " if isinstance(storage, LocalStorage) else ""
        text = f"<frazil.Storage: {kind}{storage.place}>"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
