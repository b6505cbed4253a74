"""Contract tests of every storage: inherit `StorageContract` and define a fixture `storage`.

::

    class TestMemoryStorage(StorageContract):
        is_shared_between_processes = False

        @pytest.fixture
        def storage(self) -> Storage:
            return MemoryStorage()

The fixture returns a new, empty storage for each test. The attributes of `Promises` declare
guarantees that a storage does not give. A read-only storage inherits `ReadOnlyStorageContract` and
also defines a fixture `writer`: another storage, which writes the objects to read.
"""

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from frazil.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    ReadOnlyError,
    StorageError,
    VersionMismatchError,
)
from frazil.storage.interface import ByteRange, Storage

# Before the import, so that a failed assertion shows its values.
pytest.register_assert_rewrite("frazil.testing.storage_contract_io")

from frazil.testing.storage_contract_io import WRITES, Promises, ReadingContract, WritingContract  # noqa: E402

KEYS = ("repo", "chunks/a", "chunks/ab", "chunks/b", "chunk-list", "refs/branch.main/ref.json")


def _keys(storage: Storage, prefix: str = "") -> set[str]:
    found = [info.key for info in storage.list(prefix)]
    assert len(found) == len(set(found))
    return set(found)


class ListingContract(Promises):
    """Contract tests of listings."""

    def test_an_empty_storage_lists_nothing(self, listable: Storage) -> None:
        assert _keys(listable) == set()
        assert list(listable.list_sorted()) == []
        assert _keys(listable, "folder/") == set()

    @pytest.mark.parametrize(
        ("prefix", "expected"),
        [
            ("", set(KEYS)),
            ("chunks/", {"chunks/a", "chunks/ab", "chunks/b"}),
            ("chunks/a", {"chunks/a", "chunks/ab"}),
            ("chunks/ab", {"chunks/ab"}),
            ("chunk", {"chunks/a", "chunks/ab", "chunks/b", "chunk-list"}),
            ("refs/", {"refs/branch.main/ref.json"}),
            ("refs/branch.", {"refs/branch.main/ref.json"}),
            ("refs/branch.main/", {"refs/branch.main/ref.json"}),
            ("repo", {"repo"}),
            ("repo/", set()),
            ("chunks/c", set()),
            ("missing/", set()),
            ("missing/folder/", set()),
        ],
    )
    def test_a_prefix_ends_anywhere(
        self, listable: Storage, writer: Storage, prefix: str, expected: set[str]
    ) -> None:
        for key in KEYS:
            writer.put(key, b"data")

        assert _keys(listable, prefix) == expected
        assert [info.key for info in listable.list_sorted(prefix)] == sorted(expected)

    @pytest.mark.parametrize("prefix", ["", "chunks/", "chunks/a", "missing/"])
    def test_what_is_chosen_is_described_as_in_the_whole_list(
        self, listable: Storage, writer: Storage, prefix: str
    ) -> None:
        for key in KEYS:
            writer.put(key, b"data")

        chosen = listable.list_selected(prefix, lambda keys: [key.endswith("b") for key in keys])

        expected = {info for info in listable.list(prefix) if info.key.endswith("b")}
        assert set(chosen) == expected

    @pytest.mark.parametrize(
        ("after", "before"),
        [("", "~"), ("chunks/a", "chunks/b"), ("chunks/a", "chunks/a~"), ("x", "a")],
    )
    def test_what_is_between_two_keys_is_listed_without_these(
        self, listable: Storage, writer: Storage, after: str, before: str
    ) -> None:
        for key in KEYS:
            writer.put(key, b"data")

        found = listable.list_between("chunks/", after, before)

        between = {info for info in listable.list("chunks/") if after < info.key < before}
        assert set(found) == between

    def test_a_sorted_list_is_in_the_order_of_the_keys_bytes(
        self, listable: Storage, writer: Storage
    ) -> None:
        keys = [
            "A", "a!", "a-/c", "a.b", "a/!", "a/b", "a/b-", "a/b0/c", "a0", "a1/b", "b", "ø", "雪",
            "\ue000", "😀",
        ]  # fmt: skip
        for key in reversed(keys):
            writer.put(key, b"data")

        assert [info.key for info in listable.list_sorted()] == keys
        assert keys == sorted(keys, key=str.encode)

    def test_listed_objects_have_sizes_and_times(self, listable: Storage, writer: Storage) -> None:
        for size in (0, 1, 1000):
            writer.put(f"objects/{size}", b"x" * size)

        for info in listable.list("objects/"):
            head = listable.head(info.key)
            assert info.size_bytes == head.size_bytes == int(info.key.removeprefix("objects/"))
            assert info.created_at.utcoffset() == timedelta(0)
            # Some storages return full seconds in one place and fractions in another.
            assert abs(info.created_at - head.created_at) <= timedelta(seconds=1)

    def test_a_list_is_read_as_it_comes(self, listable: Storage, writer: Storage) -> None:
        for key in KEYS:
            writer.put(key, b"data")

        listing = listable.list()

        assert isinstance(listing, Iterator)
        assert next(listing).key in KEYS
        assert len(list(listing)) == len(KEYS) - 1

    def test_objects_may_be_deleted_while_they_are_listed(
        self, listable: Storage, writer: Storage
    ) -> None:
        keys = {f"folder-{number % 3}/{number}" for number in range(30)}
        for key in keys:
            writer.put(key, b"data")

        seen = set()
        for info in listable.list():
            writer.delete_many([info.key])
            seen.add(info.key)

        assert seen == keys
        assert _keys(listable) == set()

    def test_deleted_objects_are_not_listed(self, listable: Storage, writer: Storage) -> None:
        for key in KEYS:
            writer.put(key, b"data")

        writer.delete_many(KEYS[1:])

        assert _keys(listable) == {KEYS[0]}

    def test_more_objects_are_listed_than_one_answer_holds(
        self, listable: Storage, writer: Storage
    ) -> None:
        expected = [f"objects/{number:06}" for number in range(self.many_objects)]
        for key in expected:
            writer.put(key, b"")

        assert _keys(listable, "objects/") == set(expected)
        assert [info.key for info in listable.list_sorted("objects/0")] == expected

    def test_nothing_but_objects_is_listed_after_writes_of_all_kinds(
        self, listable: Storage, conditional: Storage
    ) -> None:
        conditional.put("put", b"data")
        version = conditional.create("created", b"data")
        conditional.replace("created", b"more", version)
        conditional.copy("created", "copied")

        assert _keys(listable) == {"put", "created", "copied"}


