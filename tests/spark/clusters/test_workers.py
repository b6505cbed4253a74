"""Workers that lack what the driver has: it is reported, and can be sent."""

import sys
import sysconfig
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import frazil
import frazil.spark
from frazil.errors import SetupError
from frazil.spark import Job
from frazil.spark.runtime import Worker, fan_out, find_problems
from frazil.spark.spark_session import python_path
from tests.spark.clusters import jobs
from tests.spark.clusters.archive import check_history
from tests.spark.clusters.drivers import driver

pytestmark = pytest.mark.xdist_group("clusters")


def test_folders_that_the_interpreter_has_by_itself_are_left_out(tmp_path: Path) -> None:
    installed = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")]
    searched = [str(tmp_path), *installed, str(tmp_path), str(tmp_path / "missing")]

    found = python_path(searched)

    assert found[0] == str(tmp_path.resolve())
    assert found.count(str(tmp_path.resolve())) == 1
    assert not set(found) & {*installed, str(tmp_path / "missing")}


def test_workers_with_the_same_package_are_right() -> None:
    assert find_problems([Worker("python", frazil.__version__, None)]) == []


def test_workers_with_another_package_are_not() -> None:
    (problem,) = find_problems([Worker("python", "0.0.1", None)])

    assert "the workers have frazil 0.0.1" in problem
    assert f"install frazil {frazil.__version__}" in problem


def run_without_and_with_it(spark: SparkSession, archive: Path, path: Path) -> list[str]:
    """What is reported before the package is sent, and what after."""
    reported = jobs.find_problems(spark)
    with pytest.raises(SetupError) as refused:
        frazil.spark.session(spark)
    reported.append(str(refused.value))
    with pytest.raises(SetupError) as failed:
        fan_out(spark, Job(), "counting", int, ["1"])
    reported.append(str(failed.value))
    frazil.spark.send_package(spark)
    assert fan_out(spark, Job(), "counting", int, ["1", "2"]) == [1, 2]
    jobs.ingest(spark, archive, path)
    return [*reported, *jobs.find_problems(spark)]


def test_workers_without_it_are_reported_and_get_it(few: Path, tmp_path: Path) -> None:
    # The libraries are found, but no file there that leads to a package elsewhere is followed.
    environment = {"PYSPARK_PYTHON": sys._base_executable, "PYTHONPATH": ""}  # type: ignore[attr-defined]
    config = {"spark.executorEnv.PYTHONPATH": sysconfig.get_path("purelib")}

    with driver("local[2]", tmp_path, environment, config) as running:
        checked, refused, failed = running.call(run_without_and_with_it, few, tmp_path / "repo")

    assert "can't import Frazil" in checked
    assert refused == checked
    assert failed.startswith("the workers can't import Frazil: install frazil")
    check_history(tmp_path / "repo", few, ["virtual"])
