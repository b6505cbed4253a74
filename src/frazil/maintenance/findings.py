"""Findings of a check, with their repairs, and its report."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from itertools import chain, islice
from typing import Any

from frazil.display import Block, Item


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


@dataclass(frozen=True, slots=True)
class Counts:
    """How much was looked at."""

    branches: int = 0
    tags: int = 0
    snapshots: int = 0
    nodes: int = 0
    """Of all snapshots together."""
    manifests: int = 0
    transaction_logs: int = 0
    native_chunks: int = 0
    """Distinct chunk files that manifests refer to."""
    native_refs: int = 0
    inline_refs: int = 0
    virtual_refs: int = 0
    virtual_sources: int = 0
    """Distinct files outside of the repository that were asked for."""
    decoded_chunks: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Counts)))


@dataclass(frozen=True, slots=True)
class Orphans:
    """Objects of a kind that nothing refers to."""

    kind: str
    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport(Block):
    """What was found in a repository."""

    generation: str
    problems: tuple[Problem, ...]
    counts: Counts
    orphans: tuple[Orphans, ...] = ()
    has_counted_orphans: bool = False
    """Not where one branch was checked, or where files that refer to others can't be read."""

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is lost: there may be warnings and notes."""
        return not self.errors

    @property
    def errors(self) -> tuple[Problem, ...]:
        """What is lost."""
        return self._of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is not as it should be."""
        return self._of(Severity.WARNING)

    @property
    def notes(self) -> tuple[Problem, ...]:
        """What is to be known."""
        return self._of(Severity.NOTE)

    def _of(self, severity: Severity) -> tuple[Problem, ...]:
        return tuple(each for each in self.problems if each.severity is severity)

    def shown_items(self) -> Iterator[Item]:
        """Whether it is healthy, what was looked at, and what was found."""
        yield Item("generation", self.generation)
        yield Item("healthy", "yes" if self.is_healthy else "no")
        seen = {name: count for name, count in asdict(self.counts).items() if count}
        yield Item(
            "checked", ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in seen.items())
        )
        if self.has_counted_orphans:
            told = [f"{each.count} {each.kind} ({each.size_bytes} bytes)" for each in self.orphans]
            yield Item("orphans", ", ".join(told) or "none")
        for name, problems in (
            ("errors", self.errors), ("warnings", self.warnings), ("notes", self.notes)
        ):  # fmt: skip
            if problems:
                yield Item(name, "\n".join(map(str, problems)))

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "generation": self.generation,
            "is_healthy": self.is_healthy,
            "problems": [each.to_dict() for each in self.problems],
            "counts": asdict(self.counts),
            "orphans": [asdict(each) for each in self.orphans],
            "has_counted_orphans": self.has_counted_orphans,
        }
