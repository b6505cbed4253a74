"""Where a copy comes from and where it goes to."""

from frazil.repository import Repository
from frazil.storage import Storage, storage_from_url
from frazil.urls import Location, parse_location

AnyPlace = Repository | Storage | Location
"""A repository, a storage, or the URL or path of one."""


def find_storage(place: AnyPlace) -> Storage:
    """The storage of a place."""
    if isinstance(place, Repository):
        return place.storage
    return place if isinstance(place, Storage) else storage_from_url(parse_location(place))
