"""Users' own writers, run over regions."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from frazil.errors import InvalidInputError
from frazil.session import Session
from frazil.spark.arrays.one_commit import (
    AnyRepository,
    Region,
    WriteRegion,
    running,
    write_regions,
)
from frazil.spark.arrays.report import JobReport
from frazil.spark.arrays.runner import RunOn
from frazil.spark.job import Job


def foreach_region(
    spark: SparkSession | None,
    repo: AnyRepository,
    regions: Iterable[Region],
    function: WriteRegion[Region],
    *,
    branch: str = "main",
    prepare: Callable[[Session], object] | None = None,
    regions_per_task: int = 1,
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> JobReport:
    """Call `function(session, region)` for each region in tasks, and commit all they changed at once.

    `prepare(session)` is called first, here: the place to create arrays. Each task has a fork of the
    session of its own, sees what `prepare` made, and may be run again from the start. A region is
    whatever the function understands. Two tasks must not write the same chunk.

    Raises OverlappingTasksError if they do, RebaseFailedError if somebody else has committed changes of
    the same chunks meanwhile, and what the function raises; the branch is then as it was.
    """
    if regions_per_task < 1:
        raise InvalidInputError(f"regions_per_task is {regions_per_task}, which is less than one")
    with running("foreach_region", repo, branch, job) as run:
        all_regions = list(regions)
        starts = range(0, len(all_regions), regions_per_task)
        groups = [all_regions[start : start + regions_per_task] for start in starts]
        runner = run.choose_runner(spark, run_on)
        session = run.open_session()
        if prepare is not None:
            prepare(session)
        write_regions(runner, session, function, groups)
        return run.commit(session, runner, spark, message, metadata)
