"""What every table is to the engine that reads it."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa


class Table(Protocol):
    """A table of one version of a repository.

    It is pickled and sent to tasks, and so are its partitions. What it gives does not change: it knows
    the version that it was opened at.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns, of types that Spark has: see `frazil.frames.types`."""

    def partitions(self) -> Sequence[Any]:
        """What tasks read, one each; none for a table without rows."""

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in batches of exactly the schema."""
