"""Checks of what a job is about to publish: they see the new version, and the branch does not yet.

A check is a value; most are made by a function that is named like the claim it makes. Checks of a whole
look at coordinates and metadata once, checks of regions at the data of each source file, on workers.
A function of your own is a check of regions: it is given the dataset of a file's region and the
`FileRegion`, and gives nothing, a text, a `Finding`, or several of them.
"""

from frazil.spark.checks.coordinates import Complete, Monotonic, Unique, complete, monotonic, unique
from frazil.spark.checks.findings import Finding
from frazil.spark.checks.metadata import CF_ATTRIBUTES, SameMetadata, same_metadata
from frazil.spark.checks.own import OwnFunction
from frazil.spark.checks.samples import SamplesEqualSource, samples_equal_source
from frazil.spark.checks.subjects import FileRegion
from frazil.spark.checks.values import FillShare, ValuesBetween, fill_share, values_between

__all__ = [
    "CF_ATTRIBUTES",
    "Complete",
    "FileRegion",
    "FillShare",
    "Finding",
    "Monotonic",
    "OwnFunction",
    "SameMetadata",
    "SamplesEqualSource",
    "Unique",
    "ValuesBetween",
    "complete",
    "fill_share",
    "monotonic",
    "same_metadata",
    "samples_equal_source",
    "unique",
    "values_between",
]
