"""Statistics of all chunks of arrays, as one commit."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from frazil.frames.statistics.analysing import find_analysable
from frazil.opening import authorize as authorized
from frazil.spark.arrays.measuring import measure_chunks, plan_analyses
from frazil.spark.arrays.one_commit import AnyRepository, find_repository, running
from frazil.spark.arrays.regions import choose_task_bytes
from frazil.spark.arrays.report import JobReport
from frazil.spark.arrays.runner import RunOn, count_slots
from frazil.spark.arrays.zarr_arrays import path_of
from frazil.spark.job import Job


def analyze(
    spark: SparkSession | None,
    repo: AnyRepository,
    arrays: Sequence[str] | None = None,
    *,
    group: str = "/",
    branch: str = "main",
    authorize: Sequence[str] = (),
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    task_bytes: int | None = None,
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> JobReport:
    """Measure the values of chunks, so that queries can skip those that a condition rules out.

    `arrays` are names in the group, or paths below it; without them it is all arrays in and below the
    group that can be columns. Only chunks are read that were written since they were measured last.
    `authorize` names containers whose virtual chunks may be read, as queries do.

    Raises InvalidInputError for an array that was named and can't be a column.
    """
    opened = authorized(find_repository(repo), authorize)
    with running("analyze", opened, branch, job) as run:
        session = run.open_session()
        place = path_of(group)
        named = None if arrays is None else [path_of(f"{place}/{name}") for name in arrays]
        paths = list(find_analysable(session, place)) if named is None else named
        analyses = plan_analyses(session, paths, is_strict=named is not None)
        run.notes += analyses.tell()
        slots = count_slots(spark)
        limit = task_bytes or choose_task_bytes(analyses.bytes, slots)
        runner = run.choose_runner(spark, run_on, is_small=analyses.bytes <= limit)
        measure_chunks(runner, session, analyses, slots, limit)
        return run.commit(session, runner, spark, message, metadata)
