"""The data pipeline on Apache Spark.

Every job is a plan, made of plain functions, and a few lines that run it on a session of Spark. Chunk
bytes stay in Python workers, which read and write the storage themselves; what they hand back is small,
and one job is one commit.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING

from frazil.spark import checks
from frazil.spark.arrays import (
    JobReport,
    analyze,
    foreach_region,
    materialize,
    rechunk,
    transform,
    write,
)
from frazil.spark.copying import CopyReport, ExportReport, copy, export_zarr, import_zarr
from frazil.spark.garbage import (
    GarbageReport,
    MaintenancePolicy,
    MaintenanceReport,
    collect_garbage,
    maintain,
)
from frazil.spark.health import CheckJobReport, check, stats
from frazil.spark.job import Job
from frazil.spark.packing import CompactReport, RewriteReport, compact, rewrite_manifests
from frazil.spark.sessions import check_session
from frazil.spark.sources import (
    commit_batch,
    find_written,
    read,
    register,
    session,
    sql,
    write_frame,
)
from frazil.spark.workers import send_package

__all__ = [
    "CheckJobReport",
    "CompactReport",
    "CopyReport",
    "ExportReport",
    "GarbageReport",
    "Job",
    "JobReport",
    "MaintenancePolicy",
    "MaintenanceReport",
    "RewriteReport",
    "analyze",
    "check",
    "check_session",
    "checks",
    "collect_garbage",
    "commit_batch",
    "compact",
    "copy",
    "export_zarr",
    "find_written",
    "foreach_region",
    "import_zarr",
    "maintain",
    "materialize",
    "read",
    "rechunk",
    "register",
    "rewrite_manifests",
    "send_package",
    "session",
    "sql",
    "stats",
    "transform",
    "write",
    "write_frame",
]

# Spark says so whenever batches go to workers, where none of ours becomes a frame of pandas.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

if TYPE_CHECKING:
    from frazil.spark.ingesting import IngestReport as IngestReport
    from frazil.spark.ingesting import ingest as ingest
else:
    # These need the extra `virtual` besides.
    _INGESTING = ("IngestReport", "ingest")

    def __getattr__(name: str) -> object:
        if name not in _INGESTING:
            raise AttributeError(f"module 'frazil.spark' has no attribute {name!r}")
        globals()[name] = getattr(import_module("frazil.spark.ingesting"), name)
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *_INGESTING})
