"""Contract tests of reading and writing."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import numpy as np
import pytest

from frazil.errors import (
    InvalidInputError,
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectRangeError,
    VersionMismatchError,
)
from frazil.storage.interface import (
    NO_OPTIONS,
    Buffer,
    ByteOffset,
    ByteRange,
    ByteSuffix,
    PutOptions,
    Range,
    Storage,
    Version,
)

BAD_KEYS = ("", ".", "..", "/a", "a/", "a//b", "../a", "a/..", "a/../b", "./a", "a/./b", "a\0b")


class Promises:
    """Guarantees of a storage; a test class overrides those that its storage does not give."""

    is_read_only: ClassVar[bool] = False
    has_conditional_writes: ClassVar[bool] = True
    """True if `create` and `replace` have exactly one winner."""
    can_list: ClassVar[bool] = True
    is_shared_between_processes: ClassVar[bool] = True
    """True if another process that unpickles the storage sees the same objects."""
    survives_fork: ClassVar[bool] = True
    """True if a used storage works in a forked process; if False, using it there must raise."""

    large_object_bytes: ClassVar[int] = 20 << 20
    many_objects: ClassVar[int] = 1_100
    """More than one page of a listing."""
    race_threads: ClassVar[int] = 16
    race_rounds: ClassVar[int] = 1_000
    clock_difference_seconds: ClassVar[float] = 60
    """Maximum difference between the clocks of the storage and this machine."""

    @pytest.fixture
    def writer(self, storage: Storage) -> Storage:
        """Return the storage that writes the objects for read tests."""
        if self.is_read_only:
            pytest.fail("a storage that only reads needs a fixture `writer`")
        return storage

    @pytest.fixture
    def writable(self, storage: Storage) -> Storage:
        """Return the storage, or skip if it is read-only."""
        if self.is_read_only:
            pytest.skip("this storage only reads")
        return storage

    @pytest.fixture
    def conditional(self, writable: Storage) -> Storage:
        """Return the storage, or skip if it has no conditional writes."""
        if not self.has_conditional_writes:
            pytest.skip("this storage has no conditional writes")
        return writable

    @pytest.fixture
    def listable(self, storage: Storage) -> Storage:
        """Return the storage, or skip if it can't list."""
        if not self.can_list:
            pytest.skip("this storage can't list")
        return storage

    @pytest.fixture
    def shared(self, storage: Storage) -> Storage:
        """Return the storage, or skip if other processes don't see its objects."""
        if not self.is_shared_between_processes:
            pytest.skip("this storage is of one process")
        return storage


TEN = b"0123456789"

READS: dict[str, Callable[[Storage, str], object]] = {
    "get": lambda storage, key: storage.get(key),
    "get of a range": lambda storage, key: storage.get(key, ByteRange(0, 1)),
    "get of a suffix": lambda storage, key: storage.get(key, ByteSuffix(1)),
    "get_async": lambda storage, key: asyncio.run(_get(storage, key)),
    "get_many": lambda storage, key: storage.get_many([(key, None), (key, ByteOffset(0))]),
    "get_ranges": lambda storage, key: storage.get_ranges(key, [ByteRange(0, 1), ByteRange(1, 2)]),
    "get_versioned": lambda storage, key: storage.get_versioned(key),
    "get_if_changed": lambda storage, key: storage.get_if_changed(key, Version("")),
    "head": lambda storage, key: storage.head(key),
}


async def _get(storage: Storage, key: str, range: Range | None = None) -> bytes:
    return bytes(await storage.get_async(key, range))


class ReadingContract(Promises):
    """Contract tests of reads."""

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
            with pytest.raises(InvalidInputError, match="invalid storage key"):
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


