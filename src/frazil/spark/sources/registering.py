"""Making the data source known to sessions."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from frazil.spark.sessions import find_session
from frazil.spark.sources.data_source import IcechunkDataSource


def register(spark: SparkSession) -> None:
    """Let a session know `format("icechunk")`."""
    spark.dataSource.register(IcechunkDataSource)


def session(
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    app_name: str = "frazil",
    config: Mapping[str, Any] | None = None,
) -> SparkSession:
    """A session that knows `format("icechunk")`: a new one, the one that runs, or the given one.

    Nothing has to be configured: Java is found or brought by a package, workers run on this
    interpreter and import what it can, failed tasks are tried again. `master` is Spark's, or the
    `sc://` address of a server of Spark Connect. A session that runs already is left as it is; what
    is missing in it raises SetupError, and what is slow in it is warned of (see `check_session`).
    """
    found = find_session(spark, master, app_name, config or {})
    register(found)
    return found
