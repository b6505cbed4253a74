"""What the writer lays out in columns reads the same everywhere.

Table by table, in columns, and through the `flatbuffers` package, which knows nothing of us.
"""

from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
from flatbuffers import number_types
from flatbuffers.table import Table as PackageTable
from hypothesis import given
from hypothesis import strategies as st

from frazil.format.ids import ChunkId, ManifestId, NodeId
from frazil.format.manifest import (
    ChunkRef,
    ChunkTable,
    ETag,
    InlineRef,
    LastModified,
    Manifest,
    NativeRef,
    VirtualRef,
)
from frazil.format.v2.flatbuffers_reader import Buffer, Source, Table, Tables
from frazil.format.v2.flatbuffers_writer import (
    ABSENT,
    Attached,
    Field,
    Link,
    Number,
    Struct,
    Writer,
    numbers,
    one,
    rows,
)
from frazil.format.v2.manifest_encoder import encode_manifest_payload
from frazil.format.v2.schema import ArrayManifestSlot, ChunkRefSlot, ManifestSlot
from tests.strategies import v2
from tests.strategies.values import uint32

Value = int | bytes | tuple[int, ...] | None

LETTERS = {"B": 1, "H": 2, "I": 4, "Q": 8}
FLAGS = {
    "B": number_types.Uint8Flags,
    "H": number_types.Uint16Flags,
    "I": number_types.Uint32Flags,
    "Q": number_types.Uint64Flags,
}


@dataclass(frozen=True)
class Column:
    """A field of all tables: its kind ("B" to "Q", "struct", "bytes", "words") and its values."""

    slot: int
    kind: str
    values: list[Value]


def values_of(kind: str, draw: st.DrawFn, count: int) -> list[Value]:
    if kind in LETTERS:
        item: st.SearchStrategy[Value] = st.integers(0, 256 ** LETTERS[kind] - 1)
    elif kind == "bytes":
        item = st.none() | st.binary(max_size=9)
    elif kind == "struct":
        size = draw(st.integers(1, 12))
        item = st.binary(min_size=size, max_size=size)
    else:
        size = draw(st.integers(0, 4))
        item = st.lists(uint32, min_size=size, max_size=size).map(tuple)
    return draw(st.lists(item, min_size=count, max_size=count))


@st.composite
def columns(draw: st.DrawFn) -> tuple[int, list[Column]]:
    """A number of tables, and their fields; at most one of them is attached."""
    count = draw(st.integers(0, 6))
    slots = draw(st.lists(st.integers(0, 9), unique=True, max_size=6))
    kinds: list[str] = [draw(st.sampled_from([*LETTERS, "bytes", "struct"])) for _ in slots]
    if draw(st.booleans()) and slots:
        kinds[0] = "words"
    filled = [values_of(kind, draw, count) for kind in kinds]
    return count, [Column(*parts) for parts in zip(slots, kinds, filled, strict=True)]


def field_of(writer: Writer, column: Column) -> Field:
    values: list[Any] = column.values
    if column.kind in LETTERS:
        return Number(column.slot, numbers(values, f"<u{LETTERS[column.kind]}"))
    if column.kind == "bytes":
        return Link(column.slot, writer.optional_bytes(values))
    if column.kind == "struct":
        return Struct(column.slot, rows(values, len(values[0]) if values else 1))
    width = len(values[0]) if values else 0
    return Attached(column.slot, np.array(values, np.uint32).reshape(len(values), width))


def write(count: int, fields: list[Column]) -> bytes:
    """A file whose root has one vector of the tables, and an odd number of bytes behind it."""
    writer = Writer("file")
    writer.byte_vectors([b"odd"])
    tables = writer.tables(count, *(field_of(writer, column) for column in fields))
    root = writer.table(Link(0, one(writer.link_vector(tables))))
    return b"".join(map(bytes, writer.finish(root)))


def read_value(table: Table, column: Column) -> Value:
    if table.find(column.slot) is None:
        return None
    if column.kind in LETTERS:
        return table.number(column.slot, column.kind)
    if column.kind == "bytes":
        return table.data(column.slot, "")
    if column.kind == "struct":
        return table.struct(column.slot, len(bytes_of(column)), "")
    data = b"".join(table.structs(column.slot, 4))
    return tuple(np.frombuffer(data, "<u4").tolist())


def bytes_of(column: Column) -> bytes:
    first = column.values[0]
    assert isinstance(first, bytes)
    return first


def package_tables(table: Any, slot: int) -> list[Any]:
    offset = table.Offset(4 + 2 * slot)
    start = table.Vector(offset)
    positions = range(start, start + 4 * table.VectorLen(offset), 4)
    return [PackageTable(table.Bytes, table.Indirect(position)) for position in positions]


def package_root(payload: bytes) -> Any:
    root = flatbuffers.encode.Get(flatbuffers.packer.uoffset, payload, 0)
    return PackageTable(payload, root)


def package_value(table: Any, column: Column) -> Value:
    offset = table.Offset(4 + 2 * column.slot)
    if not offset:
        return None
    position = table.Pos + offset
    if column.kind in LETTERS:
        assert position % LETTERS[column.kind] == 0
        value: int = table.Get(FLAGS[column.kind], position)
        return value
    if column.kind == "struct":
        return bytes(table.Bytes[position : position + len(bytes_of(column))])
    start, count = table.Vector(offset), table.VectorLen(offset)
    assert start % 4 == 0
    if column.kind == "bytes":
        return bytes(table.Bytes[start : start + count])
    return tuple(table.Get(number_types.Uint32Flags, start + 4 * number) for number in range(count))


