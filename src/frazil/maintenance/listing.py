"""Finding garbage in the listings of a storage, and nothing that is not named as a writer names it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import compress

from frazil.maintenance.batches import in_batches, read_ahead
from frazil.maintenance.garbage import is_older
from frazil.maintenance.id_columns import IdSet, parse_names
from frazil.storage.interface import ObjectInfo, Storage

_COMPARED_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the files of a kind are, and how their names go on after the id."""

    name: str
    id_size: int
    endings: tuple[str, ...] = ("",)

    def find_stem(self, key: str) -> str:
        """The part of a key that may spell an id."""
        name = key.removeprefix(f"{self.name}/")
        for ending in self.endings:
            if ending and name.endswith(ending):
                return name.removesuffix(ending)
        return name if "" in self.endings else ""


def list_garbage(
    storage: Storage, folder: Folder, kept: IdSet, cutoff: datetime
) -> Iterator[ObjectInfo]:
    """Files of a folder from before the cutoff whose ids are not to be kept.

    They are listed as they are asked for, some ahead, so that any number takes little memory.
    """
    for batch in read_ahead(in_batches(storage.list(f"{folder.name}/"), _COMPARED_AT_ONCE)):
        for info in select_garbage(batch, folder, kept):
            if is_older(info.created_at, cutoff):
                yield info


def select_garbage(files: Sequence[ObjectInfo], folder: Folder, kept: IdSet) -> list[ObjectInfo]:
    """The files that are named by an id which is not to be kept."""
    ids, is_named = parse_names([folder.find_stem(file.key) for file in files], folder.id_size)
    named = compress(files, is_named)
    return list(compress(named, ~kept.contains(ids)))
