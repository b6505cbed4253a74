"""Zarr store over a session."""

import asyncio
import atexit
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.common import BytesLike
from zarr.core.config import config as zarr_config
from zarr.core.sync import SyncMixin
from zarr.core.sync import loop as zarr_loop

from frazil.arguments import check_arguments
from frazil.async_names import Turns, asynchronous, end_tasks, run_together
from frazil.display import Block, Item
from frazil.errors import InvalidTypeError, NotFoundError, ReadOnlyError
from frazil.format.manifest import VirtualRef
from frazil.lazy import lazy_modules
from frazil.ops import AsyncCloseableIterator
from frazil.repository import store_io
from frazil.repository.context import SessionState, StoreOwner
from frazil.repository.zarr_keys import prefix_path
from frazil.storage.interface import ByteOffset, ByteRange, ByteSuffix, Range

if TYPE_CHECKING:
    from frazil.repository import virtual_refs
    from frazil.repository.session import Session
    from frazil.virtual import containers
else:
    virtual_refs, containers = lazy_modules(
        "frazil.repository.virtual_refs", "frazil.virtual.containers"
    )

__all__ = ["IcechunkStore"]


R = TypeVar("R")

Buffers = list[Buffer | None]
"""Values read; None where a key has none."""

# Without methods that run once per chunk: their keys are checked when they are parsed.
_CHECKED = frozenset(
    ("array_chunk_iterator", "delete_dir", "getsize_prefix", "is_empty", "list_dir", "list_prefix",
     "set_virtual_columns", "set_virtual_columns_async", "set_virtual_ref", "set_virtual_ref_async",
     "set_virtual_refs", "set_virtual_refs_arr", "set_virtual_refs_arr_async",
     "set_virtual_refs_async", "with_read_only")
)  # fmt: skip

FailedChunks = list[tuple[int, ...]] | None
"""Coordinates of chunks that were not set; None if all were."""

_MOST_SECONDS_TO_END = 20.0
_ZARR_CONCURRENCY = 10
"""Zarr's default of `async.concurrency`."""

# Zarr decodes a shard in some tasks per chunk, which takes this many iterations of its event loop.
# Those of all shards in flight at once would keep the garbage collector of Python busy.
_TURNS = Turns(8)
_LARGE_SHARD = 512 << 10
"""Size from which shards that arrive over a network are handed to Zarr in turn."""


