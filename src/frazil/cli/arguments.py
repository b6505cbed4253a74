"""Arguments that several commands have, and how they are read."""

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from frazil import opening
from frazil.cli.output import Output
from frazil.errors import InvalidInputError, RepositoryNotFoundError
from frazil.opening import open_repository, read_version
from frazil.repository import Repository
from frazil.session import Session
from frazil.urls import RepositoryUrl, SnapshotRef, parse_location

Place = Annotated[str, typer.Argument(metavar="URL", help="Where the repository is.")]
Version = Annotated[
    str, typer.Argument(metavar="URL[@REF]", help="The repository, and which version of it.")
]
Branch = Annotated[str, typer.Option("--branch", "-b", help="The branch.")]
Message = Annotated[str | None, typer.Option("--message", "-m", help="What the commit says.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")]
Authorize = Annotated[
    list[str] | None,
    typer.Option(
        "--authorize",
        metavar="PREFIX",
        help="A virtual chunk container that may be read, with the environment's credentials; "
        "'*' for all that the repository declares.",
    ),
]

_MOST_OPTIONS = 3
"""A warning names no more containers."""


def open_place(url: str, authorize: Sequence[str] | None = None) -> Repository:
    """The repository at a URL, which names no version."""
    try:
        repository = open_repository(url)
    except RepositoryNotFoundError as error:
        raise RepositoryNotFoundError(f"there is no repository at {url}") from error
    return opening.authorize(repository, authorize or ())


def open_version(
    url: str, authorize: Sequence[str] | None = None
) -> tuple[Repository, Session, RepositoryUrl]:
    """A repository, and a session that reads the version that the URL names."""
    parsed = parse_location(url)
    place = RepositoryUrl(parsed.scheme, parsed.host, parsed.path, None, parsed.options)
    repository = open_place(str(place), authorize)
    return repository, read_version(repository, parsed.ref), parsed


def warn_of_refusals(session: Session, output: Output) -> None:
    """Tell which containers the repository's sessions were refused, and which options allow them."""
    refused = sorted(session.state.surroundings.virtual.refused_prefixes)
    if not refused:
        return
    options = " ".join(f"--authorize {shlex.quote(each)}" for each in refused[:_MOST_OPTIONS])
    output.warn(
        "values of virtual chunks were not read, because their containers are not authorized:"
        f" run it again with {options}, or with --authorize '*' for all containers"
    )


def find_snapshot(repository: Repository, name: str) -> str:
    """The id of the snapshot that a branch, a tag or an id names."""
    found = parse_location(f"x@{name}").ref
    session = read_version(repository, found or SnapshotRef(name))
    return str(session.snapshot_id)


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_moment(text: str, now: datetime | None = None) -> datetime:
    """A time, from an age such as `7d` or `12h`, or as it is written, `2026-01-31T12:00Z`."""
    found = _DURATION.fullmatch(text.strip())
    if found:
        age = timedelta(seconds=float(found[1]) * _SECONDS[found[2]])
        return (now or datetime.now(UTC)) - age
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(
            f"{text!r} is neither an age, such as 7d or 12h, nor a time, such as 2026-01-31T12:00Z"
        ) from error
    if moment.utcoffset() is None:
        raise InvalidInputError(
            f"{text!r} has no time zone: say {moment.isoformat(timespec='minutes')}Z for UTC"
        )
    return moment
