"""VirtualiZarr's virtual datasets, into a session and out of one."""

from frazil.virtual.datasets.reading import manifest_store, read_dataset
from frazil.virtual.datasets.writing import write_dataset

__all__ = ["manifest_store", "read_dataset", "write_dataset"]
