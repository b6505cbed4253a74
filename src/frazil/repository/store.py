"""Zarr's store over a session."""

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
from zarr.core.sync import SyncMixin
from zarr.core.sync import loop as zarr_loop

from frazil.arguments import check_arguments
from frazil.async_names import asynchronous, end_tasks, run_together
from frazil.display import Block, Item
from frazil.errors import InvalidTypeError, NotFoundError, ReadOnlyError
from frazil.format.chunk_table import VirtualRef
from frazil.ops import AsyncCloseableIterator
from frazil.repository import store_io, virtual_refs
from frazil.repository.session_state import SessionState, StoreOwner
from frazil.repository.virtual_refs import (
    ChecksumColumn,
    ChunkBatch,
    TextColumn,
    chunk_batches,
    parse_checksum,
)
from frazil.repository.zarr_keys import prefix_path
from frazil.storage.interface import ByteOffset, ByteRange, ByteSuffix, Range
from frazil.virtual.containers import VirtualChunkSpec, normalize_location

if TYPE_CHECKING:
    from frazil.repository.session import Session


R = TypeVar("R")

Buffers = list[Buffer | None]
"""What was read; None where there was nothing."""

# Without those that are called for every chunk: keys are checked where they are taken apart.
_CHECKED = frozenset(
    ("array_chunk_iterator", "delete_dir", "getsize_prefix", "is_empty", "list_dir", "list_prefix",
     "set_virtual_columns", "set_virtual_columns_async", "set_virtual_ref", "set_virtual_ref_async",
     "set_virtual_refs", "set_virtual_refs_arr", "set_virtual_refs_arr_async",
     "set_virtual_refs_async", "with_read_only")
)  # fmt: skip

FailedChunks = list[tuple[int, ...]] | None
"""Coordinates of chunks that were not set, if there are any."""

_MOST_SECONDS_TO_END = 20.0


