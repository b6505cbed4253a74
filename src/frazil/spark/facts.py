"""What a session of Spark tells about itself, whether it is a classic one or of Connect."""

import contextlib
import re

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

_DEFAULT_MAX_FAILURES = 4
_MANY_ROWS = 1 << 20
"""Enough for a row in each of its partitions."""


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of Spark Connect, which has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def count_slots(spark: SparkSession | None) -> int:
    """How many tasks run at once; one without Spark."""
    if spark is None:
        return 1
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    # A range that nobody says a number for has a partition for each slot of the server.
    partitions = spark.range(_MANY_ROWS).select(sql.spark_partition_id().alias("partition"))
    (row,) = partitions.agg(sql.max("partition")).collect()
    return int(row[0]) + 1


def find_application_id(spark: SparkSession | None) -> str | None:
    """How Spark calls the application that a session belongs to, where it tells."""
    if spark is None:
        return None
    with contextlib.suppress(Exception):
        return spark.conf.get("spark.app.id")
    return None


def find_max_failures(spark: SparkSession) -> int:
    """How often a task may fail before the job does."""
    with contextlib.suppress(Exception):
        master = spark.conf.get("spark.master", "") or ""
        local = re.fullmatch(r"local(?:\[[^,\]]*(?:,\s*(\d+))?\])?", master)
        if local is not None:
            return int(local[1] or 1)
        return int(spark.conf.get("spark.task.maxFailures", str(_DEFAULT_MAX_FAILURES)) or 1)
    return _DEFAULT_MAX_FAILURES
