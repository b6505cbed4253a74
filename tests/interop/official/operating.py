"""Single operations of the official library on refs and state, and how each went."""

from typing import Any

import icechunk

Step = list[Any]
"""The name of a method of the repository, then its arguments."""


def operate(repository: icechunk.Repository, steps: list[Step]) -> list[list[str] | None]:
    """Do one step after the other; gives the class and the kind of each error, None where none was."""
    return [_operate(repository, *step) for step in steps]


def _operate(repository: icechunk.Repository, name: str, *arguments: Any) -> list[str] | None:
    try:
        _METHODS[name](repository, *arguments)
    except icechunk.IcechunkError as error:
        return [type(error).__name__, str(error.kind)]
    return None


def _reset_branch(
    repository: icechunk.Repository, name: str, snapshot_id: str, expected: str | None
) -> None:
    repository.reset_branch(name, snapshot_id, from_snapshot_id=expected)


def _set_status(repository: icechunk.Repository, availability: str) -> None:
    chosen = getattr(icechunk.RepoAvailability, availability)
    repository.set_status(icechunk.RepoStatus(chosen))


_METHODS: dict[str, Any] = {
    "create_branch": icechunk.Repository.create_branch,
    "delete_branch": icechunk.Repository.delete_branch,
    "lookup_branch": icechunk.Repository.lookup_branch,
    "reset_branch": _reset_branch,
    "create_tag": icechunk.Repository.create_tag,
    "delete_tag": icechunk.Repository.delete_tag,
    "lookup_tag": icechunk.Repository.lookup_tag,
    "lookup_snapshot": icechunk.Repository.lookup_snapshot,
    "set_feature_flag": icechunk.Repository.set_feature_flag,
    "set_status": _set_status,
    "set_metadata": icechunk.Repository.set_metadata,
}
