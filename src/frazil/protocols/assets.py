"""Read and write the files of one repository by id, through caches."""

import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from typing import Generic, TypeVar

from frazil.async_names import run_concurrently
from frazil.errors import FormatError, ObjectNotFoundError
from frazil.format.files import (
    FileEncoding,
    decode_manifest,
    decode_snapshot,
    decode_transaction_log,
    decode_used_manifests,
    encode_manifest,
    encode_snapshot,
    encode_transaction_log,
)
from frazil.format.header import Decoded, Dialect, find_header
from frazil.format.ids import FIRST_SNAPSHOT_ID, ChunkId, ManifestId, NodeId, SnapshotId
from frazil.format.manifest import Manifest
from frazil.format.snapshot import ManifestFileInfo, ManifestRef, Snapshot, TransactionLog
from frazil.lazy import dataclass
from frazil.storage.interface import Buffer, ByteRange, PutOptions, Storage

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


_logger = logging.getLogger("frazil.protocols.assets")


@dataclass(frozen=True, slots=True)
class SizeWarning:
    """Warning logged once for a value that exceeds a given fraction of the cache capacity."""

    part: float
    text: str
    """Format string with the fields `weight` and `capacity`."""


class WeightedCache(Generic[K, V]):
    """Thread-safe LRU cache, bounded by the total weight of its values."""

    def __init__(
        self, capacity: int, weigh: Callable[[V], int], warning: SizeWarning | None = None
    ) -> None:
        self._capacity = capacity
        self._warning = warning
        self._weigh = weigh
        self._lock = threading.Lock()
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._loading: dict[K, threading.Lock] = {}
        self._weight = 0

    @property
    def weight(self) -> int:
        """Total weight of the cached values."""
        return self._weight

    def find(self, key: K) -> V | None:
        """Return a cached value, or None."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def get(self, key: K, load: Callable[[], V]) -> V:
        """Return a value and load it on a miss; after a failed load the next caller tries again."""
        found = self.find(key)
        if found is not None:
            return found
        with self._lock:
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            found = self.find(key)
            if found is not None:
                return found
            try:
                value = load()
                self.put(key, value)
            finally:
                with self._lock:
                    self._loading.pop(key, None)
            return value

    def put(self, key: K, value: V, weight: int | None = None) -> None:
        """Cache a value, unless it is heavier than the capacity of the cache."""
        if weight is None:
            weight = self._weigh(value)
        if self._warning is not None and weight - 1 > self._capacity * self._warning.part:
            self.warn_if_large(value)
        with self._lock:
            _, former = self._values.pop(key, (None, 0))
            self._weight -= former
            if weight > self._capacity:
                return
            self._values[key] = (value, weight)
            self._weight += weight
            while self._weight > self._capacity:
                _, (_, dropped) = self._values.popitem(last=False)
                self._weight -= dropped

    def warn_if_large(self, value: V) -> None:
        """Log the size warning, once, if a value takes too large a fraction of the cache."""
        warning = self._warning
        if warning is None:
            return
        weight = self._weigh(value) - 1  # weights count the value itself as one
        if weight > self._capacity * warning.part:
            self._warning = None
            _logger.warning(warning.text.format(weight=weight, capacity=self._capacity))

    def drop(self, key: K) -> None:
        """Remove a value from the cache."""
        with self._lock:
            _, weight = self._values.pop(key, (None, 0))
            self._weight -= weight


def new_snapshot_id(dialect: Dialect) -> SnapshotId:
    """Return a new random snapshot id."""
    return SnapshotId(os.urandom(dialect.id_size))


def new_manifest_id(dialect: Dialect) -> ManifestId:
    """Return a new random manifest id."""
    return ManifestId(os.urandom(dialect.id_size))


def new_chunk_id(dialect: Dialect) -> ChunkId:
    """Return a new random chunk id."""
    return ChunkId(os.urandom(dialect.id_size))


def new_node_id() -> NodeId:
    """Return a new random node id, for the generations that don't number their nodes."""
    return NodeId(os.urandom(8))


