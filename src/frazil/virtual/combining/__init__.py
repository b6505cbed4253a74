"""Many headers to one plan: pure, and with every problem found on the way."""

from frazil.virtual.combining.plan import Plan, Treatment, VariablePlan
from frazil.virtual.combining.planning import combine
from frazil.virtual.combining.problems import Problem, ProblemKind, Report, Severity

__all__ = [
    "Plan",
    "Problem",
    "ProblemKind",
    "Report",
    "Severity",
    "Treatment",
    "VariablePlan",
    "combine",
]