@check_arguments(only=_CHECKED)
class IcechunkStore(Store, SyncMixin, Block):
    """Zarr store with the groups, arrays and chunks of a session.

    A store is safe for concurrent use by threads and tasks. Get one from `Session.store`.
    """

    def __init__(
        self,
        store: StoreOwner,
        read_only: bool | None = None,
        *args: Any,  # noqa: ARG002 (others hand them over, and mean nothing by them)
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Create a store; internal, use `Session.store`."""
        super().__init__(read_only=store.read_only if read_only is None else read_only)
        self._owner = store
        self._is_open = True
        self._allow_concurrent_requests()

    def _allow_concurrent_requests(self) -> None:
        """Let Zarr send more requests at once over a network than its default.

        Zarr has one number for all stores, which is left alone if the user has set another.
        """
        storage = self._state.assets.storage
        if (
            not storage.is_local
            and zarr_config.get("async.concurrency") == _ZARR_CONCURRENCY < storage.concurrency
        ):
            zarr_config.set({"async.concurrency": storage.concurrency})

    @property
    def _state(self) -> SessionState:
        return self._owner.state

    @property
    def _store(self) -> "_BytesStore":
        # Attribute of the official library, which programs use to bypass Zarr's buffers.
        return _BytesStore(self._state)

    def __eq__(self, value: object) -> bool:
        return isinstance(value, IcechunkStore) and self._owner == value._owner

    __hash__ = None  # type: ignore[assignment]

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields of the summary."""
        yield Item("read_only", self.read_only)
        yield Item("snapshot_id", str(self._state.view.snapshot_id))
        yield Item("branch", self._state.branch)

    def __repr__(self) -> str:
        return Block.__str__(self)

    def __str__(self) -> str:
        return Block.__str__(self)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._allow_concurrent_requests()

    def with_read_only(self, read_only: bool = False) -> Store:
        """Return a store of the same session that is read-only or writable.

        Parameters
        ----------
        read_only
            Whether the new store refuses writes.

        Returns
        -------
        Store
            The new store, not yet open.
        """
        store = type(self)(self._owner, read_only=read_only)
        store._is_open = False
        return store

    @property
    def session(self) -> "Session":
        """Return the session of this store."""
        return self._owner  # type: ignore[return-value]

    # Capabilities

    @property
    def supports_writes(self) -> bool:
        """Return True if the session is writable."""
        return not self._state.is_read_only

    @property
    def supports_deletes(self) -> bool:
        """Return True if the session is writable."""
        return self.supports_writes

    @property
    def supports_listing(self) -> bool:
        """Return True: keys can be listed."""
        return True

    @property
    def supports_partial_writes(self) -> Literal[False]:
        """Return False: a chunk can only be written as a whole."""
        return False

    @property
    def supports_consolidated_metadata(self) -> bool:
        """Return False: a snapshot already holds all metadata."""
        return False

    @property
    def _supports_sync_io(self) -> bool:
        # Without an event loop requests are sequential, which is too slow over a network.
        return self._state.assets.storage.is_local

    # Reading

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value of a key, or a byte range of it; None if the key does not exist.

        Parameters
        ----------
        key
            Zarr key of a node's metadata or of a chunk.
        prototype
            Prototype of the buffer to return.
        byte_range
            Part of the value to read; None for all of it.

        Returns
        -------
        Buffer or None
            The value, or None if the key does not exist.
        """
        try:
            data = await store_io.read_key_async(self._state, key, _range(byte_range))
        except Exception:
            _mark_failure_as_seen()
            raise
        if data is not None and self._is_large_shard(key, len(data)):
            await _TURNS.take()
        return None if data is None else prototype.buffer.from_bytes(data)

    def _is_large_shard(self, key: str, size_bytes: int) -> bool:
        """Return True if a value came over a network and takes Zarr many tasks to decode."""
        is_large = size_bytes >= _LARGE_SHARD and not self._supports_sync_io
        return is_large and store_io.is_shard(self._state, key)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key without an event loop; see `get`.

        Parameters
        ----------
        key
            Zarr key.
        prototype
            Prototype of the buffer to return; by default Zarr's.
        byte_range
            Part of the value to read; None for all.

        Returns
        -------
        Buffer or None
            The value, or None if the key does not exist.
        """
        range = None if byte_range is None else _range(byte_range)
        data = store_io.read_key(self._owner.state, key, range)
        if data is None:
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> Buffers:
        """Return byte ranges of several keys, in the order of the requests.

        Parameters
        ----------
        prototype
            Prototype of the buffers to return.
        key_ranges
            Pairs of a key and the part of its value to read.

        Returns
        -------
        list of Buffer or None
            One value per request; None if the key does not exist.
        """
        limit = asyncio.Semaphore(self._state.context.settings.get_partial_values_concurrency)

        async def get(key: str, byte_range: ByteRequest | None) -> Buffer | None:
            async with limit:
                return await self.get(key, prototype, byte_range)

        return await run_together(get(key, each) for key, each in key_ranges)

    async def exists(self, key: str) -> bool:
        """Return True if a key exists."""
        return await self._run(store_io.has_key, key)

    async def getsize(self, key: str) -> int:
        """Return the size of a key's value in bytes; 0 for a chunk that does not exist."""
        return await self._run(store_io.key_size, key)

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the total size in bytes of all keys at and below a path."""
        return await self._run(store_io.total_size, prefix)

    async def is_empty(self, prefix: str) -> bool:
        """Return True if there are no keys at or below a path."""
        return await self._run(
            lambda state, at: next(store_io.list_keys(state, at), None) is None, prefix
        )

    def list(self) -> AsyncIterator[str]:
        """Iterate over all keys."""
        return AsyncCloseableIterator(store_io.list_keys(self._state))

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Iterate over all keys at and below a path."""
        return AsyncCloseableIterator(store_io.list_keys(self._state, prefix))

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Iterate over the names directly below a path."""
        return AsyncCloseableIterator(store_io.list_names(self._state, prefix))

    # Writing

    async def set(self, key: str, value: Buffer) -> None:
        """Set the value of a key.

        Parameters
        ----------
        key
            Zarr key of a node's metadata or of a chunk.
        value
            The new value.

        Raises
        ------
        ReadOnlyError
            If the session is read-only.
        """
        self._refuse_read_only()
        await store_io.set_key_async(self._state, key, _bytes_of(value))

    def set_sync(self, key: str, value: Buffer) -> None:
        """Set the value of a key without an event loop; see `set`."""
        self._refuse_read_only()
        store_io.set_key(self._state, key, _bytes_of(value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Set the value of a key unless the key exists.

        Parameters
        ----------
        key
            Zarr key of a node's metadata or of a chunk.
        value
            The value to set.
        """
        if not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Delete a node and its descendants, or a chunk; does nothing if the key does not exist."""
        self.delete_sync(key)

    def delete_sync(self, key: str) -> None:
        """Run `delete` without an event loop."""
        self._refuse_read_only_copy()
        store_io.delete_key(self._state, key)

    async def delete_dir(self, prefix: str) -> None:
        """Delete all keys at and below a path."""
        self._refuse_read_only()
        await self._run(store_io.delete_below, prefix)

    async def clear(self) -> None:
        """Delete all nodes and chunks."""
        self.sync_clear()

    def sync_clear(self) -> None:
        """Run `clear` without an event loop."""
        self._refuse_read_only_copy()
        store_io.clear(self._state)

    async def set_partial_values(
        self, key_start_values: Iterable[tuple[str, int, BytesLike]]
    ) -> None:
        """Raise NotImplementedError: a chunk can only be written as a whole."""
        raise NotImplementedError(
            "partial writes are not supported: write the whole value with set"
        )

    # Virtual chunks

    def set_virtual_ref(
        self,
        key: str,
        location: str,
        *,
        offset: int,
        length: int,
        checksum: str | datetime | None = None,
        validate_container: bool = True,
    ) -> None:
        """Set the virtual reference of a chunk: a byte range of a source file outside the repository.

        Parameters
        ----------
        key
            Zarr key of the chunk.
        location
            URL of the source file.
        offset
            First byte of the chunk in the source file.
        length
            Size of the chunk in bytes.
        checksum
            ETag or last modification time of the source file.
        validate_container
            Whether to refuse a location that is in no virtual chunk container of the configuration.

        Raises
        ------
        ReadOnlyError
            If the session is read-only.
        """
        location = containers.normalize_location(location)
        self._refuse_read_only()
        ref = VirtualRef(location, offset, length, virtual_refs.parse_checksum(checksum))
        virtual_refs.set_virtual_ref(self._state, key, ref, validate_container=validate_container)

    set_virtual_ref_async = asynchronous(set_virtual_ref)

    def set_virtual_refs(
        self,
        array_path: str,
        chunks: "Sequence[containers.VirtualChunkSpec]",
        *,
        validate_containers: bool = True,
    ) -> FailedChunks:
        """Set the virtual references of many chunks.

        Parameters
        ----------
        array_path
            Path of the array.
        chunks
            Chunk indices with their virtual references.
        validate_containers
            Whether to skip chunks whose location is in no virtual chunk container.

        Returns
        -------
        list of tuple of int or None
            Coordinates of the chunks that were skipped; None if all were set.

        Raises
        ------
        ReadOnlyError
            If the session is read-only.
        """
        self._refuse_read_only()
        return virtual_refs.set_specs(
            self._state,
            prefix_path(array_path),
            chunks,
            validate_containers=validate_containers,
        )

    set_virtual_refs_async = asynchronous(set_virtual_refs)

    def set_virtual_refs_arr(
        self,
        array_path: str,
        chunk_grid_shape: tuple[int, ...],
        locations: Sequence[str],
        offsets: NDArray[np.uint64],
        lengths: NDArray[np.uint64],
        *,
        validate_containers: bool = True,
        arr_offset: tuple[int, ...] | None = None,
        checksum: datetime | str | None = None,
    ) -> FailedChunks:
        """Set virtual references from columns over a grid of chunks in C order.

        Parameters
        ----------
        array_path
            Path of the array.
        chunk_grid_shape
            Number of chunks of the grid along each axis.
        locations
            URLs of the source files; an empty location leaves its chunk unchanged.
        offsets
            First byte of each chunk in its source file.
        lengths
            Size of each chunk in bytes.
        validate_containers
            Whether to skip chunks whose location is in no virtual chunk container.
        arr_offset
            Coordinates of the first chunk of the grid in the array; by default the array's first chunk.
        checksum
            ETag or last modification time of all source files.

        Returns
        -------
        list of tuple of int or None
            Coordinates of the chunks that were skipped; None if all were set.

        Raises
        ------
        ReadOnlyError
            If the session is read-only.
        """
        self._refuse_read_only()
        failed = virtual_refs.set_columns(
            self._state,
            prefix_path(array_path),
            virtual_refs.grid_coordinates(chunk_grid_shape, arr_offset, len(locations)),
            virtual_refs.TextColumn.of(locations),
            virtual_refs.unsigned_column(offsets, "an offset"),
            virtual_refs.unsigned_column(lengths, "a length"),
            virtual_refs.ChecksumColumn.of(checksum, len(locations)),
            validate_containers=validate_containers,
        )
        return failed or None

    set_virtual_refs_arr_async = asynchronous(set_virtual_refs_arr)

    def set_virtual_columns(
        self,
        array_path: str,
        coordinates: ArrayLike,
        locations: Any,
        offsets: ArrayLike,
        lengths: ArrayLike,
        checksums: Any = None,
        *,
        validate_containers: bool = True,
    ) -> None:
        """Set virtual references from columns with one row per chunk: all of them, or none.

        Parameters
        ----------
        array_path
            Path of the array.
        coordinates
            Chunk coordinates: one row per chunk, one column per axis.
        locations
            URLs of the source files: a list, a NumPy or Arrow array (ideally dictionary-encoded), or
            a pair of codes and distinct URLs.
        offsets
            First byte of each chunk in its source file.
        lengths
            Size of each chunk in bytes.
        checksums
            ETags or last modification times of the source files: one for all, or one per chunk.
        validate_containers
            Whether to refuse locations that are in no virtual chunk container.

        Raises
        ------
        InvalidChunksError
            If chunks can't be set; it has the coordinates of all of them.
        ReadOnlyError
            If the session is read-only.
        """
        self._refuse_read_only()
        virtual_refs.set_all_columns(
            self._state,
            prefix_path(array_path),
            coordinates,
            virtual_refs.TextColumn.of(locations),
            offsets,
            lengths,
            checksums,
            validate_containers=validate_containers,
        )

    set_virtual_columns_async = asynchronous(set_virtual_columns)

    def array_chunk_iterator(
        self, array_path: str, batch_size: int = 100_000
    ) -> "AsyncCloseableIterator[virtual_refs.ChunkBatch]":
        """Iterate over the chunk references of an array, in batches.

        Parameters
        ----------
        array_path
            Path of the array.
        batch_size
            Maximum number of chunks per batch.

        Returns
        -------
        AsyncCloseableIterator of ChunkBatch
            Tuples of coordinates, kinds, locations or chunk ids, offsets, lengths, and inline data
            by row.
        """
        batches = virtual_refs.chunk_batches(self._state, prefix_path(array_path), batch_size)
        return AsyncCloseableIterator(batches)

    # Helpers

    async def _run(self, function: Callable[[SessionState, str], R], argument: str) -> R:
        """Run a function of the session, in a thread unless the storage is local."""
        if self._state.assets.storage.is_local:
            return function(self._state, argument)
        return await asyncio.to_thread(function, self._state, argument)

    def _refuse_read_only(self) -> None:
        if self._state.is_read_only:
            raise ReadOnlyError("cannot write to read-only store", kind="read-only-store")
        self._refuse_read_only_copy()

    def _refuse_read_only_copy(self) -> None:
        # Read-only stores of writable sessions are a concept of Zarr, so Zarr raises the error.
        if not self._state.is_read_only:
            self._check_writable()


class _BytesStore:
    """Store of plain bytes, like the internal store of the official library."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    async def get(self, key: str, byte_range: ByteRequest | None = None) -> bytes:
        """Return the value of a key; raises NotFoundError if the key does not exist."""
        data = await store_io.read_key_async(self._state, key, _range(byte_range))
        if data is None:
            raise NotFoundError(f"key not found at `{key}`")
        return bytes(data)

    async def set(self, key: str, value: bytes) -> None:
        """Set the value of a key; raises ReadOnlyError."""
        if self._state.is_read_only:
            raise ReadOnlyError("cannot write to read-only store", kind="read-only-store")
        await store_io.set_key_async(self._state, key, value)


def _range(request: ByteRequest | None) -> Range | None:
    match request:
        case None:
            return None
        case RangeByteRequest(start, end):
            return ByteRange(start, end)
        case OffsetByteRequest(offset):
            return ByteOffset(offset)
        case SuffixByteRequest(suffix):
            return ByteSuffix(suffix)
    raise ValueError(f"Unexpected byte_range, got {request!r}")  # as Zarr's own stores say it


def _bytes_of(value: Buffer) -> Any:
    if not isinstance(value, Buffer):
        raise InvalidTypeError(
            "IcechunkStore.set(): `value` must be a Buffer instance."
            f" Got an instance of {type(value)} instead."
        )
    return value.as_buffer_like()


def _mark_failure_as_seen() -> None:
    """Keep Zarr's event loop from printing the failure of this task.

    When several reads of one call fail, Zarr raises the first error and drops the others, which an
    event loop prints as "Task exception was never retrieved", each with its traceback.
    """
    task = asyncio.current_task()
    if task is not None and task.get_loop() is zarr_loop[0]:
        task.add_done_callback(lambda each: each.cancelled() or each.exception())


@atexit.register
def _end_reads() -> None:
    """Cancel the reads that Zarr left on its event loop, before Zarr stops the loop.

    When one read of many fails, Zarr raises its error and does not stop the others. A process that
    exits before they complete would print "Task was destroyed but it is pending" for each of them.
    Functions registered later run earlier, and Zarr registered its own when it was imported above.
    """
    if zarr_loop[0] is not None:
        end_tasks(zarr_loop[0], _MOST_SECONDS_TO_END)
