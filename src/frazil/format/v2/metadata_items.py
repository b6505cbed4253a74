"""Vectors of `MetadataItem`: names with encoded JSON values."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frazil.errors import FormatError
from frazil.format import ragged
from frazil.format.flatbuffers.columns import Source, Tables
from frazil.format.flatbuffers.fields import Link
from frazil.format.flatbuffers.reader import Table
from frazil.format.flatbuffers.writer import Writer
from frazil.format.metadata import Encoding, Metadata, Value
from frazil.format.ragged import Integers, Pieces
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
    if not items:
        return writer.link_vectors(np.empty(0, np.int64), [0] * len(encoded))
    values = writer.byte_vectors([value for _, value in items])
    names = writer.texts([name for name, _ in items])
    tables = writer.tables(
        len(items), Link(MetadataSlot.NAME, names), Link(MetadataSlot.VALUE, values)
    )
    return writer.link_vectors(tables, list(map(len, encoded)))


# The same in columns, for owners whose metadata nobody looks at


@dataclass(frozen=True, slots=True, eq=False)
class EncodedMetadata:
    """The metadata of several owners: how many items each has, and all items behind each other."""

    counts: Integers
    names: Pieces
    """Each owner's in the order of their bytes."""
    values: Pieces


def read_metadata(tables: Tables, slot: int) -> EncodedMetadata:
    """The metadata in a field of all tables; empty where the field is absent."""
    source = tables.source
    vectors = tables.targets(slot)
    owners = np.flatnonzero(vectors >= 0)
    counts = np.zeros(len(tables), np.int64)
    positions, counts[owners] = source.links(vectors[owners])
    items = Tables(source, positions)
    names, values = items.targets(MetadataSlot.NAME), items.targets(MetadataSlot.VALUE)
    if np.any(names < 0) or np.any(values < 0):
        raise source.damaged("a metadata name or value is missing")
    texts = source.texts(names, "a metadata name")
    order = _order_items(source, texts, counts)
    return EncodedMetadata(counts, texts.take(order), source.structs(values, 1).take(order))


def _order_items(source: Source, names: Pieces, counts: Integers) -> Integers:
    if counts.max(initial=0) < 2:
        return np.arange(len(names))
    owners = np.repeat(np.arange(counts.size), counts)
    ranks = _rank(source, names)
    order = np.lexsort((ranks, owners))
    owners, ranks = owners[order], ranks[order]
    if np.any((owners[:-1] == owners[1:]) & (ranks[:-1] == ranks[1:])):
        raise source.damaged("metadata has a name twice")
    return order


def _rank(source: Source, names: Pieces) -> Integers:
    first, codes = ragged.distinct(names.buffer, names.starts, names.lengths)
    distinct = names.take(first)
    texts = source.pieces(distinct.starts, distinct.lengths)
    ranks = np.empty(first.size, np.int64)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(first.size)
    return ranks[codes]


def copy_metadata(writer: Writer, metadata: EncodedMetadata, owners: Integers) -> Integers:
    """Write the vectors of some owners as they were read; returns their places."""
    starts = ragged.offsets_of(metadata.counts)[:-1]
    counts = metadata.counts[owners]
    items = ragged.runs(starts[owners], counts)
    values = writer.copies(metadata.values.take(items))
    names = writer.copies(metadata.names.take(items))
    tables = writer.tables(
        items.size, Link(MetadataSlot.NAME, names), Link(MetadataSlot.VALUE, values)
    )
    return writer.link_vectors(tables, counts)