WRITES: dict[str, Callable[[Storage, str], object]] = {
    "put": lambda storage, key: storage.put(key, b"new"),
    "put_async": lambda storage, key: asyncio.run(storage.put_async(key, b"new")),
    "put_many": lambda storage, key: storage.put_many([(key, b"new", NO_OPTIONS)]),
    "create": lambda storage, key: storage.create(key, b"new"),
    "replace": lambda storage, key: storage.replace(key, b"new", Version("foreign")),
    "copy from": lambda storage, key: storage.copy(key, "target"),
    "copy to": lambda storage, key: storage.copy("object", key),
    "delete_many": lambda storage, key: storage.delete_many([key]),
}

NUMBERS = np.arange(6, dtype="<u4")
BUFFERS: dict[str, tuple[Buffer, bytes]] = {
    "bytes": (b"data", b"data"),
    "bytearray": (bytearray(b"data"), b"data"),
    "memoryview": (memoryview(b"-data-")[1:5], b"data"),
    "view of numbers": (memoryview(NUMBERS), NUMBERS.tobytes()),
    "view of a matrix": (memoryview(NUMBERS.reshape(2, 3)), NUMBERS.tobytes()),
    "view of no numbers": (memoryview(NUMBERS[:0]), b""),
    "view of an empty matrix": (memoryview(NUMBERS.reshape(2, 3)[:0]), b""),
    "empty bytes": (b"", b""),
}
METADATA = PutOptions(metadata={"written-by": "a test"}, content_type="application/octet-stream")


