"""Restoring `repo` from its backups, for a repository that does not open any more.

The newest backup is the repository before its last update: a commit that was the last update is lost to
the branch, though its files stay until garbage is collected.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from frazil.errors import FormatError, ObjectNotFoundError, SessionStateError, StorageError
from frazil.format.files import decode_repo_info
from frazil.format.ids import encode_base32
from frazil.protocols.clock import read_clock
from frazil.protocols.ops_log import BACKUPS, backup_name
from frazil.protocols.repo_file import REPO
from frazil.storage.interface import Storage, Version, Versioned

_PREFIX = f"{BACKUPS}/{REPO}."


@dataclass(frozen=True, slots=True)
class Restored:
    """Which backup was put in the place of `repo`, and where the damaged one is now."""

    backup: str
    damaged: str | None
    """None where there was no `repo` at all."""


def list_backups(storage: Storage) -> Iterator[str]:
    """The keys of backups, newest first: their names count down."""
    return iter(sorted(info.key for info in storage.list(_PREFIX)))


def restore_repo(storage: Storage, *, dry_run: bool = False) -> Restored:
    """Put the newest backup that can be read in the place of a `repo` that can't; nothing is deleted.

    Raises SessionStateError where `repo` can be read, FormatError where no backup can, and
    VersionMismatchError or ObjectExistsError where somebody else was faster.
    """
    current = _find_current(storage)
    if current is not None and _is_readable(current.data):
        raise SessionStateError(f"{REPO!r} can be read, and needs no backup")
    key, data = _find_newest(storage, list_backups(storage))
    if dry_run:
        return Restored(key, None)
    if current is None:
        storage.create(REPO, data)
        return Restored(key, None)
    return Restored(key, _replace(storage, data, current.version))


def _replace(storage: Storage, data: bytes, version: Version) -> str:
    name = backup_name(read_clock(), encode_base32(os.urandom(12)))
    damaged = f"{BACKUPS}/damaged-{name}"
    storage.copy(REPO, damaged, version)
    storage.replace(REPO, data, version)
    return damaged


def _find_current(storage: Storage) -> Versioned | None:
    try:
        return storage.get_versioned(REPO)
    except ObjectNotFoundError:
        return None


def _find_newest(storage: Storage, keys: Iterable[str]) -> tuple[str, bytes]:
    for key in keys:
        try:
            data = bytes(storage.get(key))
        except StorageError:
            continue
        if _is_readable(data):
            return key, data
    raise FormatError(f"none of the backups in {BACKUPS}/ can be read")


def _is_readable(data: object) -> bool:
    try:
        info = decode_repo_info(bytes(data)).value  # type: ignore[call-overload]
        # What is decoded when it is asked for must be readable, too.
        return all((list(info.snapshots.values()), list(info.latest_updates)))
    except FormatError:
        return False
