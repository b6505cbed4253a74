"""Runs of a declared dataset on Spark end as the truth, as those in one process do."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.datasets.test_month import IS_DEEP, simulate

pytestmark = pytest.mark.xdist_group("spark")


def test_a_week_on_spark_ends_as_the_truth(tmp_path: Path, spark: SparkSession) -> None:
    simulate(tmp_path, str(tmp_path / "repo"), 30 if IS_DEEP else 10, "native", spark)
