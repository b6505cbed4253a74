"""What combining would write: a value that can be sent to every worker."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError, NotFoundError
from frazil.rendering import Block, Item, Table
from frazil.virtual.combining.problems import Problem, Report, Severity
from frazil.virtual.sources import ReferenceColumns, Source, SourceHeader
from frazil.virtual.sources.headers import Metadata

NOT_PLACED = -1


class Treatment(Enum):
    """How a variable gets into the repository."""

    VIRTUAL = "virtual"
    INLINE = "inline"
    """Its values were loaded with the headers, and are written as they are."""
    REENCODED = "must be re-encoded"


@dataclass(frozen=True, slots=True, eq=False)
class VariablePlan:
    """One variable of the combined group."""

    name: str
    treatment: Treatment
    metadata: Metadata
    """The `zarr.json` of the combined array."""
    chunk_offsets: NDArray[np.int64]
    """For each source, how many chunks before its first; NOT_PLACED where it has no part in it."""
    values: NDArray[Any] | None = field(default=None, repr=False)
    reasons: tuple[str, ...] = ()
    """Why it must be re-encoded."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan(Block):
    """How sources become one group."""

    sources: Mapping[str, int]
    """The sources by their name, with the row that each has in `chunk_offsets`."""
    attributes: Mapping[str, Any]
    variables: Mapping[str, VariablePlan]
    report: Report
    regions: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """By dimension that sources follow each other along: where each source starts and ends."""

    @property
    def reencoded(self) -> tuple[VariablePlan, ...]:
        """The variables that can't be virtual."""
        return tuple(
            each for each in self.variables.values() if each.treatment is Treatment.REENCODED
        )

    def without(self, names: Collection[str]) -> Self:
        """The plan for the other variables."""
        absent = set(names) - self.variables.keys()
        if absent:
            raise NotFoundError(f"there are no variables {sorted(absent)}")
        kept = {name: each for name, each in self.variables.items() if name not in names}
        problems = tuple(each for each in self.report if each.subject not in names)
        return replace(self, variables=kept, report=Report(problems))

    def columns_of(self, variable: str, source: Source) -> ReferenceColumns | None:
        """References of one source, where they belong in the combined array; None for no part."""
        offset = self.variables[variable].chunk_offsets[self._row_of(source.header)]
        if np.any(offset == NOT_PLACED):
            return None
        return source.references[variable].shift(offset)

    def refuse_problems(self) -> None:
        """Raise InvalidInputError where the plan can't be carried out as it is."""
        found: list[Problem] = [
            *self.report.with_severity(Severity.STOPS),
            *(e for e in self.report.with_severity(Severity.REENCODES) if self._concerns(e)),
        ]
        if found:
            raise InvalidInputError(
                "the sources can't be combined as they are; without() leaves variables out that "
                f"must be re-encoded:\n{Report(tuple(found))}"
            )

    def _concerns(self, problem: Problem) -> bool:
        variable = self.variables.get(problem.subject)
        return variable is not None and variable.treatment is Treatment.REENCODED

    def _row_of(self, header: SourceHeader) -> int:
        if header.name not in self.sources:
            raise NotFoundError(f"{header.name} is none of the sources of the plan")
        return self.sources[header.name]

    def __str__(self) -> str:
        lines = [f"{len(self.sources)} sources"]
        for name, shape, treatment, reasons in self._rows():
            why = f": {reasons}" if reasons else ""
            lines.append(f"  {name} ({shape}) {treatment}{why}")
        return "\n".join([*lines, str(self.report)])

    def shown_items(self) -> Iterator[Item]:
        """Sources, variables, problems."""
        yield Item("sources", len(self.sources))
        yield Item("variables", Table(("name", "shape", "how", "why"), tuple(self._rows())))
        yield from self.report.shown_items()

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        for each in self.variables.values():
            shape = " × ".join(map(str, each.metadata["shape"])) or "scalar"
            yield each.name, shape, each.treatment.value, "; ".join(each.reasons)
