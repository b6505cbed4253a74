"""Jobs on arrays: regions, datasets, transforms, other chunks, statistics, each as one commit."""

from frazil.spark.arrays.analyzing import analyze
from frazil.spark.arrays.dataset_writing import write
from frazil.spark.arrays.foreach import foreach_region
from frazil.spark.arrays.materializing import materialize
from frazil.spark.arrays.rechunking import rechunk
from frazil.spark.arrays.report import JobReport
from frazil.spark.arrays.transforming import transform

__all__ = ["JobReport", "analyze", "foreach_region", "materialize", "rechunk", "transform", "write"]
