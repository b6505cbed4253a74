"""Repositories and archives on a disk, which tasks in other processes share."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from tests.spark.ingestion.archives import Ingest

# VirtualiZarr needs a newer Python than Frazil does.
collect_ignore_glob = [] if find_spec("virtualizarr") else ["test_*.py"]
if not (find_spec("eccodes") and find_spec("gribberish")):
    collect_ignore_glob.append("test_grib_ingest.py")


@pytest.fixture
def repo(tmp_path: Path) -> frazil.Repository:
    """An empty repository that was told nothing of any archive."""
    return frazil.Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A folder for files."""
    folder = tmp_path / "archive"
    folder.mkdir()
    return folder


@pytest.fixture
def ingest(spark: SparkSession, repo: frazil.Repository, archive: Path) -> Ingest:
    """Ingest the archive into the repository, on Spark however small it is."""

    def run(**options: object) -> frazil.spark.IngestReport:
        given = {"append_dim": "time", "job": frazil.spark.Job(run_on="spark"), **options}
        return frazil.spark.ingest(repo, f"{archive}/*.nc", spark=spark, **given)  # type: ignore[arg-type]

    return run
