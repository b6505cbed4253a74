"""Where a copy comes from and where it goes to."""

import hashlib

from frazil.repository import Repository
from frazil.storage import MemoryStorage, Storage, storage_from_url
from frazil.storage.local import LocalStorage
from frazil.urls import Location, parse_location

AnyPlace = Repository | Storage | Location
"""A repository, a storage, or the URL or path of one."""


def find_storage(place: AnyPlace) -> Storage:
    """The storage of a place."""
    if isinstance(place, Repository):
        return place.storage
    return place if isinstance(place, Storage) else storage_from_url(parse_location(place))


def name_place(storage: Storage) -> str:
    """A short text that is the same for the same place, and does not tell where that is."""
    if isinstance(storage, MemoryStorage):
        told = "memory"
    else:  # the text of earlier releases, whose names are in repositories
        kind = "local filesystem, " if isinstance(storage, LocalStorage) else ""
        told = f"<frazil.Storage: {kind}{storage.place}>"
    return hashlib.sha256(told.encode()).hexdigest()[:16]
