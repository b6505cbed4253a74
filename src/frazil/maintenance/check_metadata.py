"""Check refs, the repo info, history, snapshots, nodes and transaction logs. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import chain, pairwise

from frazil.config.saved_config import decode_config
from frazil.config.settings import RepositoryConfig, resolve_config
from frazil.errors import FormatError, IcechunkError, InvalidInputError, ObjectNotFoundError
from frazil.format.coordinates import Extents, meet
from frazil.format.files import decode_repo_info, decode_snapshot, decode_transaction_log
from frazil.format.header import Compression, Decoded, Dialect, FileType, Header, decode_file
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.metadata import (
    ROOT,
    JsonValue,
    Nanoseconds,
    byte_order,
    parent_path,
    segment_order,
)
from frazil.format.repo_info import RepoInfo, SnapshotInfo
from frazil.format.snapshot import (
    ArrayData,
    ManifestFileInfo,
    ManifestRef,
    Node,
    Snapshot,
    TransactionLog,
)
from frazil.format.v2.schema import find_unordered_in_log, find_unordered_in_repo_info, is_ascending
from frazil.maintenance.findings import (
    Problem,
    Problems,
    Repair,
    Severity,
    error,
    few,
    note,
    warning,
)
from frazil.maintenance.inventory import Failed, read_files, read_or_fail
from frazil.protocols.assets import Assets
from frazil.protocols.protocol import MAIN, MICROSECOND, CommitProtocol
from frazil.protocols.sequence_protocol import SequenceFile
from frazil.protocols.v1_protocol import KEY as CONFIG_KEY
from frazil.protocols.v1_protocol import RefSpelling, decode_ref_file
from frazil.protocols.v2_protocol import BACKUPS, REPO
from frazil.repository.zarr_keys import read_node_metadata
from frazil.storage.interface import ObjectInfo, Storage

# Most nodes are equal in consecutive snapshots.
_read_metadata = lru_cache(10_000)(read_node_metadata)


def check_nodes(nodes: Mapping[str, Node], key: str, dialect: Dialect) -> Problems:
    """Check all nodes of a snapshot, their parents and ids; raises FormatError."""
    for node in nodes.values():
        yield from check_metadata(node, key, dialect)
        if node.array is not None and not dialect.shares_manifests:
            yield from check_extents(node.path, node.array, key)
    yield from _check_parents(nodes, key)
    repeated = [id for id, n in Counter(node.id for node in nodes.values()).items() if n > 1]
    for id in repeated:
        paths = sorted(node.path for node in nodes.values() if node.id == id)
        yield error(key, f"the nodes {', '.join(paths)} have one id, {id}", path=paths[0])


def _check_parents(nodes: Mapping[str, Node], key: str) -> Problems:
    missing: set[str] = set()
    for path in nodes:
        parent = parent_path(path)
        if path == ROOT:
            continue
        found = nodes.get(parent)
        if found is None:
            missing.add(parent)
        elif found.array is not None:
            # Allowed, as officially: both can be read, though Zarr lists nothing below an array.
            yield note(key, f"it lies in {parent}, which is an array", path=path)
    for parent in sorted(missing):
        yield warning(key, "there are nodes in it, and no group of this path", path=parent)


def check_metadata(node: Node, key: str, dialect: Dialect) -> Problems:
    """Check that the `zarr.json` of a node is valid and agrees with the snapshot."""
    # Only V1 and V2 keep zarr.json as it was written; V2 supports all chunk grids.
    known = dialect if dialect is Dialect.V1 else Dialect.V2
    try:
        document = _read_metadata(node.user_data, known)
    except InvalidInputError as failure:
        yield error(key, f"its metadata can't be used: {failure.message}", path=node.path)
        return
    if (document is None) != (node.array is None):
        kinds = ["array" if each else "group" for each in (document, node.array)]
        yield error(key, f"zarr.json says {kinds[0]}, the snapshot {kinds[1]}", path=node.path)
    elif document is not None and node.array is not None:
        for what in _compare(document, node.array):
            yield error(key, what, path=node.path)


def _compare(document: ArrayData, kept: ArrayData) -> Iterator[str]:
    pairs = {
        "shape": ([d.array_length for d in document.shape], [d.array_length for d in kept.shape]),
        "number of chunks": (
            [d.num_chunks for d in document.shape],
            [d.num_chunks for d in kept.shape],
        ),
        "dimension names": (_names(document), _names(kept)),
    }
    for what, (there, here) in pairs.items():
        if there != here:
            yield f"the {what} is {there} by zarr.json, {here} by the snapshot"


def _names(array: ArrayData) -> list[str | None]:
    names = array.dimension_names
    return [None] * len(array.shape) if names is None else list(names)


def check_extents(path: str, array: ArrayData, key: str) -> Problems:
    """Check that the extents of an array's manifests lie in its grid and don't overlap."""
    grid = tuple((0, each.num_chunks) for each in array.shape)
    sound = []
    for ref in array.manifests:
        what = _find_extents_problem(ref.extents, grid)
        if what is None:
            sound.append(ref)
        else:
            yield error(key, f"the extents of manifest {ref.id} {what}", path=path)
    yield from (
        error(key, f"the extents of manifests {a.id} and {b.id} overlap", path=path)
        for a, b in find_overlaps(sound)
    )


def _find_extents_problem(extents: Extents, grid: Extents) -> str | None:
    if len(extents) != len(grid):
        return f"have {len(extents)} axes, the array has {len(grid)}"
    for (start, stop), (_, limit) in zip(extents, grid, strict=True):
        if start >= stop:
            return f"are empty: {start}..{stop}"
        if stop > limit:
            return f"reach to {stop} on an axis of {limit} chunks"
    return None


def find_overlaps(refs: "list[ManifestRef]") -> Iterator[tuple[ManifestRef, ManifestRef]]:
    """Yield the pairs of manifests with overlapping extents; fast if the first axis is split."""
    active: list[ManifestRef] = []
    for ref in sorted(refs, key=lambda each: each.extents):
        if ref.extents:
            active = [each for each in active if each.extents[0][1] > ref.extents[0][0]]
        yield from ((each, ref) for each in active if meet(each.extents, ref.extents))
        active.append(ref)


@dataclass(frozen=True, slots=True)
class Use:
    """Expectations of a snapshot about one array in a manifest."""

    node_id: NodeId
    axes: int
    extents: Extents | None
    """None if the dialect records no extents."""


Uses = Mapping[ManifestId, Mapping[Use, str]]
"""Expectations by manifest, each with the path of its array for messages."""


@dataclass(frozen=True, slots=True)
class EncodedArray:
    """Metadata of an array that is needed to decode its chunks."""

    path: str
    user_data: bytes
    num_chunks: tuple[int, ...]

    @classmethod
    def find(cls, node: Node) -> "EncodedArray | None":
        """Return the metadata of a node, or None for a group."""
        if node.array is None:
            return None
        return cls(node.path, node.user_data, tuple(each.num_chunks for each in node.array.shape))


@dataclass(frozen=True, slots=True)
class SnapshotFindings:
    """Findings of the check of a snapshot file."""

    id: SnapshotId
    dialect: Dialect
    num_nodes: int
    uses: Uses
    files: tuple[ManifestFileInfo, ...]
    arrays: Mapping[NodeId, EncodedArray]
    problems: tuple[Problem, ...] = field(default=())


def check_snapshot_file(
    data: bytes, id: SnapshotId, key: str, listed: SnapshotInfo | None, dialect: Dialect
) -> SnapshotFindings:
    """Check a snapshot file of a repository in a dialect; raises FormatError if it is damaged.

    `listed` is the entry of the snapshot in the repo info.
    """
    decoded = decode_snapshot(data)
    snapshot = decoded.value
    nodes = dict(snapshot.nodes)
    problems = chain(
        check_header(decoded.header, key, dialect),
        _check_identity(decoded, id, key),
        _check_node_order(snapshot, key, decoded.dialect),
        _check_listed(snapshot, key, listed),
        check_nodes(nodes, key, decoded.dialect),
        _check_manifest_files(snapshot, key, decoded.dialect),
    )
    return SnapshotFindings(
        id,
        decoded.dialect,
        len(nodes),
        collect_uses(nodes.values(), decoded.dialect),
        snapshot.manifest_files,
        {node.id: each for node in nodes.values() if (each := EncodedArray.find(node)) is not None},
        tuple(problems),
    )


def check_header(header: Header | None, key: str, dialect: Dialect) -> Problems:
    """Check that a file header fits the repository's version and can be read officially."""
    if header is None:
        return
    if header.compression is Compression.NONE:
        yield warning(key, "it is not compressed, and the official library reads no such file")
    expected = 2 if dialect.has_repo_info else 1
    if header.spec_version > expected:
        what = f"its spec version is {header.spec_version}, that of the repository is {expected}"
        yield error(key, what)


