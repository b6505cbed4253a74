"""Spark whose Python is compiled once."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from frazil.spark.spark_session import find_spark_home


def test_archives_of_sources_are_the_packages_themselves(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}

    home, again = find_spark_home(environment), find_spark_home(environment)

    assert home is not None
    assert home == again
    installed = Path(pyspark.__file__).parent
    assert (home / "python" / "lib" / "pyspark.zip" / "pyspark").samefile(installed)
    assert (home / "jars").samefile(installed / "jars")
    (py4j,) = (home / "python" / "lib").glob("py4j*")
    assert (py4j / "py4j" / "__init__.py").is_file()


def test_the_choice_of_users_counts(tmp_path: Path) -> None:
    environment = {"SPARK_HOME": "/opt/spark", "XDG_CACHE_HOME": str(tmp_path)}

    assert find_spark_home(environment) is None


def test_without_a_place_for_links_spark_is_as_it_is_installed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    assert find_spark_home({"XDG_CACHE_HOME": str(tmp_path / "file")}) is None


@pytest.mark.xdist_group("spark")
def test_workers_take_the_package_that_is_compiled(spark: SparkSession) -> None:
    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark  # noqa: PLC0415 (in a worker)

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"at": [pyspark.__file__] * batch.num_rows})

    (row,) = spark.range(1).mapInArrow(find, "at string").collect()

    assert "pyspark.zip/pyspark/__init__.py" in row.at
    assert Path(row.at).samefile(pyspark.__file__)
