"""Copying objects from one storage to another, under their names: what tasks do.

An object that is there and has the size of its original is left as it is: names are random and what
they name never changes. Writing one twice does no harm either.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from frazil.assets import Assets
from frazil.errors import ObjectNotFoundError, StorageError
from frazil.protocols.history import has_history
from frazil.spark.copying.report import Copied
from frazil.storage.interface import NO_OPTIONS, PutOptions, Storage

AT_ONCE = 16
_AT_ONCE_ON_DISKS = 4
"""More would not be quicker."""
_WORTH_LISTING = 200
"""So many objects are rather listed than asked for one by one."""


@dataclass(frozen=True, slots=True)
class Passage:
    """The way from one storage to another."""

    source: Assets
    target: Assets
    is_empty: bool
    """Whether nothing can be there yet."""
    at_once: int = AT_ONCE
    """Objects that a task has in memory."""

    def copy_chunks(self, keys: Sequence[str], after: str, before: str) -> Copied:
        """Copy chunk files, all of whose names come after one and before another."""
        storage = self.target.storage
        if self.is_empty or storage.is_local or len(keys) < _WORTH_LISTING:
            return self.copy(keys)
        there = self._list_sizes(storage, after, before)
        try:
            here = self._list_sizes(self.source.storage, after, before) if there else {}
        except StorageError:  # servers of web pages can't list
            return self.copy(keys)
        missing = [key for key in keys if key not in there or there[key] != here.get(key)]
        copied = self._run(missing, self._copy_always)
        return copied + Copied(present=len(keys) - len(missing))

    def _list_sizes(self, storage: Storage, after: str, before: str) -> Mapping[str, int]:
        folder = f"{self.source.layout.chunks}/"
        found = storage.list_between(folder, folder + after, folder + before)
        return {info.key: info.size_bytes for info in found}

    def copy(self, keys: Sequence[str]) -> Copied:
        """Copy files of any kind."""
        return self._run(keys, self._copy_always if self.is_empty else self._copy_missing)

    def copy_again(self, keys: Sequence[str]) -> Copied:
        """Copy files whatever is there: before V2 an expiry rewrites snapshots where they are."""
        return self._run(keys, self._copy_always)

    def _run(self, keys: Sequence[str], copy: Callable[[str], Copied]) -> Copied:
        is_local = self.source.storage.is_local and self.target.storage.is_local
        at_once = min(self.at_once, _AT_ONCE_ON_DISKS) if is_local else self.at_once
        with ThreadPoolExecutor(at_once) as pool:
            return sum(pool.map(copy, keys), Copied())

    def _copy_missing(self, key: str) -> Copied:
        size = find_size(self.target.storage, key)
        if size is not None and size == find_size(self.source.storage, key):
            return Copied(present=1)
        return self._copy_always(key)

    def _copy_always(self, key: str) -> Copied:
        for spelled in self._spellings(key):
            try:
                data = self.source.storage.get(spelled)
            except ObjectNotFoundError:
                continue
            self.target.storage.put(spelled, data, self._describe(key))
            return Copied(1, len(data))
        if self._may_be_missing(key):
            return Copied()
        raise ObjectNotFoundError(
            f"{key} is not in the source any more: if it has expired and was collected since the copy"
            " began, copy again; otherwise check the source"
        )

    def _spellings(self, key: str) -> Iterable[str]:
        layout = self.source.layout
        return (key,) if key.startswith(f"{layout.chunks}/") else layout.spellings(key)

    def _may_be_missing(self, key: str) -> bool:
        layout = self.source.layout
        folder = key.partition("/")[0]
        # A text of the history may tell of snapshots whose files were never kept.
        is_told = folder == layout.snapshots and has_history(self.source.dialect)
        return folder == layout.transactions or is_told

    def _describe(self, key: str) -> PutOptions:
        layout = self.source.layout
        kinds = {
            layout.snapshots: "snapshot",
            layout.manifests: "manifest",
            layout.transactions: "transaction-log",
        }
        kind = kinds.get(key.partition("/")[0])
        return NO_OPTIONS if kind is None else self.target.describe(kind)


@dataclass(frozen=True, slots=True)
class CopyFiles:
    """Copies metadata files: a task."""

    passage: Passage
    is_always: bool = False

    def __call__(self, keys: Sequence[str]) -> Copied:
        """Copy some, and make them last."""
        copied = (self.passage.copy_again if self.is_always else self.passage.copy)(keys)
        self.passage.target.storage.flush()
        return copied


def find_size(storage: Storage, key: str) -> int | None:
    """How many bytes an object has, if it is there."""
    try:
        return storage.head(key).size_bytes
    except ObjectNotFoundError:
        return None
