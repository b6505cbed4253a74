"""A repository on disk, read with Frazil's decoders alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from frazil.format.files import (
    decode_manifest,
    decode_repo_info,
    decode_snapshot,
    decode_transaction_log,
)
from frazil.format.header import Decoded
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.manifest import ChunkRef, InlineRef, Manifest, NativeRef
from frazil.format.repo_info import RepoInfo, SnapshotInfo, Update
from frazil.format.snapshot import Snapshot, TransactionLog
from frazil.format.text_files import decode_config_yaml, decode_ref
from tests.interop.building import make_snapshot_info
from tests.interop.official_library import Container


@dataclass(frozen=True)
class FrazilRepository:
    """What the files of a repository say."""

    root: Path
    virtual: Container

    @property
    def is_v2(self) -> bool:
        """Whether it has a repo info."""
        return (self.root / "repo").exists()

    def snapshot_ids(self) -> list[SnapshotId]:
        """All that have a file."""
        return [SnapshotId.parse(path.name) for path in sorted(self.root.glob("snapshots/*"))]

    def listed_ids(self) -> list[SnapshotId]:
        """All that the official library opens: those of expired snapshots are files only."""
        return list(self.repo_info.snapshots) if self.is_v2 else self.snapshot_ids()

    def manifest_ids(self) -> list[ManifestId]:
        """All that have a file."""
        return [ManifestId.parse(path.name) for path in sorted(self.root.glob("manifests/*"))]

    def logged_ids(self) -> list[SnapshotId]:
        """The snapshots that have a transaction log."""
        return [SnapshotId.parse(path.name) for path in sorted(self.root.glob("transactions/*"))]

    def snapshot(self, id_: SnapshotId) -> Decoded[Snapshot]:
        """A snapshot file."""
        return decode_snapshot((self.root / "snapshots" / str(id_)).read_bytes())

    def manifest(self, id_: ManifestId) -> Decoded[Manifest]:
        """A manifest file."""
        return decode_manifest((self.root / "manifests" / str(id_)).read_bytes())

    def transaction_log(self, id_: SnapshotId) -> Decoded[TransactionLog]:
        """A transaction log file."""
        return decode_transaction_log((self.root / "transactions" / str(id_)).read_bytes(), id_)

    @cached_property
    def repo_info(self) -> RepoInfo:
        """The repo info of a V2 repository."""
        return self._repo_info("repo")

    def _repo_info(self, key: str) -> RepoInfo:
        return decode_repo_info((self.root / key).read_bytes()).value

    # History

    def refs(self) -> dict[str, dict[str, str]]:
        """As the child's `read_refs`."""
        if self.is_v2:
            refs = {"branches": self.repo_info.branches, "tags": self.repo_info.tags}
        else:
            refs = {"branches": self._ref_files("branch."), "tags": self._ref_files("tag.")}
        return {kind: {name: str(i) for name, i in of.items()} for kind, of in refs.items()}

    def _ref_files(self, prefix: str) -> dict[str, SnapshotId]:
        return {
            path.parent.name.removeprefix(prefix): decode_ref(path.read_bytes()).snapshot_id
            for path in self.root.glob(f"refs/{prefix}*/ref.json")
            if not path.with_name("ref.json.deleted").exists()
        }

    def ancestry(self, start: SnapshotId) -> list[SnapshotInfo]:
        """From a snapshot to the first."""
        found: list[SnapshotInfo] = []
        current: SnapshotId | None = start
        while current is not None:
            found.append(self._snapshot_info(current))
            current = found[-1].parent_id
        return found

    def _snapshot_info(self, id_: SnapshotId) -> SnapshotInfo:
        if self.is_v2:
            return self.repo_info.snapshots[id_]
        return make_snapshot_info(self.snapshot(id_).value)

    def ops_log(self) -> Iterator[Update]:
        """All updates, newest first, page by page."""
        page = self.repo_info
        yield from page.latest_updates
        while page.repo_before_updates is not None:
            name = page.repo_before_updates
            page = self._repo_info(f"overwritten/{name}")
            for update in page.latest_updates:
                # The newest entry of a page did not know yet where the page would be kept.
                yield Update(update.kind, update.updated_at, update.backup_path or name)

    def config(self) -> Any:
        """The saved configuration."""
        if self.is_v2:
            assert self.repo_info.config is not None
            return self.repo_info.config.get()
        return decode_config_yaml((self.root / "config.yaml").read_bytes())

    # Chunks

    def chunk_refs(self, snapshot: Snapshot, path: str) -> dict[tuple[int, ...], ChunkRef]:
        """All references of an array, from all its manifests."""
        node = snapshot.nodes[path]
        assert node.array is not None
        refs: dict[tuple[int, ...], ChunkRef] = {}
        for ref in node.array.manifests:
            table = self.manifest(ref.id).value.tables()[node.id]
            refs |= table.select(ref.extents).refs()
        return refs

    def chunk(self, ref: ChunkRef) -> bytes:
        """The bytes behind a reference."""
        if isinstance(ref, InlineRef):
            return ref.data
        if isinstance(ref, NativeRef):
            path = self.root / "chunks" / str(ref.chunk_id)
        else:
            location = self.absolute(ref.location).replace("%20", " ")
            path = Path(location.removeprefix("file://"))
        return path.read_bytes()[ref.offset : ref.offset + ref.length]

    def absolute(self, location: str) -> str:
        """A location with the container that it is relative to, if it is, put in."""
        return location.replace(f"vcc://{self.virtual.name}/", self.virtual.url_prefix)


def describe_diff(parent: Snapshot, child: Snapshot, log: TransactionLog) -> dict[str, Any]:
    """As the child's `read_diff` between a commit and its parent."""
    # A node that was moved is known by where it was.
    paths = {node.id: path for snapshot in (child, parent) for path, node in snapshot.nodes.items()}
    sets = ("new_groups", "new_arrays", "deleted_groups", "deleted_arrays",
            "updated_groups", "updated_arrays")  # fmt: skip
    return {
        **{name: _known(paths, getattr(log, name)) for name in sets},
        "updated_chunks": {
            paths[id_]: chunks.tolist()
            for id_, chunks in log.updated_chunks.items()
            if id_ in paths
        },
        "moved_nodes": [[move.from_path, move.to_path] for move in log.moves],
    }


def _known(paths: dict[NodeId, str], ids: frozenset[NodeId]) -> list[str]:
    return sorted(paths[id_] for id_ in ids if id_ in paths)
