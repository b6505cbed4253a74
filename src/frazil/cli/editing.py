"""Commands that edit: create, squash, cherry-pick, fast-forward."""

from typing import Annotated

import typer

from frazil.cli.arguments import Branch, Message, Place, Yes, find_snapshot, open_place
from frazil.cli.output import Output
from frazil.errors import AlreadyExistsError
from frazil.repository import Repository
from frazil.storage import storage_from_url
from frazil.urls import parse_location


def create(
    url: Place,
    *,
    spec_version: Annotated[
        int, typer.Option(help="The generation: 2, or 1 for releases before 2.0.", min=1, max=2)
    ] = 2,
    output: Output,
) -> None:
    """Create a repository.

    Examples:
    frazil create data/weather
    frazil create "s3://bucket/weather?region=eu-central-1"
    """
    storage = storage_from_url(parse_location(url))
    if Repository.exists(storage):
        raise AlreadyExistsError(f"there is a repository at {url} already")
    repo = Repository.create(storage, spec_version=spec_version)
    found = {
        "url": url,
        "generation": repo.dialect.value,
        "snapshot_id": repo.lookup_branch("main"),
    }
    output.answer(found, f"{url} is a repository now, generation {repo.dialect.value}")


def squash(
    url: Place,
    *,
    since: Annotated[str, typer.Option(metavar="REF", help="The last version that stays.")],
    branch: Branch = "main",
    message: Message = None,
    yes: Yes = False,
    output: Output,
) -> None:
    """Make one commit of all that came after a version.

    Examples:
    frazil squash data/weather --since v1 -m "all of May" --yes
    """
    repo = open_place(url)
    first = find_snapshot(repo, since)
    output.confirm(f"Make one commit of everything on {branch} after {first}?", is_agreed=yes)
    _tell(repo.squash(branch, first, message=message), branch, output)


def cherry_pick(
    url: Place,
    snapshot: Annotated[str, typer.Argument(metavar="REF", help="The commit to do again.")],
    *,
    onto: Annotated[str, typer.Option(metavar="BRANCH", help="Where to do it again.")],
    message: Message = None,
    output: Output,
) -> None:
    """Do the changes of a commit again on another branch.

    Examples:
    frazil cherry-pick data/weather VY76P925PRY57WFEK410 --onto main
    """
    repo = open_place(url)
    id = repo.cherry_pick(find_snapshot(repo, snapshot), onto=onto, message=message)
    _tell(id, onto, output)


def fast_forward(
    url: Place,
    branch: Annotated[str, typer.Argument(metavar="BRANCH", help="The branch that moves.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="The branch whose tip it moves to.")],
    *,
    output: Output,
) -> None:
    """Move a branch ahead to another, which has all that it has.

    Examples:
    frazil fast-forward data/weather main experiment
    """
    _tell(open_place(url).fast_forward(branch, to), branch, output)


def _tell(snapshot_id: str, branch: str, output: Output) -> None:
    found = {"branch": branch, "snapshot_id": snapshot_id}
    output.answer(found, f"{branch} is at {snapshot_id}")
