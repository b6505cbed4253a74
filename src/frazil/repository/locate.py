"""Open repositories and sessions by URL."""

from collections.abc import Mapping
from typing import Any

from frazil.config.settings import Attribution, RepositoryConfig
from frazil.errors import InvalidInputError, RefNotFoundError
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.repository import context
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.storage.constructors import storage_from_url
from frazil.storage.interface import Storage
from frazil.urls import BranchRef, Location, NamedRef, Ref, SnapshotRef, TagRef, parse_location
from frazil.virtual.access import Authorize

__all__ = [
    "create_legacy",
    "open_repository",
    "open_session",
    "read_version",
]


def open_repository(
    url: Location,
    config: RepositoryConfig | None = None,
    authorize: Authorize = (),
    attribution: Attribution | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Repository:
    """Open the repository at a URL.

    Parameters
    ----------
    url
        URL of the repository, without a version.
    config
        Configuration, merged over the one saved with the repository.
    authorize
        Containers whose virtual chunks may be read: `"*"` for all that the repository declares, or
        one or more URL prefixes, with credentials from the environment. Or credentials by URL prefix.
    attribution
        Labels for the User-Agent header of requests.
    storage_options
        Arguments of the function that creates the storage, such as `s3_storage`.

    Returns
    -------
    Repository
        The open repository.

    Raises
    ------
    RepositoryNotFoundError
        If there is no repository.
    InvalidInputError
        If the URL names a version: use `open_session`.
    """
    parsed = parse_location(url)
    if parsed.ref is not None:
        raise InvalidInputError(f"{parsed} names a version, which open_session reads")
    storage = storage_from_url(parsed, **(storage_options or {}))
    return Repository.open(storage, config, attribution=attribution).authorize(authorize)


def open_session(
    url: Location,
    config: RepositoryConfig | None = None,
    authorize: Authorize = (),
    attribution: Attribution | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Session:
    """Open a read-only session of the version that a URL names, by default the branch `main`.

    Parameters
    ----------
    url
        URL of the repository, optionally with a branch, tag or snapshot.
    config
        Configuration, merged over the one saved with the repository.
    authorize
        Containers whose virtual chunks may be read: `"*"` for all that the repository declares, or
        one or more URL prefixes, with credentials from the environment. Or credentials by URL prefix.
    attribution
        Labels for the User-Agent header of requests.
    storage_options
        Arguments of the function that creates the storage, such as `s3_storage`.

    Returns
    -------
    Session
        A read-only session.

    Raises
    ------
    RepositoryNotFoundError
        If there is no repository.
    RefNotFoundError
        If there is no such branch or tag.

    Examples
    --------
    >>> session = open_session("s3://bucket/weather@v1", authorize="*")
    >>> dataset = xarray.open_zarr(session.store, consolidated=False)
    """
    parsed = parse_location(url)
    storage = storage_from_url(parsed, **(storage_options or {}))
    repository = Repository.open(storage, config, attribution=attribution).authorize(authorize)
    with repository.protocol.reading_once():
        return read_version(repository, parsed.ref)


def read_version(repository: Repository, ref: Ref | None) -> Session:
    """Open a read-only session of a version of a repository, by default the branch `main`."""
    match ref:
        case None:
            return repository.readonly_session("main")
        case BranchRef(name, as_of):
            return repository.readonly_session(name, as_of=as_of)
        case TagRef(name):
            return repository.readonly_session(tag=name)
        case SnapshotRef(id):
            return repository.readonly_session(snapshot_id=id)
        case NamedRef(name):
            return repository.readonly_session(snapshot_id=_find_snapshot(repository, name))


def _find_snapshot(repository: Repository, name: str) -> str:
    tag, branch = _find_tag(repository, name), _find_branch(repository, name)
    if tag is not None and branch is not None:
        raise InvalidInputError(
            f"{name!r} is both a tag and a branch: say ?tag={name} or ?branch={name}"
        )
    found = tag or branch
    if found is None and not _is_snapshot_id(name):
        raise RefNotFoundError(f"there is no tag, branch or snapshot {name!r}")
    return found or name


def _find_tag(repository: Repository, name: str) -> str | None:
    try:
        return repository.lookup_tag(name)
    except RefNotFoundError:
        return None


def _find_branch(repository: Repository, name: str) -> str | None:
    try:
        return repository.lookup_branch(name)
    except RefNotFoundError:
        return None


def _is_snapshot_id(name: str) -> bool:
    try:
        SnapshotId.parse(name)
    except InvalidInputError:
        return False
    return True


def create_legacy(
    storage: Storage,
    generation: str = Dialect.ALPHA_H.value,
    config: RepositoryConfig | None = None,
) -> Repository:
    """Create a repository of the draft or of an alpha release.

    Their commits only create objects, so they are safe on storage that can create an object if there
    is none, but can't replace one conditionally.

    Parameters
    ----------
    storage
        Storage of the new repository.
    generation
        `"draft"`, or the releases of an alpha, such as `"0.1.0-0.1.3"`.
    config
        Configuration; saved in the repository unless it is the default.

    Returns
    -------
    Repository
        The new repository.

    Raises
    ------
    InvalidInputError
        If there is no such generation.
    """
    known = {each.value: each for each in Dialect if each.is_legacy}
    if generation not in known:
        raise InvalidInputError(
            f"{generation!r} is not an old generation: expected one of {', '.join(known)}"
        )
    return Repository(context.create(storage, known[generation], config))
