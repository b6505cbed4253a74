"""One session of Spark for all tests of this lane."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import frazil.spark

FAST_START = {
    # A test wants its answer soon, and no answer is so long that better code would pay.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two tasks at once, each of which may fail three times."""
    session = frazil.spark.session(master="local[2,4]", config=FAST_START)
    yield session
    session.stop()
