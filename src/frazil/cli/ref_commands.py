"""Commands on branches, tags and history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from frazil.cli.command import (
    Branch,
    Message,
    Place,
    Yes,
    argument,
    find_snapshot,
    open_place,
    option,
)
from frazil.cli.terminal import Output, make_table
from frazil.errors import AlreadyExistsError
from frazil.lazy import lazy_modules
from frazil.urls import parse_location

if TYPE_CHECKING:
    from frazil.repository import repository
    from frazil.storage import constructors
else:
    repository, constructors = lazy_modules(
        "frazil.repository.repository",
        "frazil.storage.constructors",
    )

Name = Annotated[str, argument(metavar="NAME", help="Name of the branch or tag.")]
At = Annotated[str, option("--at", metavar="REF", help="The branch, tag or snapshot to point to.")]


def list_branches(url: Place, *, output: Output) -> None:
    """List branches: the snapshot of each, its date and message.

    Examples
    --------
    frazil branch list data/weather
    """
    repo = open_place(url)
    _answer(repo, {name: repo.lookup_branch(name) for name in sorted(repo.list_branches())}, output)


def create_branch(url: Place, name: Name, *, at: At = "main", output: Output) -> None:
    """Create a branch.

    Examples
    --------
    frazil branch create data/weather experiment
    frazil branch create data/weather fix --at v1
    """
    repo = open_place(url)
    target = find_snapshot(repo, at)
    repo.create_branch(name, target)
    output.answer({"branch": name, "snapshot_id": target}, f"{name} is at {target}")


def move_branch(url: Place, name: Name, *, at: At, yes: Yes = False, output: Output) -> None:
    """Reset a branch to another version; snapshots that only it reached become garbage.

    Examples
    --------
    frazil branch move data/weather main --at v1 --yes
    """
    repo = open_place(url)
    before, target = repo.lookup_branch(name), find_snapshot(repo, at)
    output.confirm(f"Move {name} from {before} to {target}?", is_agreed=yes)
    repo.reset_branch(name, target, from_snapshot_id=before)
    output.answer(
        {"branch": name, "from": before, "snapshot_id": target},
        f"{name} is at {target}; it was at {before}",
    )


def delete_branch(url: Place, name: Name, *, yes: Yes = False, output: Output) -> None:
    """Delete a branch; snapshots that only it reaches become garbage.

    Examples
    --------
    frazil branch delete data/weather experiment --yes
    """
    repo = open_place(url)
    before = repo.lookup_branch(name)
    output.confirm(f"Delete the branch {name}, which is at {before}?", is_agreed=yes)
    repo.delete_branch(name)
    output.answer({"branch": name, "was_at": before}, f"{name} is deleted; it was at {before}")


def list_tags(url: Place, *, output: Output) -> None:
    """List tags: the snapshot of each, its date and message.

    Examples
    --------
    frazil tag list data/weather
    """
    repo = open_place(url)
    _answer(repo, {name: repo.lookup_tag(name) for name in sorted(repo.list_tags())}, output)


def create_tag(url: Place, name: Name, *, at: At = "main", output: Output) -> None:
    """Create a tag, which never moves.

    Examples
    --------
    frazil tag create data/weather v1
    """
    repo = open_place(url)
    target = find_snapshot(repo, at)
    repo.create_tag(name, target)
    output.answer({"tag": name, "snapshot_id": target}, f"{name} is at {target}")


def delete_tag(url: Place, name: Name, *, yes: Yes = False, output: Output) -> None:
    """Delete a tag; its name can't be used again.

    Examples
    --------
    frazil tag delete data/weather v1 --yes
    """
    repo = open_place(url)
    before = repo.lookup_tag(name)
    output.confirm(f"Delete the tag {name} (its name can't be reused)?", is_agreed=yes)
    repo.delete_tag(name)
    output.answer({"tag": name, "was_at": before}, f"{name} is deleted; it was at {before}")


def _answer(repo: repository.Repository, refs: dict[str, str], output: Output) -> None:
    snapshots = {name: repo.lookup_snapshot(id) for name, id in refs.items()}
    found = {
        name: {"snapshot_id": each.id, "written_at": each.written_at, "message": each.message}
        for name, each in snapshots.items()
    }
    rows = [
        (name, each.id, f"{each.written_at:%F %H:%M}", each.message.partition("\n")[0])
        for name, each in snapshots.items()
    ]
    output.answer(found, make_table(("name", "snapshot", "date", "message"), rows))


branch = {
    "list": list_branches,
    "create": create_branch,
    "move": move_branch,
    "delete": delete_branch,
}
tag = {"list": list_tags, "create": create_tag, "delete": delete_tag}


def create(
    url: Place,
    *,
    spec_version: Annotated[
        int, option(help="Spec version: 2, or 1 for icechunk before 2.0.", min=1, max=2)
    ] = 2,
    output: Output,
) -> None:
    """Create a repository.

    Examples
    --------
    frazil create data/weather
    frazil create "s3://bucket/weather?region=eu-central-1"
    """
    storage = constructors.storage_from_url(parse_location(url))
    if repository.Repository.exists(storage):
        raise AlreadyExistsError(f"there is a repository at {url} already")
    repo = repository.Repository.create(storage, spec_version=spec_version)
    found = {
        "url": url,
        "generation": repo.dialect.value,
        "snapshot_id": repo.lookup_branch("main"),
    }
    output.answer(found, f"{url} is a repository now, generation {repo.dialect.value}")


def squash(
    url: Place,
    *,
    since: Annotated[str, option(metavar="REF", help="Last snapshot to keep.")],
    branch: Branch = "main",
    message: Message = None,
    yes: Yes = False,
    output: Output,
) -> None:
    """Make one commit of all that came after a version.

    Examples
    --------
    frazil squash data/weather --since v1 -m "all of May" --yes
    """
    repo = open_place(url)
    first = find_snapshot(repo, since)
    output.confirm(f"Squash all commits of {branch} after {first}?", is_agreed=yes)
    _report(repo.squash(branch, first, message=message), branch, output)


def cherry_pick(
    url: Place,
    snapshot: Annotated[str, argument(metavar="REF", help="Commit to apply.")],
    *,
    onto: Annotated[str, option(metavar="BRANCH", help="Branch to commit to.")],
    message: Message = None,
    output: Output,
) -> None:
    """Do the changes of a commit again on another branch.

    Examples
    --------
    frazil cherry-pick data/weather VY76P925PRY57WFEK410 --onto main
    """
    repo = open_place(url)
    id = repo.cherry_pick(find_snapshot(repo, snapshot), onto=onto, message=message)
    _report(id, onto, output)


def fast_forward(
    url: Place,
    branch: Annotated[str, argument(metavar="BRANCH", help="Branch to move.")],
    to: Annotated[str, argument(metavar="TO", help="Branch to move ahead to.")],
    *,
    output: Output,
) -> None:
    """Move a branch ahead to another, which has all that it has.

    Examples
    --------
    frazil fast-forward data/weather main experiment
    """
    _report(open_place(url).fast_forward(branch, to), branch, output)


def _report(snapshot_id: str, branch: str, output: Output) -> None:
    found = {"branch": branch, "snapshot_id": snapshot_id}
    output.answer(found, f"{branch} is at {snapshot_id}")
