"""Collecting garbage on a cluster, and the upkeep that a schedule runs."""

from frazil.spark.garbage.collecting import collect_garbage
from frazil.spark.garbage.maintaining import MaintenancePolicy, maintain
from frazil.spark.garbage.report import GarbageReport, MaintenanceReport

__all__ = [
    "GarbageReport",
    "MaintenancePolicy",
    "MaintenanceReport",
    "collect_garbage",
    "maintain",
]
