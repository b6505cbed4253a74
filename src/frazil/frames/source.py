"""Opening what a table is read from: a repository, at one version."""

from dataclasses import dataclass, replace
from typing import Any

from frazil.errors import InvalidInputError
from frazil.frames.options import NO_REPOSITORY, Options
from frazil.opening import authorize, read_version
from frazil.protocols.interface import MAIN
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage import storage_from_url
from frazil.urls import BranchRef, Location, NamedRef, parse_location

AnyRepository = Repository | Location
"""A repository, or where it is."""


@dataclass(frozen=True, slots=True)
class Source:
    """A repository, and a session of it that reads the version that was asked for.

    The options name that version also where the URL does.
    """

    repository: Repository
    session: Session
    options: Options


def open_source(options: Options, repository: AnyRepository | None = None) -> Source:
    """Open the repository that the options name, or the given one, at the version they name."""
    location: Any = options.repo if repository is None else repository
    if location is None:
        raise InvalidInputError(NO_REPOSITORY)
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
    return Source(authorized, read_version(authorized, ref), replace(options, ref=ref))


def find_branch(source: Source, purpose: str) -> str:
    """The branch that is read; raises InvalidInputError for any other version, with the purpose."""
    match source.options.ref:
        case None:
            return MAIN
        case BranchRef(name, None):
            return name
        case NamedRef(name) if name in source.repository.list_branches():
            return name
    raise InvalidInputError(f"{purpose} goes with a branch, not with a tag, a snapshot or a moment")
