"""How native arrays are stored and shared out to tasks, planned without Spark."""

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.errors import InvalidInputError
from frazil.spark.ingestion.ingest_options import (
    GROWING_CHUNK_BYTES,
    LEAST_CHUNK_BYTES,
    MOST_CHUNK_BYTES,
    PLANNED_CHUNK_BYTES,
    EncodingOptions,
    can_encode,
    choose_chunks,
    end_with_files,
    plan_metadata,
)
from frazil.spark.ingestion.ingest_plan import NativeArray, Part
from frazil.spark.ingestion.native_write import bounding, plan_pieces, plan_tasks
from frazil.spark.regions import Box, slices_of
from frazil.virtual import ArrayHeader

Arrays = list[NativeArray]


def header(name: str = "t", shape: tuple[int, ...] = (4, 6, 8), **more: Any) -> ArrayHeader:
    metadata: dict[str, Any] = {
        "zarr_format": 3, "node_type": "array", "shape": list(shape), "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 6, 8]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": -9.0, "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
        "attributes": {"units": "K"}, "dimension_names": ["time", "y", "x"], **more,
    }  # fmt: skip
    return ArrayHeader(name, metadata)


@st.composite
def arrays(draw: st.DrawFn) -> NativeArray:
    axes = draw(st.integers(1, 3))
    axis = draw(st.integers(0, axes - 1))
    # Some of the files are new or changed, others lie between them and stay.
    lengths = draw(st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=6))
    others = draw(st.lists(st.integers(1, 9), min_size=axes, max_size=axes))
    shape = [*others]
    shape[axis] = sum(length for length, _ in lengths)
    parts, start = [], 0
    for number, (length, is_taken) in enumerate(lengths):
        box = [(0, extent) for extent in shape]
        box[axis] = (start, start + length)
        start += length
        if is_taken:
            origin = tuple(start for start, _ in box)
            parts.append(Part(f"file {number}", tuple(box), origin))
    sizes = st.lists(st.integers(1, 12), min_size=axes, max_size=axes)
    name = draw(st.sampled_from("abc"))
    return NativeArray(
        name, tuple(shape), tuple(draw(sizes)), tuple(draw(sizes)), 4, axis, tuple(parts)
    )


def chunks_of(box: Box, unit: tuple[int, ...]) -> set[tuple[int, ...]]:
    ranges = [range(a // n, -(-b // n)) for (a, b), n in zip(box, unit, strict=True)]
    return set(product(*ranges))


@given(
    st.lists(arrays(), min_size=1, max_size=3, unique_by=lambda each: each.name), st.integers(1, 4)
)
@settings(deadline=None)
def test_every_element_is_written_once_and_no_chunk_by_two_tasks(
    planned: Arrays, slots: int
) -> None:
    by_name = {each.name: each for each in planned}
    counts = {each.name: np.zeros(each.shape, np.int64) for each in planned}
    owners: dict[tuple[str, tuple[int, ...]], set[int]] = {}

    for number, pieces in enumerate(plan_tasks(planned, slots)):
        for piece in pieces:
            for each in piece.fragments:
                counts[piece.array][slices_of(each.box)] += 1
                for chunk in chunks_of(each.box, by_name[piece.array].unit):
                    owners.setdefault((piece.array, chunk), set()).add(number)

    for array in planned:
        expected = np.zeros(array.shape, np.int64)
        for part in array.parts:
            expected[slices_of(part.box)] = 1
        assert np.array_equal(counts[array.name], expected)
    assert all(len(tasks) == 1 for tasks in owners.values())


@given(arrays(), st.integers(1, 300))
@settings(deadline=None)
def test_a_piece_is_small_unless_a_chunk_is_large(array: NativeArray, most_bytes: int) -> None:
    for piece in plan_pieces(array, most_bytes):
        touched = set[tuple[int, ...]]()
        for each in piece.fragments:
            touched |= chunks_of(each.box, array.unit)
            origins = {part.source: [start for start, _ in part.box] for part in array.parts}
            assert list(each.origin) == origins[each.source]
        assert piece.bytes <= most_bytes or len(touched) == 1


def test_files_of_several_variables_come_to_one_task() -> None:
    mib = 1 << 20
    planned = [
        NativeArray(
            name, (64, mib), (1, mib), (1, mib), 4, 0,
            tuple(Part(f"file {n}", ((8 * n, 8 * n + 8), (0, mib)), (8 * n, 0)) for n in range(8)),
        )
        for name in "ab"
    ]  # fmt: skip

    tasks = plan_tasks(planned, slots=1)

    files = [{each.source for piece in task for each in piece.fragments} for task in tasks]
    assert sum(map(len, files)) <= 8 + len(tasks)
    assert all({piece.array for piece in task} == {"a", "b"} for task in tasks)


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        ([((0, 2), (0, 3)), ((2, 4), (0, 3))], ((0, 4), (0, 3))),
        ([((0, 2), (0, 3)), ((3, 4), (0, 3))], None),
        ([((0, 1), (0, 2)), ((1, 2), (2, 4))], None),
        ([()], ()),
    ],
)
def test_boxes_are_one_where_they_have_no_gaps(boxes: list[Box], expected: Box | None) -> None:
    assert bounding(boxes) == expected


