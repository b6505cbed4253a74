"""Data pipelines on Apache Spark.

Every job is a plan, made by pure functions, and a few lines that run it on a Spark session. Chunk
bytes stay in the Python workers, which read and write the storage directly. Workers return small
results, and one job makes one commit.

Modules are imported on first use, so that Spark workers and planners, which run in separate
processes, import only the job they run.
"""

import warnings
from typing import TYPE_CHECKING

from frazil.errors import SetupError, explain_missing
from frazil.lazy import load_lazily

if TYPE_CHECKING:
    from frazil.spark import checks as checks
    from frazil.spark.arrays.analyze import analyze as analyze
    from frazil.spark.arrays.derivation import Derivation as Derivation
    from frazil.spark.arrays.derive import DeriveReport as DeriveReport
    from frazil.spark.arrays.derive import derive as derive
    from frazil.spark.arrays.materialize import materialize as materialize
    from frazil.spark.arrays.points import points as points
    from frazil.spark.arrays.rechunk import rechunk as rechunk
    from frazil.spark.arrays.resample import resample as resample
    from frazil.spark.arrays.transform import BlockOptions as BlockOptions
    from frazil.spark.arrays.transform import transform as transform
    from frazil.spark.arrays.write_dataset import foreach_region as foreach_region
    from frazil.spark.arrays.write_dataset import write as write
    from frazil.spark.arrays.zonal import zonal as zonal
    from frazil.spark.copy_repository import copy as copy
    from frazil.spark.ingestion.ingest_job import ingest as ingest
    from frazil.spark.ingestion.ingest_job import ingest_batches as ingest_batches
    from frazil.spark.ingestion.ingest_report import IngestReport as IngestReport
    from frazil.spark.ingestion.source_data import SourceOptions as SourceOptions
    from frazil.spark.job import CheckJobReport as CheckJobReport
    from frazil.spark.job import CommitReport as CommitReport
    from frazil.spark.job import CompactReport as CompactReport
    from frazil.spark.job import CopyReport as CopyReport
    from frazil.spark.job import ExportReport as ExportReport
    from frazil.spark.job import Job as Job
    from frazil.spark.job import JobReport as JobReport
    from frazil.spark.job import RewriteReport as RewriteReport
    from frazil.spark.maintenance.compact_chunks import compact as compact
    from frazil.spark.maintenance.gc_review import GarbageReport as GarbageReport
    from frazil.spark.maintenance.gc_review import MaintenanceReport as MaintenanceReport
    from frazil.spark.maintenance.rewrite_manifests import rewrite_manifests as rewrite_manifests
    from frazil.spark.maintenance.spark_check import check as check
    from frazil.spark.maintenance.spark_gc import MaintenancePolicy as MaintenancePolicy
    from frazil.spark.maintenance.spark_gc import collect_garbage as collect_garbage
    from frazil.spark.maintenance.spark_gc import maintain as maintain
    from frazil.spark.maintenance.spark_stats import stats as stats
    from frazil.spark.spark_session import check_session as check_session
    from frazil.spark.spark_session import send_package as send_package
    from frazil.spark.tables.data_source import register as register
    from frazil.spark.tables.data_source import session as session
    from frazil.spark.tables.read import from_xarray as from_xarray
    from frazil.spark.tables.read import read as read
    from frazil.spark.tables.read import to_xarray as to_xarray
    from frazil.spark.tables.sql import Attached as Attached
    from frazil.spark.tables.sql import attach as attach
    from frazil.spark.tables.sql import attach_catalog as attach_catalog
    from frazil.spark.tables.sql import detach as detach
    from frazil.spark.tables.sql import sql as sql
    from frazil.spark.tables.write_frame import commit_batch as commit_batch
    from frazil.spark.tables.write_frame import find_written as find_written
    from frazil.spark.tables.write_frame import write_frame as write_frame
    from frazil.spark.zarr_export import export_zarr as export_zarr
    from frazil.spark.zarr_import import import_zarr as import_zarr

# Module of each public name. The imports above repeat this for type checkers.
_HOMES = {
    "arrays.analyze": "analyze",
    "arrays.derivation": "Derivation",
    "arrays.derive": "derive DeriveReport",
    "arrays.materialize": "materialize",
    "arrays.points": "points",
    "arrays.rechunk": "rechunk",
    "arrays.resample": "resample",
    "arrays.transform": "BlockOptions transform",
    "arrays.write_dataset": "foreach_region write",
    "arrays.zonal": "zonal",
    "copy_repository": "copy",
    "ingestion.ingest_job": "ingest ingest_batches",
    "ingestion.ingest_report": "IngestReport",
    "ingestion.source_data": "SourceOptions",
    "job": (
        "CheckJobReport CommitReport CompactReport CopyReport ExportReport Job JobReport "
        "RewriteReport"
    ),
    "maintenance.compact_chunks": "compact",
    "maintenance.gc_review": "GarbageReport MaintenanceReport",
    "maintenance.rewrite_manifests": "rewrite_manifests",
    "maintenance.spark_check": "check",
    "maintenance.spark_gc": "collect_garbage maintain MaintenancePolicy",
    "maintenance.spark_stats": "stats",
    "spark_session": "check_session send_package",
    "tables.data_source": "register session",
    "tables.read": "from_xarray read to_xarray",
    "tables.sql": "attach attach_catalog Attached detach sql",
    "tables.write_frame": "commit_batch find_written write_frame",
    "zarr_export": "export_zarr",
    "zarr_import": "import_zarr",
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
            raise SetupError(explain_missing(error, f"frazil.spark.{name}")) from error


# Spark emits this warning when batches go to workers. Frazil never converts them to pandas.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
