"""Vectors of `MetadataItem`: names with encoded JSON values."""

from collections.abc import Sequence

from frazil.errors import FormatError
from frazil.format.flatbuffers.reader import Table
from frazil.format.flatbuffers.writer import Link, Writer
from frazil.format.metadata import Encoding, Metadata, Value
from frazil.format.ragged import Integers
from frazil.format.v2.schema import MetadataSlot


def encoding_of(spec_version: int) -> Encoding:
    """How files of a version encode values: each file by its own version."""
    return Encoding.MESSAGEPACK if spec_version == 1 else Encoding.FLEXBUFFERS


def decode_metadata(table: Table, slot: int, encoding: Encoding) -> Metadata:
    """The metadata in a field; empty where the field is absent."""
    items: dict[str, Value] = {}
    for item in table.tables(slot):
        name = item.text(MetadataSlot.NAME, "a metadata name")
        if name in items:
            raise FormatError(f"{table.buffer.what}: metadata has {name!r} twice")
        value = item.data(MetadataSlot.VALUE, "a metadata value")
        items[name] = Value.encoded(encoding, value)
    return Metadata(items)


def write_metadata(
    writer: Writer, all_metadata: Sequence[Metadata], encoding: Encoding
) -> Integers:
    """Write the vectors of several owners; returns their places."""
    encoded = [metadata.encode(encoding) for metadata in all_metadata]
    items = [item for items in encoded for item in items]
    values = writer.byte_vectors([value for _, value in items])
    names = writer.texts([name for name, _ in items])
    tables = writer.tables(
        len(items), Link(MetadataSlot.NAME, names), Link(MetadataSlot.VALUE, values)
    )
    return writer.link_vectors(tables, list(map(len, encoded)))
