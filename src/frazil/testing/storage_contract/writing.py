"""Writing: put, create once, replace what was read, copy, delete."""

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from frazil.errors import (
    InvalidInputError,
    ObjectExistsError,
    ObjectNotFoundError,
    VersionMismatchError,
)
from frazil.storage.interface import Buffer, PutOptions, Storage, Version
from frazil.testing.storage_contract.promises import BAD_KEYS, Promises

WRITES: dict[str, Callable[[Storage, str], object]] = {
    "put": lambda storage, key: storage.put(key, b"new"),
    "put_async": lambda storage, key: asyncio.run(storage.put_async(key, b"new")),
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
    """What a storage does for those who write."""

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
            with pytest.raises(InvalidInputError, match="is no storage key"):
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
