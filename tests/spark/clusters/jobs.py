"""What drivers of the tests do."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.spark import IngestReport


def create_repository(path: Path) -> frazil.Repository:
    """An empty one on the disk."""
    return frazil.Repository.create(frazil.local_filesystem_storage(str(path)))


def ingest(spark: SparkSession, archive: Path, path: Path, mode: Any = "virtual") -> IngestReport:
    """Bring the archive into a repository, which is made if there is none."""
    storage = frazil.local_filesystem_storage(str(path))
    repo = frazil.Repository.open_or_create(storage)
    return frazil.spark.ingest(
        repo,
        f"{archive}/*.nc",
        append_dim="time",
        mode=mode,
        message=f"{mode}",
        job=frazil.spark.Job(run_on="spark"),
        spark=spark,
    )


def find_problems(spark: SparkSession) -> list[str]:
    """What there is to say about the session."""
    return [str(each) for each in frazil.spark.check_session(spark)]
