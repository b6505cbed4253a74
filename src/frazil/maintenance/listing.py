"""Finding garbage in the listings of a storage, and nothing that is not named as a writer names it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from frazil.maintenance.batches import in_batches, read_ahead
from frazil.maintenance.garbage import is_older
from frazil.maintenance.id_columns import IdSet, parse_names
from frazil.storage.interface import ObjectInfo, Storage

_LISTED_AHEAD = 2_000


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


def list_garbage(
    storage: Storage, folder: Folder, kept: IdSet, cutoff: datetime
) -> Iterator[ObjectInfo]:
    """Files of a folder from before the cutoff whose ids are not to be kept.

    They are listed as they are asked for, some ahead where that takes a trip, so that any number takes
    little memory.
    """
    found = storage.list_chosen(f"{folder.name}/", lambda keys: choose_garbage(keys, folder, kept))
    if not storage.is_local:
        found = chain.from_iterable(read_ahead(in_batches(found, _LISTED_AHEAD)))
    for info in found:
        if is_older(info.created_at, cutoff):
            yield info


def choose_garbage(keys: Sequence[str], folder: Folder, kept: IdSet) -> NDArray[np.bool_]:
    """Which keys are named by an id that is not to be kept."""
    ids, is_garbage = parse_names(folder.find_stems(keys), folder.id_size)
    is_garbage[is_garbage] = ~kept.contains(ids)
    return is_garbage
