"""Parquet tables of a garbage collection: marked chunk ids, and the lists of garbage."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.display import Listed, show_bytes
from frazil.errors import FormatError, ObjectExistsError, ObjectNotFoundError
from frazil.maintenance.reachability import ID_SLICES, IdRange, Ids, IdSet, find_slices
from frazil.ops import ExpirySummary, GCSummary
from frazil.spark.job import DataFrame, JobReport, SparkSession
from frazil.storage.interface import ByteRange, ObjectInfo, Storage
from frazil.storage.ranges import BlockFile

_MANIFESTS = b"frazil.manifests"
_ID_SIZE = b"frazil.id_size"
_SUFFIX = ".parquet"
_SMALL = 100_000
_MOST_SMALL = 32
"""Maximum number of small parts to reuse; if there are more, they are marked again together."""


@dataclass(frozen=True, slots=True)
class Place:
    """Folder of a storage."""

    storage: Storage
    folder: str

    def key(self, name: str) -> str:
        """Return the key of a file in the folder."""
        return f"{self.folder}/{name}"


@dataclass(frozen=True, slots=True)
class Part:
    """File of the mark table."""

    key: str
    size_bytes: int
    count: int
    """Number of ids in the part."""
    manifests: Ids
    """Manifests that reference these ids, sorted."""


def write_part(place: Place, ids: Ids, manifests: Ids) -> Part:
    """Write a part of sorted, distinct ids."""
    size = ids.dtype.itemsize
    metadata = {_MANIFESTS: np.sort(manifests).tobytes(), _ID_SIZE: str(size).encode()}
    schema = pa.schema([pa.field("id", pa.binary(size), nullable=False)], metadata)
    edges = np.searchsorted(find_slices(ids), np.arange(ID_SLICES + 1))
    sink = pa.BufferOutputStream()
    # Ids are random bytes, which don't compress.
    how: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    with pq.ParquetWriter(sink, schema, write_statistics=False, **how) as writer:
        for begin, end in pairwise(edges.tolist()):
            column = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(size), end - begin, [None, pa.py_buffer(ids[begin:end].tobytes())]
            )
            writer.write_table(pa.Table.from_arrays([column], schema=schema))
    data = sink.getvalue()
    key = place.key(uuid4().hex + _SUFFIX)
    place.storage.put(key, data)
    place.storage.flush()
    return Part(key, data.size, len(ids), manifests)


def list_parts(place: Place) -> list[Part]:
    """List all parts, including those that killed collections have left; each is complete."""
    found = [info for info in place.storage.list(f"{place.folder}/") if info.key.endswith(_SUFFIX)]
    with ThreadPoolExecutor(place.storage.concurrency) as pool:
        return list(pool.map(lambda info: _describe(place, info.key, info.size_bytes), found))


def read_shard(place: Place, part: Part, shard: IdRange) -> Ids:
    """Read the ids of a part that belong to an id range, sorted."""
    table = _open(place, part.key, part.size_bytes).read_row_groups(list(shard.slices))
    columns = [_to_ids(chunk) for chunk in table.column(0).chunks]
    size = table.schema.field(0).type.byte_width
    return np.concatenate([np.empty(0, f"S{size}"), *columns])


def split_parts(parts: Iterable[Part], marked: IdSet) -> tuple[list[Part], list[Part]]:
    """Return the parts whose manifests are all marked, and the others."""
    usable: list[Part] = []
    stale: list[Part] = []
    for part in parts:
        (usable if marked.contains(part.manifests).all() else stale).append(part)
    small = [part for part in usable if part.count < _SMALL]
    if len(small) <= _MOST_SMALL:
        return usable, stale
    return [part for part in usable if part.count >= _SMALL], stale + small


def _describe(place: Place, key: str, size_bytes: int) -> Part:
    metadata = _open(place, key, size_bytes).metadata
    fields = metadata.metadata or {}
    if _MANIFESTS not in fields:
        raise FormatError(f"{key} is no part of a mark table: delete it or give another place")
    size = int(fields[_ID_SIZE])
    manifests = np.frombuffer(fields[_MANIFESTS], f"S{size}")
    return Part(key, size_bytes, metadata.num_rows, manifests)


def _open(place: Place, key: str, size_bytes: int) -> pq.ParquetFile:
    def read(start: int, end: int) -> bytes:
        return bytes(place.storage.get(key, ByteRange(start, end)))

    try:
        return pq.ParquetFile(pa.PythonFile(BlockFile(read, size_bytes), "r"))
    except pa.ArrowInvalid as error:
        raise FormatError(f"{key} is no part of a mark table: {error}") from error


def _to_ids(column: pa.FixedSizeBinaryArray) -> Ids:
    size = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], np.uint8)
    begin = column.offset * size
    return data[begin : begin + len(column) * size].view(f"S{size}")


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
    """Count, size and oldest object of one kind of garbage."""

    count: int = 0
    size_bytes: int = 0
    oldest: datetime | None = None

    def __add__(self, other: "Found") -> "Found":
        ages = [each.oldest for each in (self, other) if each.oldest is not None]
        oldest = min(ages, default=None)
        return Found(self.count + other.count, self.size_bytes + other.size_bytes, oldest)


def review(place: Place, name: str, kind: str, garbage: Iterable[ObjectInfo], why: str) -> bytes:
    """Write a list of garbage unless an earlier attempt of the task has; return the list in effect."""
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
    """Yield the objects of a list."""
    for batch in pq.ParquetFile(pa.BufferReader(data)).iter_batches(_AT_ONCE):
        columns = [batch.column(name).to_pylist() for name in ("key", "bytes", "created_at")]
        yield from map(ObjectInfo, *columns)


def summarize(data: bytes) -> Found:
    """Return the count, size and oldest object of a list."""
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


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class GarbageReport(JobReport):
    """Result of a garbage collection; a `JobReport` with these fields.

    Attributes
    ----------
    is_dry_run
        True if nothing was deleted.
    cutoff
        Requested cutoff, or the start of the oldest running job.
    protected_jobs
        Jobs that hold a lease.
    found
        Garbage by kind.
    summary
        Objects deleted, or in a dry run those that would be.
    manifests
        Number of manifests kept.
    manifests_reused
        Number of kept manifests that earlier collections had marked.
    reviews
        Location of the list of garbage; None if it was not kept.
    """

    is_dry_run: bool
    cutoff: datetime
    protected_jobs: tuple[str, ...]
    found: dict[str, Found]
    summary: GCSummary
    manifests: int
    manifests_reused: int
    reviews: Place | None = field(default=None)

    def __str__(self) -> str:
        verb = "would be deleted" if self.is_dry_run else "deleted"
        lines = [f"garbage from before {self.cutoff:%Y-%m-%d %H:%M:%S %Z}"]
        for kind, each in self.found.items():
            oldest = "" if each.oldest is None else f", the oldest of {each.oldest:%Y-%m-%d %H:%M}"
            name = kind.replace("_", " ")
            lines.append(f"  {name}: {each.count:,}, {show_bytes(each.size_bytes)}{oldest}")
        deleted = f"{verb}: {show_bytes(self.summary.bytes_deleted)}"
        if self.summary.objects_failed_to_delete:
            deleted += f"; {self.summary.objects_failed_to_delete:,} objects could not be deleted"
        lines.append(deleted)
        if self.summary.skipped_phases:
            lines.append(f"skipped after failures: {', '.join(self.summary.skipped_phases)}")
        if self.protected_jobs:
            lines.append(f"protected by leases: {', '.join(self.protected_jobs)}")
        lines.append(
            f"{self.manifests:,} manifests kept, {self.manifests_reused:,} of them marked before; "
            f"{self.tasks:,} tasks, {self.retries:,} retries, {self.seconds:.1f} s on {self.ran_on}"
        )
        return "\n".join(lines)

    def read(self) -> pa.Table:
        """Return the list of garbage, one row per object.

        Returns
        -------
        pyarrow.Table
            Columns kind, key, bytes, created_at and why.

        Raises
        ------
        LookupError
            If the list was not kept.
        """
        if self.reviews is None:
            raise LookupError("the list was not kept: give `review=` a location, or make a dry run")
        place = self.reviews
        files = [info.key for info in place.storage.list_sorted(f"{place.folder}/")]
        tables = [pq.read_table(pa.BufferReader(bytes(place.storage.get(key)))) for key in files]
        return pa.concat_tables([SCHEMA.empty_table(), *tables])

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the list of garbage as a DataFrame, with the columns of `read`.

        Parameters
        ----------
        spark
            Session that creates the DataFrame.

        Returns
        -------
        pyspark.sql.DataFrame
            One row per object.
        """
        plain = [(each.name, getattr(each.type, "value_type", each.type)) for each in SCHEMA]
        frame: DataFrame = spark.createDataFrame(self.read().cast(pa.schema(plain)))
        return frame


@dataclass(frozen=True, slots=True, repr=False)
class MaintenanceReport(Listed):
    """Result of a maintenance run.

    Attributes
    ----------
    expired
        Snapshots that expired.
    garbage
        Garbage that was collected.
    """

    expired: ExpirySummary
    garbage: GarbageReport

    def __str__(self) -> str:
        count = len(self.expired.released_snapshots)
        return f"{count:,} snapshots expired\n{self.garbage}"
