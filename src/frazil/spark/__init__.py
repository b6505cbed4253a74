"""The data pipeline on Apache Spark.

Every job is a plan, made of plain functions, and a few lines that run it on a session of Spark. Chunk
bytes stay in Python workers, which read and write the storage themselves; what they hand back is small,
and one job is one commit.

A module is loaded when something of it is first used: workers and planners of Spark, which are
processes of their own, load no job but theirs.
"""

import warnings
from typing import TYPE_CHECKING

from frazil.errors import SetupError
from frazil.lazy import load_lazily

if TYPE_CHECKING:
    from frazil.spark import checks as checks
    from frazil.spark.arrays.analyzing import analyze as analyze
    from frazil.spark.arrays.dataset_writing import write as write
    from frazil.spark.arrays.foreach import foreach_region as foreach_region
    from frazil.spark.arrays.materializing import materialize as materialize
    from frazil.spark.arrays.rechunking import rechunk as rechunk
    from frazil.spark.arrays.report import JobReport as JobReport
    from frazil.spark.arrays.transforming import transform as transform
    from frazil.spark.copying.exporting import export_zarr as export_zarr
    from frazil.spark.copying.importing import import_zarr as import_zarr
    from frazil.spark.copying.mirroring import copy as copy
    from frazil.spark.copying.report import CopyReport as CopyReport
    from frazil.spark.copying.report import ExportReport as ExportReport
    from frazil.spark.garbage.collecting import collect_garbage as collect_garbage
    from frazil.spark.garbage.maintaining import MaintenancePolicy as MaintenancePolicy
    from frazil.spark.garbage.maintaining import maintain as maintain
    from frazil.spark.garbage.report import GarbageReport as GarbageReport
    from frazil.spark.garbage.report import MaintenanceReport as MaintenanceReport
    from frazil.spark.health.checking import check as check
    from frazil.spark.health.report import CheckJobReport as CheckJobReport
    from frazil.spark.health.summing import stats as stats
    from frazil.spark.ingesting.ingest import ingest as ingest
    from frazil.spark.ingesting.report import IngestReport as IngestReport
    from frazil.spark.job import Job as Job
    from frazil.spark.packing.compacting import compact as compact
    from frazil.spark.packing.report import CompactReport as CompactReport
    from frazil.spark.packing.report import RewriteReport as RewriteReport
    from frazil.spark.packing.rewriting import rewrite_manifests as rewrite_manifests
    from frazil.spark.sessions import check_session as check_session
    from frazil.spark.sources.frame_writing import commit_batch as commit_batch
    from frazil.spark.sources.frame_writing import find_written as find_written
    from frazil.spark.sources.frame_writing import write_frame as write_frame
    from frazil.spark.sources.reading import read as read
    from frazil.spark.sources.registering import register as register
    from frazil.spark.sources.registering import session as session
    from frazil.spark.sources.views import sql as sql
    from frazil.spark.workers import send_package as send_package

# Where each name lives. The imports above say the same to type checkers.
_HOMES = {
    "arrays.analyzing": "analyze",
    "arrays.dataset_writing": "write",
    "arrays.foreach": "foreach_region",
    "arrays.materializing": "materialize",
    "arrays.rechunking": "rechunk",
    "arrays.report": "JobReport",
    "arrays.transforming": "transform",
    "copying.exporting": "export_zarr",
    "copying.importing": "import_zarr",
    "copying.mirroring": "copy",
    "copying.report": "CopyReport ExportReport",
    "garbage.collecting": "collect_garbage",
    "garbage.maintaining": "MaintenancePolicy maintain",
    "garbage.report": "GarbageReport MaintenanceReport",
    "health.checking": "check",
    "health.report": "CheckJobReport",
    "health.summing": "stats",
    "ingesting.ingest": "ingest",
    "ingesting.report": "IngestReport",
    "job": "Job",
    "packing.compacting": "compact",
    "packing.report": "CompactReport RewriteReport",
    "packing.rewriting": "rewrite_manifests",
    "sessions": "check_session",
    "sources.frame_writing": "commit_batch find_written write_frame",
    "sources.reading": "read",
    "sources.registering": "register session",
    "sources.views": "sql",
    "workers": "send_package",
}

__all__ = ["checks", *sorted(" ".join(_HOMES.values()).split())]

if not TYPE_CHECKING:
    _get, __dir__ = load_lazily("frazil.spark", _HOMES, ["checks"])

    def __getattr__(name: str) -> object:
        try:
            return _get(name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing == "frazil":
                raise
            raise SetupError(
                f"frazil.spark.{name} needs {missing}, which is not installed: "
                "pip install 'frazil[spark]'"
            ) from error


# Spark says so whenever batches go to workers, where none of ours becomes a frame of pandas.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
