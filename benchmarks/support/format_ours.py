"""What `benchmarks/format.py` measures of ours: one workload a process."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.measuring import Figures, answer, timed
from frazil.format.files import (
    decode_manifest,
    encode_manifest,
    encode_repo_info,
    encode_snapshot,
    encode_transaction_log,
)
from frazil.format.header import Dialect
from frazil.format.ids import FIRST_SNAPSHOT_ID, ManifestId, NodeId
from frazil.format.manifest import ChunkKind, ChunkTable, Manifest, constant_column, no_chunk_ids
from frazil.format.metadata import encode_json
from frazil.format.ragged import Strings
from frazil.format.repo_info import RepoInfo, RepoInitialized, RepoStatus, SnapshotInfo, Update
from frazil.format.snapshot import (
    ArrayData,
    Dimension,
    ManifestFileInfo,
    ManifestRef,
    Node,
    Snapshot,
    TransactionLog,
)

NODE_ID = NodeId(b"referenc")
MANIFEST_ID = ManifestId(b"twelve bytes")
FILES = 10_000
INLINE_BYTES = 40


def grid(references: int) -> tuple[int, int, int]:
    """The shape of a chunk grid with so many chunks."""
    return references // 100, 10, 10


def location(file: int) -> str:
    """The name of a source file."""
    return f"s3://archive/model/2024/{file % 12:02}/run_{file:08}/surface_temperature.nc"


def make_table(kind: str, references: int) -> ChunkTable:
    """References of a kind: `virtual` in few files, `distinct` each in its own, and so on."""
    random = np.random.default_rng(7)
    kinds = {"virtual": ChunkKind.VIRTUAL, "distinct": ChunkKind.VIRTUAL,
             "native": ChunkKind.NATIVE, "inline": ChunkKind.INLINE}  # fmt: skip
    files = references if kind == "distinct" else min(FILES, references)
    file = (np.arange(references) * files // references).astype(np.int32)
    offset = (np.arange(references) % 100 * 40_000 + random.integers(0, 999, references)).astype(
        "u8"
    )
    length = random.integers(30_000, 40_000, references).astype(np.uint64)
    if kind == "mixed":
        column = random.choice(np.array(list(ChunkKind), np.uint8), references)
    else:
        column = np.full(references, kinds[kind], np.uint8)
    virtual, native, inline = (column == k for k in (2, 1, 3))
    ids = random.integers(0, 256, (references, 12), dtype=np.uint8)
    starts = (np.cumsum(inline) - 1) * INLINE_BYTES
    return ChunkTable(
        coordinates=_coordinates(references),
        kind=column,
        offset=np.where(inline, starts, np.where(native, 0, offset)).astype(np.uint64),
        length=np.where(inline, INLINE_BYTES, length).astype(np.uint64),
        chunk_id=np.where(native[:, None], ids, 0) if native.any() else no_chunk_ids(references),
        location=np.where(virtual, file, -1).astype(np.int32),
        etag=constant_column(-1, references, np.int32),
        last_modified=np.where(virtual, 1_700_000_000, 0).astype(np.uint32),
        extra=constant_column(-1, references, np.int32),
        locations=Strings.of(map(location, range(files if virtual.any() else 0))),
        inline=random.integers(0, 30, int(inline.sum()) * INLINE_BYTES, dtype=np.uint8),
    )


def _coordinates(references: int) -> NDArray[np.uint32]:
    return np.indices(grid(references), np.uint32).reshape(3, -1).T.copy()


def encode(kind: str, references: int, folder: str) -> Figures:
    """Encode a manifest, and put it into a repository that the official library opens."""
    manifest = Manifest(MANIFEST_ID, {NODE_ID: make_table(kind, references)})
    data, figures = timed(lambda: encode_manifest(manifest, Dialect.V2))
    _write_repository(Path(folder), data, manifest.tables()[NODE_ID])
    return {**figures, "file_bytes": len(data)}


def decode(folder: str) -> Figures:
    """Read a manifest file and decode all of it."""
    table, figures = timed(lambda: _read_manifest(folder).tables()[NODE_ID])
    return {**figures, "table_bytes": table.nbytes - table.locations.nbytes - table.inline.nbytes}


def decode_foreign(folder: str) -> Figures:
    """The same for a file that the official library wrote."""

    def work() -> list[ChunkTable]:
        return list(_read_manifest(folder).tables().values())

    _, figures = timed(work)
    return figures


def look_up(folder: str, references: int) -> Figures:
    """Read a manifest file and find one chunk."""
    wanted = (grid(references)[0] // 2, 3, 7)
    ref, figures = timed(lambda: next(iter(_read_manifest(folder).arrays.values())).find(wanted))
    assert ref is not None
    return figures


def _read_manifest(folder: str) -> Manifest:
    files = (Path(folder) / "manifests").iterdir()
    largest = max(files, key=lambda file: file.stat().st_size)
    return decode_manifest(largest.read_bytes()).value


def _write_repository(root: Path, manifest: bytes, table: ChunkTable) -> None:
    shape = grid(len(table))
    zarr_json = encode_json(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": "float32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1, 1]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": {},
        }
    )
    array = ArrayData(
        shape=tuple(Dimension(length, length) for length in shape),
        manifests=(ManifestRef(MANIFEST_ID, table.extents()),),
    )
    root_json = encode_json({"zarr_format": 3, "node_type": "group", "attributes": {}})
    nodes = [Node(NodeId(b"rootroot"), "/", root_json), Node(NODE_ID, "/a", zarr_json, array)]
    snapshot = Snapshot(
        id=FIRST_SNAPSHOT_ID,
        parent_id=None,
        flushed_at=1_700_000_000_000_000_000,
        message="references",
        nodes={node.path: node for node in nodes},
        manifest_files=(ManifestFileInfo(MANIFEST_ID, len(manifest), len(table)),),
    )
    info = RepoInfo(
        branches={"main": snapshot.id},
        tags={},
        deleted_tags=frozenset(),
        snapshots={
            snapshot.id: SnapshotInfo(snapshot.id, None, snapshot.flushed_at, snapshot.message)
        },
        status=RepoStatus(),
        latest_updates=(Update(RepoInitialized(), snapshot.flushed_at),),
    )
    files = {
        f"manifests/{MANIFEST_ID}": manifest,
        f"snapshots/{snapshot.id}": encode_snapshot(snapshot, Dialect.V2),
        f"transactions/{snapshot.id}": encode_transaction_log(
            TransactionLog(snapshot.id), Dialect.V2
        ),
        "repo": encode_repo_info(info),
    }
    for key, data in files.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    answer(
        {"encode": encode, "decode": decode, "decode_foreign": decode_foreign, "look_up": look_up}
    )
