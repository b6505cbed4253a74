"""Zarr's own suite for stores, on memory and on a disk, for both generations that are created today."""

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest
import zarr
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, cpu, default_buffer_prototype
from zarr.testing.store import StoreTests

from frazil import InvalidInputError, NodeNotFoundError, Repository, Session
from frazil.repository import store_io as reading
from frazil.repository import store_io as writing
from frazil.storage.interface import Storage
from frazil.storage.local import Durability, LocalStorage
from frazil.storage.memory import MemoryStorage
from tests.unit.store.any_keys import AnyKeyStore, FilledBuffer, metadata_of, place_of

PROTOTYPE = default_buffer_prototype()


class FrazilStoreTests(StoreTests[AnyKeyStore, cpu.Buffer]):
    """The suite, with the few claims that hold otherwise here."""

    store_cls = AnyKeyStore
    buffer_cls = FilledBuffer
    spec_version: int

    @pytest.fixture
    def session(self, storage: Storage) -> Session:
        repository = Repository.create(storage, spec_version=self.spec_version)
        return repository.writable_session("main")

    @pytest.fixture
    def store_kwargs(self, session: Session) -> dict[str, Any]:
        return {"store": session}

    @pytest.fixture
    def store(self, open_kwargs: dict[str, Any]) -> AnyKeyStore:
        return asyncio.run(self.store_cls.open(**open_kwargs))

    @pytest.fixture
    def store_not_open(self, store_kwargs: dict[str, Any]) -> AnyKeyStore:
        return self.store_cls(**store_kwargs)

    async def set(self, store: AnyKeyStore, key: str, value: Buffer) -> None:
        store._make_place(key)
        writing.set_key(store.session.state, place_of(key), value.to_bytes())

    async def get(self, store: AnyKeyStore, key: str) -> Buffer:
        data = reading.read_key(store.session.state, place_of(key))
        assert data is not None
        return self.buffer_cls.from_bytes(bytes(data))

    def test_store_repr(self, store: AnyKeyStore) -> None:
        assert "read_only: False" in repr(store)
        assert repr(store) == str(store)

    def test_store_supports_writes(self, store: AnyKeyStore) -> None:
        assert store.supports_writes
        assert store.supports_deletes

    def test_store_supports_listing(self, store: AnyKeyStore) -> None:
        assert store.supports_listing

    async def test_serializable_store(self, store: AnyKeyStore) -> None:
        """A writable session stays where it is: only its forks and readers can be sent elsewhere."""
        with pytest.raises(ValueError, match="fork"):
            pickle.dumps(store)

        fork = AnyKeyStore(store.session.fork())
        sent = pickle.loads(pickle.dumps(fork))

        assert fork == fork
        assert sent != fork, "they don't share changes"
        assert sent.session.snapshot_id == fork.session.snapshot_id

    async def test_getsize_raises(self, store: AnyKeyStore) -> None:
        """A chunk that was never written has no bytes, and only an unknown node is an error."""
        store._make_place("known")

        assert await store.getsize("known") == 0
        with pytest.raises(NodeNotFoundError):
            await store.getsize("unknown")

    async def test_list_dir(self, store: AnyKeyStore) -> None:
        """What is listed are nodes: an array has metadata and chunks, a group its children."""
        root = zarr.open_group(store.session.store, mode="w")
        root.create_array("foo/bar", shape=(2, 2), chunks=(1, 1), dtype="u1")[:] = 7
        listed = store.session.store.list_dir

        found = {
            path: sorted([name async for name in listed(path)])
            for path in ("", "foo", "foo/", "foo/bar", "foo/bar/c", "foo/bar/c/1", "nothing")
        }

        assert found == {
            "": ["foo", "zarr.json"],
            "foo": ["bar", "zarr.json"],
            "foo/": ["bar", "zarr.json"],
            "foo/bar": ["c", "zarr.json"],
            "foo/bar/c": ["0", "1"],
            "foo/bar/c/1": ["0", "1"],
            "nothing": [],
        }

    @pytest.mark.parametrize(
        "byte_range",
        [None, RangeByteRequest(1, 4), OffsetByteRequest(1), SuffixByteRequest(1)],
    )
    async def test_get_sync_byte_range_parity(
        self, store: AnyKeyStore, byte_range: ByteRequest | None
    ) -> None:
        """The ranges of a chunk; those that reach out of it are refused, not cut short."""
        await store.set("key", self.buffer_cls.from_bytes(b"\1\2\3\4"))

        waited = await store.get("key", PROTOTYPE, byte_range)
        at_once = store.get_sync("key", byte_range=byte_range)

        assert waited is not None
        assert at_once is not None
        assert waited.to_bytes() == at_once.to_bytes()

    @pytest.mark.parametrize(
        "byte_range",
        [
            RangeByteRequest(10, 20),
            RangeByteRequest(0, 5),
            OffsetByteRequest(4),
            SuffixByteRequest(5),
        ],
    )
    async def test_ranges_that_reach_out_of_a_chunk_are_refused(
        self, store: AnyKeyStore, byte_range: ByteRequest
    ) -> None:
        await store.set("key", self.buffer_cls.from_bytes(b"\1\2\3\4"))

        with pytest.raises(InvalidInputError, match="not within the 4 bytes"):
            await store.get("key", PROTOTYPE, byte_range)
        with pytest.raises(InvalidInputError, match="not within the 4 bytes"):
            store.get_sync("key", byte_range=byte_range)

    async def test_a_chunk_without_bytes_is_refused(self, store: AnyKeyStore) -> None:
        with pytest.raises(InvalidInputError, match="no bytes"):
            await store.set("key", cpu.Buffer.from_bytes(b""))

    async def test_metadata_that_is_no_metadata_is_refused(self, store: AnyKeyStore) -> None:
        with pytest.raises(InvalidInputError, match=r"zarr\.json"):
            await store.session.store.set(metadata_of("key"), cpu.Buffer.from_bytes(b"bar"))


class MemoryStoreTests(FrazilStoreTests):
    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage()


class LocalStoreTests(FrazilStoreTests):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path, durability=Durability.NONE)


class TestMemoryV1(MemoryStoreTests):
    spec_version = 1


class TestMemoryV2(MemoryStoreTests):
    spec_version = 2


class TestLocalV1(LocalStoreTests):
    spec_version = 1


class TestLocalV2(LocalStoreTests):
    spec_version = 2
