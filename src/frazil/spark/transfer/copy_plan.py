"""Plan a copy: the refs, snapshots and objects to copy, and those the target lacks."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from frazil.errors import (
    AlreadyExistsError,
    DivergedError,
    FormatError,
    InvalidInputError,
    NodeNotFoundError,
    ObjectNotFoundError,
    RefNotFoundError,
    SnapshotNotFoundError,
)
from frazil.format.files import encode_snapshot
from frazil.format.header import Decoded, Dialect
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.metadata import JsonValue, Value
from frazil.format.paths import ROOT
from frazil.format.repo_info import GCRan, RepoInfo, RepoStatus, SnapshotInfo
from frazil.format.snapshot import ManifestFileInfo, Node, Snapshot, nodes_by_path
from frazil.format.timestamps import Nanoseconds
from frazil.maintenance.expire import ancestors_of, reachable_snapshots, release, with_ancestors
from frazil.maintenance.gc import retained_logs
from frazil.maintenance.reachability import WalkLimits, find_manifests, uncached
from frazil.protocols.assets import Assets
from frazil.protocols.detection import detect_dialect
from frazil.protocols.protocol import MAIN, CommitProtocol
from frazil.protocols.repo_changes import read_section, with_section
from frazil.repository.repository import Repository
from frazil.spark.transfer.copy_objects import Passage, find_size
from frazil.storage.constructors import storage_from_url
from frazil.storage.interface import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.urls import Location, parse_location


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
