"""References whose number of axes is not their array's."""

from frazil.format.ids import NodeId
from frazil.format.legacy_trees import RankedRefs, gather_rows
from frazil.format.manifest import ChunkTable, InlineRef, Manifest

NODE = NodeId.from_number(1)
ONE, TWO, THREE = InlineRef(b"1"), InlineRef(b"2"), InlineRef(b"3")

MIXED = Manifest(
    None, gather_rows([(NODE, (0,), ONE), (NODE, (1,), TWO), (NODE, (0, 0), THREE)], 12)
)


def test_a_chunk_is_found_by_as_many_coordinates_as_are_asked_for() -> None:
    assert len(MIXED) == 3
    assert MIXED.find(NODE, (1,)) == TWO
    assert MIXED.find(NODE, (0, 0)) == THREE
    assert MIXED.find(NODE, (0, 0, 0)) is None


def test_an_array_gets_the_references_that_fit_it() -> None:
    assert MIXED.table(NODE, 2) == ChunkTable.of(2, {(0, 0): THREE})


def test_an_array_gets_nothing_where_all_references_are_strays() -> None:
    assert MIXED.table(NODE, 3) == ChunkTable.empty(3)


def test_without_an_array_the_largest_table_counts() -> None:
    assert MIXED.tables()[NODE] == ChunkTable.of(1, {(0,): ONE, (1,): TWO})


def test_of_equal_tables_the_one_with_more_axes_counts() -> None:
    refs = RankedRefs((ChunkTable.of(1, {(0,): ONE}), ChunkTable.of(2, {(0, 0): TWO})), 12)

    assert refs.table().axes == 2


def test_references_of_one_number_of_axes_equal_their_table() -> None:
    table = ChunkTable.of(1, {(0,): ONE})

    assert RankedRefs((table,), 12) == table
    assert table == RankedRefs((table,), 12)
    assert RankedRefs((table,), 12) != ChunkTable.of(1, {(0,): TWO})
    assert RankedRefs((table, table), 12) != table


def test_the_later_of_two_rows_at_one_coordinate_stays() -> None:
    arrays = gather_rows([(NODE, (0,), ONE), (NODE, (0,), TWO)], 12)

    assert arrays == {NODE: ChunkTable.of(1, {(0,): TWO})}
