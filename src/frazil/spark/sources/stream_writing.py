"""A stream that is written to a repository: `stream.writeStream.format("icechunk")`."""

from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError
from frazil.frames.options import Options


def make_stream_writer(
    options: Options,  # noqa: ARG001
    schema: StructType,  # noqa: ARG001
    *,
    overwrite: bool,  # noqa: ARG001
) -> DataSourceStreamArrowWriter:
    """A writer of the batches of a stream."""
    raise InvalidInputError("streams can't be written to a repository yet")