@dataclass(frozen=True, slots=True)
class Layout:
    """Folder names of a repository, and the file name extensions of its metadata files."""

    snapshots: str
    manifests: str
    chunks: str
    transactions: str | None
    """None in the generations without transaction logs."""
    ending: str = ""
    other_endings: tuple[str, ...] = ()
    """Further extensions that readers accept."""

    @classmethod
    def of(cls, dialect: Dialect) -> "Layout":
        """Return the layout of a dialect."""
        if dialect is Dialect.DRAFT:
            return _DRAFT
        return _FIRST_ALPHA if dialect is Dialect.ALPHA_A else _FOLDERS

    def snapshot_key(self, id: SnapshotId) -> str:
        """Return the key of a snapshot file."""
        return f"{self.snapshots}/{id}{self.ending}"

    def manifest_key(self, id: ManifestId) -> str:
        """Return the key of a manifest file."""
        return f"{self.manifests}/{id}{self.ending}"

    def chunk_key(self, id: ChunkId) -> str:
        """Return the key of a chunk file."""
        return f"{self.chunks}/{id}"

    def find_transaction_log_key(self, id: SnapshotId) -> str | None:
        """Return the key of a snapshot's transaction log, or None if the layout has no logs."""
        return None if self.transactions is None else f"{self.transactions}/{id}"

    def spellings(self, key: str) -> tuple[str, ...]:
        """Return all keys that a metadata file may have, the default one first."""
        stem = key.removesuffix(self.ending)
        return (key, *(stem + ending for ending in self.other_endings))


_FOLDERS = Layout("snapshots", "manifests", "chunks", "transactions")
_FIRST_ALPHA = Layout("snapshots", "manifests", "chunks", None)
_DRAFT = Layout("s", "m", "c", None, ".json", ("", ".msgpack"))

_SMALL_FILE = 1 << 16
"""Size up to which files are decoded without regard to others that are being decoded."""

T = TypeVar("T")
Object = tuple[str, Buffer, PutOptions]
"""Key, bytes and options of an object to be written."""

_LARGEST_RECENT_FILE = 4 << 20
_RECENT: WeightedCache[tuple[int, str], tuple[object, bytes]]
_RECENT = WeightedCache(32 << 20, lambda kept: len(kept[1]))
"""Snapshots and manifests read lately over a network, by client and key.

Repositories are opened again and again in one process, and every task of Dask receives a session of
its own. The client is kept as well, so that no other one gets its identity.
"""

_WITHOUT_SIZES = frozenset({Dialect.DRAFT, Dialect.ALPHA_A, Dialect.ALPHA_B, Dialect.ALPHA_C})
_WITHOUT_COUNTS = _WITHOUT_SIZES | {Dialect.ALPHA_D, Dialect.ALPHA_E, Dialect.ALPHA_F}
"""Dialects whose snapshots don't record the number of references in a manifest file."""


_LARGE_SNAPSHOT = SizeWarning(
    1 / 5,
    "A snapshot with {weight} nodes is being loaded into the cache that can only keep {capacity}"
    " nodes. Consider increasing num_snapshot_nodes in CachingConfig",
)
_LARGE_MANIFEST = SizeWarning(
    1 / 2,
    "A manifest with {weight} chunk references is being loaded into the cache that can only keep"
    " {capacity} references. Consider increasing num_chunk_refs in CachingConfig",
)


@dataclass(frozen=True, slots=True)
class AssetOptions:
    """Encoding options, cache capacities and storage classes of a repository's files.

    Parameters
    ----------
    encoding
        Options of the file encoders.
    num_snapshot_nodes
        Capacity of the snapshot cache, in nodes.
    num_chunk_refs
        Capacity of the manifest cache, in chunk references.
    num_transaction_changes
        Capacity of the transaction log cache, in changes.
    num_bytes_chunks
        Capacity of the chunk cache, in bytes.
    metadata_storage_class
        Storage class of metadata files.
    chunks_storage_class
        Storage class of chunk files.
    max_concurrent_decodes
        Number of metadata files that threads decode at once; None for no limit.
    """

    encoding: FileEncoding = field(default_factory=FileEncoding)
    num_snapshot_nodes: int = 500_000
    num_chunk_refs: int = 15_000_000
    num_transaction_changes: int = 0
    num_bytes_chunks: int = 0
    metadata_storage_class: str | None = None
    chunks_storage_class: str | None = None
    max_concurrent_decodes: int | None = None


