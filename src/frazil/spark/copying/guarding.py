"""Whether what is at the target is an earlier copy of the source, which may be replaced: pure.

A copy of the same repository begins with the same first snapshot. Nobody else has written to it if its
refs are where the last copy from the same place has left them, which it tells in the metadata of a V2
repository, or if the source knows the snapshots that they point to.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from frazil.errors import AlreadyExistsError, DivergedError
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.format.json_values import JsonValue
from frazil.format.repo_info import GCRan, RepoInfo
from frazil.format.times import Nanoseconds
from frazil.protocols.interface import MAIN
from frazil.protocols.reserved_metadata import read_section, with_section
from frazil.spark.copying.choosing import find_first

_SECTION = "copy"
_MICROSECOND = 1000


@dataclass(frozen=True, slots=True)
class Guard:
    """What must hold of a target before it is touched, and again when its state is replaced."""

    source: RepoInfo
    place: str
    """Stands for where the source is."""
    group: str
    is_known: Callable[[SnapshotId], bool]
    """Whether the source has a snapshot, or had made one for the part that is copied."""

    def refuse_others(self, target: RepoInfo) -> None:
        """Raise AlreadyExistsError for another repository, DivergedError where others have written."""
        if _identity(target) != _identity(self.source):
            raise AlreadyExistsError(
                "the target holds another repository: copy to a place where nothing is"
            )
        record = read_section(target.metadata, _SECTION)
        group = record.get("group", self.group)
        if group != self.group:
            raise AlreadyExistsError(
                f"the target is a copy of the group {group}, not of {self.group}: copy it elsewhere"
            )
        for what, tip in _moved(target, record if record.get("source") == self.place else {}):
            if not self.is_known(tip):
                raise DivergedError(
                    message=f"the {what} of the target is at {tip}, which the source does not know:"
                    " somebody has written to the copy; nothing was changed there",
                )

    def with_record(self, wanted: RepoInfo) -> dict[str, JsonValue]:
        """The metadata of a copy, which tells where its refs were left."""
        branches: dict[str, JsonValue] = {name: str(tip) for name, tip in wanted.branches.items()}
        tags: dict[str, JsonValue] = {name: str(tip) for name, tip in wanted.tags.items()}
        told: dict[str, JsonValue] = {
            "source": self.place, "group": self.group, "branches": branches, "tags": tags,
        }  # fmt: skip
        return with_section(wanted.metadata, _SECTION, told)


def newest_collection(info: RepoInfo) -> Nanoseconds:
    """When garbage was last collected, as far as the newest page of the ops log tells; 0 if never."""
    times = (each.updated_at for each in info.latest_updates if isinstance(each.kind, GCRan))
    return max(times, default=0)


def explain_generations(source: Dialect, target: Dialect) -> str:
    """What to do where the source and its copy are of different generations."""
    return (
        f"the source is of the generation {source.value}, and the copy at the target of"
        f" {target.value}: migrate the older one, or copy to a place where nothing is"
    )


def _identity(info: RepoInfo) -> tuple[SnapshotId, Nanoseconds] | None:
    if MAIN not in info.branches:
        return None
    first = find_first(info)
    return first.id, first.flushed_at // _MICROSECOND


def _moved(target: RepoInfo, record: Mapping[str, JsonValue]) -> Iterator[tuple[str, SnapshotId]]:
    """The refs that are not where the last copy has left them."""
    for kind, refs in (("branch", target.branches), ("tag", target.tags)):
        left = record.get("branches" if kind == "branch" else "tags")
        known = left if isinstance(left, dict) else {}
        for name, tip in refs.items():
            if known.get(name) != str(tip):
                yield f"{kind} {name!r}", tip