class PromisingContract(Promises):
    """Contract tests of the properties that declare guarantees."""

    def test_it_says_what_it_promises(self, storage: Storage) -> None:
        assert storage.is_read_only == self.is_read_only
        if not self.is_read_only:
            assert storage.can_create_safely == self.has_conditional_writes
            assert storage.can_replace_safely == self.has_conditional_writes

    def test_a_storage_that_only_reads_refuses_every_write_and_no_other_does(
        self, storage: Storage, writer: Storage
    ) -> None:
        writer.put("object", b"old")

        if self.is_read_only:
            for write in WRITES.values():
                with pytest.raises(ReadOnlyError):
                    write(storage, "object")
        else:
            storage.put("object", b"old")

        assert bytes(storage.get("object")) == b"old"


KEY = "folder/object"
_RACE_SECONDS = 300


class Race:
    """Threads that attempt the same operation in each round, and a record of the winners.

    Between two rounds, while all threads wait, one of them records the result of the round and
    prepares the next.
    """

    def __init__(self, storage: Storage, prepare: Callable[[], object]) -> None:
        self._storage = storage
        self._prepare = prepare
        self.winners: list[list[bytes]] = []
        self.left: list[bytes] = []

    def run(self, threads: int, rounds: int, attempt: Callable[[bytes], object]) -> None:
        """Let each thread attempt to write its own bytes once per round."""
        barrier = threading.Barrier(threads, self._begin_round, _RACE_SECONDS)

        def take_part(thread: int) -> None:
            try:
                for round in range(rounds):
                    barrier.wait()
                    data = f"round {round}, thread {thread}".encode()
                    try:
                        attempt(data)
                    except (ObjectExistsError, VersionMismatchError):
                        continue
                    self.winners[-1].append(data)
                barrier.wait()
            except BaseException:
                barrier.abort()
                raise

        with ThreadPoolExecutor(threads) as pool:
            runs = [pool.submit(take_part, thread) for thread in range(threads)]
        errors = [error for run in runs if (error := run.exception()) is not None]
        # Raise the original error rather than the broken barrier of other threads.
        for error in sorted(
            errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)
        ):
            raise error

    def _begin_round(self) -> None:
        if self.winners:
            self.left.append(bytes(self._storage.get(KEY)))
        self._prepare()
        self.winners.append([])

    def assert_one_winner_each_round(self) -> None:
        """Assert that exactly one thread succeeded per round, and that its bytes were stored."""
        assert not self.winners.pop()  # the round after the last
        assert [len(winners) for winners in self.winners] == [1] * len(self.left)
        assert [winners[0] for winners in self.winners] == self.left


