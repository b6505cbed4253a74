"""Whether a storage keeps its word about conditional writes, found out by trying.

There are servers that speak like S3 and ignore conditions. On such a one commits would be lost in
silence, so a storage is tried before it is committed to for the first time.
"""

from uuid import uuid4

from frazil.errors import ObjectExistsError, UnsafeStorageError, VersionMismatchError
from frazil.storage.interface import Storage

DEFAULT_FOLDER = "overwritten"
"""Where a trace of a probe that was cut short disturbs nobody: what lies there is not listed."""


def probe_conditional_writes(storage: Storage, folder: str = DEFAULT_FOLDER) -> None:
    """Raise UnsafeStorageError if two writers could both believe to have won.

    Writes one small object, four requests and a deletion in all.
    """
    if not (storage.can_create_safely and storage.can_replace_safely):
        raise UnsafeStorageError(
            f"{storage.place} is set not to use conditional writes, so that commits may be lost"
        )
    key = f"{folder}/probe.{uuid4().hex}"
    first = storage.create(key, b"first")
    try:
        second = storage.replace(key, b"second", first)
        try:
            storage.create(key, b"third")
        except ObjectExistsError:
            pass
        else:
            raise _unsafe(storage, "creates an object that exists")
        try:
            storage.replace(key, b"fourth", first)
        except VersionMismatchError:
            pass
        else:
            raise _unsafe(storage, "replaces a version that is gone")
        if second == first:
            raise _unsafe(storage, "has one version for different bytes")
    finally:
        storage.delete_many([key])


def _unsafe(storage: Storage, fault: str) -> UnsafeStorageError:
    return UnsafeStorageError(
        f"{storage.place} {fault}: it ignores the conditions of writes, so that commits would be lost. "
        "Commit to a store that has conditional writes"
    )
