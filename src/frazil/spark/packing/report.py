"""What jobs say that change how chunks are kept, and no chunk."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from frazil.spark.arrays.report import JobReport


@dataclass(frozen=True, slots=True, repr=False)
class RewriteReport(JobReport):
    """What became of manifests; shown as a table."""

    manifests_before: int = 0
    manifests: int = 0
    """How many there are now."""
    references: int = 0
    """In all of them."""

    @classmethod
    def of(cls, report: JobReport, **figures: int) -> Self:
        """A report with these figures."""
        return cls(**_fields_of(report, figures))


@dataclass(frozen=True, slots=True, repr=False)
class CompactReport(JobReport):
    """What became of small chunks; shown as a table. Its `chunks` are those that moved."""

    objects_before: int = 0
    """That had these chunks."""
    objects: int = 0
    """That have them now."""
    requests_saved: int = 0
    """So many objects fewer to list, to copy, and to ask for by who reads neighbours at once."""

    @classmethod
    def of(cls, report: JobReport, **figures: int) -> Self:
        """A report with these figures."""
        return cls(**_fields_of(report, figures))


def _fields_of(report: JobReport, figures: Mapping[str, int]) -> dict[str, Any]:
    return {**{each.name: getattr(report, each.name) for each in fields(report)}, **figures}
