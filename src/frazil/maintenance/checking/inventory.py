"""What a storage lists, as columns: a million chunk files are two arrays, ids and sizes."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, compress

import numpy as np
from numpy.typing import NDArray

from frazil.assets import Assets
from frazil.format.coordinates import Rows
from frazil.format.dialect import Dialect
from frazil.maintenance.batches import in_batches
from frazil.maintenance.id_columns import Ids, IdSet, column_of, parse_names
from frazil.maintenance.listing import Folder, plan_prefixes
from frazil.protocols.config_file import KEY as CONFIG_KEY
from frazil.protocols.ops_log import BACKUPS
from frazil.protocols.repo_file import REPO
from frazil.storage.interface import ObjectInfo, Storage

_PARSED_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """The objects of a folder that are named by an id, sorted."""

    ids: Ids
    sizes: NDArray[np.uint64]
    strangers: tuple[ObjectInfo, ...] = ()
    """Objects that are named otherwise."""

    def __len__(self) -> int:
        return len(self.ids)

    def locate(self, wanted: Ids) -> Rows:
        """The row of each id, or -1."""
        if not len(self.ids):
            return np.full(len(wanted), -1, np.intp)
        rows = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        rows[self.ids[rows] != wanted] = -1
        return rows

    def find_size(self, id: bytes) -> int | None:
        """How many bytes the object of an id has, if there is one."""
        (row,) = self.locate(column_of([id], len(id))).tolist()
        return None if row < 0 else int(self.sizes[row])

    def measure_unused(self, used: IdSet) -> tuple[int, int]:
        """How many objects are not in a set, and how many bytes they have."""
        unused = ~used.contains(self.ids)
        return int(unused.sum()), int(self.sizes[unused].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Inventory:
    """All objects of a repository."""

    id_size: int
    snapshots: Listed
    manifests: Listed
    transaction_logs: Listed
    chunks: Listed
    others: Mapping[str, ObjectInfo] = field(default_factory=dict)
    """By key: refs, backups, the configuration."""


def take_inventory(assets: Assets) -> Inventory:
    """List a repository's storage, once."""
    layout, storage = assets.layout, assets.storage
    size = 16 if assets.dialect is Dialect.DRAFT else 12
    endings = (layout.ending, *layout.other_endings)
    logs = layout.transactions
    return Inventory(
        size,
        _list_folder(storage, Folder(layout.snapshots, size, endings)),
        _list_folder(storage, Folder(layout.manifests, size, endings)),
        _columns([], size) if logs is None else _list_folder(storage, Folder(logs, size)),
        _list_folder(storage, Folder(layout.chunks, size)),
        {info.key: info for info in _list_others(storage)},
    )


def _list_others(storage: Storage) -> Iterator[ObjectInfo]:
    prefixes = ("refs/", "r/", f"{BACKUPS}/", CONFIG_KEY, REPO)
    return chain.from_iterable(map(storage.list, prefixes))


def _list_folder(storage: Storage, folder: Folder) -> Listed:
    with ThreadPoolExecutor(storage.concurrency) as pool:
        parts = pool.map(
            lambda prefix: list(_parse(storage.list(prefix), folder)),
            plan_prefixes(storage, folder),
        )
        return _columns(chain.from_iterable(parts), folder.id_size)


def _parse(files: Iterable[ObjectInfo], folder: Folder) -> Iterator[Listed]:
    for batch in in_batches(files, _PARSED_AT_ONCE):
        ids, is_named = parse_names([folder.find_stem(each.key) for each in batch], folder.id_size)
        sizes = np.fromiter((each.size_bytes for each in batch), np.uint64, len(batch))
        yield Listed(ids, sizes[is_named], tuple(compress(batch, ~is_named)))


def _columns(parts: Iterable[Listed], id_size: int) -> Listed:
    found = list(parts)
    ids = np.concatenate([np.empty(0, f"S{id_size}"), *(each.ids for each in found)])
    sizes = np.concatenate([np.empty(0, np.uint64), *(each.sizes for each in found)])
    # A metadata file of the draft may be there under two endings.
    ids, first = np.unique(ids, return_index=True)
    strangers = tuple(chain.from_iterable(each.strangers for each in found))
    return Listed(ids, sizes[first], strangers)
