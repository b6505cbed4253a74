"""Archives of many shapes, ingested by tasks on Spark: what is read equals what is in the files."""

from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

import frazil.spark
from frazil.spark import Job, SourceOptions
from tests.archives.files import DAYS, create, read
from tests.archives.test_archives import save_tree


def test_a_tree_of_groups_is_ingested_by_tasks(tmp_path: Path, spark: SparkSession) -> None:
    for at in (0, 2, 4):
        save_tree(tmp_path / "files" / f"{at}.nc", at, has_support=at != 2)
    repo = create(tmp_path / "repo")

    report = frazil.spark.ingest(
        repo, tmp_path / "files", append_dim="time", spark=spark,
        source_options=SourceOptions(source_group="*"), job=Job(run_on="spark", files_per_task=1),
    )  # fmt: skip

    assert report.ran_on == "spark"
    product, support = read(repo, group="PRODUCT"), read(repo, group="PRODUCT/SUPPORT/INPUT")
    assert (support["time"].values == DAYS[:6].values).all()
    for at in (0, 2, 4):
        steps = np.arange(800).reshape(2, 400)
        assert (product["no2"][at : at + 2].values == at + steps).all()
        heights = support["height"][at : at + 2]
        assert (heights == at - steps).all() if at != 2 else heights.isnull().all()
