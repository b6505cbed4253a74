"""The review: what a collection deletes or would delete, in Parquet files that people can look at.

A task writes its list before it deletes anything. If it runs again it goes by that list, so that what
its first run had deleted is counted, too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.errors import ObjectExistsError, ObjectNotFoundError
from frazil.spark.garbage.mark_table import Place
from frazil.storage.interface import ObjectInfo

SCHEMA = pa.schema(
    [
        pa.field("kind", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("created_at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("why", pa.dictionary(pa.int8(), pa.string()), nullable=False),
    ]
)
_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True)
class Found:
    """How much of a kind is garbage."""

    count: int = 0
    size_bytes: int = 0
    oldest: datetime | None = None

    def __add__(self, other: "Found") -> "Found":
        ages = [each.oldest for each in (self, other) if each.oldest is not None]
        oldest = min(ages, default=None)
        return Found(self.count + other.count, self.size_bytes + other.size_bytes, oldest)


def review(place: Place, name: str, kind: str, garbage: Iterable[ObjectInfo], why: str) -> bytes:
    """Write a list, unless an earlier run of the same task has: gives the one that counts."""
    key = place.key(name)
    try:
        return bytes(place.storage.get(key))
    except ObjectNotFoundError:
        data = _encode(kind, garbage, why)
    try:
        place.storage.create(key, data)
    except ObjectExistsError:
        return bytes(place.storage.get(key))
    return data


def read_review(data: bytes) -> Iterator[ObjectInfo]:
    """The objects of a list."""
    for batch in pq.ParquetFile(pa.BufferReader(data)).iter_batches(_AT_ONCE):
        columns = [batch.column(name).to_pylist() for name in ("key", "bytes", "created_at")]
        yield from map(ObjectInfo, *columns)


def summarize(data: bytes) -> Found:
    """How much is on a list."""
    table = pq.read_table(pa.BufferReader(data), columns=["bytes", "created_at"])
    if not len(table):
        return Found()
    oldest = pc.min(table["created_at"]).as_py()
    return Found(len(table), pc.sum(table["bytes"]).as_py(), oldest)


def _encode(kind: str, garbage: Iterable[ObjectInfo], why: str) -> bytes:
    sink = pa.BufferOutputStream()
    remaining = iter(garbage)
    with pq.ParquetWriter(sink, SCHEMA, compression="zstd") as writer:
        while batch := list(islice(remaining, _AT_ONCE)):
            writer.write_table(_to_table(kind, batch, why))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _to_table(kind: str, batch: list[ObjectInfo], why: str) -> pa.Table:
    def repeated(text: str) -> Any:
        indices = pa.array([0] * len(batch), pa.int8())
        return pa.DictionaryArray.from_arrays(indices, [text])

    columns = [
        repeated(kind),
        pa.array([each.key for each in batch], pa.string()),
        pa.array([each.size_bytes for each in batch], pa.int64()),
        pa.array([each.created_at.astimezone(UTC) for each in batch], pa.timestamp("us", "UTC")),
        repeated(why),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