class WritingContract(Promises):
    """Contract tests of writes."""

    # put

    def test_put_replaces_an_object_whole(self, writable: Storage) -> None:
        writable.put("object", b"a long first object")

        writable.put("object", b"short")

        assert bytes(writable.get("object")) == b"short"
        assert writable.head("object").size_bytes == 5

    @pytest.mark.parametrize("kind", BUFFERS)
    def test_put_takes_any_buffer(self, writable: Storage, kind: str) -> None:
        data, expected = BUFFERS[kind]

        writable.put("object", data)
        asyncio.run(writable.put_async("another", data))

        assert bytes(writable.get("object")) == expected
        assert bytes(writable.get("another")) == expected

    def test_a_written_object_does_not_follow_its_writer_s_buffer(self, writable: Storage) -> None:
        buffer = bytearray(b"before")
        writable.put("object", buffer)

        buffer[:] = b"after!"

        assert bytes(writable.get("object")) == b"before"

    def test_put_takes_options_that_it_may_have_no_place_for(self, writable: Storage) -> None:
        writable.put("object", b"data", METADATA)

        assert bytes(writable.get("object")) == b"data"

    def test_many_writes_run_in_one_event_loop(self, writable: Storage) -> None:
        async def write_all() -> None:
            writes = (writable.put_async(f"objects/{n}", str(n).encode()) for n in range(32))
            await asyncio.gather(*writes)

        asyncio.run(write_all())

        found = writable.get_many([(f"objects/{number}", None) for number in range(32)])
        assert [bytes(data) for data in found] == [str(number).encode() for number in range(32)]

    def test_several_objects_are_written_and_read_back(self, writable: Storage) -> None:
        writable.put("objects/0", b"old")
        size = self.large_object_bytes
        expected = [str(number).encode() for number in range(40)] + [b"", b"x" * size]

        writable.put_many([])
        writable.put_many(
            [(f"objects/{number}", data, METADATA) for number, data in enumerate(expected)]
        )

        found = writable.get_many([(f"objects/{number}", None) for number in range(42)])
        assert [bytes(data) for data in found] == expected

    @pytest.mark.parametrize("kind", BUFFERS)
    def test_put_many_takes_any_buffer(self, writable: Storage, kind: str) -> None:
        data, expected = BUFFERS[kind]

        writable.put_many([("one", data, NO_OPTIONS), ("another", data, NO_OPTIONS)])

        assert [bytes(writable.get(key)) for key in ("one", "another")] == [expected] * 2

    def test_flush_may_be_called_at_any_time(self, writable: Storage) -> None:
        writable.flush()
        writable.put("object", b"data")
        writable.flush()
        writable.delete_many(["object"])
        writable.flush()

    @pytest.mark.parametrize("verb", WRITES)
    def test_writing_what_is_no_key_is_refused(self, writable: Storage, verb: str) -> None:
        writable.put("object", b"old")

        for key in BAD_KEYS:
            with pytest.raises(InvalidInputError, match="invalid storage key"):
                WRITES[verb](writable, key)
        assert bytes(writable.get("object")) == b"old"

    # create

    def test_an_object_is_created_once(self, conditional: Storage) -> None:
        conditional.create("folder/object", b"first", METADATA)

        with pytest.raises(ObjectExistsError, match="folder/object"):
            conditional.create("folder/object", b"second")
        assert bytes(conditional.get("folder/object")) == b"first"

    def test_an_object_that_is_created_again_with_its_own_bytes_exists(
        self, conditional: Storage
    ) -> None:
        conditional.create("object", b"same")

        with pytest.raises(ObjectExistsError, match="object"):
            conditional.create("object", b"same")

    def test_an_object_that_was_put_can_not_be_created(self, conditional: Storage) -> None:
        conditional.put("object", b"first")

        with pytest.raises(ObjectExistsError, match="object"):
            conditional.create("object", b"second")

    def test_an_object_that_was_deleted_can_be_created(self, conditional: Storage) -> None:
        conditional.create("object", b"first")
        conditional.delete_many(["object"])

        conditional.create("object", b"second")

        assert bytes(conditional.get("object")) == b"second"

    @pytest.mark.parametrize("kind", BUFFERS)
    def test_create_and_replace_take_any_buffer(self, conditional: Storage, kind: str) -> None:
        data, expected = BUFFERS[kind]

        version = conditional.create("created", data)
        conditional.create("replaced", b"old")
        conditional.replace("replaced", data, conditional.get_versioned("replaced").version)

        assert bytes(conditional.get("created")) == expected
        assert bytes(conditional.get("replaced")) == expected
        conditional.replace("created", b"new", version)

    # replace

    def test_the_version_that_was_read_is_replaced(self, conditional: Storage) -> None:
        conditional.put("object", b"first")

        conditional.replace(
            "object", b"second", conditional.get_versioned("object").version, METADATA
        )

        assert bytes(conditional.get("object")) == b"second"

    def test_the_version_that_was_written_can_be_replaced(self, conditional: Storage) -> None:
        created = conditional.create("object", b"first")

        replaced = conditional.replace("object", b"second", created)
        conditional.replace("object", b"third", replaced)

        assert bytes(conditional.get("object")) == b"third"
        assert conditional.get_versioned("object").version not in (created, replaced)

    def test_the_version_that_was_written_is_the_one_that_is_read(
        self, conditional: Storage
    ) -> None:
        created = conditional.create("object", b"first")
        assert conditional.get_versioned("object").version == created

        replaced = conditional.replace("object", b"second", created)
        assert conditional.get_versioned("object").version == replaced

    def test_an_object_is_read_again_only_if_it_changed(self, conditional: Storage) -> None:
        created = conditional.create("object", b"first")
        assert conditional.get_if_changed("object", created) is None

        replaced = conditional.replace("object", b"second", created)
        found = conditional.get_if_changed("object", created)

        assert found is not None
        assert (bytes(found.data), found.version) == (b"second", replaced)
        assert conditional.get_if_changed("object", replaced) is None

    def test_a_stale_version_is_not_replaced(self, conditional: Storage) -> None:
        stale = conditional.create("object", b"first")
        conditional.replace("object", b"second", stale)

        with pytest.raises(VersionMismatchError, match="object"):
            conditional.replace("object", b"third", stale)
        assert bytes(conditional.get("object")) == b"second"

    def test_a_version_that_was_put_over_is_not_replaced(self, conditional: Storage) -> None:
        stale = conditional.create("object", b"first")
        conditional.put("object", b"second")

        with pytest.raises(VersionMismatchError, match="object"):
            conditional.replace("object", b"third", stale)
        assert bytes(conditional.get("object")) == b"second"

    def test_a_foreign_version_is_not_replaced(self, conditional: Storage) -> None:
        conditional.create("object", b"first")
        other = conditional.create("other", b"other")

        for foreign in (other, Version("foreign"), Version("")):
            with pytest.raises(VersionMismatchError, match="object"):
                conditional.replace("object", b"second", foreign)
        assert bytes(conditional.get("object")) == b"first"

    def test_a_missing_object_is_not_replaced(self, conditional: Storage) -> None:
        gone = conditional.create("folder/object", b"first")
        conditional.delete_many(["folder/object"])

        for key in ("folder/object", "never/was"):
            with pytest.raises(VersionMismatchError, match=key):
                conditional.replace(key, b"second", gone)
            with pytest.raises(ObjectNotFoundError):
                conditional.get(key)

    # copy

    def test_a_copy_has_the_bytes_of_its_source(self, writable: Storage) -> None:
        writable.put("source", b"data")
        writable.put("folder/existing", b"older and longer")

        writable.copy("source", "folder/new")
        writable.copy("source", "folder/existing")

        assert bytes(writable.get("folder/new")) == b"data"
        assert bytes(writable.get("folder/existing")) == b"data"
        assert bytes(writable.get("source")) == b"data"

    def test_a_copy_stays_when_its_source_changes(self, writable: Storage) -> None:
        writable.put("source", b"first")
        writable.copy("source", "copy")

        writable.put("source", b"second")

        assert bytes(writable.get("copy")) == b"first"

    def test_a_version_that_is_still_there_is_copied(self, conditional: Storage) -> None:
        version = conditional.create("source", b"data")

        conditional.copy("source", "copy", version)

        assert bytes(conditional.get("copy")) == b"data"

    def test_a_version_that_is_gone_is_not_copied(self, conditional: Storage) -> None:
        stale = conditional.create("source", b"first")
        conditional.replace("source", b"second", stale)

        with pytest.raises(VersionMismatchError, match="source"):
            conditional.copy("source", "copy", stale)
        with pytest.raises(ObjectNotFoundError):
            conditional.get("copy")

    def test_a_missing_object_is_not_copied(self, writable: Storage) -> None:
        with pytest.raises(ObjectNotFoundError, match="missing"):
            writable.copy("missing", "copy")
        with pytest.raises(ObjectNotFoundError, match="missing"):
            writable.copy("missing", "copy", Version("foreign"))

    # delete_many

    def test_deleted_objects_are_gone_and_others_stay(self, writable: Storage) -> None:
        for key in ("a", "folder/b", "folder/c"):
            writable.put(key, b"data")

        report = writable.delete_many(key for key in ("a", "folder/b"))

        assert (report.deleted, dict(report.failed)) == (2, {})
        for key in ("a", "folder/b"):
            with pytest.raises(ObjectNotFoundError):
                writable.get(key)
        assert bytes(writable.get("folder/c")) == b"data"

    def test_deleting_what_is_not_there_is_no_failure(self, writable: Storage) -> None:
        writable.put("object", b"data")

        report = writable.delete_many(["missing", "object", "missing/folder/object"])

        assert (report.deleted, dict(report.failed)) == (3, {})
        with pytest.raises(ObjectNotFoundError):
            writable.get("object")

    def test_nothing_to_delete_is_no_failure(self, writable: Storage) -> None:
        assert writable.delete_many([]).deleted == 0

    def test_more_keys_are_deleted_than_one_request_holds(self, writable: Storage) -> None:
        existing = [f"objects/{number:05}" for number in (0, 999, 1000, 2099)]
        for key in existing:
            writable.put(key, b"data")

        report = writable.delete_many(f"objects/{number:05}" for number in range(2_100))

        assert (report.deleted, dict(report.failed)) == (2_100, {})
        for key in existing:
            with pytest.raises(ObjectNotFoundError):
                writable.get(key)
