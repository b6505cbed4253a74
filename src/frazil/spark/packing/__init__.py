"""Jobs that change how chunks are kept, and no chunk: manifests anew, small objects packed."""

from frazil.spark.packing.compacting import compact
from frazil.spark.packing.report import CompactReport, RewriteReport
from frazil.spark.packing.rewriting import rewrite_manifests

__all__ = ["CompactReport", "RewriteReport", "compact", "rewrite_manifests"]
