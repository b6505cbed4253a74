"""Findings of a check, with their repairs, and its report."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from itertools import chain, islice
from typing import Any

from frazil.display import Block, Item


class Severity(StrEnum):
    """Severity of a problem."""

    ERROR = "error"
    """Data is lost or can't be read."""
    WARNING = "warning"
    """All data can be read, but something is irregular."""
    NOTE = "note"
    """Information; nothing is wrong."""


class Repair(StrEnum):
    """Repair of a problem, which changes nothing else."""

    DROP_SNAPSHOT = "drop-snapshot"
    """Remove an unreachable snapshot without a file from the repo info."""
    REBUILD_LOG = "rebuild-transaction-log"
    """Write a transaction log from the differences between a snapshot and its parent."""
    RESTORE_REPO = "restore-repo"
    """Replace `repo` with the newest readable backup, with `restore_repo`."""
    REMOVE_TEMPORARY_FILE = "remove-temporary-file"
    """Delete a temporary file of a killed process."""
    COLLECT_GARBAGE = "collect-garbage"
    """Run `Repository.garbage_collect`, which needs a cutoff."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem found by a check."""

    severity: Severity
    object: str
    """Key of the object."""
    what: str
    """Description, one sentence."""
    repair: Repair | None = None
    path: str | None = None
    """Path of the node, if there is one."""
    coordinate: tuple[int, ...] | None = None
    """Coordinate of the chunk, if there is one."""

    def __str__(self) -> str:
        place = self.object if self.path is None else f"{self.object} {self.path}"
        if self.coordinate is not None:
            place += f" {list(self.coordinate)}"
        cure = "" if self.repair is None else f" ({self.repair})"
        return f"{self.severity}: {place}: {self.what}{cure}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
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
    """Return a problem of severity ERROR."""
    return Problem(Severity.ERROR, object, what, repair, path, coordinate)


def warning(
    object: str, what: str, repair: Repair | None = None, path: str | None = None
) -> Problem:
    """Return a problem of severity WARNING."""
    return Problem(Severity.WARNING, object, what, repair, path)


def note(object: str, what: str, repair: Repair | None = None, path: str | None = None) -> Problem:
    """Return a problem of severity NOTE."""
    return Problem(Severity.NOTE, object, what, repair, path)


MOST_ALIKE = 20
"""Maximum number of similar problems reported one by one."""


def few(problems: Iterable[Problem], count: int, whole: Problem) -> Problems:
    """Yield the first of `count` problems; if there are more, then `whole` with their number."""
    first = list(islice(problems, MOST_ALIKE))
    rest = count - len(first)
    more = [replace(whole, what=f"{rest} more: {whole.what}")] if rest > 0 else []
    return chain(first, more)


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of checked objects."""

    branches: int = 0
    tags: int = 0
    snapshots: int = 0
    nodes: int = 0
    """Total over all snapshots."""
    manifests: int = 0
    transaction_logs: int = 0
    native_chunks: int = 0
    """Distinct chunk files that manifests refer to."""
    native_refs: int = 0
    inline_refs: int = 0
    virtual_refs: int = 0
    virtual_sources: int = 0
    """Distinct source files that were checked."""
    decoded_chunks: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Counts)))


@dataclass(frozen=True, slots=True)
class Orphans:
    """Unreferenced objects of one kind."""

    kind: str
    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class CheckReport(Block):
    """Report of a check."""

    generation: str
    problems: tuple[Problem, ...]
    counts: Counts
    orphans: tuple[Orphans, ...] = ()
    has_counted_orphans: bool = False
    """False if one branch was checked, or if files that refer to others can't be read."""

    @property
    def is_healthy(self) -> bool:
        """Return whether there are no errors; warnings and notes are allowed."""
        return not self.errors

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Problems of severity ERROR."""
        return self._of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Problems of severity WARNING."""
        return self._of(Severity.WARNING)

    @property
    def notes(self) -> tuple[Problem, ...]:
        """Problems of severity NOTE."""
        return self._of(Severity.NOTE)

    def _of(self, severity: Severity) -> tuple[Problem, ...]:
        return tuple(each for each in self.problems if each.severity is severity)

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields of the summary."""
        yield Item("generation", self.generation)
        yield Item("healthy", "yes" if self.is_healthy else "no")
        seen = {name: count for name, count in asdict(self.counts).items() if count}
        yield Item(
            "checked", ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in seen.items())
        )
        if self.has_counted_orphans:
            listed = [
                f"{each.count} {each.kind} ({each.size_bytes} bytes)" for each in self.orphans
            ]
            yield Item("orphans", ", ".join(listed) or "none")
        for name, problems in (
            ("errors", self.errors), ("warnings", self.warnings), ("notes", self.notes)
        ):  # fmt: skip
            if problems:
                yield Item(name, "\n".join(map(str, problems)))

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "generation": self.generation,
            "is_healthy": self.is_healthy,
            "problems": [each.to_dict() for each in self.problems],
            "counts": asdict(self.counts),
            "orphans": [asdict(each) for each in self.orphans],
            "has_counted_orphans": self.has_counted_orphans,
        }
