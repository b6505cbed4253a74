"""The wrappers keep the contract of what they wrap, and do what they are for."""

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path

import pytest

from frazil.errors import (
    InvalidInputError,
    ObjectExistsError,
    ObjectNotFoundError,
    ReadOnlyError,
    StorageTimeoutError,
    ThrottledError,
)
from frazil.storage import s3_storage
from frazil.storage.interface import (
    MEMORY_DEFAULTS,
    NO_OPTIONS,
    ByteRange,
    Storage,
    StorageSettings,
)
from frazil.storage.local import Durability, LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.wrappers import (
    CountingStorage,
    Fault,
    FaultyStorage,
    LatencyStorage,
    PrefixedStorage,
    RandomFaults,
    ReadOnlyStorage,
    ScriptedFaults,
    Verb,
)
from frazil.testing.storage_contract import ReadOnlyStorageContract, StorageContract


class InMemory(StorageContract):
    """What the wrappers below share: they wrap a memory, which others race for already."""

    is_shared_between_processes = False
    race_rounds = 100


class TestCountingStorage(InMemory):
    @pytest.fixture
    def storage(self) -> Storage:
        return CountingStorage(MemoryStorage())


class TestLatencyStorage(InMemory):
    @pytest.fixture
    def storage(self) -> Storage:
        return LatencyStorage(MemoryStorage())


class TestFaultyStorageWithoutFaults(InMemory):
    @pytest.fixture
    def storage(self) -> Storage:
        return FaultyStorage(MemoryStorage(), ScriptedFaults({}))


class TestPrefixedStorage(InMemory):
    @pytest.fixture
    def storage(self) -> Storage:
        inner = MemoryStorage()
        for key in ("folder", "folder-2/object", "fold", "another/object"):
            inner.put(key, b"not in the folder")
        return PrefixedStorage(inner, "folder")


class TestReadOnlyStorage(ReadOnlyStorageContract):
    @pytest.fixture
    def writer(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path, durability=Durability.NONE)

    @pytest.fixture
    def storage(self, writer: Storage) -> Storage:
        return ReadOnlyStorage(writer)


class TestWrappersOverWrappers(StorageContract):
    race_rounds = 100

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        local = LocalStorage(tmp_path, durability=Durability.NONE)
        return CountingStorage(PrefixedStorage(PrefixedStorage(local, "outer/folder"), "inner"))


# Counting


def test_requests_and_bytes_are_counted_by_verb() -> None:
    storage = CountingStorage(MemoryStorage())

    storage.put("a", b"12345")
    version = storage.create("b", b"123")
    storage.replace("b", b"1234", version)
    storage.get("a")
    storage.get("a", ByteRange(0, 2))
    storage.get_many([("a", None), ("b", None)])
    storage.get_ranges("a", [ByteRange(0, 1), ByteRange(1, 3)])
    storage.get_versioned("b")
    storage.head("a")
    list(storage.list())
    storage.copy("a", "c")
    storage.delete_many(["a", "b", "c"])

    counts = storage.counts
    assert counts.requests == {
        Verb.PUT: 1, Verb.CREATE: 1, Verb.REPLACE: 1, Verb.GET: 2, Verb.GET_MANY: 2,
        Verb.GET_RANGES: 1, Verb.GET_VERSIONED: 1, Verb.HEAD: 1, Verb.LIST: 1, Verb.COPY: 1,
        Verb.DELETE_MANY: 1,
    }  # fmt: skip
    assert counts.bytes_written == 5 + 3 + 4
    assert counts.bytes_read == 5 + 2 + (5 + 4) + 3 + 4
    assert counts.total == 13


def test_asynchronous_requests_are_counted_as_others_are() -> None:
    storage = CountingStorage(MemoryStorage())

    asyncio.run(storage.put_async("a", b"12345"))
    asyncio.run(storage.get_async("a"))

    assert storage.counts.requests == {Verb.PUT: 1, Verb.GET: 1}
    assert (storage.counts.bytes_written, storage.counts.bytes_read) == (5, 5)


def test_requests_that_fail_are_counted() -> None:
    storage = CountingStorage(MemoryStorage())

    with pytest.raises(ObjectNotFoundError):
        storage.get("missing")

    assert storage.counts.requests == {Verb.GET: 1}
    assert storage.counts.bytes_read == 0


