"""A table of columns says what a plain dictionary of references says, whatever is done to it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.format import coordinates as coords_
from frazil.format import ragged
from frazil.format.coordinates import Coordinates
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import (
    ChunkRef,
    ChunkTable,
    LocationCompression,
    Manifest,
    NativeRef,
    concatenate,
)
from frazil.format.ragged import Strings, unite
from frazil.format.v2.manifest_decoder import decode_manifest_payload
from frazil.format.v2.manifest_encoder import encode_manifest_payload
from tests.strategies import v2
from tests.strategies.values import texts

Index = tuple[int, ...]
Model = dict[Index, ChunkRef]


@st.composite
def models(draw: st.DrawFn, count: int = 1) -> tuple[int, list[Model]]:
    """A number of axes, and dictionaries of references with so many."""
    axes = draw(v2.axes_counts)
    return axes, [draw(v2.ref_maps(axes)) for _ in range(count)]


def block(axes: int, indexes: Sequence[Index]) -> Coordinates:
    return np.array(indexes, np.uint32).reshape(len(indexes), axes)


def inside(index: Index, box: Sequence[tuple[int, int]]) -> bool:
    return all(start <= value < stop for value, (start, stop) in zip(index, box, strict=True))


def ends(stop: int) -> st.SearchStrategy[int]:
    return v2.small_indexes | v2.near_the_last_index | st.integers(0, stop)


# Looking things up


@given(models(), st.data())
def test_a_reference_is_found_in_columns_and_in_the_file_as_in_a_dictionary(
    drawn: tuple[int, list[Model]], data: st.DataObject
) -> None:
    axes, [model] = drawn
    table = ChunkTable.of(axes, model)
    compression = data.draw(st.sampled_from([None, LocationCompression(min_num_chunks=1)]))
    node_id = NodeId(b"12345678")
    payload = encode_manifest_payload(
        Manifest(ManifestId(bytes(12)), {node_id: table}), compression
    )
    encoded = decode_manifest_payload(b"".join(map(bytes, payload)))
    wanted = [*model, *data.draw(st.lists(v2.indexes(axes), max_size=5))]

    for index in wanted:
        expected = model.get(index)
        assert table.find(index) == expected
        assert encoded.find(node_id, index) == expected


@given(models(), st.data())
def test_many_references_are_located_at_once(
    drawn: tuple[int, list[Model]], data: st.DataObject
) -> None:
    axes, [model] = drawn
    table = ChunkTable.of(axes, model)
    known = st.sampled_from(sorted(model)) if model else st.nothing()
    wanted = data.draw(st.lists(known | v2.indexes(axes), max_size=12))

    rows = table.locate(block(axes, wanted)).tolist()

    found = [table.ref(row) if row >= 0 else None for row in rows]
    assert found == [model.get(index) for index in wanted]


@given(models())
def test_distinct_chunk_ids_are_those_of_native_references(
    drawn: tuple[int, list[Model]],
) -> None:
    axes, [model] = drawn

    ids = ChunkTable.of(axes, model).distinct_chunk_ids()

    natives = {bytes(r.chunk_id) for r in model.values() if isinstance(r, NativeRef)}
    assert [row.tobytes() for row in ids] == sorted(natives)


@given(models())
def test_extents_are_the_smallest_box(drawn: tuple[int, list[Model]]) -> None:
    axes, [model] = drawn
    if not model:
        return

    extents = ChunkTable.of(axes, model).extents()

    columns = zip(*model, strict=True) if axes else ()
    assert extents == tuple((min(column), max(column) + 1) for column in columns)


# Making other tables


@given(models(), st.data())
def test_a_selection_has_the_references_inside_the_box(
    drawn: tuple[int, list[Model]], data: st.DataObject
) -> None:
    axes, [model] = drawn
    box = tuple(data.draw(st.tuples(*[st.tuples(ends(9), ends(2**32))] * axes)))

    selected = ChunkTable.of(axes, model).select(box)

    assert selected.refs() == {i: ref for i, ref in model.items() if inside(i, box)}
    assert_sorted(selected)


@given(models(), st.data())
def test_removed_references_are_gone(drawn: tuple[int, list[Model]], data: st.DataObject) -> None:
    axes, [model] = drawn
    known = st.sampled_from(sorted(model)) if model else st.nothing()
    unwanted = data.draw(st.lists(known | v2.indexes(axes), max_size=6))

    left = ChunkTable.of(axes, model).remove(block(axes, unwanted))

    assert left.refs() == {i: ref for i, ref in model.items() if i not in unwanted}
    assert_sorted(left)


@given(models(count=2))
def test_newer_references_lie_over_older_ones(drawn: tuple[int, list[Model]]) -> None:
    axes, [older, newer] = drawn

    merged = ChunkTable.of(axes, older).merge(ChunkTable.of(axes, newer))

    assert merged == ChunkTable.of(axes, older | newer)
    assert_sorted(merged)


@given(models(count=3), st.data())
def test_of_several_tables_in_a_row_the_last_wins(
    drawn: tuple[int, list[Model]], data: st.DataObject
) -> None:
    axes, all_models = drawn
    tables = [data.draw(v2.with_extras(ChunkTable.of(axes, model))) for model in all_models]
    extras = {index: extra for table in tables for index, extra in extras_of(table).items()}
    expected = all_models[0] | all_models[1] | all_models[2]

    joined = concatenate(tables)

    assert joined.refs() == expected
    assert extras_of(joined) == extras
    assert_sorted(joined)


def extras_of(table: ChunkTable) -> dict[Index, bytes | None]:
    extras = [table.extras[code] if code >= 0 else None for code in table.extra.tolist()]
    return dict(zip(table.refs(), extras, strict=True))


@given(models(), st.data())
def test_the_split_regions_hold_every_reference_once(
    drawn: tuple[int, list[Model]], data: st.DataObject
) -> None:
    axes, [model] = drawn
    cuts = st.sets(st.integers(1, 9) | v2.near_the_last_index, max_size=3)
    edges = [[0, *sorted(data.draw(cuts)), 2**32] for _ in range(axes)]

    cells = ChunkTable.of(axes, model).split(edges)

    for cell, piece in cells.items():
        boxes = [list(pairwise(axis_edges)) for axis_edges in edges]
        box = [axis_boxes[number] for number, axis_boxes in zip(cell, boxes, strict=True)]
        assert piece.refs() == {i: ref for i, ref in model.items() if inside(i, box)}
        assert len(piece)
        assert_sorted(piece)
    assert sum(map(len, cells.values())) == len(model)


@given(models(), st.data())
def test_sorting_puts_rows_in_order_and_keeps_the_last_of_equal_ones(
    drawn: tuple[int, list[Model]], data: st.DataObject
) -> None:
    axes, [model] = drawn
    table = ChunkTable.of(axes, model)
    rows = st.sampled_from(range(len(model) or 1))
    order = data.draw(st.lists(rows, max_size=12 if model else 0))
    shuffled = table.take(np.array(order, np.intp))
    changed = replace(shuffled, extra=np.arange(len(order), dtype=np.int32),
                      extras=tuple(b"%d" % number for number in range(len(order))))  # fmt: skip

    ordered = changed.sort()

    indexes = [sorted(model)[row] for row in order]
    assert extras_of(ordered) == {index: b"%d" % n for n, index in enumerate(indexes)}
    assert ordered.refs() == {index: model[index] for index in indexes}
    assert_sorted(ordered)


@given(models(), st.data())
def test_compacting_drops_what_no_row_uses_and_nothing_else(
    drawn: tuple[int, list[Model]], data: st.DataObject
) -> None:
    axes, [model] = drawn
    table = ChunkTable.of(axes, model)
    keep = data.draw(st.lists(st.booleans(), min_size=len(table), max_size=len(table)))
    part = table.take(np.array(keep, np.bool_))

    compact = part.compact()

    assert compact == part
    assert compact.refs() == part.refs()
    fresh = ChunkTable.of(axes, part.refs())
    assert set(compact.locations) == set(fresh.locations)
    assert set(compact.etags) == set(fresh.etags)
    assert compact.inline.size == fresh.inline.size


@given(models(count=2))
def test_tables_are_equal_if_and_only_if_their_references_are(
    drawn: tuple[int, list[Model]],
) -> None:
    axes, [one, other] = drawn
    table = ChunkTable.of(axes, one)

    assert (table == ChunkTable.of(axes, other)) is (one == other)
    assert (
        concatenate([ChunkTable.of(axes, other), table]).remove(
            block(axes, [index for index in other if index not in one])
        )
        == table
    )


def assert_sorted(table: ChunkTable) -> None:
    indexes = list(map(tuple, table.coordinates.tolist()))
    assert indexes == sorted(set(indexes))


# Coordinates


@given(v2.axes_counts, st.data())
def test_keys_order_rows_as_tuples_do(axes: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(v2.indexes(axes), max_size=10))
    others = data.draw(st.lists(v2.indexes(axes), max_size=10))

    keys, other_keys = coords_.order_keys(block(axes, rows), block(axes, others))

    for row, key in zip(rows, keys, strict=True):
        for other, other_key in zip(others, other_keys, strict=True):
            assert (key < other_key) == (row < other)
            assert (key == other_key) == (row == other)


# Texts and bytes of different lengths

strings = st.binary(max_size=3) | st.binary(max_size=20) | st.binary(min_size=2045, max_size=2052)
string_lists = st.lists(strings, max_size=12)


def spread(items: Sequence[bytes], gap: int) -> tuple[ragged.Bytes, ragged.Integers]:
    """A buffer that holds the items with gaps, and where they start."""
    data = b"".join(bytes(gap) + item for item in items)
    lengths = np.array([len(item) for item in items], np.int64)
    starts = ragged.offsets_of(lengths + gap)[:-1] + gap
    return np.frombuffer(data, np.uint8), starts


def cut(buffer: ragged.Bytes, offsets: ragged.Integers) -> list[bytes]:
    return [buffer[start:end].tobytes() for start, end in pairwise(offsets.tolist())]


few_examples = settings(max_examples=settings().max_examples // 2)


@few_examples
@given(string_lists, st.integers(0, 3))
def test_packing_keeps_every_string(items: list[bytes], gap: int) -> None:
    buffer, starts = spread(items, gap)
    lengths = np.array([len(item) for item in items], np.int64)

    packed, offsets = ragged.pack(buffer, starts, lengths)

    assert cut(packed, offsets) == items


@few_examples
@given(string_lists, st.integers(0, 3), st.integers(0, 3))
def test_scattering_writes_strings_and_nothing_between_them(
    items: list[bytes], gap: int, target_gap: int
) -> None:
    buffer, starts = spread(items, gap)
    expected, target_starts = spread(items, target_gap)
    target = np.zeros(expected.size, np.uint8)
    lengths = np.array([len(item) for item in items], np.int64)

    ragged.scatter(target, target_starts, buffer, starts, lengths)

    assert target.tobytes() == expected.tobytes()


@few_examples
@given(string_lists, st.data())
def test_equal_strings_get_one_number(items: list[bytes], data: st.DataObject) -> None:
    repeated = data.draw(st.lists(st.sampled_from(items), max_size=12)) if items else []
    buffer, starts = spread(repeated, 1)
    lengths = np.array([len(item) for item in repeated], np.int64)

    first, codes = ragged.distinct(buffer, starts, lengths)

    assert [repeated[first[code]] for code in codes.tolist()] == repeated
    assert len(first) == len(set(repeated))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), max_size=20))
def test_equal_numbers_get_one_number(numbers: list[int]) -> None:
    first, codes = ragged.distinct_numbers(np.array(numbers, np.int64))

    assert [numbers[first[code]] for code in codes.tolist()] == numbers
    assert len(first) == len(set(numbers))


@given(st.lists(texts, max_size=8), st.data())
def test_a_column_of_texts_is_a_list_of_texts(items: list[str], data: st.DataObject) -> None:
    column = Strings.of(items)
    rows = st.sampled_from(range(len(items) or 1))
    numbers = data.draw(st.lists(rows, max_size=8 if items else 0))

    taken = column.take(np.array(numbers, np.int64))

    assert list(column) == items
    assert [column[number] for number in range(len(column))] == items
    assert list(taken.validate("texts")) == [items[number] for number in numbers]


@given(st.lists(st.lists(texts, max_size=6, unique=True), max_size=4))
def test_united_columns_have_each_text_once(columns: list[list[str]]) -> None:
    united, numbers = unite(map(Strings.of, columns))

    assert sorted(united) == sorted({text for column in columns for text in column})
    renumbered = [[united[code] for code in codes.tolist()] for codes in numbers]
    assert renumbered == columns
