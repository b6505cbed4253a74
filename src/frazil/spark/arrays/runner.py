"""Where the tasks of a job run: on Spark, or one after the other in this process."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from pyspark.sql import SparkSession

from frazil.errors import InvalidInputError
from frazil.spark.facts import count_slots as count_slots
from frazil.spark.facts import find_application_id as find_application_id
from frazil.spark.fan_out import fan_out
from frazil.spark.job import Job
from frazil.storage import Storage
from frazil.storage.memory import MemoryStorage

Group = TypeVar("Group")
Result = TypeVar("Result")

RunOn = Literal["auto", "spark", "driver"]
"""`auto`: in the driver if the work is no more than one task's."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs a function over groups of work."""

    job: Job
    spark: SparkSession | None
    """None to stay in this process."""
    returned_references: int = 100_000
    """So many are returned by all tasks together; others they leave in the storage."""

    @property
    def name(self) -> str:
        """What a report calls it."""
        return "driver" if self.spark is None else "spark"

    def run(
        self, what: str, function: Callable[[Group], Result], groups: Sequence[Group]
    ) -> list[Result]:
        """What the function gives for each group, in their order."""
        if self.spark is not None:
            return fan_out(self.spark, self.job, what, function, groups)
        return [self._run_here(what, function, groups, number) for number in range(len(groups))]

    def _run_here(
        self,
        what: str,
        function: Callable[[Group], Result],
        groups: Sequence[Group],
        number: int,
    ) -> Result:
        self.job.refuse_if_cancelled()
        start = time.perf_counter()
        result = function(groups[number])
        self.job.tally.tasks += 1
        self.job.tally.task_seconds += time.perf_counter() - start
        self.job.show(what, number + 1, len(groups))
        return result


def choose_runner(
    spark: SparkSession | None,
    job: Job,
    run_on: RunOn,
    storage: Storage,
    *,
    is_small: bool = False,
) -> Runner:
    """The place that was asked for, or the one that suits the work and the storage."""
    if run_on not in ("auto", "spark", "driver"):
        raise InvalidInputError(f"run_on is {run_on!r}, not 'auto', 'spark' or 'driver'")
    if run_on == "spark" and spark is None:
        raise InvalidInputError("run_on is 'spark', but there is no session of Spark")
    is_here = isinstance(storage, MemoryStorage)
    if run_on == "spark" and is_here:
        raise InvalidInputError("tasks on Spark can't reach a repository in this process' memory")
    if run_on == "driver" or (run_on == "auto" and (is_small or is_here)):
        return Runner(job, None)
    return Runner(job, spark)
