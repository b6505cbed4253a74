"""Reading: whole objects, ranges, several at once, and what is not there."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from frazil.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    ObjectRangeError,
)
from frazil.storage.interface import (
    ByteOffset,
    ByteRange,
    ByteSuffix,
    Range,
    Storage,
    Version,
)
from frazil.testing.storage_contract.promises import BAD_KEYS, Promises

TEN = b"0123456789"

READS: dict[str, Callable[[Storage, str], object]] = {
    "get": lambda storage, key: storage.get(key),
    "get of a range": lambda storage, key: storage.get(key, ByteRange(0, 1)),
    "get of a suffix": lambda storage, key: storage.get(key, ByteSuffix(1)),
    "get_async": lambda storage, key: asyncio.run(_get(storage, key)),
    "get_many": lambda storage, key: storage.get_many([(key, None), (key, ByteOffset(0))]),
    "get_ranges": lambda storage, key: storage.get_ranges(key, [ByteRange(0, 1), ByteRange(1, 2)]),
    "get_versioned": lambda storage, key: storage.get_versioned(key),
    "head": lambda storage, key: storage.head(key),
}


async def _get(storage: Storage, key: str, range: Range | None = None) -> bytes:
    return bytes(await storage.get_async(key, range))


class ReadingContract(Promises):
    """What a storage answers to those who only read."""

    def test_an_object_is_read_whole(self, storage: Storage, writer: Storage) -> None:
        writer.put("folder/nested/object", TEN)

        assert bytes(storage.get("folder/nested/object")) == TEN

    def test_an_empty_object_is_read(self, storage: Storage, writer: Storage) -> None:
        writer.put("empty", b"")

        assert bytes(storage.get("empty")) == b""
        assert bytes(storage.get_versioned("empty").data) == b""
        assert storage.head("empty").size_bytes == 0

    @pytest.mark.parametrize(
        "range", [ByteRange(0, 0), ByteOffset(0), ByteSuffix(0), ByteSuffix(5)]
    )
    def test_an_empty_object_has_empty_ranges(
        self, storage: Storage, writer: Storage, range: Range
    ) -> None:
        writer.put("empty", b"")

        assert bytes(storage.get("empty", range)) == b""

    @pytest.mark.parametrize(
        ("range", "expected"),
        [
            (ByteRange(0, 1), b"0"),
            (ByteRange(2, 5), b"234"),
            (ByteRange(9, 10), b"9"),
            (ByteRange(0, 10), TEN),
            (ByteRange(4, 4), b""),
            (ByteRange(10, 10), b""),
            (ByteOffset(0), TEN),
            (ByteOffset(7), b"789"),
            (ByteOffset(10), b""),
            (ByteSuffix(0), b""),
            (ByteSuffix(1), b"9"),
            (ByteSuffix(10), TEN),
            (ByteSuffix(11), TEN),
        ],
    )
    def test_a_range_has_exactly_its_bytes(
        self, storage: Storage, writer: Storage, range: Range, expected: bytes
    ) -> None:
        writer.put("ten", TEN)

        assert bytes(storage.get("ten", range)) == expected
        assert asyncio.run(_get(storage, "ten", range)) == expected
        assert [bytes(data) for data in storage.get_ranges("ten", [range])] == [expected]

    @pytest.mark.parametrize(
        "range",
        [ByteRange(0, 11), ByteRange(9, 11), ByteRange(11, 11), ByteRange(20, 30), ByteOffset(11)],
    )
    def test_bytes_beyond_the_end_are_an_error_that_names_the_key(
        self, storage: Storage, writer: Storage, range: Range
    ) -> None:
        writer.put("ten", TEN)

        with pytest.raises(ObjectRangeError, match="ten"):
            storage.get("ten", range)
        with pytest.raises(ObjectRangeError, match="ten"):
            storage.get_many([("ten", None), ("ten", range)])
        with pytest.raises(ObjectRangeError, match="ten"):
            asyncio.run(_get(storage, "ten", range))

    def test_what_is_read_is_a_flat_buffer_of_bytes(
        self, storage: Storage, writer: Storage
    ) -> None:
        writer.put("ten", TEN)

        for data in (storage.get("ten"), storage.get("ten", ByteRange(1, 9))):
            view = memoryview(data)
            assert (view.format, view.ndim, view.c_contiguous) == ("B", 1, True)
            assert len(data) == view.nbytes

    def test_several_objects_come_in_the_order_they_were_asked_for(
        self, storage: Storage, writer: Storage
    ) -> None:
        for number in range(40):
            writer.put(f"objects/{number}", bytes([number]) * (number + 1))

        found = storage.get_many([(f"objects/{number}", None) for number in reversed(range(40))])

        assert [bytes(data) for data in found] == [
            bytes([number]) * (number + 1) for number in reversed(range(40))
        ]

    def test_several_requests_may_be_for_whole_objects_and_ranges(
        self, storage: Storage, writer: Storage
    ) -> None:
        writer.put("ten", TEN)
        writer.put("two", b"ab")

        found = storage.get_many(
            [
                ("ten", ByteSuffix(2)),
                ("two", None),
                ("ten", ByteRange(0, 2)),
                ("two", ByteOffset(1)),
            ]
        )

        assert [bytes(data) for data in found] == [b"89", b"ab", b"01", b"b"]

    def test_several_ranges_come_in_the_order_they_were_asked_for(
        self, storage: Storage, writer: Storage
    ) -> None:
        writer.put("ten", TEN)
        ranges = (ByteRange(8, 10), ByteSuffix(3), ByteRange(0, 2), ByteOffset(9), ByteRange(1, 9))

        found = storage.get_ranges("ten", ranges)

        assert [bytes(data) for data in found] == [b"89", b"789", b"01", b"9", b"12345678"]

    def test_no_requests_have_no_answers(self, storage: Storage, writer: Storage) -> None:
        writer.put("ten", TEN)

        assert len(storage.get_many([])) == 0
        assert len(storage.get_ranges("ten", [])) == 0

    def test_one_missing_object_fails_the_requests_that_want_it(
        self, storage: Storage, writer: Storage
    ) -> None:
        writer.put("ten", TEN)

        with pytest.raises(ObjectNotFoundError, match="missing"):
            storage.get_many([("ten", None), ("missing", None), ("ten", None)])

    @pytest.mark.parametrize("verb", READS)
    def test_a_missing_object_is_an_error_that_names_the_key(
        self, storage: Storage, writer: Storage, verb: str
    ) -> None:
        writer.put("folder/object", TEN)

        for key in ("missing", "folder/missing", "missing/folder/object"):
            with pytest.raises(ObjectNotFoundError, match=key):
                READS[verb](storage, key)

    @pytest.mark.parametrize("verb", READS)
    def test_a_folder_is_no_object(self, storage: Storage, writer: Storage, verb: str) -> None:
        writer.put("folder/object", TEN)

        with pytest.raises(ObjectNotFoundError, match="folder"):
            READS[verb](storage, "folder")

    @pytest.mark.parametrize("verb", READS)
    def test_reading_what_is_no_key_is_refused(self, storage: Storage, verb: str) -> None:
        for key in BAD_KEYS:
            with pytest.raises(InvalidInputError, match="is no storage key"):
                READS[verb](storage, key)

    def test_keys_may_have_spaces_signs_and_letters_of_any_language(
        self, storage: Storage, writer: Storage
    ) -> None:
        keys = [
            "with space",
            "a+b=c&d",
            "50%",
            "question?",
            "hash#tag",
            "ø/雪/😀",
            ".hidden",
            "a..b",
        ]
        for key in keys:
            writer.put(key, key.encode())

        assert [bytes(storage.get(key)).decode() for key in keys] == keys

    def test_head_knows_size_and_time(self, storage: Storage, writer: Storage) -> None:
        before = datetime.now(UTC)
        writer.put("folder/ten", TEN)

        info = storage.head("folder/ten")

        tolerance = timedelta(seconds=self.clock_difference_seconds)
        assert (info.key, info.size_bytes) == ("folder/ten", len(TEN))
        assert info.created_at.utcoffset() == timedelta(0)
        assert before - tolerance <= info.created_at <= datetime.now(UTC) + tolerance

    def test_many_reads_run_in_one_event_loop(self, storage: Storage, writer: Storage) -> None:
        for number in range(32):
            writer.put(f"objects/{number}", str(number).encode())

        async def read_all() -> list[bytes]:
            return await asyncio.gather(*(_get(storage, f"objects/{n}") for n in range(32)))

        assert asyncio.run(read_all()) == [str(number).encode() for number in range(32)]

    def test_a_large_object_is_read_whole_and_in_parts(
        self, storage: Storage, writer: Storage
    ) -> None:
        size = self.large_object_bytes
        data = bytes(range(256)) * (size // 256) + b"end"
        writer.put("large", data)

        assert bytes(storage.get("large")) == data
        assert bytes(storage.get("large", ByteSuffix(5))) == data[-5:]
        assert bytes(storage.get("large", ByteRange(1000, size))) == data[1000:size]
        assert bytes(storage.get_versioned("large").data) == data
        assert storage.head("large").size_bytes == len(data)

    def test_a_version_is_a_value(self, storage: Storage, writer: Storage) -> None:
        writer.put("ten", TEN)

        first, second = storage.get_versioned("ten"), storage.get_versioned("ten")

        assert first.version == second.version
        assert first.version != Version("foreign")
