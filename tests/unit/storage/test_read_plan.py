"""Planning the requests for several ranges: all bytes, none too far."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from frazil.storage.interface import (
    ByteRange,
    StorageConcurrencySettings,
    StorageSettings,
    resolve_settings,
)
from frazil.storage.ranges import plan_reads, split_range

BOUNDS = st.tuples(st.integers(0, 1000), st.integers(0, 50))
RANGES = st.lists(BOUNDS.map(lambda each: ByteRange(each[0], each[0] + each[1])))


@given(ranges=RANGES, gap=st.integers(0, 100))
def test_every_range_is_in_exactly_one_request(ranges: list[ByteRange], gap: int) -> None:
    planned = plan_reads(ranges, gap)

    members = [member for read in planned for member in read.members]
    assert sorted(members) == list(range(len(ranges)))
    for read in planned:
        assert read.start == min(ranges[member].start for member in read.members)
        assert read.end == max(ranges[member].end for member in read.members)


@given(ranges=RANGES, gap=st.integers(1, 100))
def test_requests_are_at_least_a_gap_apart(ranges: list[ByteRange], gap: int) -> None:
    planned = plan_reads(ranges, gap)

    for before, after in pairwise(planned):
        assert after.start - before.end >= gap


@given(
    start=st.integers(0, 100), length=st.integers(0, 10_000), size=st.integers(1, 500),
    most=st.integers(2, 20),
)  # fmt: skip
def test_the_pieces_of_a_range_are_the_range(start: int, length: int, size: int, most: int) -> None:
    settings = resolve_settings(StorageSettings(concurrency=StorageConcurrencySettings(most, size)))

    pieces = split_range(ByteRange(start, start + length), settings)

    assert len(pieces) <= most
    assert bool(pieces) == (length >= 2 * size)
    if pieces:
        assert (pieces[0].start, pieces[-1].end) == (start, start + length)
        assert all(a.end == b.start for a, b in pairwise(pieces))
        assert all(piece.end - piece.start >= size for piece in pieces)
