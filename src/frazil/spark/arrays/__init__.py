"""Jobs on arrays: regions, datasets, transforms and other chunks, each as one commit."""

from frazil.spark.arrays.dataset_writing import write
from frazil.spark.arrays.foreach import foreach_region
from frazil.spark.arrays.materializing import materialize
from frazil.spark.arrays.rechunking import rechunk
from frazil.spark.arrays.report import JobReport
from frazil.spark.arrays.transforming import transform

__all__ = ["JobReport", "foreach_region", "materialize", "rechunk", "transform", "write"]