class RacingContract(Promises):
    """Contract tests of concurrent threads."""

    def test_one_of_many_threads_creates(self, conditional: Storage) -> None:
        race = Race(conditional, lambda: conditional.delete_many([KEY]))

        race.run(self.race_threads, self.race_rounds, lambda data: conditional.create(KEY, data))

        race.assert_one_winner_each_round()

    def test_one_of_many_threads_replaces(self, conditional: Storage) -> None:
        versions = [conditional.create(KEY, b"at first")]
        race = Race(conditional, lambda: versions.append(conditional.get_versioned(KEY).version))

        race.run(
            self.race_threads,
            self.race_rounds,
            lambda data: conditional.replace(KEY, data, versions[-1]),
        )

        race.assert_one_winner_each_round()

    def test_no_replacement_of_threads_that_try_again_is_lost(self, conditional: Storage) -> None:
        conditional.create(KEY, b"")
        each = max(1, self.race_rounds // 40)

        def append(thread: int) -> None:
            for number in range(each):
                while True:
                    found = conditional.get_versioned(KEY)
                    line = f"{thread}.{number}\n".encode()
                    try:
                        conditional.replace(KEY, bytes(found.data) + line, found.version)
                        break
                    except VersionMismatchError:
                        continue

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(append, range(4)))

        lines = bytes(conditional.get(KEY)).decode().split()
        assert sorted(lines) == sorted(f"{t}.{number}" for t in range(4) for number in range(each))

    def test_readers_see_an_object_whole_while_it_is_written(self, writable: Storage) -> None:
        # Each version repeats one letter, and all lengths differ.
        versions = [bytes([65 + number]) * (1 + 30_000 * number) for number in range(8)]
        writable.put(KEY, versions[0])
        is_done = threading.Event()

        def read() -> set[bytes]:
            seen = set()
            while not is_done.is_set():
                seen.add(bytes(writable.get(KEY)))
                seen.add(bytes(writable.get_versioned(KEY).data))
            return seen

        with ThreadPoolExecutor(3) as pool:
            readers = [pool.submit(read) for _ in range(3)]
            try:
                for round in range(max(8, self.race_rounds // 10)):
                    writable.put(KEY, versions[round % len(versions)])
            finally:
                is_done.set()

        for reader in readers:
            assert reader.result() <= set(versions)


_PROCESS_SECONDS = 60

# Unpickles a storage and a key from stdin, and writes the object to stdout.
_READ_IN_ANOTHER_PROCESS = """
import pickle, sys
storage, key = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(bytes(storage.get(key)))
"""


def answer_of_fork(work: Callable[[], bytes]) -> bytes:
    """Return the result of a function in a forked process, or the class names and text of its error."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Newer Python versions warn about forking a process with threads, which is the tested case.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        # The forked process must never return into the tests.
        with contextlib.suppress(BaseException):
            os.write(writing, _answer(work))
        os._exit(0)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], _PROCESS_SECONDS)
        return os.read(reading, 1 << 16) if ready else b"it hangs"
    finally:
        os.close(reading)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _answer(work: Callable[[], bytes]) -> bytes:
    try:
        return work()
    except Exception as error:
        kinds = " ".join(kind.__name__ for kind in type(error).__mro__)
        return f"{kinds}: {error}".encode()


class TravellingContract(Promises):
    """Contract tests of pickling and forking, as Spark workers need them."""

    def test_a_pickled_storage_is_the_same_storage(self, storage: Storage, writer: Storage) -> None:
        writer.put("object", b"data")

        copy = pickle.loads(pickle.dumps(storage))
        writer.put("later", b"more")

        assert isinstance(copy, type(storage))
        assert bytes(copy.get("object")) == b"data"
        assert bytes(copy.get("later")) == b"more"
        assert copy.is_read_only == storage.is_read_only

    def test_a_pickled_storage_that_was_not_used_yet_is_the_same_storage(
        self, storage: Storage, writer: Storage
    ) -> None:
        copy = pickle.loads(pickle.dumps(storage))

        writer.put("object", b"data")

        assert bytes(copy.get("object", ByteRange(0, 2))) == b"da"

    def test_versions_are_the_same_for_a_pickled_storage(self, conditional: Storage) -> None:
        version = conditional.create("object", b"first")
        copy = pickle.loads(pickle.dumps(conditional))

        copy.replace("object", b"second", pickle.loads(pickle.dumps(version)))

        with pytest.raises(VersionMismatchError):
            conditional.replace("object", b"third", version)
        with pytest.raises(ObjectExistsError):
            copy.create("object", b"third")

    def test_another_process_reads_the_same_objects(self, shared: Storage, writer: Storage) -> None:
        writer.put("object", b"data")

        child = subprocess.run(
            [sys.executable, "-c", _READ_IN_ANOTHER_PROCESS],
            input=pickle.dumps((shared, "object")),
            stdout=subprocess.PIPE,
            timeout=_PROCESS_SECONDS,
            check=True,
        )

        assert child.stdout == b"data"

    def test_errors_travel_with_their_message(self, storage: Storage) -> None:
        with pytest.raises(ObjectNotFoundError) as caught:
            storage.get("missing")

        copy = pickle.loads(pickle.dumps(caught.value))

        assert isinstance(copy, ObjectNotFoundError)
        assert (str(copy), copy.kind) == (str(caught.value), caught.value.kind)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
    def test_a_forked_process_uses_the_storage_or_is_refused(
        self, storage: Storage, writer: Storage
    ) -> None:
        writer.put("object", b"data")
        storage.get("object")
        storage.get_many([("object", None), ("object", None)])

        answer = answer_of_fork(lambda: bytes(storage.get("object")))

        if self.survives_fork:
            assert answer == b"data"
        else:
            assert StorageError.__name__ in answer.decode()
            assert "fork" in answer.decode()
        assert bytes(storage.get("object")) == b"data"

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
    def test_a_storage_that_was_not_used_yet_can_be_used_in_a_forked_process(
        self, storage: Storage, writer: Storage
    ) -> None:
        writer.put("object", b"data")
        unused = pickle.loads(pickle.dumps(storage))

        answer = answer_of_fork(lambda: bytes(unused.get("object")))

        if self.survives_fork:
            assert answer == b"data"
        else:
            assert answer == b"data" or "fork" in answer.decode()

    def test_its_representation_reports_the_kind(self, storage: Storage) -> None:
        assert repr(storage).startswith("<frazil.Storage>\ntype: ")
        assert "\n" not in storage.place


class ReadOnlyStorageContract(
    PromisingContract, ReadingContract, ListingContract, TravellingContract
):
    """All contract tests of `frazil.storage.interface` for a read-only storage."""

    is_read_only = True


class StorageContract(
    PromisingContract,
    ReadingContract,
    WritingContract,
    ListingContract,
    RacingContract,
    TravellingContract,
):
    """All contract tests of `frazil.storage.interface`."""


__all__ = ["Promises", "ReadOnlyStorageContract", "StorageContract"]
