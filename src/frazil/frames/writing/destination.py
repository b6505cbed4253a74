"""Opening the repository that rows are written to."""

from dataclasses import dataclass, replace

import pyarrow as pa

from frazil.assets import Assets
from frazil.errors import InvalidInputError
from frazil.frames.options import NO_REPOSITORY, Options
from frazil.frames.source import AnyRepository
from frazil.frames.writing.options import WriteOptions, read_write_options
from frazil.frames.writing.targets import find_dims
from frazil.opening import authorize
from frazil.repository import Repository
from frazil.storage import storage_from_url
from frazil.urls import Ref, parse_location


@dataclass(frozen=True, slots=True)
class Destination:
    """A repository, and how rows are written to it; it is sent to tasks."""

    repository: Repository
    options: WriteOptions

    @property
    def assets(self) -> Assets:
        """The files of the repository."""
        return self.repository.readonly_session(self.options.branch).state.assets


def open_destination(options: Options, *, overwrite: bool) -> Destination:
    """What the options of a writer of the data source name."""
    if options.repo is None:
        raise InvalidInputError(NO_REPOSITORY)
    repository, ref = open_place(options.repo)
    if options.ref is not None and ref is not None:
        raise InvalidInputError(f"{options.repo} names a version, and so do the options")
    chosen = read_write_options(options, overwrite=overwrite, ref=ref)
    return Destination(authorize(repository, options.authorize), chosen)


def open_place(repo: AnyRepository) -> tuple[Repository, Ref | None]:
    """A repository, and the version that its URL names."""
    if isinstance(repo, Repository):
        return repo, None
    url = parse_location(repo)
    return Repository.open(storage_from_url(replace(url, ref=None))), url.ref


def check_columns(destination: Destination, schema: pa.Schema) -> None:
    """Raise InvalidInputError for columns that can't be written, before any row is looked at."""
    session = destination.repository.readonly_session(destination.options.branch)
    find_dims(session, destination.options, schema.names)
