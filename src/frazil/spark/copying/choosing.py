"""Which refs and snapshots of a repository a copy has: pure.

`main` is in every repository: where it is not chosen it points to the first snapshot. Who loses a
parent continues from its nearest ancestor that stays, and keeps the logs of those between, as after an
expiry.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from frazil.errors import InvalidInputError, RefNotFoundError
from frazil.format.ids import SnapshotId
from frazil.format.repo_info import RepoInfo, SnapshotInfo
from frazil.maintenance.parents import ancestors_of, reachable_snapshots, release
from frazil.protocols.interface import MAIN


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a repository is to be copied; None is all."""

    branches: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    last: int | None = None
    """So many snapshots of each branch."""

    def __post_init__(self) -> None:
        if self.last is not None and self.last < 1:
            raise InvalidInputError(f"last is {self.last}, and must be at least 1")


def choose(info: RepoInfo, choice: Choice) -> RepoInfo:
    """The repository with the chosen refs, and what they lead to; raises RefNotFoundError."""
    branches = _pick(info.branches, choice.branches, "branch")
    tags = _pick(info.tags, choice.tags, "tag")
    first = find_first(info)
    chosen = replace(info, branches={MAIN: first.id, **branches}, tags=tags)
    reached = reachable_snapshots(chosen)
    left = {id: each for id, each in info.snapshots.items() if id in reached}
    chosen = replace(chosen, snapshots=left)
    if choice.last is None:
        return chosen
    released = reached - frozenset(_kept(chosen, choice.last))
    return release(chosen, released, released)


def find_first(info: RepoInfo) -> SnapshotInfo:
    """The first snapshot of a repository, where every history begins."""
    *_, first = line_of(info, info.branches[MAIN])
    return first


def line_of(info: RepoInfo, tip: SnapshotId) -> Iterator[SnapshotInfo]:
    """A snapshot and those before it, newest first."""
    yield info.snapshots[tip]
    yield from ancestors_of(info.snapshots, info.snapshots[tip])


def _kept(info: RepoInfo, last: int) -> Iterator[SnapshotId]:
    yield find_first(info).id
    yield from info.tags.values()
    for tip in info.branches.values():
        for number, each in enumerate(line_of(info, tip)):
            if number >= last:
                break
            yield each.id


def _pick(
    refs: Mapping[str, SnapshotId], names: Iterable[str] | None, kind: str
) -> dict[str, SnapshotId]:
    if names is None:
        return dict(refs)
    missing = sorted(set(names) - refs.keys())
    if missing:
        raise RefNotFoundError(f"the source has no {kind} {', '.join(map(repr, missing))}")
    return {name: refs[name] for name in names}
