"""How the references of ingested arrays are split over manifests, where nobody has said it."""

import re
from collections.abc import Sequence
from math import prod

from frazil.config import ManifestSplitCondition, ManifestSplitDimCondition
from frazil.config.split_conditions import DimSplits, SplitSizes
from frazil.spark.ingesting.planning import IngestPlan
from frazil.virtual import Treatment

MOST_REFERENCES = 100_000
"""In one manifest."""


def plan_rules(found: IngestPlan, group: str, configured: SplitSizes | None) -> SplitSizes:
    """Rules for the arrays that no configured one is for.

    The sizes depend on chunks that don't grow in number, so that an append finds the cells as they
    were: it writes the last one anew, and those behind it.
    """
    rules = []
    for name, variable in found.plan.variables.items():
        path = f"/{group}/{name}" if group else f"/{name}"
        if variable.treatment is Treatment.INLINE or _is_ruled(path, configured):
            continue
        shape = variable.metadata["shape"]
        steps = variable.metadata["chunk_grid"]["configuration"]["chunk_shape"]
        counts = [-(-extent // step) for extent, step in zip(shape, steps, strict=True)]
        dims = variable.metadata.get("dimension_names") or ()
        growing = dims.index(found.append_dim) if found.append_dim in dims else None
        sizes = plan_sizes(counts, growing)
        if sizes:
            rules.append((ManifestSplitCondition.path_matches(f"^{re.escape(path)}$"), sizes))
    return tuple(rules)


def plan_sizes(
    counts: Sequence[int], growing: int | None, most: int = MOST_REFERENCES
) -> DimSplits:
    """Every how many chunks an array is split along its axes; nothing for one that is small."""
    sizes = list(counts)
    if growing is not None:
        sizes[growing] = max(1, most // max(1, prod(counts) // max(1, counts[growing])))
    for axis in range(len(sizes)):
        if axis != growing:
            others = max(1, prod(sizes) // max(1, sizes[axis]))
            sizes[axis] = max(1, min(sizes[axis], most // others))
    return tuple(
        (ManifestSplitDimCondition.Axis(axis), size)
        for axis, size in enumerate(sizes)
        if axis == growing or size < counts[axis]
    )


def _is_ruled(path: str, configured: SplitSizes | None) -> bool:
    return any(condition.matches(path) for condition, _ in configured or ())
