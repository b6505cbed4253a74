"""The data pipeline on Apache Spark.

Every job is a plan, made of plain functions, and a few lines that run it on a session of Spark. Chunk
bytes stay in Python workers, which read and write the storage themselves; what they hand back is small,
and one job is one commit.
"""

from frazil.spark.arrays import JobReport, foreach_region
from frazil.spark.job import Job
from frazil.spark.sessions import check, session

__all__ = ["Job", "JobReport", "check", "foreach_region", "session"]
