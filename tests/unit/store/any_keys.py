"""A store that takes any key, for suites that were written for such stores.

An Icechunk store holds nodes and their chunks. Here a key like `foo/bar` is the one chunk of an array
without axes, `/foo/=bar`: what is set, read, listed and deleted is real. The sign keeps a key apart
from the folder of the same name.
"""

import json
from collections.abc import AsyncIterator

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype, cpu

from frazil import IcechunkStore, Session

_ARRAY = json.dumps(
    {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
    }
).encode()


class FilledBuffer(cpu.Buffer):
    """A buffer that is never empty, because a chunk never is."""

    @classmethod
    def from_bytes(cls, bytes_like: bytes | bytearray | memoryview) -> "FilledBuffer":
        return super().from_bytes(bytes_like if len(bytes_like) else b"\0")


class AnyKeyStore(IcechunkStore):
    """Keys of any form."""

    def __init__(self, store: Session, read_only: bool | None = None) -> None:
        super().__init__(store, read_only)
        self._is_open = False

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        return await super().get(place_of(key), prototype, byte_range)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        return super().get_sync(place_of(key), prototype=prototype, byte_range=byte_range)

    async def exists(self, key: str) -> bool:
        return await super().exists(place_of(key))

    async def getsize(self, key: str) -> int:
        return await super().getsize(place_of(key))

    async def getsize_prefix(self, prefix: str) -> int:
        arrays = [key async for key in self.list_prefix(prefix)]
        return await super().getsize_prefix(prefix) - len(_ARRAY) * len(arrays)

    async def set(self, key: str, value: Buffer) -> None:
        self._make_place(key)
        await super().set(place_of(key), value)

    def set_sync(self, key: str, value: Buffer) -> None:
        self._make_place(key)
        super().set_sync(place_of(key), value)

    def _make_place(self, key: str) -> None:
        super().set_sync(metadata_of(key), cpu.Buffer.from_bytes(_ARRAY))

    def delete_sync(self, key: str) -> None:
        super().delete_sync(place_of(key))
        super().delete_sync(metadata_of(key))

    def list(self) -> AsyncIterator[str]:
        return _keys_at(super().list())

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        return _keys_at(super().list_prefix(prefix))


def place_of(key: str) -> str:
    """Where the bytes of a key really are."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}={name}/c"


def metadata_of(key: str) -> str:
    """The metadata of the array whose chunk they are."""
    return f"{place_of(key)[:-1]}zarr.json"


async def _keys_at(places: AsyncIterator[str]) -> AsyncIterator[str]:
    async for place in places:
        if place.endswith("/c"):
            folder, slash, name = place[:-2].rpartition("/")
            yield f"{folder}{slash}{name.removeprefix('=')}"
