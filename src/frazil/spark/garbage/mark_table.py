"""The mark table: which native chunks manifests refer to, in Parquet files that outlast a collection.

A part has the ids of some manifests, each once, sorted, and a group of rows for each cell of ids, so
that a share of them is read alone. Manifests never change, and so a part is right for ever. It is of no
use any more when one of its manifests has gone: nobody could tell which ids go with it.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import FormatError
from frazil.maintenance.id_columns import Ids, IdSet
from frazil.maintenance.shares import CELLS, Share, cells_of
from frazil.storage import Storage
from frazil.storage.blocks import BlockFile
from frazil.storage.interface import ByteRange

_MANIFESTS = b"frazil.manifests"
_ID_SIZE = b"frazil.id_size"
_SUFFIX = ".parquet"
_SMALL = 100_000
_MOST_SMALL = 32
"""More parts than these that have few ids are marked again, together."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of a storage."""

    storage: Storage
    folder: str

    def key(self, name: str) -> str:
        """Of a file in it."""
        return f"{self.folder}/{name}"


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the table."""

    key: str
    size_bytes: int
    count: int
    """How many ids it has."""
    manifests: Ids
    """Whose ids they are, sorted."""


def write_part(place: Place, ids: Ids, manifests: Ids) -> Part:
    """Write a part of sorted, distinct ids."""
    size = ids.dtype.itemsize
    metadata = {_MANIFESTS: np.sort(manifests).tobytes(), _ID_SIZE: str(size).encode()}
    schema = pa.schema([pa.field("id", pa.binary(size), nullable=False)], metadata)
    edges = np.searchsorted(cells_of(ids), np.arange(CELLS + 1))
    sink = pa.BufferOutputStream()
    # Random bytes can't be made shorter.
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
    """All parts that are there, also those that killed collections have left: each is whole."""
    found = [info for info in place.storage.list(f"{place.folder}/") if info.key.endswith(_SUFFIX)]
    with ThreadPoolExecutor(place.storage.concurrency) as pool:
        return list(pool.map(lambda info: _describe(place, info.key, info.size_bytes), found))


def read_share(place: Place, part: Part, share: Share) -> Ids:
    """Those ids of a part that belong to a share, sorted."""
    table = _open(place, part.key, part.size_bytes).read_row_groups(list(share.cells))
    columns = [_to_ids(chunk) for chunk in table.column(0).chunks]
    size = table.schema.field(0).type.byte_width
    return np.concatenate([np.empty(0, f"S{size}"), *columns])


def split_parts(parts: Iterable[Part], marked: IdSet) -> tuple[list[Part], list[Part]]:
    """Those of which every manifest is marked, and the others."""
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
    told = metadata.metadata or {}
    if _MANIFESTS not in told:
        raise FormatError(f"{key} is no part of a mark table: delete it or give another place")
    size = int(told[_ID_SIZE])
    manifests = np.frombuffer(told[_MANIFESTS], f"S{size}")
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
