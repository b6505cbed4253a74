"""Checks of what a job is about to publish: they see the new version, and the branch does not yet.

A check is a value; most are made by a function that is named like the claim it makes. Checks of a whole
look at coordinates and metadata once, checks of regions at the data of each source file, on workers.
A function of your own is a check of regions: it is given the dataset of a file's region and the
`FileRegion`, and gives nothing, a text, a `Finding`, or several of them.
"""

from typing import TYPE_CHECKING

from frazil.lazy import load_lazily

if TYPE_CHECKING:
    from frazil.spark.checks.coordinates import Complete as Complete
    from frazil.spark.checks.coordinates import Monotonic as Monotonic
    from frazil.spark.checks.coordinates import Unique as Unique
    from frazil.spark.checks.coordinates import complete as complete
    from frazil.spark.checks.coordinates import monotonic as monotonic
    from frazil.spark.checks.coordinates import unique as unique
    from frazil.spark.checks.findings import Finding as Finding
    from frazil.spark.checks.metadata import CF_ATTRIBUTES as CF_ATTRIBUTES
    from frazil.spark.checks.metadata import SameMetadata as SameMetadata
    from frazil.spark.checks.metadata import same_metadata as same_metadata
    from frazil.spark.checks.own import OwnFunction as OwnFunction
    from frazil.spark.checks.samples import SamplesEqualSource as SamplesEqualSource
    from frazil.spark.checks.samples import samples_equal_source as samples_equal_source
    from frazil.spark.checks.subjects import FileRegion as FileRegion
    from frazil.spark.checks.values import FillShare as FillShare
    from frazil.spark.checks.values import ValuesBetween as ValuesBetween
    from frazil.spark.checks.values import fill_share as fill_share
    from frazil.spark.checks.values import values_between as values_between

# Where each name lives. The imports above say the same to type checkers.
_HOMES = {
    "coordinates": "Complete Monotonic Unique complete monotonic unique",
    "findings": "Finding",
    "metadata": "CF_ATTRIBUTES SameMetadata same_metadata",
    "own": "OwnFunction",
    "samples": "SamplesEqualSource samples_equal_source",
    "subjects": "FileRegion",
    "values": "FillShare ValuesBetween fill_share values_between",
}

__all__ = sorted(" ".join(_HOMES.values()).split())

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_lazily("frazil.spark.checks", _HOMES)
