"""Files become a group of a repository: found, opened, combined, referred to, committed at once.

Only `frames`, `attempt` and `ingest` know Spark; the other modules are plain functions of values.
"""

from frazil.spark.ingesting.ingest import ingest
from frazil.spark.ingesting.parsing import BadFile
from frazil.spark.ingesting.report import (
    IngestedFile,
    IngestedVariable,
    IngestReport,
    QuarantinedFile,
)

__all__ = [
    "BadFile",
    "IngestReport",
    "IngestedFile",
    "IngestedVariable",
    "QuarantinedFile",
    "ingest",
]
