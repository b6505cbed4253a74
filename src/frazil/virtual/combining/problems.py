"""What stands in the way of combining sources, with the files that it is about."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum

from frazil.rendering import Block, Item, Table


class Severity(Enum):
    """What follows from a problem."""

    STOPS = "stops"
    """Nothing can be written until it is gone."""
    REENCODES = "re-encodes"
    """The variable can't be virtual as a whole: its values have to be written anew."""
    NOTES = "notes"
    """Good to know; nothing follows."""


class ProblemKind(StrEnum):
    """Every kind of problem."""

    # of a dimension that sources are combined along
    NO_COORDINATE = "no coordinate"
    NOT_MONOTONIC = "not monotonic"
    DUPLICATE = "duplicate"
    OVERLAP = "overlap"
    GAP = "gap"
    # of any dimension
    DIMENSIONS = "dimensions"
    LENGTH = "length"
    COORDINATE = "coordinate"
    # of a variable
    MISSING = "missing"
    DATA_TYPE = "data type"
    CODECS = "codecs"
    CHUNKS = "chunks"
    FILL_VALUE = "fill value"
    ENCODING = "encoding"
    RAGGED = "ragged chunks"
    UNREACHABLE = "unreachable bytes"
    VALUES = "values"
    NOT_COMPARED = "not compared"

    @property
    def severity(self) -> Severity:
        """What follows from a problem of this kind."""
        return _SEVERITIES.get(self, Severity.STOPS)


_SEVERITIES = {
    ProblemKind.GAP: Severity.NOTES,
    ProblemKind.MISSING: Severity.NOTES,
    ProblemKind.NOT_COMPARED: Severity.NOTES,
    ProblemKind.DATA_TYPE: Severity.REENCODES,
    ProblemKind.CODECS: Severity.REENCODES,
    ProblemKind.CHUNKS: Severity.REENCODES,
    ProblemKind.FILL_VALUE: Severity.REENCODES,
    ProblemKind.ENCODING: Severity.REENCODES,
    ProblemKind.RAGGED: Severity.REENCODES,
    ProblemKind.UNREACHABLE: Severity.REENCODES,
    ProblemKind.VALUES: Severity.REENCODES,
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem."""

    kind: ProblemKind
    subject: str
    """The variable or dimension."""
    text: str
    files: tuple[str, ...]

    @property
    def severity(self) -> Severity:
        """What follows from it."""
        return self.kind.severity


_SHOWN_FILES = 3
_HEADINGS = ("what follows", "of", "kind", "what it is", "files")


@dataclass(frozen=True, slots=True)
class Report(Block):
    """All problems; prints as a table."""

    problems: tuple[Problem, ...] = ()

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def __len__(self) -> int:
        return len(self.problems)

    def of(self, *kinds: ProblemKind) -> tuple[Problem, ...]:
        """The problems of some kinds."""
        return tuple(each for each in self.problems if each.kind in kinds)

    def with_severity(self, severity: Severity) -> "Report":
        """The problems from which the same follows."""
        return Report(tuple(each for each in self.problems if each.severity is severity))

    def __str__(self) -> str:
        return str(self._table()) if self.problems else "no problems"

    def shown_items(self) -> Iterator[Item]:
        """The problems."""
        yield Item("problems", self._table() if self.problems else "none")

    def _table(self) -> Table:
        return Table(_HEADINGS, tuple(map(_cells, self.problems)))


def _cells(problem: Problem) -> tuple[str, ...]:
    shown = ", ".join(problem.files[:_SHOWN_FILES])
    more = len(problem.files) - _SHOWN_FILES
    files = f"{shown} and {more} more" if more > 0 else shown
    return problem.severity.value, problem.subject, problem.kind.value, problem.text, files
