"""An index finds what its table finds: the fast path follows the slow path's rules."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from frazil.format.ids import ChunkId
from frazil.format.manifest import ChunkIndex, ChunkRef, ChunkTable, NativeRef
from tests.strategies import v2


@st.composite
def tables(draw: st.DrawFn) -> ChunkTable:
    axes = draw(v2.axes_counts)
    return ChunkTable.of(axes, draw(v2.ref_maps(axes)))


@given(tables(), st.data())
def test_an_index_finds_what_its_table_finds(table: ChunkTable, data: st.DataObject) -> None:
    if not ChunkIndex.can_hold(table):
        return
    index = ChunkIndex(table)
    places = st.tuples(*[v2.small_indexes | v2.near_the_last_index for _ in range(table.axes)])
    wanted = [*table.refs(), *data.draw(st.lists(places, max_size=5))]

    found = [index.find(place) for place in wanted]

    assert found == [table.find(place) for place in wanted]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 7), st.booleans())
def test_a_full_box_is_indexed_by_arithmetic(sizes: list[int], first: int, has_gap: bool) -> None:
    places = [tuple(first + each for each in place) for place in product(*map(range, sizes))]
    kept = places[:-1] if has_gap else places
    refs: dict[tuple[int, ...], ChunkRef] = {
        place: NativeRef(ChunkId(number.to_bytes(12, "big")), number, number + 1)
        for number, place in enumerate(kept)
    }
    table = ChunkTable.of(len(sizes), refs)
    if not ChunkIndex.can_hold(table):
        return
    index = ChunkIndex(table)

    assert {place: index.find(place) for place in kept} == refs
    assert index.find(tuple(first + size for size in sizes)) is None
    assert not has_gap or index.find(places[-1]) is None