def test_counts_stay_as_they_were_taken() -> None:
    storage = CountingStorage(MemoryStorage())
    storage.put("a", b"1")
    before = storage.counts

    storage.put("a", b"1")

    assert before.requests == {Verb.PUT: 1}
    assert storage.counts.requests == {Verb.PUT: 2}


def test_counting_starts_again_when_it_is_asked_to() -> None:
    storage = CountingStorage(MemoryStorage())
    storage.put("a", b"1")

    storage.reset()

    assert (storage.counts.total, storage.counts.bytes_written) == (0, 0)


def test_no_request_of_many_threads_is_missed() -> None:
    storage = CountingStorage(MemoryStorage())
    storage.put("a", b"12")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: storage.get("a"), range(4_000)))

    assert storage.counts.requests[Verb.GET] == 4_000
    assert storage.counts.bytes_read == 8_000


# Latency


def test_reads_and_writes_wait_for_their_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    storage = LatencyStorage(MemoryStorage(), read_latency_ms=1500, write_latency_ms=2500)

    storage.put("a", b"data")
    storage.get("a")
    storage.flush()
    list(storage.list())
    storage.delete_many(["a"])

    assert waited == [2.5, 1.5, 1.5, 2.5]


def test_latency_can_be_changed_also_where_other_settings_are_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    storage = LatencyStorage(MemoryStorage())
    in_use = copy(storage)

    storage.write_latency_ms = 50
    storage.read_latency_ms = 20
    in_use.put("a", b"data")
    in_use.get("a")

    assert waited == [0.05, 0.02]


def test_an_event_loop_goes_on_while_a_request_waits() -> None:
    storage = LatencyStorage(MemoryStorage(), read_latency_ms=10)
    storage.put("a", b"data")

    async def race() -> list[str]:
        finished = []

        async def read() -> None:
            await storage.get_async("a")
            finished.append("read")

        async def other() -> None:
            finished.append("other")

        await asyncio.gather(read(), other())
        return finished

    assert asyncio.run(race()) == ["other", "read"]


# Faults


def test_a_refused_write_is_not_done() -> None:
    inner = MemoryStorage()
    storage = FaultyStorage(inner, ScriptedFaults({(Verb.PUT, 1): Fault.REFUSE}))

    storage.put("a", b"data")
    with pytest.raises(ThrottledError, match="put of 'b'"):
        storage.put("b", b"data")
    storage.put("c", b"data")

    assert [info.key for info in inner.list_sorted()] == ["a", "c"]


def test_a_write_whose_answer_is_lost_is_done() -> None:
    storage = FaultyStorage(MemoryStorage(), ScriptedFaults({(Verb.CREATE, 0): Fault.LOSE_ANSWER}))

    with pytest.raises(StorageTimeoutError, match="answer to create of 'a'"):
        storage.create("a", b"data")

    with pytest.raises(ObjectExistsError):
        storage.create("a", b"data")
    assert bytes(storage.get("a")) == b"data"


def test_a_truncated_read_gives_half_of_the_bytes() -> None:
    verbs = (Verb.GET, Verb.GET_MANY, Verb.GET_RANGES, Verb.GET_VERSIONED)
    storage = FaultyStorage(
        MemoryStorage(), ScriptedFaults({(verb, 0): Fault.TRUNCATE for verb in verbs})
    )
    storage.put("a", b"0123456789")

    assert bytes(storage.get("a")) == b"01234"
    assert bytes(storage.get_versioned("a").data) == b"01234"
    assert [bytes(data) for data in storage.get_many([("a", None)] * 2)] == [
        b"0123456789",
        b"01234",
    ]
    assert [bytes(data) for data in storage.get_ranges("a", [ByteRange(0, 4)])] == [b"01"]
    assert bytes(storage.get("a")) == b"0123456789"


def test_a_delayed_request_is_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    plan = ScriptedFaults({(Verb.GET, 0): Fault.DELAY})
    storage = FaultyStorage(MemoryStorage(), plan, delay_seconds=7)
    storage.put("a", b"data")

    assert bytes(storage.get("a")) == b"data"
    assert waited == [7]


