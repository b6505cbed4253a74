"""Opening what a table is read from: a repository, at one version."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from frazil.errors import InvalidInputError
from frazil.frames.options import EVERY_CONTAINER, Options
from frazil.opening import read_version
from frazil.repository import Repository
from frazil.session import Session
from frazil.storage import storage_from_url
from frazil.urls import Location, parse_location
from frazil.virtual.default_credentials import default_credential

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


def authorize(repository: Repository, prefixes: Sequence[str]) -> Repository:
    """The repository, allowed to read from containers with what the environment knows of them."""
    containers = repository.config.virtual_chunk_containers or {}
    wanted = [*containers] if EVERY_CONTAINER in prefixes else list(prefixes)
    unknown = [prefix for prefix in wanted if prefix not in containers]
    if unknown:
        declared = ", ".join(sorted(containers)) or "none"
        raise InvalidInputError(
            f"authorize={','.join(unknown)}: the repository declares no such container, but {declared}"
        )
    more = {prefix: default_credential(containers[prefix]) for prefix in wanted}
    return repository.authorize(more) if more else repository
