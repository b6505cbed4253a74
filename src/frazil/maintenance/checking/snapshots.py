"""Snapshot files: pure checks of what one says, and what it refers to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise

from frazil.errors import FormatError
from frazil.format.coordinates import Extents
from frazil.format.dialect import Decoded, Dialect
from frazil.format.files import decode_snapshot
from frazil.format.header import Compression, Header
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.paths import byte_order, segment_order
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import ManifestFileInfo, Node, Snapshot
from frazil.format.v2.orders import is_ascending
from frazil.maintenance.checking.nodes import check_nodes, has_extents
from frazil.maintenance.checking.problems import Problem, Problems, error, note, warning
from frazil.protocols.clock import MICROSECOND
from frazil.protocols.history import has_history


@dataclass(frozen=True, slots=True)
class Use:
    """What a snapshot expects of a manifest for one array."""

    node_id: NodeId
    axes: int
    extents: Extents | None
    """None where a dialect has none."""


Uses = Mapping[ManifestId, Mapping[Use, str]]
"""With the path of the array, for people."""


@dataclass(frozen=True, slots=True)
class EncodedArray:
    """What is needed of an array to decode its chunks."""

    path: str
    user_data: bytes
    num_chunks: tuple[int, ...]

    @classmethod
    def find(cls, node: Node) -> "EncodedArray | None":
        """Of a node, if it is an array."""
        if node.array is None:
            return None
        return cls(node.path, node.user_data, tuple(each.num_chunks for each in node.array.shape))


@dataclass(frozen=True, slots=True)
class SnapshotFindings:
    """A snapshot file without what need not be remembered."""

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
    """Look at a snapshot file of a repository in a dialect; raises FormatError for a damaged one.

    `listed` is what the repo info says of it.
    """
    decoded = decode_snapshot(data)
    snapshot = decoded.value
    nodes = dict(snapshot.nodes)
    problems = chain(
        check_header(decoded.header, key, dialect),
        _check_identity(decoded, id, key),
        _check_order(snapshot, key, decoded.dialect),
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
    """Whether a file's header goes with its repository and with all readers."""
    if header is None:
        return
    if header.compression is Compression.NONE:
        yield warning(key, "it is not compressed, and the official library reads no such file")
    if header.spec_version > (2 if dialect is Dialect.V2 else 1):
        yield error(key, f"it is of version {header.spec_version}, the repository is of version 1")


def _check_identity(decoded: Decoded[Snapshot], id: SnapshotId, key: str) -> Problems:
    snapshot = decoded.value
    # The first alphas and the draft keep the first snapshot under a name of its own.
    is_first = snapshot.history is not None and not snapshot.history.short_term_history
    if snapshot.id != id and not (is_first and has_history(decoded.dialect)):
        yield error(key, f"the snapshot in it is {snapshot.id}")
    if decoded.dialect is Dialect.V2 and snapshot.parent_id is not None:
        yield warning(key, "it names a parent, which in V2 only the repo info does")


def _check_order(snapshot: Snapshot, key: str, dialect: Dialect) -> Problems:
    paths = list(snapshot.nodes)
    if dialect not in (Dialect.V1, Dialect.V2) or is_ascending(paths, byte_order):
        return
    if dialect is Dialect.V1 and is_ascending(paths, segment_order):
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
    if dialect in (Dialect.V1, Dialect.V2) and not is_ordered:
        yield error(key, "the list of its manifest files is not in order")
    for node in snapshot.nodes.values():
        for ref in node.array.manifests if node.array is not None else ():
            if ref.id not in listed:
                what = (
                    f"manifest {ref.id} is not in the list of manifest files, and garbage to some"
                )
                yield error(key, what, path=node.path)


def collect_uses(nodes: Iterable[Node], dialect: Dialect) -> Uses:
    """What the arrays of a snapshot expect of manifests."""
    uses: dict[ManifestId, dict[Use, str]] = {}
    for node in nodes:
        if node.array is None:
            continue
        axes = len(node.array.shape)
        for ref in node.array.manifests:
            extents = ref.extents if has_extents(dialect) else None
            uses.setdefault(ref.id, {})[Use(node.id, axes, extents)] = node.path
    return uses


def damaged(key: str, failure: FormatError, what: str) -> Problem:
    """The problem of a file that can't be decoded."""
    return error(key, f"the {what} can't be read: {failure.message}")
