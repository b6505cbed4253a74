"""What lands in a repository, as a stream: `spark.readStream.format("icechunk")`."""

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from frazil.errors import InvalidInputError
from frazil.frames.options import Options


def make_stream_reader(options: Options, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG001
    """A reader of the stream that the options name."""
    raise InvalidInputError(f"the table {options.table!r} can't be read as a stream")
