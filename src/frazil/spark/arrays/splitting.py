"""How the references of arrays are split over manifests, where nobody has said it: pure."""

import re
from collections.abc import Sequence
from copy import deepcopy
from math import prod

from frazil.config import (
    ManifestConfig,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    ManifestSplittingConfig,
    RepositoryConfig,
)
from frazil.config.split_conditions import DimSplits, SplitSizes

MOST_REFERENCES = 100_000
"""In one manifest."""


def plan_rule(
    path: str, counts: Sequence[int], growing: int | None, configured: SplitSizes | None
) -> SplitSizes:
    """A rule for an array of so many chunks along its axes; none if it has one, or needs none.

    The sizes depend on chunks that don't grow in number, so that an append finds the cells as they
    were: it writes the last one anew, and those behind it.
    """
    if any(condition.matches(path) for condition, _ in configured or ()):
        return ()
    sizes = plan_sizes(counts, growing)
    return ((ManifestSplitCondition.path_matches(f"^{re.escape(path)}$"), sizes),) if sizes else ()


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


def configured_rules(config: RepositoryConfig) -> SplitSizes | None:
    """The rules for splitting that somebody has set."""
    splitting = config.manifest.splitting if config.manifest is not None else None
    return splitting.split_sizes if splitting is not None else None


def add_rules(config: RepositoryConfig, rules: SplitSizes) -> RepositoryConfig:
    """A configuration with, behind its own, the rules that it lacks."""
    added = deepcopy(config)
    before = configured_rules(config) or ()
    new = tuple(rule for rule in rules if rule not in before)
    if new:
        added.manifest = added.manifest or ManifestConfig()
        added.manifest.splitting = ManifestSplittingConfig((*before, *new))
    return added
