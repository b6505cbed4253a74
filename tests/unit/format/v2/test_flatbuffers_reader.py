import struct

import pytest

from frazil.errors import FormatError
from frazil.format.v2.flatbuffers_reader import Buffer, Table
from tests.fuzz.assembly import Assembly


def root_of(data: bytes) -> Table:
    return Buffer(data, "snapshot").root()


def file_with_one_table(body: bytes, slots: dict[int, int]) -> tuple[Assembly, int]:
    assembly = Assembly()
    vtable = assembly.vtable(4 + len(body), slots)
    return assembly, assembly.table(vtable, body)


def test_a_field_that_must_be_there_is_missed_by_name() -> None:
    assembly, table = file_with_one_table(bytes(4), {0: 4})
    root = root_of(assembly.payload(table))

    for read in (
        lambda: root.struct(1, 12, "the id"),
        lambda: root.data(1, "the id"),
        lambda: root.text(1, "the id"),
        lambda: root.table(1, "the id"),
    ):
        with pytest.raises(FormatError, match=r"^snapshot: the id is missing$"):
            read()


def test_a_field_that_may_be_absent_has_a_default() -> None:
    assembly, table = file_with_one_table(bytes(4), {0: 4})
    root = root_of(assembly.payload(table))

    assert root.number(7, "Q") == 0
    assert root.number(7, "Q", default=5) == 5
    assert root.find_struct(7, 12) is None
    assert root.find_data(7) is None
    assert root.find_text(7) is None
    assert [*root.texts(7), *root.structs(7, 4), *root.tables(7)] == []


def test_a_vtable_outside_the_file_is_refused() -> None:
    for distance in (2**31 - 1, -(2**31), 10_000, -10_000, 1000):
        assembly, table = file_with_one_table(bytes(4), {0: 4})
        struct.pack_into("<i", assembly.data, table, distance)

        with pytest.raises(FormatError, match=r"^snapshot: "):
            root_of(assembly.payload(table))


@pytest.mark.parametrize("size", [0, 2, 3, 5, 0xFFFF])
def test_a_vtable_of_an_impossible_size_is_refused(size: int) -> None:
    assembly = Assembly()
    vtable = assembly.put(struct.pack("<HH", size, 8))
    table = assembly.table(vtable, bytes(4))

    with pytest.raises(FormatError, match=r"vtable of the table at .* is damaged"):
        root_of(assembly.payload(table))


def test_a_field_behind_the_end_of_its_table_is_refused() -> None:
    assembly = Assembly()
    table = assembly.table(assembly.vtable(8, {0: 8}), bytes(8))

    with pytest.raises(FormatError, match="has a field outside itself"):
        root_of(assembly.payload(table))


def test_a_known_vtable_does_not_let_a_table_stick_out_of_the_file() -> None:
    assembly = Assembly()
    vtable = assembly.vtable(16, {0: 4})
    inside = assembly.table(vtable, bytes(12))
    outside = assembly.table(vtable, bytes(4))
    buffer = Buffer(assembly.payload(inside), "snapshot")
    Table(buffer, inside)

    with pytest.raises(FormatError, match="are referred to"):
        Table(buffer, outside)


def test_numbers_structs_and_vectors_must_end_inside_the_file() -> None:
    assembly, table = file_with_one_table(struct.pack("<I", 2**32 - 1), {0: 4, 1: 7})
    root = root_of(assembly.payload(table))

    with pytest.raises(FormatError, match="ends outside the file"):
        root.number(1, "Q")
    with pytest.raises(FormatError, match="are referred to"):
        root.struct(1, 12, "the id")
    with pytest.raises(FormatError, match="are referred to"):
        root.data(0, "the bytes")
    with pytest.raises(FormatError, match="are referred to"):
        root.structs(0, 12)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0", b"\xff\xff\xff\xff", b"\4\0\0\0"])
def test_a_file_too_short_for_a_root_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"^snapshot: bytes .* are referred to$"):
        root_of(data)


def test_a_text_that_is_not_utf8_is_refused() -> None:
    assembly, table = file_with_one_table(bytes(8), {0: 4, 1: 8})
    assembly.point(table + 4, assembly.put(struct.pack("<I", 1) + b"\xff"))
    vector = assembly.vector(1)
    assembly.point(table + 8, vector)
    assembly.point(vector + 4, assembly.put(struct.pack("<I", 1) + b"\xff"))
    root = root_of(assembly.payload(table))

    with pytest.raises(FormatError, match="the message is not UTF-8"):
        root.text(0, "the message")
    with pytest.raises(FormatError, match="a text is not UTF-8"):
        root.texts(1)


def test_an_offset_cannot_point_backwards_and_make_a_cycle() -> None:
    # In 32 bits this offset leads from the field back to its own table.
    assembly, table = file_with_one_table(struct.pack("<I", 2**32 - 4), {0: 4})
    root = root_of(assembly.payload(table))

    with pytest.raises(FormatError, match="are referred to"):
        root.table(0, "a child")


def test_a_table_that_is_referred_to_over_and_over_is_read_only_so_often() -> None:
    assembly, table = file_with_one_table(bytes(8), {0: 4})
    child = assembly.table(assembly.vtable(4, {}), b"")
    assembly.point(table + 4, child)
    root = root_of(assembly.payload(table))

    def read_children() -> None:
        for _ in range(10**6):
            root.table(0, "a child")

    with pytest.raises(FormatError, match="refer to each other without end"):
        read_children()


def test_bytes_that_are_referred_to_over_and_over_are_read_only_so_often() -> None:
    assembly, table = file_with_one_table(bytes(4), {0: 4})
    assembly.point(table + 4, assembly.vector(100_000, 1))
    root = root_of(assembly.payload(table))

    def read_bytes() -> None:
        for _ in range(10):
            root.data(0, "the bytes")

    with pytest.raises(FormatError, match="refer to each other without end"):
        read_bytes()