class Assets:
    """Reader and writer of the files of one repository, in one dialect.

    Snapshots, manifests, transaction logs and chunks are cached as the options allow. Pickling keeps
    storage, dialect and options, but not the caches.

    Parameters
    ----------
    storage
        The storage of the repository.
    dialect
        The dialect in which files are written.
    options
        Encoding options and cache capacities.
    """

    def __init__(
        self, storage: Storage, dialect: Dialect, options: AssetOptions | None = None
    ) -> None:
        self.storage = storage
        self.dialect = dialect
        self.options = options or AssetOptions()
        self.layout = Layout.of(dialect)
        self._put_options: dict[str, PutOptions] = {}
        self._chunk_options = PutOptions(storage_class=self.options.chunks_storage_class)
        self._decodes: AbstractContextManager[object] = nullcontext()
        if self.options.max_concurrent_decodes is not None:
            self._decodes = threading.Semaphore(self.options.max_concurrent_decodes)
        self._make_caches()

    def _make_caches(self) -> None:
        options = self.options
        self._snapshots: WeightedCache[SnapshotId, Decoded[Snapshot]] = WeightedCache(
            options.num_snapshot_nodes,
            lambda decoded: 1 + len(decoded.value.nodes),
            _LARGE_SNAPSHOT,
        )
        self._manifests: WeightedCache[ManifestId, Decoded[Manifest]] = WeightedCache(
            options.num_chunk_refs, lambda decoded: 1 + len(decoded.value), _LARGE_MANIFEST
        )
        self._logs: WeightedCache[SnapshotId, Decoded[TransactionLog]] = WeightedCache(
            options.num_transaction_changes, lambda decoded: 1 + _count_changes(decoded.value)
        )
        self._chunks: WeightedCache[tuple[ChunkId, int, int], Buffer] = WeightedCache(
            options.num_bytes_chunks, len
        )

    def __getstate__(self) -> dict[str, object]:
        return {"storage": self.storage, "dialect": self.dialect, "options": self.options}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    # Reading

    def read_snapshot(self, id: SnapshotId) -> Snapshot:
        """Read a snapshot; raises ObjectNotFoundError if the file does not exist."""
        return self.read_snapshot_file(id).value

    def has_snapshot(self, id: SnapshotId) -> bool:
        """Return True if a snapshot is cached."""
        return self._snapshots.find(id) is not None

    def read_snapshot_file(self, id: SnapshotId) -> Decoded[Snapshot]:
        """Read a snapshot with its dialect and header."""
        keep = self.options.num_snapshot_nodes > 0
        return self._snapshots.get(id, lambda: self._load_snapshot(id, keep))

    def read_snapshot_file_anew(self, id: SnapshotId) -> Decoded[Snapshot]:
        """Read a snapshot past the cache: before V2, expiry rewrites snapshots in place."""
        self._snapshots.drop(id)
        decoded = self._load_snapshot(id)
        self._snapshots.put(id, decoded)
        return decoded

    def _load_snapshot(self, id: SnapshotId, keep: bool = False) -> Decoded[Snapshot]:
        # The first snapshots of all repositories have one id.
        read = self._read_recent if keep and id != FIRST_SNAPSHOT_ID else self._read
        decoded = read(self.layout.snapshot_key(id), decode_snapshot)
        if decoded.value.id == id:
            return decoded
        # The first alphas and the draft name the file of the first snapshot differently from its id.
        return replace(decoded, value=replace(decoded.value, id=id))

    def read_used_manifests(self, id: SnapshotId) -> Sequence[ManifestFileInfo]:
        """Return the manifests of a snapshot; decodes nothing else and caches nothing."""
        return self._read(self.layout.snapshot_key(id), decode_used_manifests)

    def read_manifest(self, id: ManifestId) -> Manifest:
        """Read a manifest; its references are decoded lazily."""
        return (self._manifests.find(id) or self.read_manifest_file(id)).value

    def read_manifest_file(self, id: ManifestId) -> Decoded[Manifest]:
        """Read a manifest with its dialect and header."""
        read = self._read_recent if self.options.num_chunk_refs else self._read
        return self._manifests.get(id, lambda: read(self.layout.manifest_key(id), decode_manifest))

    def fetch_manifests(self, refs: Sequence[ManifestRef], limit: int) -> None:
        """Read manifests into the cache, at most `limit` at once, as far as they are not cached."""
        if len(refs) < 2 or self.storage.is_local:
            return
        ids = dict.fromkeys([ref.id for ref in refs])
        missing = [id for id in ids if self._manifests.find(id) is None]
        if len(missing) > 1:
            run_concurrently(self.read_manifest_file, missing, limit)

    def read_manifest_data(self, id: ManifestId) -> bytes:
        """Read the raw bytes of a manifest file."""
        return bytes(self._get(self.layout.manifest_key(id)))

    def read_manifests_data(self, ids: Sequence[ManifestId]) -> list[bytes]:
        """Read the raw bytes of many manifest files with concurrent requests."""
        keys = list(map(self.layout.manifest_key, ids))
        try:
            return list(map(bytes, self.storage.get_many([(key, None) for key in keys])))
        except ObjectNotFoundError:
            return [bytes(self._get(key)) for key in keys]

    def decode_manifest(self, id: ManifestId, data: bytes) -> Manifest:
        """Decode a manifest from the bytes of its file."""
        return self._decode(self.layout.manifest_key(id), data, decode_manifest).value

    def find_cached_manifest(self, id: ManifestId) -> Manifest | None:
        """Return a manifest if it is cached, else None."""
        found = self._manifests.find(id)
        return None if found is None else found.value

    def read_transaction_log(self, id: SnapshotId) -> TransactionLog:
        """Read the transaction log of a commit; raises ObjectNotFoundError if there is none."""
        return self.read_transaction_log_file(id).value

    def read_transaction_log_file(self, id: SnapshotId) -> Decoded[TransactionLog]:
        """Read a transaction log with its dialect and header."""
        key = self.layout.find_transaction_log_key(id)
        if key is None:
            raise ObjectNotFoundError(f"{self.dialect.value} repositories keep no transaction logs")
        if not self.options.num_transaction_changes:
            return self._read(key, lambda data: decode_transaction_log(data, id))
        return self._logs.get(
            id, lambda: self._read(key, lambda data: decode_transaction_log(data, id))
        )

    def read_chunk(self, id: ChunkId, start: int, end: int) -> Buffer:
        """Read a byte range of a chunk file; raises ObjectRangeError if the file is too short."""
        range = ByteRange(start, end)
        if not self.options.num_bytes_chunks:
            return self.storage.get(self.layout.chunk_key(id), range)
        return self._chunks.get(
            (id, start, end), lambda: self.storage.get(self.layout.chunk_key(id), range)
        )

    async def read_chunk_async(self, id: ChunkId, start: int, end: int) -> Buffer:
        """Read a byte range of a chunk file, asynchronously."""
        found = self._chunks.find((id, start, end)) if self.options.num_bytes_chunks else None
        if found is None:
            found = await self.storage.get_async(self.layout.chunk_key(id), ByteRange(start, end))
            if self.options.num_bytes_chunks:
                self._chunks.put((id, start, end), found)
        return found

    def _read(self, key: str, decode: Callable[[bytes], T]) -> T:
        return self._decode(key, bytes(self._get(key)), decode)

    def _read_recent(self, key: str, decode: Callable[[bytes], T]) -> T:
        """Read a file, without a request if this process has read it lately.

        Files of V2 are never replaced by others. Files that can't be decoded are not kept.
        """
        client = self.storage.shared_client if self.dialect is Dialect.V2 else None
        if client is None:
            return self._read(key, decode)
        kept = _RECENT.find((id(client), key))
        data = bytes(self._get(key)) if kept is None else kept[1]
        decoded = self._decode(key, data, decode)
        if kept is None and len(data) <= _LARGEST_RECENT_FILE:
            _RECENT.put((id(client), key), (client, data))
        return decoded

    def _decode(self, key: str, data: bytes, decode: Callable[[bytes], T]) -> T:
        try:
            if len(data) < _SMALL_FILE:
                return decode(data)
            with self._decodes:
                return decode(data)
        except FormatError as error:
            named = FormatError(f"{key}: {error.message}", kind=error.kind)
            # Official error reports name these steps, and programs search for them.
            folder = (
                key.partition("/")[0].removesuffix("s").replace("transaction", "transaction_log")
            )
            named.add_note(f"in fetch_{folder}, to get what {key} holds")
            raise named from error

    def _get(self, key: str) -> Buffer:
        if not self.layout.other_endings:
            return self.storage.get(key)
        first, *others = self.layout.spellings(key)
        try:
            return self.storage.get(first)
        except ObjectNotFoundError:
            for other in others:
                try:
                    return self.storage.get(other)
                except ObjectNotFoundError:
                    continue
            raise

    # Writing

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Write a snapshot file."""
        self.storage.put(*self.encode_snapshot(snapshot))

    def encode_snapshot(self, snapshot: Snapshot) -> Object:
        """Return the object of a snapshot, to be written."""
        data = encode_snapshot(snapshot, self.dialect, self.options.encoding)
        decoded = Decoded(snapshot, self.dialect, find_header(data))
        if self.dialect.is_legacy:  # whose files don't keep metadata as it was given
            self._snapshots.warn_if_large(decoded)
        else:  # the next session starts from it
            self._snapshots.put(snapshot.id, decoded)
        return self.layout.snapshot_key(snapshot.id), data, self.describe("snapshot")

    def write_manifest(self, manifest: Manifest, id: ManifestId) -> ManifestFileInfo:
        """Write a manifest file and return the entry that a snapshot records for it."""
        object, info = self.encode_manifest(manifest, id)
        self.storage.put(*object)
        return info

    def encode_manifest(
        self, manifest: Manifest, id: ManifestId
    ) -> tuple[Object, ManifestFileInfo]:
        """Return the object of a manifest, to be written, and its entry in a snapshot."""
        data = encode_manifest(manifest, self.dialect, self.options.encoding)
        count = len(manifest)
        self._manifests.put(id, Decoded(manifest, self.dialect), 1 + count)
        info = ManifestFileInfo(
            id,
            None if self.dialect in _WITHOUT_SIZES else len(data),
            None if self.dialect in _WITHOUT_COUNTS else count,
        )
        return (self.layout.manifest_key(id), data, self.describe("manifest")), info

    def write_transaction_log(self, log: TransactionLog) -> None:
        """Write the transaction log of a snapshot; a no-op in the generations without logs."""
        self.storage.put_many(self.encode_transaction_log(log))

    def encode_transaction_log(self, log: TransactionLog) -> list[Object]:
        """Return the object of a transaction log, to be written; none before logs existed."""
        key = self.layout.find_transaction_log_key(log.id)
        if key is None:
            return []
        data = encode_transaction_log(log, self.dialect, self.options.encoding)
        return [(key, data, self.describe("transaction-log"))]

    def write_chunk(self, data: Buffer) -> ChunkId:
        """Write the bytes of a chunk and return its new id."""
        id = new_chunk_id(self.dialect)
        self.storage.put(self.layout.chunk_key(id), data, self._chunk_options)
        return id

    async def write_chunk_async(self, data: Buffer) -> ChunkId:
        """Write the bytes of a chunk asynchronously and return its new id."""
        id = new_chunk_id(self.dialect)
        await self.storage.put_async(self.layout.chunk_key(id), data, self._chunk_options)
        return id

    def drop_snapshots(self, ids: Iterable[SnapshotId]) -> None:
        """Remove snapshots from the cache whose files were rewritten or deleted."""
        for id in ids:
            self._snapshots.drop(id)

    def describe(self, file_type: str) -> PutOptions:
        """Return the object metadata of a metadata file; informational, nothing reads it."""
        found = self._put_options.get(file_type)
        if found is None:
            found = self._put_options[file_type] = self._describe(file_type)
        return found

    def _describe(self, file_type: str) -> PutOptions:
        encoding = self.options.encoding
        version = "2" if self.dialect is Dialect.V2 else "1"
        return PutOptions(
            metadata={
                "icspecver": version,
                "icclient": encoding.implementation,
                "icfiletype": file_type,
                "iccompalg": "zstd",
            },
            storage_class=self.options.metadata_storage_class,
        )


def _count_changes(log: TransactionLog) -> int:
    nodes = (
        log.new_groups, log.new_arrays, log.deleted_groups, log.deleted_arrays,
        log.updated_groups, log.updated_arrays, log.moves,
    )  # fmt: skip
    return sum(map(len, nodes)) + sum(map(len, log.updated_chunks.values()))


__all__ = [
    "AssetOptions",
    "Assets",
    "Layout",
    "new_chunk_id",
    "new_manifest_id",
    "new_node_id",
    "new_snapshot_id",
]
