"""Fast paths of the storages equal the slow ones."""

import re
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInputError, ObjectRangeError
from frazil.storage.interface import (
    ByteOffset,
    ByteRange,
    ByteSuffix,
    Range,
    slice_range,
    validate_key,
)
from frazil.storage.local import Durability, LocalStorage

numbers = st.integers(0, 40)
ranges = st.one_of(
    st.tuples(numbers, numbers).map(lambda ends: ByteRange(min(ends), max(ends))),
    numbers.map(ByteOffset),
    numbers.map(ByteSuffix),
    st.none(),
)


@given(st.text(alphabet="a./\0", max_size=8))
def test_a_key_is_refused_exactly_if_one_of_its_segments_is_bad(key: str) -> None:
    is_bad = "\0" in key or any(re.fullmatch(r"\.{0,2}", part) for part in key.split("/"))

    if is_bad:
        with pytest.raises(InvalidInputError):
            validate_key(key)
    else:
        assert validate_key(key) == key


@given(st.binary(max_size=30), ranges)
def test_a_disk_gives_the_bytes_that_a_slice_gives(data: bytes, range: Range | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(folder, durability=Durability.NONE)
        storage.put("object", data)

        try:
            expected = bytes(slice_range(data, range, "object"))
        except ObjectRangeError as error:
            with pytest.raises(ObjectRangeError, match=re.escape(str(error))):
                storage.get("object", range)
        else:
            assert bytes(storage.get("object", range)) == expected


def test_a_range_of_more_bytes_than_there_is_memory_is_beyond_the_end() -> None:
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(folder, durability=Durability.NONE)
        storage.put("object", b"data")

        with pytest.raises(ObjectRangeError):
            storage.get("object", ByteRange(0, 1 << 60))
