"""Repositories of the draft and the alphas: every file decoded, beside what is expected of it."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frazil.format import alpha, draft
from frazil.format.coordinates import contains
from frazil.format.header import Decoded, Dialect
from frazil.format.ids import ManifestId, SnapshotId
from frazil.format.manifest import (
    ChunkRef,
    ETag,
    InlineRef,
    LastModified,
    Manifest,
    NativeRef,
    VirtualRef,
)
from frazil.format.metadata import encode_rfc3339
from frazil.format.snapshot import Node, Snapshot, TransactionLog
from tests.generations import REPOSITORY_NAMES

ALPHA_NAMES = [name for name in REPOSITORY_NAMES if name.startswith("alpha")]
DRAFT_NAMES = [name for name in REPOSITORY_NAMES if name.startswith("draft")]

_WITHOUT_CHECKSUMS = {Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_B}
_KINDS = {NativeRef: "native", VirtualRef: "virtual", InlineRef: "inline"}


@dataclass(frozen=True)
class LegacyRepository:
    """All metadata files of a repository, by the ids that they are named after."""

    expected: dict[str, Any]
    snapshots: Mapping[SnapshotId, Decoded[Snapshot]]
    manifests: Mapping[ManifestId, Decoded[Manifest]]
    transaction_logs: Mapping[SnapshotId, Decoded[TransactionLog]]

    @property
    def dialect(self) -> Dialect:
        """The newest dialect among all files."""
        files = [
            *self.snapshots.values(),
            *self.manifests.values(),
            *self.transaction_logs.values(),
        ]
        order = list(Dialect)
        return max((file.dialect for file in files), key=order.index)


def read_alpha(folder: Path) -> LegacyRepository:
    """Decode every file of an alpha repository."""
    return LegacyRepository(
        expected=json.loads((folder / "expected.json").read_bytes()),
        snapshots={
            SnapshotId.parse(path.name): alpha.decode_snapshot(path.read_bytes())
            for path in files_in(folder, "snapshots")
        },
        manifests={
            ManifestId.parse(path.name): alpha.decode_manifest(path.read_bytes())
            for path in files_in(folder, "manifests")
        },
        transaction_logs={
            id: alpha.decode_transaction_log(path.read_bytes(), id)
            for path in files_in(folder, "transactions")
            for id in [SnapshotId.parse(path.name)]
        },
    )


def read_draft(folder: Path) -> LegacyRepository:
    """Decode every file of a draft repository."""
    return LegacyRepository(
        expected=json.loads((folder / "expected.json").read_bytes()),
        snapshots={
            SnapshotId.parse(path.stem): draft.decode_snapshot(path.read_bytes())
            for path in files_in(folder, "s")
        },
        manifests={
            ManifestId.parse(path.stem): draft.decode_manifest(path.read_bytes())
            for path in files_in(folder, "m")
        },
        transaction_logs={},
    )


def files_in(folder: Path, name: str) -> list[Path]:
    """The files of one kind."""
    return sorted((folder / "repo" / name).glob("*"))


def normalise_zarr_json(document: dict[str, Any]) -> dict[str, Any]:
    """Without the differences between null, empty and absent that the fixtures don't record."""
    optional = ("attributes", "dimension_names", "storage_transformers")
    kept = {k: v for k, v in document.items() if k not in optional or v not in (None, [])}
    for name in ("codecs", "storage_transformers"):
        if name in kept:
            kept[name] = [{k: v for k, v in item.items() if v is not None} for item in kept[name]]
    return kept


def chunks_of(
    node: Node, repository: LegacyRepository
) -> Iterator[tuple[tuple[int, ...], ChunkRef]]:
    """The references of an array, from all manifests that it points to."""
    assert node.array is not None
    for ref in node.array.manifests:
        table = repository.manifests[ref.id].value.table(node.id, len(node.array.shape))
        for coordinates, chunk in table.refs().items():
            if contains(ref.extents, coordinates):
                yield coordinates, chunk


