"""Queries have the answers that plain Spark has over the same cells."""

import os
import secrets
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.tables.random_sql import QUERIES_EACH, Runner

pytestmark = pytest.mark.xdist_group("spark-tables")
MANY = 50 if os.environ.get("FRAZIL_DEEP") else 1


@pytest.mark.parametrize("seed", ["fixed", "fresh"])
def test_queries_have_the_answers_of_plain_spark(
    spark: SparkSession, tmp_path: Path, seed: str
) -> None:
    runner = Runner(spark, tmp_path, on_driver=seed == "fresh")
    given = secrets.token_hex(4) if seed == "fresh" else seed

    tally = runner.run(given, (30 if seed == "fixed" else QUERIES_EACH) * MANY)

    found = [
        f"python -m tests.spark.tables.random_sql {how}\n{each}" for how, each in tally.differences
    ]
    assert not found, "\n".join(found)
    assert tally.counts["rows"] > tally.counts["queries"] / 4
