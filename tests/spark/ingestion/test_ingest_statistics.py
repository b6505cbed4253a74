"""An ingest measures what it brings, in its own commit."""

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
import frazil.spark
from frazil.spark.job import RunOn
from frazil.tables.statistics import plan_analysis
from tests.spark.ingestion.archives import Ingest, expect, save_archive, save_days

pytestmark = pytest.mark.xdist_group("spark")


@pytest.mark.parametrize(
    ("mode", "run_on", "length"), [("virtual", "spark", 1), ("native", "driver", 3)]
)
def test_new_chunks_are_measured(
    repo: frazil.Repository, archive: Path, ingest: Ingest, mode: str, run_on: RunOn, length: int
) -> None:
    chunks = {"chunks": {"time": length}} if mode == "native" else {}
    save_archive(archive, 2)
    ingest(mode=mode, statistics=True, **chunks, job=frazil.spark.Job(run_on=run_on))
    save_days(archive, 4)

    report = ingest(mode=mode, statistics=True, **chunks, job=frazil.spark.Job(run_on=run_on))

    assert report.snapshot_id == repo.lookup_branch("main")
    session = repo.readonly_session("main")
    kept = zarr.open_group(session.store, path="_frazil/statistics/t", mode="r")
    t = expect(archive)["t"].values
    starts = range(0, len(t), length)
    greatest = [t[start : start + length].max() for start in starts]
    assert np.asarray(kept["max"]).max(axis=(1, 2)).tolist() == greatest
    assert np.asarray(kept["count"]).sum() == t.size
    for path in ("/t", "/p", "/quality"):
        analysis = plan_analysis(session, path)
        assert analysis.fresh == analysis.written.size
    assert "time" not in zarr.open_group(session.store, path="_frazil/statistics", mode="r")
    assert frazil.analyze(repo).snapshot_id is None
