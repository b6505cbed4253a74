"""A repository of any generation read file by file, with nothing but the format layer.

This is not how the product opens a repository; it is the shortest way from a folder to the values of
its files, for tests that compare those with what is known about the folder.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from frazil.format.chunk_table import ChunkRef, InlineRef, NativeRef, VirtualRef
from frazil.format.files import (
    decode_manifest,
    decode_repo_info,
    decode_snapshot,
    decode_transaction_log,
)
from frazil.format.header import Decoded
from frazil.format.ids import SnapshotId, decode_sequence
from frazil.format.manifest import Manifest
from frazil.format.refs import decode_ref
from frazil.format.repo_info import RepoInfo, Update
from frazil.format.snapshot import ArrayData, Node, Snapshot
from frazil.format.transaction_log import TransactionLog


@dataclass(frozen=True)
class FileReader:
    """The files of one repository in a folder."""

    root: Path

    @property
    def is_draft(self) -> bool:
        return (self.root / "r").is_dir()

    @cached_property
    def repo_info(self) -> RepoInfo | None:
        path = self.root / "repo"
        return decode_repo_info(path.read_bytes()).value if path.exists() else None

    # Refs

    def branches(self) -> dict[str, SnapshotId]:
        if self.repo_info:
            return dict(self.repo_info.branches)
        if self.is_draft:
            folders = [path for path in (self.root / "r").iterdir() if path.is_dir()]
            return {folder.name: _newest(folder) for folder in folders}
        folders = list((self.root / "refs").glob("branch[.:]*"))
        return {folder.name[7:]: _newest(folder) for folder in folders if any(folder.iterdir())}

    def tags(self) -> dict[str, SnapshotId]:
        if self.repo_info:
            return dict(self.repo_info.tags)
        if self.is_draft:
            files = (self.root / "r").glob("*.json")
            return {file.stem: decode_ref(file.read_bytes()).snapshot_id for file in files}
        return {
            folder.name[4:]: _newest(folder)
            for folder in (self.root / "refs").glob("tag[.:]*")
            if not (folder / "ref.json.deleted").exists()
        }

    # Files

    def snapshot_ids(self) -> set[str]:
        folder = "s" if self.is_draft else "snapshots"
        return {path.name.removesuffix(".json") for path in (self.root / folder).iterdir()}

    def snapshot(self, snapshot_id: str) -> Decoded[Snapshot]:
        path = f"s/{snapshot_id}.json" if self.is_draft else f"snapshots/{snapshot_id}"
        return decode_snapshot((self.root / path).read_bytes())

    def manifest(self, manifest_id: str) -> Decoded[Manifest]:
        path = f"m/{manifest_id}.json" if self.is_draft else f"manifests/{manifest_id}"
        return decode_manifest((self.root / path).read_bytes())

    def find_transaction_log(self, snapshot_id: str) -> Decoded[TransactionLog] | None:
        path = self.root / "transactions" / snapshot_id
        if not path.exists():
            return None
        return decode_transaction_log(path.read_bytes(), SnapshotId.parse(snapshot_id))

    def ops_log(self) -> Iterator[Update]:
        """Newest first, through all pages; a page's newest entry is backed up by the page itself."""
        info, name = self.repo_info, None
        while info is not None:
            for update in info.latest_updates:
                yield update if update.backup_path else Update(update.kind, update.updated_at, name)
            name = info.repo_before_updates
            path = self.root / "overwritten" / (name or "none")
            info = decode_repo_info(path.read_bytes()).value if path.exists() else None

    # Derived

    def parent_of(self, snapshot_id: str) -> str | None:
        if self.repo_info:
            info = self.repo_info.snapshots.get(SnapshotId.parse(snapshot_id))
            parent = info.parent_id if info else None
        else:
            parent = self.snapshot(snapshot_id).value.parent_id
        return None if parent is None else str(parent)

    def references(self, node: Node) -> dict[tuple[int, ...], ChunkRef]:
        """All chunk references of an array inside its grid."""
        assert node.array is not None
        found: dict[tuple[int, ...], ChunkRef] = {}
        for ref in node.array.manifests:
            manifest = self.manifest(str(ref.id)).value
            rows = manifest.table(node.id, len(node.array.shape)).refs()
            found |= {key: row for key, row in rows.items() if _is_inside(key, node.array)}
        return found

    def chunk_bytes(self, ref: ChunkRef, virtual: Path, virtual_url_prefix: str) -> bytes:
        """The bytes that a reference stands for."""
        match ref:
            case InlineRef():
                return ref.data
            case NativeRef():
                data = (
                    self.root / ("c" if self.is_draft else "chunks") / str(ref.chunk_id)
                ).read_bytes()
            case VirtualRef():
                location = ref.location.replace("vcc://local/", virtual_url_prefix)
                assert location.startswith(virtual_url_prefix), ref.location
                data = (virtual / location.removeprefix(virtual_url_prefix)).read_bytes()
        return data[ref.offset : ref.offset + ref.length]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _newest(folder: Path) -> SnapshotId:
    files = [file for file in folder.iterdir() if file.suffix == ".json"]
    if len(files) > 1:
        files.sort(key=lambda file: decode_sequence(file.stem), reverse=True)
    return decode_ref(files[0].read_bytes()).snapshot_id


def _is_inside(key: tuple[int, ...], array: ArrayData) -> bool:
    return all(
        index < max(dimension.num_chunks, 1)
        for index, dimension in zip(key, array.shape, strict=True)
    )
