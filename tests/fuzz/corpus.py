"""The files that are damaged: all metadata of all repositories of the test data, and larger ones."""

import random
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np

from frazil.format.files import (
    decode_repo_info,
    encode_manifest,
    encode_repo_info,
    encode_snapshot,
    encode_transaction_log,
)
from frazil.format.header import Dialect, FileType, Header, encode_file
from frazil.format.ids import ChunkId, ManifestId, NodeId, SnapshotId
from frazil.format.manifest import (
    ChunkRef,
    ChunkTable,
    ETag,
    InlineRef,
    LastModified,
    Manifest,
    NativeRef,
    VirtualRef,
)
from frazil.format.metadata import Metadata, encode_flexbuffers, encode_messagepack
from frazil.format.repo_info import RepoInfo, SnapshotInfo
from frazil.format.snapshot import (
    ArrayData,
    Dimension,
    ManifestFileInfo,
    ManifestRef,
    Move,
    Node,
    NodeType,
    Snapshot,
    TransactionLog,
    nodes_by_path,
)
from tests.generations import ARCHIVE
from tests.strategies.foreign import ForeignWriter, Rows

SNAPSHOT, MANIFEST, TRANSACTION_LOG, REPO_INFO = (
    "snapshot",
    "manifest",
    "transaction-log",
    "repo-info",
)
REF, CONFIG, FLEXBUFFERS, MESSAGEPACK = "ref file", "config.yaml", "FlexBuffers", "MessagePack"

# The folder of a file says what it is; the draft has folders of one letter.
_KIND_OF_FOLDER = {
    "snapshots": SNAPSHOT,
    "s": SNAPSHOT,
    "manifests": MANIFEST,
    "m": MANIFEST,
    "transactions": TRANSACTION_LOG,
    "refs": REF,
    "r": REF,
}
_KIND_OF_NAME = {"repo": REPO_INFO, "config": CONFIG}


@dataclass(frozen=True, slots=True)
class Seed:
    """An honest file: what it is, where it comes from, its bytes."""

    kind: str
    origin: str
    data: bytes


Corpus = dict[tuple[str, str], list[Seed]]
"""Seeds by kind and origin, so that each combination is as likely as any other."""


def read_corpus() -> Corpus:
    """All seeds; the same ones every time."""
    corpus: Corpus = {}
    for seed in (*_stored_files(), *_made_files()):
        corpus.setdefault((seed.kind, seed.origin), []).append(seed)
    return corpus


def _stored_files() -> Iterator[Seed]:
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            parts = PurePosixPath(member.name).parts
            kind = _find_kind(parts)
            content = archive.extractfile(member) if member.isfile() and kind else None
            # The mark of a deleted tag is an empty file, which nobody decodes.
            if kind and content and member.size:
                yield Seed(kind, parts[0], content.read())


def _find_kind(parts: tuple[str, ...]) -> str | None:
    if len(parts) < 3 or parts[1] != "repo":
        return None
    if len(parts) == 3 or parts[2] == "overwritten":
        return _KIND_OF_NAME.get(parts[-1].split(".")[0])
    return _KIND_OF_FOLDER.get(parts[2])


def _made_files() -> Iterator[Seed]:
    for dialect in (Dialect.V1, Dialect.V2):
        origin = f"made {dialect.name}"
        yield Seed(SNAPSHOT, origin, encode_snapshot(_make_snapshot(dialect), dialect))
        yield Seed(MANIFEST, origin, encode_manifest(_make_manifest(), dialect))
        yield Seed(TRANSACTION_LOG, origin, encode_transaction_log(_make_log(dialect), dialect))
    yield Seed(REPO_INFO, "made V2", encode_repo_info(_make_repo_info()))
    foreign = ForeignWriter(random.Random(1)).manifest(ManifestId(bytes(12)), _make_rows())
    header = Header("another writer", 2, FileType.MANIFEST)
    yield Seed(MANIFEST, "foreign", encode_file(header, [foreign]))
    for origin in ("made V1", "made V2", "foreign"):  # as likely as files of three repositories
        yield Seed(FLEXBUFFERS, origin, encode_flexbuffers(_TREE))
        yield Seed(MESSAGEPACK, origin, encode_messagepack(_TREE))


_TREE = {
    "null": None,
    "flags": [True, False],
    "numbers": [0, 255, -129, 65536, 2**40, 2**64 - 1, -(2**63), 0.5, 1e300],
    "texts": ["", "a", "glaçon ❄", "x" * 300],
    "deep": [[[[{"a": {"b": [{}, [], [1, [2, [3]]]]}}]]]],
    "é": {str(number): number for number in range(40)},
}