def describe_snapshots(repository: LegacyRepository) -> dict[str, Any]:
    """Decoded snapshots in the words of expected.json, without their nodes."""
    # Before 0.1.0a5 the id inside a first snapshot is not the one that its file is named after.
    name_of = {file.value.id: id for id, file in repository.snapshots.items()}
    return {
        str(id): {
            "parent_id": None
            if file.value.parent_id is None
            else str(name_of.get(file.value.parent_id, file.value.parent_id)),
            "message": file.value.message,
            "written_at": encode_rfc3339(file.value.flushed_at),
            "metadata": dict(file.value.metadata),
        }
        for id, file in repository.snapshots.items()
    }


def describe_node(
    node: Node, repository: LegacyRepository, read_chunk: Callable[[str], bytes]
) -> Any:
    """A decoded node in the words of expected.json, without the array's data."""
    state: dict[str, Any] = {
        "type": "group" if node.array is None else "array",
        "zarr_json": normalise_zarr_json(json.loads(node.user_data)),
    }
    if node.array is not None:
        grid = [dimension.num_chunks for dimension in node.array.shape]
        state["chunks"] = {
            "/".join(map(str, where)): _describe_chunk(chunk, read_chunk)
            for where, chunk in chunks_of(node, repository)
            if all(index < count for index, count in zip(where, grid, strict=True))
        }
    return state


def _describe_chunk(chunk: ChunkRef, read_chunk: Callable[[str], bytes]) -> dict[str, Any]:
    kind = _KINDS[type(chunk)]
    if isinstance(chunk, VirtualRef):
        return {"kind": kind}
    data = chunk.data if isinstance(chunk, InlineRef) else read_chunk(str(chunk.chunk_id))
    if isinstance(chunk, NativeRef):
        data = data[chunk.offset : chunk.offset + chunk.length]
    return {"kind": kind, "length": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def describe_virtual_ref(ref: ChunkRef | None, dialect: Dialect) -> dict[str, Any]:
    """A virtual reference in the words of expected.json; checksums where the dialect has them."""
    assert isinstance(ref, VirtualRef)
    described: dict[str, Any] = {
        "location": ref.location,
        "offset": ref.offset,
        "length": ref.length,
    }
    if dialect not in _WITHOUT_CHECKSUMS:
        checksum = ref.checksum
        described["etag"] = checksum.value if isinstance(checksum, ETag) else None
        described["last_modified"] = (
            checksum.seconds if isinstance(checksum, LastModified) else None
        )
    return described


def assert_reads_as_expected(repository: LegacyRepository, chunk_folder: Path) -> None:
    """Compare every decoded snapshot, node, chunk reference and virtual reference."""
    expected = repository.expected
    members = ("parent_id", "message", "written_at", "metadata")
    assert describe_snapshots(repository) == {
        id: {name: snapshot[name] for name in members}
        for id, snapshot in expected["snapshots"].items()
    }
    for id, file in repository.snapshots.items():
        nodes = expected["snapshots"][str(id)]["nodes"]
        assert file.value.nodes.keys() == nodes.keys()
        for path, node in file.value.nodes.items():
            described = describe_node(
                node, repository, lambda name: (chunk_folder / name).read_bytes()
            )
            assert described == _expected_node(expected["node_states"][nodes[path]]), path
    _assert_virtual_refs(repository)


def _expected_node(state: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {
        name: state[name] for name in ("type", "zarr_json", "chunks") if name in state
    }
    kept["zarr_json"] = normalise_zarr_json(kept["zarr_json"])
    if "chunks" in kept:
        kept["chunks"] = {
            where: {"kind": "virtual"} if chunk["kind"] == "virtual" else chunk
            for where, chunk in kept["chunks"].items()
        }
    return kept


def _assert_virtual_refs(repository: LegacyRepository) -> None:
    expected = repository.expected
    tip = expected.get("virtual_refs_in") or expected["branches"]["main"]
    snapshot = repository.snapshots[SnapshotId.parse(tip)].value
    assert expected["virtual_refs"]
    for path, refs in expected["virtual_refs"].items():
        found = {
            "/".join(map(str, where)): describe_virtual_ref(ref, repository.dialect)
            for where, ref in chunks_of(snapshot.nodes[path], repository)
            if isinstance(ref, VirtualRef)
        }
        without_checksums = repository.dialect in _WITHOUT_CHECKSUMS
        dropped = ("etag", "last_modified") if without_checksums else ()
        assert found == {
            where: {k: v for k, v in ref.items() if k not in dropped} for where, ref in refs.items()
        }
