"""Where the files of a repository are: which key an id has."""

from dataclasses import dataclass

from frazil.format.dialect import Dialect
from frazil.format.ids import ChunkId, ManifestId, SnapshotId


@dataclass(frozen=True, slots=True)
class Layout:
    """Folders, and the ending of metadata files."""

    snapshots: str
    manifests: str
    chunks: str
    transactions: str | None
    """None in the generations that keep no transaction logs."""
    ending: str = ""
    other_endings: tuple[str, ...] = ()
    """What readers accept besides."""

    @classmethod
    def of(cls, dialect: Dialect) -> "Layout":
        """The layout that goes with a dialect."""
        if dialect is Dialect.DRAFT:
            return _DRAFT
        return _FIRST_ALPHA if dialect is Dialect.ALPHA_A else _FOLDERS

    def snapshot_key(self, id: SnapshotId) -> str:
        """The file of a snapshot."""
        return f"{self.snapshots}/{id}{self.ending}"

    def manifest_key(self, id: ManifestId) -> str:
        """The file of a manifest."""
        return f"{self.manifests}/{id}{self.ending}"

    def chunk_key(self, id: ChunkId) -> str:
        """The file of a chunk."""
        return f"{self.chunks}/{id}"

    def find_transaction_log_key(self, id: SnapshotId) -> str | None:
        """The file of a snapshot's transaction log, where there are such files."""
        return None if self.transactions is None else f"{self.transactions}/{id}"

    def spellings(self, key: str) -> tuple[str, ...]:
        """All the keys under which a metadata file may be found, the usual one first."""
        stem = key.removesuffix(self.ending)
        return (key, *(stem + ending for ending in self.other_endings))


_FOLDERS = Layout("snapshots", "manifests", "chunks", "transactions")
_FIRST_ALPHA = Layout("snapshots", "manifests", "chunks", None)
_DRAFT = Layout("s", "m", "c", None, ".json", ("", ".msgpack"))