def test_asynchronous_requests_have_the_same_faults() -> None:
    plan = ScriptedFaults({(Verb.PUT, 0): Fault.LOSE_ANSWER, (Verb.GET, 0): Fault.TRUNCATE})
    storage = FaultyStorage(MemoryStorage(), plan)

    with pytest.raises(StorageTimeoutError):
        asyncio.run(storage.put_async("a", b"data"))
    assert bytes(asyncio.run(storage.get_async("a"))) == b"da"


def _refused(storage: Storage) -> list[bool]:
    refused = []
    for _ in range(300):
        try:
            storage.put("a", b"data")
        except ThrottledError:
            refused.append(True)
        else:
            refused.append(False)
    return refused


def test_a_seed_chooses_the_same_faults_every_time() -> None:
    plan = RandomFaults(seed=1, rates={Fault.REFUSE: 0.2})

    first = _refused(FaultyStorage(MemoryStorage(), plan))
    second = _refused(FaultyStorage(MemoryStorage(), plan))
    other = _refused(FaultyStorage(MemoryStorage(), RandomFaults(seed=2, rates=plan.rates)))

    assert first == second != other
    assert 30 < sum(first) < 90


def test_a_pickled_storage_keeps_its_plan() -> None:
    storage = FaultyStorage(MemoryStorage(), ScriptedFaults({(Verb.PUT, 0): Fault.REFUSE}))

    copy = pickle.loads(pickle.dumps(storage))

    with pytest.raises(ThrottledError):
        copy.put("a", b"data")


# Reading only, and in a folder


def test_a_refused_write_names_verb_and_key() -> None:
    storage = ReadOnlyStorage(MemoryStorage())

    with pytest.raises(ReadOnlyError, match="delete_many of 'a', 'b': this storage is read only"):
        storage.delete_many(["a", "b"])


def test_a_storage_that_only_reads_can_be_flushed() -> None:
    ReadOnlyStorage(MemoryStorage()).flush()


def test_objects_of_a_folder_are_written_below_it() -> None:
    inner = MemoryStorage()
    storage = PrefixedStorage(inner, "a/folder")

    storage.put("object", b"data")
    storage.copy("object", "nested/copy")

    assert [info.key for info in inner.list_sorted()] == ["a/folder/nested/copy", "a/folder/object"]
    assert storage.head("object").key == "object"


@pytest.mark.parametrize("folder", ["", "/", "a/", "/a", ".."])
def test_a_folder_is_named_like_an_object(folder: str) -> None:
    with pytest.raises(InvalidInputError):
        PrefixedStorage(MemoryStorage(), folder)


def test_settings_pass_through_a_wrapper_to_the_storage_that_uses_them() -> None:
    inner = s3_storage(bucket="bucket", prefix="prefix", anonymous=True)
    storage = CountingStorage(inner)

    changed = storage.with_settings(StorageSettings(unsafe_use_conditional_update=False))

    assert storage.can_replace_safely
    assert not changed.can_replace_safely
    assert isinstance(changed, CountingStorage)
    assert CountingStorage(MemoryStorage()).default_settings() == MEMORY_DEFAULTS


def test_objects_that_are_written_together_count_and_fail_one_by_one() -> None:
    counting = CountingStorage(MemoryStorage())
    faulty = FaultyStorage(counting, ScriptedFaults({(Verb.PUT, 1): Fault.LOSE_ANSWER}))

    with pytest.raises(StorageTimeoutError, match="second"):
        faulty.put_many([(key, b"data", NO_OPTIONS) for key in ("first", "second", "third")])

    assert counting.counts.requests == {Verb.PUT: 3}
    assert counting.counts.bytes_written == 12


def test_a_wrapper_passes_the_user_agent_on() -> None:
    inner = s3_storage(bucket="bucket", prefix="p", region="us-east-1", anonymous=True)

    wrapped = LatencyStorage(inner, read_latency_ms=5).with_user_agent("my-program/1")

    assert isinstance(wrapped, LatencyStorage)
    assert wrapped.read_latency_ms == 5
    assert "my-program/1" in pickle.dumps(wrapped._inner).decode(errors="replace")
    assert MemoryStorage().with_user_agent("my-program/1").is_local
