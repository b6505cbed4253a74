"""Deleting files of refs."""

from collections.abc import Sequence

from frazil.errors import StorageError
from frazil.storage.interface import Storage


def delete_files(storage: Storage, keys: Sequence[str]) -> None:
    """Delete files; raises StorageError if one of them stays."""
    failed = storage.delete_many(keys).failed
    if failed:
        reasons = "; ".join(f"{key}: {reason}" for key, reason in failed.items())
        raise StorageError(f"could not be deleted: {reasons}")
