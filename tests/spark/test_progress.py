"""What is shown of a job that runs."""

import pytest
from pyspark.sql import SparkSession

from frazil.spark import Job
from frazil.spark.runtime import fan_out


@pytest.mark.xdist_group("spark")
def test_tasks_are_counted_while_they_run(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(progress=True)
    job.expect("squaring", numbers=100)

    assert fan_out(spark, job, "squaring", lambda each: each**2, [1, 2, 3]) == [1, 4, 9]
    job.end()

    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert line.startswith(f"squaring {'━' * 20}  3/3 tasks  100/100 numbers")
