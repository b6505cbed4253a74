"""What the official library writes reads the same as a frame."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from pyspark.sql import SparkSession

icechunk = pytest.importorskip("icechunk")
pytestmark = pytest.mark.xdist_group("spark-tables")


def test_a_repository_of_the_official_library_reads_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    days = np.datetime64("2021-03-01", "ns") + np.arange(6) * np.timedelta64(12, "h")
    values = np.arange(24.0).reshape(6, 4)
    values[2, 1] = np.nan
    path = str(tmp_path / "repo")
    repo = icechunk.Repository.create(icechunk.local_filesystem_storage(path))
    session = repo.writable_session("main")
    group = zarr.open_group(session.store)
    time = group.create_array("time", shape=(6,), dtype="i8", dimension_names=["time"])
    time[:] = (days - days[0]) // np.timedelta64(1, "h")
    time.attrs.update({"units": "hours since 2021-03-01", "calendar": "standard"})
    array = group.create_array(
        "t", shape=(6, 4), chunks=(4, 2), dtype="f8", dimension_names=["time", "x"]
    )
    array[:4] = values[:4]
    session.commit("official")
    expected = xr.open_zarr(repo.readonly_session("main").store, consolidated=False)

    found = spark.read.format("icechunk").load(path).orderBy("time", "x").toArrow().to_pandas()

    frame = expected.to_dataframe().reset_index().sort_values(["time", "x"])
    assert found["time"].dt.tz_localize(None).tolist() == frame["time"].tolist()
    np.testing.assert_array_equal(found["t"], frame["t"])
    assert found["t"].isna().sum() == frame["t"].isna().sum()
