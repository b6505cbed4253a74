"""Opening what a table is read from: a repository, at one version."""

from dataclasses import dataclass, replace
from typing import Any

from frazil.errors import InvalidInputError
from frazil.frames.options import Options
from frazil.opening import authorize, read_version
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage import storage_from_url
from frazil.urls import Location, parse_location

AnyRepository = Repository | Location
"""A repository, or where it is."""


@dataclass(frozen=True, slots=True)
class Source:
    """A repository, and a session of it that reads the version that was asked for."""

    repository: Repository
    session: Session
    options: Options


def open_source(options: Options, repository: AnyRepository | None = None) -> Source:
    """Open the repository that the options name, or the given one, at the version they name."""
    location: Any = options.repo if repository is None else repository
    if location is None:
        raise InvalidInputError('nothing says which repository: give its URL as option("repo", …)')
    ref = options.ref
    if isinstance(location, Repository):
        opened = location
    else:
        url = parse_location(location)
        if ref is not None and url.ref is not None:
            raise InvalidInputError(f"{url} names a version, and so do the options")
        ref = ref or url.ref
        opened = Repository.open(storage_from_url(replace(url, ref=None)))
    authorized = authorize(opened, options.authorize)
    return Source(authorized, read_version(authorized, ref), options)