def _check_identity(decoded: Decoded[Snapshot], id: SnapshotId, key: str) -> Problems:
    snapshot = decoded.value
    # The first alphas and the draft name the file of the first snapshot differently from its id.
    is_first = snapshot.history is not None and not snapshot.history.short_term_history
    if snapshot.id != id and not (is_first and decoded.dialect.records_history):
        yield error(key, f"the snapshot in it is {snapshot.id}")
    if not decoded.dialect.names_parents and snapshot.parent_id is not None:
        yield warning(key, "it names a parent, which in V2 only the repo info does")


def _check_node_order(snapshot: Snapshot, key: str, dialect: Dialect) -> Problems:
    paths = list(snapshot.nodes)
    if dialect.is_legacy or is_ascending(paths, byte_order):
        return
    if dialect.names_parents and is_ascending(paths, segment_order):
        yield note(
            key, "its nodes are in the order of segments, as releases up to 1.1.2 wrote them"
        )
        return
    wrong = next(b for a, b in pairwise(paths) if byte_order(a) >= byte_order(b))
    yield error(key, "the nodes are not in order, and readers that search miss some", path=wrong)


def _check_listed(snapshot: Snapshot, key: str, listed: SnapshotInfo | None) -> Problems:
    if listed is None:
        return
    said = {
        "time": (snapshot.flushed_at // MICROSECOND, listed.flushed_at // MICROSECOND),
        "message": (snapshot.message, listed.message),
        "metadata": (dict(snapshot.metadata), dict(listed.metadata)),
    }
    for what, (here, there) in said.items():
        if here != there:
            yield warning(key, f"its {what} is {here!r}, and {there!r} by the repo info")


def _check_manifest_files(snapshot: Snapshot, key: str, dialect: Dialect) -> Problems:
    listed = {info.id for info in snapshot.manifest_files}
    is_ordered = is_ascending([info.id for info in snapshot.manifest_files])
    if not dialect.is_legacy and not is_ordered:
        yield error(key, "the list of its manifest files is not in order")
    for node in snapshot.nodes.values():
        for ref in node.array.manifests if node.array is not None else ():
            if ref.id not in listed:
                what = (
                    f"manifest {ref.id} is not in the list of manifest files, and garbage to some"
                )
                yield error(key, what, path=node.path)


def collect_uses(nodes: Iterable[Node], dialect: Dialect) -> Uses:
    """Return the expectations of a snapshot's arrays about manifests."""
    uses: dict[ManifestId, dict[Use, str]] = {}
    for node in nodes:
        if node.array is None:
            continue
        axes = len(node.array.shape)
        for ref in node.array.manifests:
            extents = None if dialect.shares_manifests else ref.extents
            uses.setdefault(ref.id, {})[Use(node.id, axes, extents)] = node.path
    return uses


def damaged(key: str, failure: FormatError, what: str) -> Problem:
    """Return the problem of a file that can't be decoded."""
    return error(key, f"the {what} can't be read: {failure.message}")


def needs_log(dialect: Dialect, *, is_first: bool) -> bool:
    """Return whether a snapshot of a dialect must have a transaction log."""
    return dialect.has_logs and (dialect.has_repo_info or not is_first)


def check_log_file(
    data: bytes, id: SnapshotId, key: str, dialect: Dialect, *, is_first: bool
) -> tuple[Problem, ...]:
    """Check a transaction log of a repository in a dialect; raises FormatError if it is damaged."""
    decoded = decode_transaction_log(data, id)
    problems = list(check_header(decoded.header, key, dialect))
    problems += _check_contents(decoded, id, key, is_first=is_first)
    written_in = decoded.dialect
    del decoded  # it may have millions of chunks
    return (*problems, *_check_log_order(data, written_in, key))


def _check_contents(
    decoded: Decoded[TransactionLog], id: SnapshotId, key: str, *, is_first: bool
) -> Problems:
    log = decoded.value
    if log.id != id:
        yield error(key, f"the log in it is that of {log.id}", Repair.REBUILD_LOG)
    contents = [getattr(log, each.name) for each in fields(log) if each.name != "id"]
    if is_first and any(contents):
        yield error(key, "it records changes in the first snapshot, which has none")


def _check_log_order(data: bytes, dialect: Dialect, key: str) -> Problems:
    if dialect.is_legacy:
        return
    _, payload = decode_file(data, FileType.TRANSACTION_LOG)
    for name in find_unordered_in_log(payload):
        if dialect.names_parents:
            yield note(key, f"{name} is not in order, as releases up to 1.1.21 wrote it")
        else:
            yield error(key, f"{name} is not in order", Repair.REBUILD_LOG)


@dataclass(frozen=True, slots=True)
class CheckBackups:
    """Stage that reads backups."""

    assets: Assets

    def __call__(self, pool: ThreadPoolExecutor, keys: Sequence[str]) -> list[Problem]:
        """Return a warning for each backup that can't be read."""
        found = (outcome for _, outcome in read_files(pool, keys, self._read))
        return [
            replace(each.problem, severity=Severity.WARNING)
            for each in found
            if isinstance(each, Failed)
        ]

    def _read(self, key: str) -> Dialect | Failed:
        return read_or_fail(self.assets, key, lambda data: decode_repo_info(data).dialect)


@dataclass(frozen=True, slots=True)
class Link:
    """Snapshot with its time and its parent."""

    key: str
    """Key of the object that records this."""
    id: SnapshotId
    parent_id: SnapshotId | None
    flushed_at: Nanoseconds


Links = Mapping[SnapshotId, Link]


def check_links(links: Links) -> Problems:
    """Check that no snapshot is its own ancestor, and that each is younger than its parent."""
    cycles = find_cycles(links)
    for members in cycles:
        listed = " → ".join(map(str, members))
        yield error(links[members[0]].key, f"snapshots are their own ancestors: {listed}")
    in_cycle = {id for members in cycles for id in members}
    for link in links.values():
        parent = None if link.parent_id is None else links.get(link.parent_id)
        if parent is None or link.id in in_cycle:
            continue
        if link.flushed_at <= parent.flushed_at:
            what = f"snapshot {link.id} is not younger than its parent {parent.id}"
            yield warning(link.key, what)


def find_cycles(links: Links) -> list[tuple[SnapshotId, ...]]:
    """Return the distinct cycles among snapshots, each starting at its smallest id."""
    rings: list[tuple[SnapshotId, ...]] = []
    done: set[SnapshotId] = set()
    for start in links:
        trail: dict[SnapshotId, None] = {}
        current: SnapshotId | None = start
        while current is not None and current in links and current not in done:
            if current in trail:
                rings.append(_ring(list(trail), current))
                break
            trail[current] = None
            current = links[current].parent_id
        done.update(trail)
    return rings


def _ring(trail: list[SnapshotId], entrance: SnapshotId) -> tuple[SnapshotId, ...]:
    members = trail[trail.index(entrance) :]
    least = members.index(min(members))
    return (*members[least:], *members[:least])


def walk(links: Links, start: SnapshotId) -> list[SnapshotId]:
    """Return a snapshot and its known ancestors, each once."""
    found: dict[SnapshotId, None] = {}
    current: SnapshotId | None = start
    while current is not None and current not in found:
        found[current] = None
        link = links.get(current)
        current = None if link is None else link.parent_id
    return list(found)


@dataclass(frozen=True, slots=True)
class Page:
    """Page of the ops log: a repo info, or a backup of it."""

    key: str
    info: RepoInfo


@dataclass(frozen=True, slots=True)
class OpsLog:
    """Readable pages of the ops log, newest first, and why there are no more."""

    pages: tuple[Page, ...]
    problems: tuple[Problem, ...] = ()

    def backups(self) -> frozenset[str]:
        """Return the keys of all backups that the log names."""
        named = {each.backup_path for page in self.pages for each in page.info.latest_updates}
        named |= {page.info.repo_before_updates for page in self.pages}
        return frozenset(f"{BACKUPS}/{name}" for name in named if name is not None)


def read_pages(info: RepoInfo, find: Callable[[str], RepoInfo | None]) -> OpsLog:
    """Read all pages of the ops log; `find` returns a backup by name and may raise FormatError."""
    pages, problems = [Page(REPO, info)], list[Problem]()
    seen: set[str] = set()
    while (name := pages[-1].info.repo_before_updates) is not None:
        key = f"{BACKUPS}/{name}"
        if name in seen:
            problems.append(error(key, "the pages of the ops log go round in a circle"))
            break
        seen.add(name)
        try:
            page = find(name)
        except FormatError as failure:
            problems.append(error(key, f"a page of the ops log can't be read: {failure.message}"))
            break
        if page is None:
            problems.append(
                warning(key, "the backup is gone, and with it the ops log from there on")
            )
            break
        pages.append(Page(key, page))
    return OpsLog(tuple(pages), tuple(problems))


def check_ops_log(log: OpsLog, existing: Container[str], num_updates_per_file: int) -> Problems:
    """Check the whole ops log against the existing objects."""
    yield from log.problems
    for page in log.pages:
        yield from check_page(page, num_updates_per_file)
        yield from _check_backups(page, existing)
    for newer, older in pairwise(log.pages):
        last, first = newer.info.latest_updates[-1:], older.info.latest_updates[:1]
        if last and first and first[0].updated_at >= last[0].updated_at:
            yield error(older.key, "its updates are younger than those after them")


def check_page(page: Page, num_updates_per_file: int) -> Problems:
    """Check that a page is ordered, newest first, and within the page size."""
    updates = page.info.latest_updates
    if not len(updates):
        yield error(page.key, "the ops log is empty, and begins with how the repository was made")
        return
    unordered = [b for a, b in pairwise(updates) if a.updated_at <= b.updated_at]
    if unordered:
        what = "the times of updates do not increase, and the official library refuses to write"
        yield error(page.key, f"{what}: {len(unordered)} are no younger than those before them")
    backed_up = sum(each.backup_path is not None for each in updates)
    if backed_up > max(num_updates_per_file, 1):
        yield note(page.key, f"it has {len(updates)} updates, {num_updates_per_file} make a page")
    if updates[0].backup_path is not None:
        yield warning(page.key, "its newest update has a backup, which is made by the next one")


def _check_backups(page: Page, existing: Container[str]) -> Problems:
    named = (each.backup_path for each in page.info.latest_updates)
    keys = [f"{BACKUPS}/{name}" for name in named if name is not None]
    lost = [key for key in keys if key not in existing]
    problems = (
        warning(key, f"the backup is gone that {page.key} names in its ops log") for key in lost
    )
    yield from few(problems, len(lost), warning(page.key, "backups of its ops log are gone"))


_ALPHA_BRANCH = re.compile(r"refs/branch[.:](?P<name>[^/]+)")
_DRAFT_BRANCH = re.compile(r"r/(?P<name>[^/]+)")
_V1_BRANCH = re.compile(r"refs/branch\.(?P<name>[^/]+)/ref\.json")
_TAG = re.compile(r"refs/tag[.:](?P<name>[^/]+)/ref\.json|r/(?P<draft>[^/]+)\.json")
_TOMBSTONE = ".deleted"


@dataclass(frozen=True, slots=True)
class Tip:
    """Ref with the snapshot it points to."""

    kind: str
    name: str
    key: str
    """Key of the object that records this."""
    snapshot_id: SnapshotId

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


@dataclass(frozen=True, slots=True)
class FoundRefs:
    """Refs of a repository."""

    branches: tuple[Tip, ...] = ()
    tags: tuple[Tip, ...] = ()
    deleted_tags: tuple[Tip, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def tips(self) -> tuple[Tip, ...]:
        """Refs that keep snapshots reachable."""
        return (*self.branches, *self.tags)


@dataclass(frozen=True, slots=True)
class RefFilePlan:
    """Ref files of a repository before V2, found by their keys."""

    branches: Mapping[str, Sequence[str]]
    """Files of each branch, oldest first; one in V1. Names are spelled as in the keys."""
    tags: Mapping[str, str]
    deleted_tags: Mapping[str, str]
    problems: tuple[Problem, ...] = ()


def refs_of(info: RepoInfo) -> FoundRefs:
    """Return the refs of a V2 repository."""
    return FoundRefs(
        tuple(Tip("branch", name, REPO, id) for name, id in info.branches.items()),
        tuple(Tip("tag", name, REPO, id) for name, id in info.tags.items()),
        problems=tuple(_check_repo_info_refs(info)),
    )


def _check_repo_info_refs(info: RepoInfo) -> Problems:
    if MAIN not in info.branches:
        yield error(REPO, f"there is no branch {MAIN!r}, which every repository has")
    for name in sorted(info.deleted_tags & info.tags.keys()):
        yield error(REPO, f"the tag {name!r} was deleted, and is there")


def list_ref_files(storage: Storage) -> Iterator[ObjectInfo]:
    """List all objects in the ref folders of the generations before V2."""
    return chain(storage.list("refs/"), storage.list("r/"))


def plan_ref_files(keys: Iterable[str]) -> RefFilePlan:
    """Find the ref files among keys, in the generations before V2."""
    known = set(keys)
    files = [file for file in map(SequenceFile.find, known) if file is not None]
    sequences: dict[str, list[SequenceFile]] = defaultdict(list)
    for file in sorted(files, key=lambda each: each.number):
        sequences[file.folder].append(file)
    branches = {
        match["name"]: [file.key for file in sequence]
        for folder, sequence in sequences.items()
        if (match := _ALPHA_BRANCH.fullmatch(folder) or _DRAFT_BRANCH.fullmatch(folder))
    }
    single = {match["name"]: [match[0]] for match in map(_V1_BRANCH.fullmatch, known) if match}
    tags = {m["name"] or m["draft"]: m[0] for m in map(_TAG.fullmatch, known) if m}
    deleted = {name: key for name, key in tags.items() if key + _TOMBSTONE in known}
    return RefFilePlan(
        {**branches, **single},
        {name: key for name, key in tags.items() if name not in deleted},
        deleted,
        tuple(_check_sequences(sequences, {**branches, **single})),
    )


def _check_sequences(
    sequences: Mapping[str, Sequence[SequenceFile]], branches: Mapping[str, object]
) -> Problems:
    if MAIN not in branches:
        yield error("refs/", f"there is no branch {MAIN!r}, which every repository has")
    for folder, sequence in sequences.items():
        missing = sorted(set(range(sequence[-1].number)) - {each.number for each in sequence})
        if missing:
            listed = ", ".join(map(str, missing[:5])) + ("…" if len(missing) > 5 else "")
            yield warning(folder, f"moves of the branch are missing in its sequence: {listed}")


def read_ref_files(storage: Storage, plan: RefFilePlan) -> FoundRefs:
    """Read the refs of a repository before V2."""
    problems = list(plan.problems)
    read = _Reader(storage, problems)
    newest = {name: keys[-1] for name, keys in plan.branches.items()}
    return FoundRefs(
        read.tips("branch", newest),
        read.tips("tag", plan.tags),
        read.tips("deleted tag", plan.deleted_tags),
        tuple(problems),
    )


class _Reader:
    """Reader of ref files that collects their problems."""

    def __init__(self, storage: Storage, problems: list[Problem]) -> None:
        self._get = storage.get
        self._spelling = RefSpelling(storage.has_encoded_names)
        self._problems = problems

    def tips(self, kind: str, keys: Mapping[str, str]) -> tuple[Tip, ...]:
        found = {spelled: self.find(key) for spelled, key in sorted(keys.items())}
        return tuple(
            Tip(kind, self._spelling.read(spelled), keys[spelled], id)
            for spelled, id in found.items()
            if id is not None
        )

    def find(self, key: str) -> SnapshotId | None:
        try:
            return decode_ref_file(key, self._get(key)).snapshot_id
        except FormatError as failure:
            self._problems.append(error(key, f"it says no snapshot: {failure.message}"))
        except ObjectNotFoundError:
            pass  # deleted since it was listed
        return None


DEFAULT_PAGE = resolve_config(RepositoryConfig()).num_updates_per_repo_info_file


def check_repo_file(data: bytes, decoded: Decoded[RepoInfo]) -> Problems:
    """Check header, order and values of the repo info; raises FormatError if a part is damaged."""
    info = decoded.value
    yield from check_header(decoded.header, REPO, Dialect.V2)
    if info.spec_version != 2:
        yield error(REPO, f"it says that it is of version {info.spec_version}, and it is of 2")
    _, payload = decode_file(data, FileType.REPO_INFO)
    for name in find_unordered_in_repo_info(payload):
        yield error(REPO, f"{name} is not in order, and readers that search miss some")
    for flags in (info.enabled_feature_flags, info.disabled_feature_flags):
        if flags is not None and not is_ascending(flags):
            yield error(REPO, "feature flags are not in order")
    both = set(info.enabled_feature_flags or ()) & set(info.disabled_feature_flags or ())
    for flag in sorted(both):
        yield error(REPO, f"the feature flag {flag} is both enabled and disabled")
    yield from _check_values(info)


def _check_values(info: RepoInfo) -> Problems:
    """Check the values that are decoded lazily."""
    try:
        dict(info.metadata)
    except FormatError as failure:
        yield error(REPO, f"the repository's metadata can't be read: {failure.message}")
    for snapshot in info.snapshots.values():
        try:
            dict(snapshot.metadata)
        except FormatError as failure:
            what = f"the metadata of snapshot {snapshot.id} can't be read: {failure.message}"
            yield error(REPO, what)


def check_config(tree: Mapping[str, JsonValue] | None, key: str) -> Problems:
    """Check that a saved configuration is valid."""
    try:
        if tree is not None:
            resolve_config(decode_config(dict(tree)))
    except (IcechunkError, ValueError, TypeError) as failure:
        yield error(key, f"the saved configuration can't be used: {failure}")


def find_page_size(tree: Mapping[str, JsonValue] | None) -> int:
    """Return the page size of the ops log from a saved configuration, or its default."""
    size = None if tree is None else tree.get("num_updates_per_repo_info_file")
    return size if isinstance(size, int) else DEFAULT_PAGE


@dataclass(frozen=True, slots=True)
class Base:
    """Facts about a repository that a check starts from: refs, history, ops log, configuration."""

    refs: FoundRefs
    links: Links = field(default_factory=dict)
    """Links of a V2 repository; older ones record them in their snapshots."""
    listed: Mapping[SnapshotId, SnapshotInfo] = field(default_factory=dict)
    """Snapshots that the repo info lists."""
    ops_log: OpsLog = field(default_factory=lambda: OpsLog(()))
    config: Mapping[str, JsonValue] | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def has_usable_config(self) -> bool:
        """Return whether the saved configuration is valid, so that its containers are known."""
        return not any(check_config(self.config, CONFIG_KEY))


class UnreadableRepoError(Exception):
    """The object `repo` is damaged, so that a check can't start."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def read_base(protocol: CommitProtocol, assets: Assets) -> Base:
    """Read refs, history and configuration; raises UnreadableRepoError."""
    if protocol.has_repo_info:
        return _read_repo_info(assets.storage)
    plan = plan_ref_files(info.key for info in list_ref_files(assets.storage))
    refs = read_ref_files(assets.storage, plan)
    config, problems = _read_config(protocol.read_config, CONFIG_KEY)
    return Base(refs, config=config, problems=(*refs.problems, *problems))


def _read_repo_info(storage: Storage) -> Base:
    data = bytes(storage.get(REPO))
    try:
        decoded = decode_repo_info(data)
        info = decoded.value
        problems = list(check_repo_file(data, decoded))
        snapshots = [each.load() for each in info.snapshots.values()]
        log = read_pages(info, lambda name: _find_backup(storage, name))
        for update in info.latest_updates:
            update.load()
    except FormatError as failure:
        what = f"it can't be read: {failure.message}"
        raise UnreadableRepoError(error(REPO, what, Repair.RESTORE_REPO)) from failure
    config, config_problems = _read_config(lambda: _config_of(info), REPO)
    refs = refs_of(info)
    return Base(
        refs,
        {s.id: Link(REPO, s.id, s.parent_id, s.flushed_at) for s in snapshots},
        {each.id: each for each in snapshots},
        log,
        config,
        (*refs.problems, *problems, *config_problems),
    )


def _find_backup(storage: Storage, name: str) -> RepoInfo | None:
    try:
        data = storage.get(f"{BACKUPS}/{name}")
    except ObjectNotFoundError:
        return None
    info = decode_repo_info(bytes(data)).value
    list(info.latest_updates)
    return info


def _config_of(info: RepoInfo) -> dict[str, JsonValue] | None:
    tree = None if info.config is None else info.config.get()
    if tree is not None and not isinstance(tree, dict):
        raise FormatError("the configuration is not a map", kind="config-deserialization")
    return tree


def _read_config(
    read: Callable[[], dict[str, JsonValue] | None], key: str
) -> tuple[Mapping[str, JsonValue] | None, Iterable[Problem]]:
    try:
        config = read()
    except IcechunkError as failure:
        return None, [error(key, f"the saved configuration can't be read: {failure.message}")]
    return config, list(check_config(config, key))
