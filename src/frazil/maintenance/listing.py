"""Finding garbage in the listings of a storage, and nothing that is not named as a writer names it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, compress

import numpy as np
from numpy.typing import NDArray

from frazil.assets import Assets
from frazil.format.dialect import Dialect
from frazil.maintenance.batches import in_batches, read_ahead
from frazil.maintenance.garbage import is_older
from frazil.maintenance.id_columns import IdSet, parse_names
from frazil.maintenance.shares import Share
from frazil.storage.interface import CHOSEN_AT_ONCE, Choice, ObjectInfo, Storage
from frazil.watching import count

_LISTED_AHEAD = 2_000
ALL = Share()


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the files of a kind are, and how their names go on after the id."""

    name: str
    id_size: int
    endings: tuple[str, ...] = ("",)

    def find_stems(self, keys: Sequence[str]) -> list[str]:
        """The part of each key that may spell an id."""
        if self.endings == ("",):
            start = len(self.name) + 1
            return [key[start:] for key in keys]
        return list(map(self.find_stem, keys))

    def find_stem(self, key: str) -> str:
        """The same of one key."""
        name = key[len(self.name) + 1 :]
        for ending in self.endings:
            if ending and name.endswith(ending):
                return name.removesuffix(ending)
        return name if "" in self.endings else ""


def chunk_folder(assets: Assets) -> Folder:
    """Where native chunks are."""
    return Folder(assets.layout.chunks, find_id_size(assets))


def log_folder(assets: Assets) -> Folder | None:
    """Where transaction logs are, in a generation that has them."""
    name = assets.layout.transactions
    return None if name is None else Folder(name, find_id_size(assets))


def metadata_folder(assets: Assets, name: str) -> Folder:
    """Where snapshots or manifests are."""
    layout = assets.layout
    return Folder(name, find_id_size(assets), (layout.ending, *layout.other_endings))


def find_id_size(assets: Assets) -> int:
    """How many bytes the ids of files have."""
    return 16 if assets.dialect is Dialect.DRAFT else 12


def list_garbage(
    storage: Storage, folder: Folder, kept: IdSet, cutoff: datetime, share: Share = ALL
) -> Iterator[ObjectInfo]:
    """Files of a folder from before the cutoff whose ids are not to be kept, or a share of them.

    They are listed as they are asked for, some ahead where that takes a trip, so that any number takes
    little memory.
    """
    done = count(f"looking through {folder.name}", "files")

    def choose(keys: Sequence[str]) -> NDArray[np.bool_]:
        done.add(len(keys))
        return choose_garbage(keys, folder, kept, share)

    found = _list_chosen(storage, folder, share, choose)
    if not storage.is_local:
        found = chain.from_iterable(read_ahead(in_batches(found, _LISTED_AHEAD)))
    for info in found:
        if is_older(info.created_at, cutoff):
            yield info


def _list_chosen(
    storage: Storage, folder: Folder, share: Share, choose: Choice
) -> Iterator[ObjectInfo]:
    if share == ALL or storage.is_local:  # which lists names only, and all of a folder in any case
        yield from storage.list_chosen(f"{folder.name}/", choose)
        return
    after, before = (f"{folder.name}/{name}" for name in share.find_names())
    found = storage.list_between(f"{folder.name}/", after, before)
    for batch in in_batches(found, CHOSEN_AT_ONCE):
        yield from compress(batch, choose([info.key for info in batch]))


def choose_garbage(
    keys: Sequence[str], folder: Folder, kept: IdSet, share: Share = ALL
) -> NDArray[np.bool_]:
    """Which keys are named by an id of a share that is not to be kept."""
    ids, is_garbage = parse_names(folder.find_stems(keys), folder.id_size)
    goes = ~kept.contains(ids)
    is_garbage[is_garbage] = goes if share == ALL else goes & share.choose(ids)
    return is_garbage
