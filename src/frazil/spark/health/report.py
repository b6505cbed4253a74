"""What a check on Spark tells: all that one on one machine does, and how it went."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from frazil.maintenance.checking import CheckReport, Problem
from frazil.rendering import Item

PROBLEMS = (
    "severity string, object string, what string, repair string, path string, "
    "coordinate array<bigint>"
)
"""The columns of a frame of problems."""


@dataclass(frozen=True, slots=True, repr=False)
class CheckJobReport(CheckReport):
    """What was found in a repository; `Repository.repair` takes it as well."""

    ran_on: str = "driver"
    """`spark`, or `driver` if there was too little to read for tasks."""
    tasks: int = 0
    retries: int = 0
    seconds: float = 0.0
    job_id: str = ""
    application_id: str | None = None

    @classmethod
    def of(cls, report: CheckReport, **how: Any) -> "CheckJobReport":
        """What a check found, and how it went."""
        found = {each.name: getattr(report, each.name) for each in fields(CheckReport)}
        return cls(**found, **how)

    def shown_items(self) -> Iterator[Item]:
        """What any check shows, and where it was done."""
        yield Item("ran on", f"{self.ran_on}, {self.tasks} tasks, {self.seconds:.1f} s")
        yield from CheckReport.shown_items(self)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The problems as a frame, a row each, in the order of the report."""
        return spark.createDataFrame([_row(each) for each in self.problems], PROBLEMS)


def _row(problem: Problem) -> tuple[Any, ...]:
    told = problem.to_dict()
    return tuple(
        None if told[name] is None else told[name]
        if name == "coordinate" else str(told[name])
        for name in ("severity", "object", "what", "repair", "path", "coordinate")
    )  # fmt: skip
