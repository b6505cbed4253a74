"""Whether repositories are whole, and how much they hold, found out by the workers of a cluster."""

from frazil.spark.health.checking import check
from frazil.spark.health.report import CheckJobReport
from frazil.spark.health.summing import stats

__all__ = ["CheckJobReport", "check", "stats"]
