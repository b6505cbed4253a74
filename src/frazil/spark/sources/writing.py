"""Writing frames into arrays: `frame.write.format("icechunk")`."""

from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError
from frazil.frames.options import Options


def make_writer(
    options: Options,  # noqa: ARG001
    schema: StructType,  # noqa: ARG001
    *,
    overwrite: bool,  # noqa: ARG001
) -> DataSourceArrowWriter:
    """A writer of a frame of this schema."""
    raise InvalidInputError("frames can't be written to a repository yet: use frazil.spark.write")
