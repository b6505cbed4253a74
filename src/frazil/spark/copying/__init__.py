"""Copies of repositories, and the ways out to plain Zarr and in from it, on a cluster."""

from frazil.spark.copying.exporting import export_zarr
from frazil.spark.copying.importing import import_zarr
from frazil.spark.copying.mirroring import copy
from frazil.spark.copying.report import CopyReport, ExportReport

__all__ = ["CopyReport", "ExportReport", "copy", "export_zarr", "import_zarr"]
