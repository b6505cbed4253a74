"""Copies of repositories, and the ways out to plain Zarr and in from it, on a cluster."""

from frazil.spark.copying.mirroring import copy
from frazil.spark.copying.report import CopyReport

__all__ = ["CopyReport", "copy"]