@check_arguments(only=_CHECKED)
class IcechunkStore(Store, SyncMixin, Block):
    """Groups, arrays and chunks of a session, as Zarr asks for them.

    Any number of threads and tasks may use one store.
    """

    def __init__(
        self,
        store: StoreOwner,
        read_only: bool | None = None,
        *args: Any,  # noqa: ARG002 (others hand them over, and mean nothing by them)
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Not for users, who get a store from `Session.store`."""
        super().__init__(read_only=store.read_only if read_only is None else read_only)
        self._owner = store
        self._is_open = True

    @property
    def _state(self) -> SessionState:
        return self._owner.state

    @property
    def _store(self) -> "_BytesStore":
        # The official attribute, which programs use to get round Zarr's buffers.
        return _BytesStore(self._state)

    def __eq__(self, value: object) -> bool:
        return isinstance(value, IcechunkStore) and self._owner == value._owner

    __hash__ = None  # type: ignore[assignment]

    def shown_items(self) -> Iterator[Item]:
        """What a person wants to know first."""
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

    def with_read_only(self, read_only: bool = False) -> Store:
        """The same store, to be written to or not."""
        store = type(self)(self._owner, read_only=read_only)
        store._is_open = False
        return store

    @property
    def session(self) -> "Session":
        """The session that this store belongs to."""
        return self._owner  # type: ignore[return-value]

    # What Zarr wants to know

    @property
    def supports_writes(self) -> bool:
        """Whether anything can be written."""
        return not self._state.is_read_only

    @property
    def supports_deletes(self) -> bool:
        """Whether anything can be deleted."""
        return self.supports_writes

    @property
    def supports_listing(self) -> bool:
        """Yes."""
        return True

    @property
    def supports_partial_writes(self) -> Literal[False]:
        """No: a chunk is written whole."""
        return False

    @property
    def supports_consolidated_metadata(self) -> bool:
        """No: a snapshot has all metadata in one place already."""
        return False

    @property
    def _supports_sync_io(self) -> bool:
        # Without an event loop requests go one by one, which is no good over a network.
        return self._state.assets.storage.is_local

    # Reading

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The bytes of a key, or a range of them; None where there are none."""
        try:
            data = await store_io.read_key_async(self._state, key, _range(byte_range))
        except Exception:
            _mark_failure_as_seen()
            raise
        return None if data is None else prototype.buffer.from_bytes(data)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """`get` without an event loop."""
        data = store_io.read_key(self._state, key, _range(byte_range))
        if data is None:
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> Buffers:
        """Several ranges of several keys, in the order in which they were asked for."""
        limit = asyncio.Semaphore(self._state.context.settings.get_partial_values_concurrency)

        async def get(key: str, byte_range: ByteRequest | None) -> Buffer | None:
            async with limit:
                return await self.get(key, prototype, byte_range)

        return await run_together(get(key, each) for key, each in key_ranges)

    async def exists(self, key: str) -> bool:
        """Whether a key has bytes."""
        return await self._run(store_io.has_key, key)

    async def getsize(self, key: str) -> int:
        """How many bytes a key has; a chunk that is not there has none."""
        return await self._run(store_io.key_size, key)

    async def getsize_prefix(self, prefix: str) -> int:
        """How many bytes all keys at and below a path have."""
        return await self._run(store_io.total_size, prefix)

    async def is_empty(self, prefix: str) -> bool:
        """Whether there is nothing at or below a path."""
        return await self._run(
            lambda state, at: next(store_io.list_keys(state, at), None) is None, prefix
        )

    def list(self) -> AsyncIterator[str]:
        """All keys."""
        return AsyncCloseableIterator(store_io.list_keys(self._state))

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys at and below a path."""
        return AsyncCloseableIterator(store_io.list_keys(self._state, prefix))

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names right below a path."""
        return AsyncCloseableIterator(store_io.list_names(self._state, prefix))

    # Writing

    async def set(self, key: str, value: Buffer) -> None:
        """Set the bytes of a key."""
        self._refuse_read_only()
        await store_io.set_key_async(self._state, key, _bytes_of(value))

    def set_sync(self, key: str, value: Buffer) -> None:
        """`set` without an event loop."""
        self._refuse_read_only()
        store_io.set_key(self._state, key, _bytes_of(value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Set the bytes of a key that has none."""
        if not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Delete a node with all below it, or a chunk; nothing where there is none."""
        self.delete_sync(key)

    def delete_sync(self, key: str) -> None:
        """`delete` without an event loop."""
        self._refuse_read_only_copy()
        store_io.delete_key(self._state, key)

    async def delete_dir(self, prefix: str) -> None:
        """Delete everything at and below a path."""
        self._refuse_read_only()
        await self._run(store_io.delete_below, prefix)

    async def clear(self) -> None:
        """Delete everything."""
        self.sync_clear()

    def sync_clear(self) -> None:
        """`clear` without an event loop."""
        self._refuse_read_only_copy()
        store_io.clear(self._state)

    async def set_partial_values(
        self, key_start_values: Iterable[tuple[str, int, BytesLike]]
    ) -> None:
        """Not possible: a chunk is written whole."""
        raise NotImplementedError("a chunk can only be written whole")

    # Chunks in other files

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
        """Let a chunk be some bytes of a file outside of the repository.

        `checksum` is the file's etag, or the time at which it was modified last. With
        `validate_container` a location that no container of the configuration holds is refused.
        """
        location = normalize_location(location)
        self._refuse_read_only()
        ref = VirtualRef(location, offset, length, parse_checksum(checksum))
        virtual_refs.set_virtual_ref(self._state, key, ref, validate_container=validate_container)

    set_virtual_ref_async = asynchronous(set_virtual_ref)

    def set_virtual_refs(
        self,
        array_path: str,
        chunks: Sequence[VirtualChunkSpec],
        *,
        validate_containers: bool = True,
    ) -> FailedChunks:
        """The same for many chunks; gives those whose location no container holds, which stay unset."""
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
        """The same by columns over a grid in C order, `arr_offset` chunks from the array's first.

        An empty location leaves its chunk as it is.
        """
        self._refuse_read_only()
        failed = virtual_refs.set_columns(
            self._state,
            prefix_path(array_path),
            virtual_refs.grid_coordinates(chunk_grid_shape, arr_offset, len(locations)),
            TextColumn.of(locations),
            virtual_refs.unsigned_column(offsets, "an offset"),
            virtual_refs.unsigned_column(lengths, "a length"),
            ChecksumColumn.of(checksum, len(locations)),
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
        """The same by columns, a row a chunk: all are set, or none.

        `coordinates` has a row for each chunk and a column for each axis. `locations` are texts, as
        a list, an array of numpy or Arrow (best of all dictionary-encoded), or as a pair of codes
        and the texts they count. `checksums` are etags or times, one for all or one a chunk. Raises
        InvalidChunksError, which has the coordinates of all chunks that can't be set.
        """
        self._refuse_read_only()
        virtual_refs.set_all_columns(
            self._state,
            prefix_path(array_path),
            coordinates,
            TextColumn.of(locations),
            offsets,
            lengths,
            checksums,
            validate_containers=validate_containers,
        )

    set_virtual_columns_async = asynchronous(set_virtual_columns)

    def array_chunk_iterator(
        self, array_path: str, batch_size: int = 100_000
    ) -> AsyncCloseableIterator[ChunkBatch]:
        """The chunks of an array: coordinates, kinds, paths, offsets, lengths, inline bytes."""
        batches: Iterator[ChunkBatch] = chunk_batches(
            self._state, prefix_path(array_path), batch_size
        )
        return AsyncCloseableIterator(batches)

    # How

    async def _run(self, function: Callable[[SessionState, str], R], argument: str) -> R:
        """A function of the session, in a thread if it may have to wait for a network."""
        if self._state.assets.storage.is_local:
            return function(self._state, argument)
        return await asyncio.to_thread(function, self._state, argument)

    def _refuse_read_only(self) -> None:
        if self._state.is_read_only:
            raise ReadOnlyError("cannot write to read-only store", kind="read-only-store")
        self._refuse_read_only_copy()

    def _refuse_read_only_copy(self) -> None:
        # A read-only store of a writable session is Zarr's idea, and so is the error.
        if not self._state.is_read_only:
            self._check_writable()


class _BytesStore:
    """Reads and writes plain bytes, as the official store below Zarr's does."""

    def __init__(self, state: SessionState) -> None:
        self._state = state

    async def get(self, key: str, byte_range: ByteRequest | None = None) -> bytes:
        """Return the bytes of a key; raises NotFoundError where there are none."""
        data = await store_io.read_key_async(self._state, key, _range(byte_range))
        if data is None:
            raise NotFoundError(f"key not found at `{key}`")
        return bytes(data)

    async def set(self, key: str, value: bytes) -> None:
        """Set the bytes of a key; raises ReadOnlyError."""
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
    """Let Zarr's event loop not print the failure of this task.

    When several reads of one call fail, Zarr raises the first error and drops the others, which an
    event loop prints as "Task exception was never retrieved", each with its traceback.
    """
    task = asyncio.current_task()
    if task is not None and task.get_loop() is zarr_loop[0]:
        task.add_done_callback(lambda each: each.cancelled() or each.exception())


@atexit.register
def _end_reads() -> None:
    """End the reads that Zarr left on its event loop, before Zarr stops the loop.

    When one read of many fails, Zarr raises its error and lets the others go on. A process that ends
    before they did would print "Task was destroyed but it is pending" for each of them. Functions
    registered later run earlier, and Zarr registered its own when it was imported above.
    """
    if zarr_loop[0] is not None:
        end_tasks(zarr_loop[0], _MOST_SECONDS_TO_END)
