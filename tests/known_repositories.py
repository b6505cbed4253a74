"""Opening the repositories of every generation, with the files that they refer to where they now are.

Their `file://` references name a folder of the machine that made them. No configuration can say that
it is elsewhere, so the references are read as if they named the folder that was unpacked.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import frazil
from frazil.credentials import LocalFileSystemAccess
from frazil.format.chunk_table import VirtualRef
from frazil.storage.interface import Buffer, Storage
from frazil.storage.local import LocalStorage
from frazil.storage.store_config import ObjectStoreConfig
from frazil.virtual.access import VirtualChunkAccess
from frazil.virtual.containers import VirtualChunkContainer


class MovedFiles(VirtualChunkAccess):
    """Virtual chunks of files that were moved from one folder to another."""

    def __init__(self, before: str, now: str) -> None:
        # The one name that references of these repositories use: vcc://local/...
        container = VirtualChunkContainer(now, ObjectStoreConfig.LocalFileSystem(""), "local")
        super().__init__({now: container}, {now: LocalFileSystemAccess})
        self._before, self._now = before, now

    def read(self, ref: VirtualRef, start: int, end: int) -> Buffer:
        return super().read(self._move(ref), start, end)

    async def read_async(self, ref: VirtualRef, start: int, end: int) -> Buffer:
        return await super().read_async(self._move(ref), start, end)

    def _move(self, ref: VirtualRef) -> VirtualRef:
        return replace(ref, location=ref.location.replace(self._before, self._now))


def read_expectations(folder: Path) -> dict[str, Any]:
    """What a repository must read as."""
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_bytes())
    return expected


def open_known(folder: Path, storage: Storage | None = None) -> frazil.Repository:
    """The repository of a folder, or a copy of it elsewhere."""
    repository = frazil.Repository.open(storage or LocalStorage(folder / "repo"))
    before = read_expectations(folder).get("virtual_url_prefix")
    if before is None:
        return repository
    # A repository that was migrated refers to the files of the one that it was.
    owner = folder.parent / before.rstrip("/").split("/")[-2]
    opened = repository._repository
    virtual = MovedFiles(before, f"{(owner / 'virtual').as_uri()}/")
    context = replace(opened.context, virtual=virtual)
    return frazil.Repository(replace(opened, context=context))
