import struct

import numpy as np
import pytest

from frazil.errors import InvalidInputError
from frazil.format.ragged import Integers
from frazil.format.v2 import flatbuffers_writer as blocks
from frazil.format.v2 import flatbuffers_writer as writer_module
from frazil.format.v2.flatbuffers_reader import Buffer, Table
from frazil.format.v2.flatbuffers_writer import (
    ABSENT,
    Attached,
    Link,
    Number,
    Struct,
    Writer,
    numbers,
    one,
    rows,
)


def read_tables(writer: Writer, places: Integers) -> list[Table]:
    root = writer.table(Link(0, one(writer.link_vector(places))))
    payload = b"".join(map(bytes, writer.finish(root)))
    return list(Buffer(payload, "file").root().tables(0))


@pytest.mark.parametrize("before", range(9))
def test_wide_numbers_are_aligned_whatever_lies_behind_them(before: int) -> None:
    writer = Writer("file")
    writer.prepend(bytes(before), 1)
    places = writer.tables(
        3,
        Number(0, numbers([1, 2, 3], "<u1")),
        Number(1, numbers([2**63, 5, 6], "<u8")),
        Struct(2, rows([b"abc"] * 3, 3)),
        Number(3, numbers([7, 8, 9], "<u4")),
    )

    tables = read_tables(writer, places)

    assert [table.number(1, "Q") for table in tables] == [2**63, 5, 6]
    assert [table.field(1, "") % 8 for table in tables] == [0, 0, 0]
    assert [table.field(3, "") % 4 for table in tables] == [0, 0, 0]


def test_tables_of_one_call_share_a_vtable_and_lie_at_equal_distances() -> None:
    writer = Writer("file")
    places = writer.tables(4, Number(0, numbers([1, 2, 3, 4], "<u4")))

    assert len(set(np.diff(places).tolist())) == 1
    assert [table.number(0, "I") for table in read_tables(writer, places)] == [1, 2, 3, 4]


def test_a_link_that_is_absent_leaves_no_field() -> None:
    writer = Writer("file")
    texts = writer.texts(["a", None, "c", None])
    blobs = writer.optional_bytes([None, None, b"x", b""])
    places = writer.tables(4, Link(0, texts), Link(1, blobs))

    tables = read_tables(writer, places)

    assert [table.find_text(0) for table in tables] == ["a", None, "c", None]
    assert [table.find_data(1) for table in tables] == [None, None, b"x", b""]


def test_a_field_that_all_tables_lack_is_in_no_vtable() -> None:
    writer = Writer("file")
    places = writer.tables(2, Link(3, np.full(2, ABSENT)), Number(0, numbers([1, 2], "<u1")))

    for table in read_tables(writer, places):
        vtable = table.position - struct.unpack_from("<i", table.buffer.data, table.position)[0]
        assert struct.unpack_from("<H", table.buffer.data, vtable) == (6,)


def test_attached_vectors_lie_behind_their_tables() -> None:
    writer = Writer("file")
    words = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.uint32)
    places = writer.tables(
        2, Number(1, numbers([2**40, 1], "<u8")), Attached(0, words, words_per_item=2)
    )

    tables = read_tables(writer, places)

    assert [table.structs(0, 8) for table in tables] == [
        [struct.pack("<II", 1, 2), struct.pack("<II", 3, 4)],
        [struct.pack("<II", 5, 6), struct.pack("<II", 7, 8)],
    ]
    assert [table.number(1, "Q") for table in tables] == [2**40, 1]


def test_an_attached_vector_may_be_empty() -> None:
    writer = Writer("file")
    places = writer.tables(2, Attached(0, np.empty((2, 0), np.uint32)))

    assert [table.structs(0, 4) for table in read_tables(writer, places)] == [[], []]


def test_strings_end_in_a_zero_that_is_not_counted() -> None:
    writer = Writer("file")
    places = writer.texts(["", "abc", "abcd"])

    (table,) = read_tables(writer, one(writer.table(Link(0, one(writer.link_vector(places))))))

    assert table.texts(0) == ["", "abc", "abcd"]
    assert b"\x04\0\0\0abcd\0" in table.buffer.data


def test_many_vectors_of_offsets_are_written_at_once() -> None:
    writer = Writer("file")
    texts = writer.texts(["a", "b", "c"])
    vectors = writer.link_vectors(texts, [2, 0, 1])

    tables = read_tables(writer, writer.tables(3, Link(0, vectors)))

    assert [table.texts(0) for table in tables] == [["a", "b"], [], ["c"]]


def test_a_file_has_the_identifier_and_a_multiple_of_eight_bytes() -> None:
    for size in range(9):
        writer = Writer("file")
        writer.prepend(bytes(size), 1)

        payload = b"".join(map(bytes, writer.finish(writer.table())))

        assert payload[4:8] == b"Ichk"
        assert len(payload) % 8 == 0


def test_what_is_larger_than_flatbuffers_allow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "LARGEST_FILE", 1000)
    writer = Writer("manifest")
    writer.byte_vectors([bytes(900)])

    with pytest.raises(InvalidInputError, match=r"manifest: larger than the 2 GiB .* split it"):
        writer.byte_vectors([bytes(900)])


@pytest.mark.parametrize("count", [5, 6, 7, 12, 13])
def test_tables_that_are_made_when_they_are_written_are_the_same(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    def write() -> bytes:
        writer = Writer("file")
        names = writer.byte_vectors([bytes(number) for number in range(count)])
        fields = (
            Attached(0, np.arange(count * 3, dtype=np.uint32).reshape(count, 3)),
            Number(1, numbers(range(count), "<u8")),
            Link(2, names),
            Struct(3, rows([b"abc"] * count, 3)),
        )
        twice = np.array([writer.linked_tables(count, *fields), writer.link_vector(names)])
        root = writer.table(Link(0, one(writer.link_vector(twice))))
        return b"".join(map(bytes, writer.finish(root)))

    at_once = write()
    for module in (blocks, writer_module):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 4)

    assert write() == at_once
