"""What a check finds: problems, each with its place and, where there is one, its repair."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import chain, islice
from typing import Any


class Severity(StrEnum):
    """How much a problem matters."""

    ERROR = "error"
    """Something is lost, or can't be read."""
    WARNING = "warning"
    """All data can be read, and something is not as it should be."""
    NOTE = "note"
    """Nothing is wrong; somebody may want to know it."""


class Repair(StrEnum):
    """What would repair a problem, and nothing else would change."""

    DROP_SNAPSHOT = "drop-snapshot"
    """Take a snapshot without a file, to which no ref leads, out of the repo info."""
    REBUILD_LOG = "rebuild-transaction-log"
    """Write a transaction log from what is different in a snapshot and its parent."""
    RESTORE_REPO = "restore-repo"
    """Put the newest backup that can be read in the place of `repo`: `restore_repo` does it."""
    REMOVE_LEFTOVER = "remove-leftover"
    """Delete a temporary file of a process that was killed."""
    COLLECT_GARBAGE = "collect-garbage"
    """`Repository.garbage_collect`, which needs to be told how old garbage is."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it should be."""

    severity: Severity
    object: str
    """The key of the object that it is about."""
    what: str
    """A sentence."""
    repair: Repair | None = None
    path: str | None = None
    """Of the node, where it is about one."""
    coordinate: tuple[int, ...] | None = None
    """Of the chunk, where it is about one."""

    def __str__(self) -> str:
        place = self.object if self.path is None else f"{self.object} {self.path}"
        if self.coordinate is not None:
            place += f" {list(self.coordinate)}"
        cure = "" if self.repair is None else f" ({self.repair})"
        return f"{self.severity}: {place}: {self.what}{cure}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        coordinate = None if self.coordinate is None else list(self.coordinate)
        return asdict(replace(self, coordinate=None)) | {"coordinate": coordinate}


Problems = Iterator[Problem]


def error(
    object: str,
    what: str,
    repair: Repair | None = None,
    path: str | None = None,
    coordinate: tuple[int, ...] | None = None,
) -> Problem:
    """Something that is lost."""
    return Problem(Severity.ERROR, object, what, repair, path, coordinate)


def warning(
    object: str, what: str, repair: Repair | None = None, path: str | None = None
) -> Problem:
    """Something that is not as it should be."""
    return Problem(Severity.WARNING, object, what, repair, path)


def note(object: str, what: str, repair: Repair | None = None, path: str | None = None) -> Problem:
    """Something to know."""
    return Problem(Severity.NOTE, object, what, repair, path)


MOST_ALIKE = 20
"""So many problems of one kind are told one by one: nobody reads a million of them."""


def few(problems: Iterable[Problem], count: int, whole: Problem) -> Problems:
    """The first of `count` problems, and if there are more, `whole` with how many in its sentence."""
    first = list(islice(problems, MOST_ALIKE))
    rest = count - len(first)
    more = [replace(whole, what=f"{rest} more: {whole.what}")] if rest > 0 else []
    return chain(first, more)
