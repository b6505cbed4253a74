"""Checking a repository, and repairing what can be repaired without guessing.

What is wrong is decided by pure functions of bytes and columns (`check_x`); reading and listing takes a
few lines each, so that a cluster can do it just as well.
"""

from frazil.maintenance.checking.opening import check_storage, repair_storage
from frazil.maintenance.checking.performing import CheckOptions, check_repository
from frazil.maintenance.checking.problems import Problem, Repair, Severity
from frazil.maintenance.checking.repairing import Outcome, RepairReport, repair_repository
from frazil.maintenance.checking.report import CheckReport, Counts, Orphans
from frazil.maintenance.checking.restoring import Restored, restore_repo
from frazil.maintenance.checking.workers import Workers

__all__ = [
    "CheckOptions",
    "CheckReport",
    "Counts",
    "Orphans",
    "Outcome",
    "Problem",
    "Repair",
    "RepairReport",
    "Restored",
    "Severity",
    "Workers",
    "check_repository",
    "check_storage",
    "repair_repository",
    "repair_storage",
    "restore_repo",
]