@given(columns())
def test_tables_read_as_they_were_written(drawn: tuple[int, list[Column]]) -> None:
    count, fields = drawn
    payload = write(count, fields)

    ours = list(Buffer(payload, "file").root().tables(0))
    theirs = package_tables(package_root(payload), 0)

    assert len(ours) == len(theirs) == count
    for column in fields:
        assert [read_value(table, column) for table in ours] == column.values
        assert [package_value(table, column) for table in theirs] == column.values


@given(columns())
def test_columns_read_as_they_were_written(drawn: tuple[int, list[Column]]) -> None:
    count, fields = drawn
    buffer = Buffer(write(count, fields), "file")
    positions = np.array([table.position for table in buffer.root().tables(0)], np.int64)

    tables = Tables(Source.of(buffer), positions)

    for column in fields:
        assert read_column(tables, column) == column.values
        present = [value is not None for value in column.values]
        assert tables.has(column.slot).tolist() == present


def read_column(tables: Tables, column: Column) -> list[Value]:
    if column.kind in LETTERS:
        values: list[Value] = tables.numbers(column.slot, f"<u{LETTERS[column.kind]}").tolist()
        return values
    if column.kind == "struct":
        size = len(bytes_of(column)) if column.values else 1
        return [row.tobytes() for row in tables.structs(column.slot, size)]
    source, targets = tables.source, tables.targets(column.slot)
    if column.kind == "words":
        matrix = source.matrix(targets, "<u4")
        return [tuple(row) for row in matrix.tolist()]
    present = np.flatnonzero(targets >= 0)
    pieces = source.pieces(targets[present] + 4, source.vectors(targets[present], 1))
    column_values: list[Value] = [None] * len(tables)
    for row, piece in zip(present.tolist(), pieces, strict=True):
        column_values[row] = piece
    return column_values


@given(st.lists(columns(), max_size=3), st.integers(0, 2**32))
def test_tables_of_several_kinds_read_together_in_any_order(
    drawn: list[tuple[int, list[Column]]], seed: int
) -> None:
    writer = Writer("file")
    blocks = [
        writer.tables(count, *(field_of(writer, column) for column in fields))
        for count, fields in drawn
    ]
    places = np.concatenate([*blocks, np.empty(0, np.int64)])
    np.random.default_rng(seed).shuffle(places)
    payload = b"".join(
        map(bytes, writer.finish(writer.table(Link(0, one(writer.link_vector(places))))))
    )
    buffer = Buffer(payload, "file")

    one_by_one = list(buffer.root().tables(0))
    together = Tables(Source.of(buffer), np.array([t.position for t in one_by_one], np.int64))

    for slot in range(10):
        assert together.has(slot).tolist() == [t.find(slot) is not None for t in one_by_one]
        expected = [ABSENT if (p := t.find(slot)) is None else p for t in one_by_one]
        with_byte = [ABSENT if p == ABSENT else payload[p] for p in expected]
        found = np.where(together.has(slot), together.numbers(slot, "u1").astype(int), ABSENT)
        assert found.tolist() == with_byte


# A whole file


@given(v2.chunk_tables())
def test_the_flatbuffers_package_reads_the_references_of_a_manifest(table: ChunkTable) -> None:
    manifest = Manifest(ManifestId(b"manifest-id."), {NodeId(b"node-id."): table})

    payload = b"".join(map(bytes, encode_manifest_payload(manifest, None)))

    assert flatbuffers.util.BufferHasIdentifier(payload, 0, b"Ichk")
    (array,) = package_tables(package_root(payload), ManifestSlot.ARRAYS)
    refs = package_tables(array, ArrayManifestSlot.REFS)
    assert {package_index(ref): package_ref(ref) for ref in refs} == table.refs()


def package_index(ref: Any) -> tuple[int, ...]:
    index = package_value(ref, Column(ChunkRefSlot.INDEX, "words", []))
    assert isinstance(index, tuple)
    return index


def package_ref(ref: Any) -> ChunkRef:
    def read(slot: int, kind: str) -> Any:
        return package_value(ref, Column(slot, kind, [bytes(12)]))

    offset, length = read(ChunkRefSlot.OFFSET, "Q") or 0, read(ChunkRefSlot.LENGTH, "Q") or 0
    if chunk_id := read(ChunkRefSlot.CHUNK_ID, "struct"):
        return NativeRef(ChunkId(chunk_id), offset, length)
    if (location := read(ChunkRefSlot.LOCATION, "bytes")) is None:
        return InlineRef(read(ChunkRefSlot.INLINE, "bytes"))
    etag = read(ChunkRefSlot.CHECKSUM_ETAG, "bytes")
    seconds = read(ChunkRefSlot.CHECKSUM_LAST_MODIFIED, "I")
    checksum = LastModified(seconds) if seconds else None
    return VirtualRef(
        location.decode(), offset, length, checksum if etag is None else ETag(etag.decode())
    )