# How arrays are stored


@pytest.mark.parametrize(
    ("shape", "source", "axis", "expected"),
    [
        # as the source has them
        ((365, 721, 1440), (1, 721, 1440), 0, [1, 721, 1440]),
        ((8760, 100, 100), (1000, 10, 10), 0, [1000, 10, 10]),
        # tiny ones: whole steps, about 16 MiB of them
        ((365, 721, 1440), (1, 10, 10), 0, [4, 721, 1440]),
        ((100,), (1,), 0, [PLANNED_CHUNK_BYTES // 4]),
        ((24, 16), (24, 16), None, [24, 16]),
        # huge ones: less than a step where a step is too large
        ((12, 20000, 20000), (12, 20000, 20000), 0, [1, 1250, 2500]),
        ((), (), None, []),
    ],
)
def test_chunks_are_those_of_the_source_unless_tiny_or_huge(
    shape: tuple[int, ...], source: tuple[int, ...], axis: int | None, expected: list[int]
) -> None:
    assert choose_chunks(shape, source, 4, axis) == expected


@given(
    st.lists(st.integers(1, 50_000), min_size=1, max_size=4),
    st.data(),
    st.sampled_from([1, 2, 4, 8, 16]),
)
def test_planned_chunks_are_neither_tiny_nor_huge(
    shape: list[int], data: st.DataObject, itemsize: int
) -> None:
    source = [data.draw(st.integers(1, extent)) for extent in shape]
    axis = data.draw(st.integers(0, len(shape) - 1))

    chunks = choose_chunks(shape, source, itemsize, axis)

    assert LEAST_CHUNK_BYTES <= prod(chunks) * itemsize <= MOST_CHUNK_BYTES


@given(
    st.lists(st.integers(1, 2000), min_size=1, max_size=3),
    st.lists(st.integers(1, 60), min_size=2, max_size=5),
    st.sampled_from([1, 4, 8]),
)
def test_chunks_end_where_files_do_or_are_small(
    chunks: list[int], files: list[int], itemsize: int
) -> None:
    found = end_with_files(chunks, itemsize, {0: files})

    assert found[1:] == chunks[1:]
    assert 1 <= found[0] <= chunks[0]
    is_small = prod(found) * itemsize <= GROWING_CHUNK_BYTES
    assert is_small or all(each % found[0] == 0 for each in files)


def test_an_array_is_made_as_asked_and_keeps_its_meaning() -> None:
    encoding_options = EncodingOptions(
        {"time": 2, "t": {"y": -1, "x": 4}}, {"t": {"compressors": None, "fill_value": 1.0}}
    )

    made = plan_metadata(header(), (8, 6, 8), "time", encoding_options)

    assert made["chunk_grid"]["configuration"]["chunk_shape"] == [2, 6, 4]
    assert [each["name"] for each in made["codecs"]] == ["bytes"]
    assert (made["fill_value"], made["shape"]) == (1.0, [8, 6, 8])
    assert made["attributes"] == {"units": "K"}
    assert made["dimension_names"] == ["time", "y", "x"]


def test_shards_are_what_is_written_as_one() -> None:
    encoding_options = EncodingOptions({"time": 3, "y": 6, "x": 8}, {"t": {"shards": (12, 6, 8)}})

    made = plan_metadata(header(), (8, 6, 8), "time", encoding_options)

    assert made["chunk_grid"]["configuration"]["chunk_shape"] == [12, 6, 8]
    assert made["codecs"][0]["configuration"]["chunk_shape"] == [3, 6, 8]


@pytest.mark.parametrize(
    ("chunks", "encoding", "message"),
    [
        ({"time": 0}, {}, "1 or more"),
        ({}, {"t": {"zlib": True}}, "invalid encoding 'zlib'"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    chunks: dict[str, Any], encoding: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        EncodingOptions(chunks, encoding)


def test_an_option_about_an_unknown_dimension_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="along 'day': it has dimensions time"):
        plan_metadata(header(), (8, 6, 8), "time", EncodingOptions({"t": {"day": 1}}))


def test_codecs_that_only_decode_are_found() -> None:
    assert can_encode(header().metadata)
    assert not can_encode(header(codecs=[{"name": "nobody.knows.this"}]).metadata)
