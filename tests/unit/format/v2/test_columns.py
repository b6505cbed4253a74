import struct

import numpy as np
import pytest

from frazil.errors import FormatError
from frazil.format.ragged import Integers
from frazil.format.v2.flatbuffers_reader import Buffer, Source, Tables
from tests.fuzz.assembly import Assembly


def source_of(assembly: Assembly) -> Source:
    return Source.of(Buffer(bytes(assembly.data), "manifest"))


def at(*positions: int) -> Integers:
    return np.array(positions, np.int64)


def test_tables_of_several_layouts_are_read_together() -> None:
    assembly = Assembly()
    narrow = assembly.vtable(8, {0: 4})
    wide = assembly.vtable(16, {0: 12, 1: 4})
    empty = assembly.vtable(4, {})
    tables = [
        assembly.table(narrow, struct.pack("<I", 1)),
        assembly.table(wide, struct.pack("<QI", 2**40, 2)),
        assembly.table(empty, b""),
        assembly.table(narrow, struct.pack("<I", 3)),
    ]

    columns = Tables(source_of(assembly), at(*tables))

    assert columns.numbers(0, "<u4").tolist() == [1, 2, 0, 3]
    assert columns.numbers(0, "<u4", default=9).tolist() == [1, 2, 9, 3]
    assert columns.numbers(1, "<u8").tolist() == [0, 2**40, 0, 0]
    assert columns.has(1).tolist() == [False, True, False, False]
    assert columns.targets(5).tolist() == [-1, -1, -1, -1]


def test_a_field_that_no_table_has_takes_no_memory() -> None:
    assembly = Assembly()
    vtable = assembly.vtable(8, {0: 4})
    tables = [assembly.table(vtable, bytes(4)) for _ in range(100)]

    column = Tables(source_of(assembly), at(*tables)).structs(3, 12)

    assert column.shape == (100, 12)
    assert column.strides[0] == 0


def test_a_writer_may_repeat_its_vtables() -> None:
    assembly = Assembly()
    tables = [
        assembly.table(assembly.vtable(8, {0: 4}), struct.pack("<I", number))
        for number in range(10_000)
    ]

    columns = Tables(source_of(assembly), at(*tables))

    assert columns.numbers(0, "<u4").tolist() == list(range(10_000))


def test_more_layouts_than_honest_tables_could_have_are_refused() -> None:
    assembly = Assembly()
    tables = [
        assembly.table(assembly.vtable(12, {0: 4, 1: number}), bytes(8)) for number in range(5000)
    ]

    with pytest.raises(FormatError, match=r"^manifest: tables of 5000 different layouts$"):
        Tables(source_of(assembly), at(*tables))


def test_no_tables_have_no_fields() -> None:
    columns = Tables(source_of(Assembly()), at())

    assert len(columns) == 0
    assert columns.numbers(0, "<u4").shape == (0,)
    assert columns.structs(0, 12).shape == (0, 12)
    assert columns.source.matrix(columns.targets(0), "<u4").size == 0


@pytest.mark.parametrize("distance", [2**31 - 1, -(2**31), 1000, -1000])
def test_a_vtable_outside_the_file_is_refused(distance: int) -> None:
    assembly = Assembly()
    table = assembly.table(assembly.vtable(8, {0: 4}), bytes(4))
    struct.pack_into("<i", assembly.data, table, distance)

    with pytest.raises(FormatError, match="outside"):
        Tables(source_of(assembly), at(table))


def test_a_field_outside_its_table_is_refused() -> None:
    assembly = Assembly()
    table = assembly.table(assembly.vtable(8, {0: 4}), bytes(4))
    columns = Tables(source_of(assembly), at(table))

    with pytest.raises(FormatError, match="a table has field 0 outside itself"):
        columns.numbers(0, "<u8")


def test_positions_outside_the_file_are_refused() -> None:
    source = source_of(Assembly())

    for positions in (at(-1), at(5), at(2**40), at(0, -(2**33))):
        with pytest.raises(FormatError, match="outside its 8"):
            source.items(positions, "<u4")


def test_a_vector_longer_than_the_file_is_refused() -> None:
    assembly = Assembly()
    vector = assembly.put(struct.pack("<I", 2**32 - 1))

    with pytest.raises(FormatError, match="outside"):
        source_of(assembly).vectors(at(vector), 4)


def test_rows_of_different_lengths_make_no_matrix() -> None:
    assembly = Assembly()
    vectors = at(assembly.vector(2), assembly.vector(3))

    with pytest.raises(FormatError, match="different numbers of axes"):
        source_of(assembly).matrix(vectors, "<u4")


def test_rows_that_are_the_same_bytes_are_read_only_so_often() -> None:
    assembly = Assembly()
    vector = assembly.vector(1000)

    with pytest.raises(FormatError, match="refer to each other without end"):
        source_of(assembly).matrix(np.full(100, vector, np.int64), "<u4")