def _make_manifest() -> Manifest:
    """Enough locations that they are compressed, and all kinds of references mixed."""
    virtual: dict[tuple[int, ...], ChunkRef] = {
        (index // 50, index % 50): VirtualRef(
            f"s3://bucket/folder/file-{index % 1100:05}.nc",
            index * 1000,
            1000,
            (None, ETag(f"tag-{index % 7}"), LastModified(1_700_000_000 + index))[index % 3],
        )
        for index in range(1200)
    }
    rows = {
        node_id: ChunkTable.of(3, {index: ref for index, (ref, _) in refs.items()})
        for node_id, refs in _make_rows().items()
    }
    table = ChunkTable.of(2, virtual)
    extras = replace(table, extra=np.arange(1200, dtype=np.int32) % 3 - 1, extras=(b"one", b"two"))
    arrays = {NodeId(b"virtual."): extras, **rows}
    return Manifest(ManifestId(b"manifest-id."), arrays, b"extra", {NodeId(b"virtual."): b"more"})


def _make_rows() -> dict[NodeId, Rows]:
    kinds = (
        NativeRef(ChunkId(b"chunk-id-one"), 0, 10),
        InlineRef(b"inline bytes"),
        VirtualRef("s3://bucket/one.nc", 5, 6, ETag("tag")),
        VirtualRef("s3://bucket/two.nc", 7, 8, LastModified(9)),
        NativeRef(ChunkId(b"chunk-id-two"), 2**40, 2**33),
        InlineRef(b""),
    )
    rows: Rows = {
        (index // 9, index // 3 % 3, index % 3): (kinds[index % 6], b"x" if index % 5 else None)
        for index in range(54)
    }
    return {NodeId(b"mixed..."): rows}


def _make_snapshot(dialect: Dialect) -> Snapshot:
    """Enough nodes that they are decoded one by one."""
    manifest_id = ManifestId(b"manifest-id.")
    array = ArrayData(
        shape=(Dimension(100, 10, 10), Dimension(7, 2, 4)),
        dimension_names=("x", None),
        manifests=(ManifestRef(manifest_id, ((0, 5), (0, 2))),),
    )
    nodes = [Node(NodeId(b"rootroot"), "/", b'{"node_type":"group"}')]
    for number in range(80):
        kind = array if number % 2 else None
        node_id = NodeId.from_number(number)
        nodes.append(Node(node_id, f"/group-{number}", b'{"zarr_format":3}', kind, b"x"))
    return Snapshot(
        id=SnapshotId(b"snapshot-id."),
        parent_id=SnapshotId(b"parent-id...") if dialect is Dialect.V1 else None,
        flushed_at=1_700_000_000 * 10**9,
        message="a message",
        metadata=Metadata(_TREE),
        nodes=nodes_by_path(nodes),
        manifest_files=(ManifestFileInfo(manifest_id, 1000, 100),),
    )


def _make_log(dialect: Dialect) -> TransactionLog:
    ids = [NodeId.from_number(number) for number in range(12)]
    grid = np.stack(np.meshgrid(*[np.arange(8, dtype=np.uint32)] * 3, indexing="ij"), axis=-1)
    moves = (Move("/a", "/b", ids[0], NodeType.ARRAY), Move("/c/d", "/e", ids[1]))
    return TransactionLog(
        id=SnapshotId(b"snapshot-id."),
        new_groups=frozenset(ids[:3]),
        new_arrays=frozenset(ids[3:6]),
        deleted_arrays=frozenset(ids[6:7]),
        updated_arrays=frozenset(ids[7:9]),
        updated_groups=frozenset(ids[9:]),
        updated_chunks={ids[0]: grid.reshape(-1, 3), ids[1]: np.array([[0], [5]], np.uint32)},
        moves=moves if dialect is Dialect.V2 else (),
    )


def _make_repo_info() -> RepoInfo:
    """A long history on top of a stored repository's, which has entries of many types."""
    stored = [seed for seed in _stored_files() if seed.kind == REPO_INFO]
    info = decode_repo_info(max(stored, key=lambda seed: len(seed.data)).data).value
    snapshots = dict(info.snapshots)
    parent = next(iter(snapshots))
    for number in range(60):
        id_ = SnapshotId(number.to_bytes(12, "big"))
        metadata = Metadata({"number": number, "deep": {"list": [number, str(number)]}})
        snapshots[id_] = SnapshotInfo(id_, parent, number * 1000, f"commit {number}", metadata)
        parent = id_
    return replace(info, snapshots=snapshots, branches={**info.branches, "long": parent})
