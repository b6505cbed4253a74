"""Objects in the memory of this process, for tests and scratch work."""

import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import count

from frazil.display import Item
from frazil.errors import ObjectExistsError, ObjectNotFoundError, StorageError, VersionMismatchError
from frazil.lazy import dataclass
from frazil.storage.interface import (
    MEMORY_DEFAULTS,
    NO_OPTIONS,
    Buffer,
    DeleteReport,
    ObjectInfo,
    PutOptions,
    Range,
    Storage,
    StorageSettings,
    Version,
    Versioned,
    slice_range,
    validate_key,
)


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    version: Version
    created_at: datetime


class MemoryStorage(Storage):
    """Objects in a dictionary.

    A pickle holds only a reference: it restores the same storage in this process, and raises
    StorageError in any other, which does not have the objects.
    """

    def __init__(self) -> None:
        self._objects: dict[str, _Object] = {}
        self._lock = threading.Lock()
        self._versions = count(1)
        self._name = (os.getpid(), next(_NUMBERS))
        _STORAGES[self._name] = self

    @property
    def place(self) -> str:
        return "this storage in memory"

    def shown_items(self) -> Iterator[Item]:
        """Yield the kind of storage and the number of objects."""
        yield Item("type", "in-memory")
        yield Item("objects", len(self._objects))

    def __reduce__(self) -> tuple[object, ...]:
        return (_find_storage, self._name)

    @property
    def is_local(self) -> bool:
        """Return True."""
        return True

    def default_settings(self) -> StorageSettings:
        return MEMORY_DEFAULTS

    def get(self, key: str, range: Range | None = None) -> Buffer:
        data = self._object(key).data
        return data if range is None else slice_range(data, range, key)

    async def get_async(self, key: str, range: Range | None = None) -> Buffer:
        return self.get(key, range)

    def get_many(self, requests: Sequence[tuple[str, Range | None]]) -> Sequence[Buffer]:
        return [self.get(key, range) for key, range in requests]

    def get_versioned(self, key: str) -> Versioned:
        found = self._object(key)
        return Versioned(found.data, found.version)

    def head(self, key: str) -> ObjectInfo:
        return _describe(key, self._object(key))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        with self._lock:
            found = [item for item in self._objects.items() if item[0].startswith(prefix)]
        return (_describe(key, value) for key, value in found)

    def put(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        with self._lock:
            self._write(key, data)

    async def put_async(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> None:
        self.put(key, data, options)

    def put_many(self, objects: Sequence[tuple[str, Buffer, PutOptions]]) -> None:
        with self._lock:
            for key, data, _ in objects:
                self._write(key, data)

    def create(self, key: str, data: Buffer, options: PutOptions = NO_OPTIONS) -> Version:
        with self._lock:
            if key in self._objects:
                raise ObjectExistsError(f"{key!r} exists")
            return self._write(key, data)

    def replace(
        self, key: str, data: Buffer, version: Version, options: PutOptions = NO_OPTIONS
    ) -> Version:
        with self._lock:
            self._require(key, version)
            return self._write(key, data)

    def copy(self, source: str, target: str, version: Version | None = None) -> None:
        with self._lock:
            found = self._object(source)
            if version is not None:
                self._require(source, version)
            self._write(target, found.data)

    def delete_many(self, keys: Iterable[str]) -> DeleteReport:
        with self._lock:
            deleted = [self._objects.pop(validate_key(key), None) for key in keys]
        return DeleteReport(len(deleted), {})

    def _object(self, key: str) -> _Object:
        found = self._objects.get(validate_key(key))
        if found is None:
            raise ObjectNotFoundError(f"object not found: there is no {key!r}")
        return found

    def _require(self, key: str, version: Version) -> None:
        found = self._objects.get(validate_key(key))
        if found is None or found.version != version:
            raise VersionMismatchError(f"{key!r} is no longer what was read")

    def _write(self, key: str, data: Buffer) -> Version:
        version = Version(str(next(self._versions)))
        self._objects[validate_key(key)] = _Object(bytes(data), version, datetime.now(UTC))
        return version


_NUMBERS = count(1)
_STORAGES: "weakref.WeakValueDictionary[tuple[int, int], MemoryStorage]"
_STORAGES = weakref.WeakValueDictionary()


def _find_storage(process: int, number: int) -> MemoryStorage:
    storage = _STORAGES.get((process, number))
    # A forked process has a copy, which is a different storage.
    if storage is None or process != os.getpid():
        raise StorageError(
            "a memory storage can't leave the process that made it: use a disk or an object store"
        )
    return storage


def _describe(key: str, value: _Object) -> ObjectInfo:
    return ObjectInfo(key, len(value.data), value.created_at)
