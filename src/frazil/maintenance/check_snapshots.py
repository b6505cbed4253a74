"""Check snapshots, their nodes, and transaction logs. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import chain, pairwise

from frazil.errors import FormatError, InvalidInputError
from frazil.format.coordinates import Extents
from frazil.format.files import decode_snapshot, decode_transaction_log
from frazil.format.header import Compression, Decoded, Dialect, FileType, Header, decode_file
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.paths import ROOT, byte_order, parent_path, segment_order
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import (
    ArrayData,
    ManifestFileInfo,
    ManifestRef,
    Node,
    Snapshot,
    TransactionLog,
)
from frazil.format.v2.schema import find_unordered_in_log, is_ascending
from frazil.maintenance.findings import Problem, Problems, Repair, error, note, warning
from frazil.protocols.protocol import MICROSECOND
from frazil.repository.zarr_keys import read_node_metadata

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


# Extents


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
        yield from ((each, ref) for each in active if _overlap(each.extents, ref.extents))
        active.append(ref)


def _overlap(a: Extents, b: Extents) -> bool:
    return all(x[0] < y[1] and y[0] < x[1] for x, y in zip(a, b, strict=True))


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
    return (
        *check_header(decoded.header, key, dialect),
        *_check_contents(decoded, id, key, is_first=is_first),
        *_check_log_order(data, decoded.dialect, key),
    )


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
