"""Spark's filter push-down for sources in Python, which the data source does without.

It gives wrong rows when one frame is used in more than one way. As soon as this test fails, Spark is
repaired: then, where only such versions are supported, the data source may implement `pushFilters`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from frazil.spark.tables.data_source import TableReader

pytestmark = pytest.mark.xdist_group("spark-tables")
_SETTING = "spark.sql.python.filterPushdown.enabled"


class Numbers(DataSource):
    """A hundred numbers, in ten partitions."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "n long"

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002
        class Reader(DataSourceReader):
            least = 0

            def pushFilters(self, filters: Any) -> Iterable[Any]:  # noqa: N802
                for each in filters:
                    if type(each).__name__ == "GreaterThanOrEqual":
                        self.least = each.value
                    yield each

            def partitions(self) -> list[InputPartition]:
                return [InputPartition(n) for n in range(self.least // 10, 10)]

            def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
                first = partition.value * 10
                yield pa.RecordBatch.from_pydict({"n": list(range(first, first + 10))})

        return Reader()


def test_push_down_still_gives_wrong_rows(spark: SparkSession) -> None:
    spark.dataSource.register(Numbers)
    spark.conf.set(_SETTING, "true")
    try:
        frame = spark.read.format("numbers").load()
        all_before, late = frame.count(), frame.where("n >= 90").count()
        all_after = frame.count()
    finally:
        spark.conf.unset(_SETTING)

    assert (all_before, late) == (100, 10)
    assert all_after != 100, "Spark is repaired: see the text of this module"


def test_the_data_source_pushes_nothing_down() -> None:
    assert TableReader.pushFilters is DataSourceReader.pushFilters
