"""Requests fail and responses get lost: no wrong result, no double effect, and clear errors."""

import asyncio
import random
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from frazil.errors import (
    IncompleteResponseError,
    ObjectExistsError,
    StorageError,
    StorageTimeoutError,
    StorageUnreachableError,
    ThrottledError,
    VersionMismatchError,
)
from frazil.storage import (
    ByteRange,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
)
from frazil.storage.object_store import ObjectStorage
from frazil.testing.object_server import (
    CONFLICT,
    SLOW_DOWN,
    Delay,
    DoAndRefuse,
    DropConnection,
    Fault,
    LoseResponse,
    ObjectServer,
    Refuse,
    Rule,
    Truncate,
)
from tests.storage.object_stores import make_gcs, make_s3

MAKERS = {"s3": make_s3, "gcs": make_gcs}
WITHOUT_METADATA = StorageSettings(
    unsafe_use_metadata=False,
    retries=StorageRetriesSettings(initial_backoff_ms=1, max_backoff_ms=20),
)
THREE_TRIES = StorageSettings(
    retries=StorageRetriesSettings(max_tries=3, initial_backoff_ms=1, max_backoff_ms=2)
)


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as running:
        yield running


@pytest.fixture(params=MAKERS)
def storage(server: ObjectServer, request: pytest.FixtureRequest) -> ObjectStorage:
    return MAKERS[request.param](server.url)


def count_writes(server: ObjectServer, work: Callable[[], object]) -> int:
    """How many objects were really written meanwhile."""
    bucket = server.buckets["bucket"]
    before = bucket.count_writes()
    work()
    return bucket.count_writes() - before


LOST = [LoseResponse(), DoAndRefuse(500), DoAndRefuse(503, "SlowDown")]


@pytest.mark.parametrize("fault", LOST, ids=repr)
@pytest.mark.parametrize("times", [1, 2])
def test_a_creation_whose_answer_got_lost_has_happened_once(
    server: ObjectServer, storage: ObjectStorage, fault: Fault, times: int
) -> None:
    server.inject([Rule(fault, method="PUT", count=times)])

    writes = count_writes(server, lambda: storage.create("object", b"mine"))

    assert writes == 1
    assert bytes(storage.get("object")) == b"mine"
    with pytest.raises(ObjectExistsError):
        storage.create("object", b"mine")


@pytest.mark.parametrize("fault", LOST, ids=repr)
def test_a_replacement_whose_answer_got_lost_has_happened_once(
    server: ObjectServer, storage: ObjectStorage, fault: Fault
) -> None:
    first = storage.create("object", b"first")
    server.inject([Rule(fault, method="PUT", count=1)])

    second = storage.replace("object", b"second", first)

    assert bytes(storage.get("object")) == b"second"
    assert storage.get_versioned("object").version == second
    storage.replace("object", b"third", second)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_lost_response_is_resolved_by_the_bytes_where_there_is_no_metadata(
    server: ObjectServer, make: Callable[..., ObjectStorage]
) -> None:
    storage = make(server.url, settings=WITHOUT_METADATA)
    server.inject([Rule(LoseResponse(), method="PUT", count=1)])
    first = storage.create("object", b"first")
    server.inject([Rule(LoseResponse(), method="PUT", count=1)])
    storage.replace("object", b"second", first)

    assert bytes(storage.get("object")) == b"second"
    assert not any("icechunkwriteid" in str(request.headers) for request in server.requests)


def test_a_creation_that_failed_twice_and_then_finds_another_s_object_has_lost(
    server: ObjectServer, storage: ObjectStorage
) -> None:
    other = make_s3(server.url)
    other.create("object", b"other")
    server.inject([Rule(DropConnection(), method="PUT", count=2)])

    with pytest.raises(ObjectExistsError, match="object"):
        storage.create("object", b"mine")
    assert bytes(storage.get("object")) == b"other"


def test_a_conflict_where_nothing_is_does_not_mean_that_something_is(
    server: ObjectServer, storage: ObjectStorage
) -> None:
    server.inject([Rule(CONFLICT, method="PUT", count=2)])

    version = storage.create("object", b"first")
    server.inject([Rule(CONFLICT, method="PUT", count=2)])
    storage.replace("object", b"second", version)

    assert bytes(storage.get("object")) == b"second"


def test_a_conflict_where_another_s_object_is_means_that_it_is_there(
    server: ObjectServer, storage: ObjectStorage
) -> None:
    stale = storage.create("object", b"first")
    storage.put("object", b"second")
    server.inject([Rule(CONFLICT, method="PUT", count=1)])

    with pytest.raises(ObjectExistsError):
        storage.create("object", b"third")
    server.inject([Rule(CONFLICT, method="PUT", count=1)])
    with pytest.raises(VersionMismatchError):
        storage.replace("object", b"third", stale)


@pytest.mark.parametrize("verb", ["create", "replace"])
def test_a_condition_that_does_not_hold_costs_no_second_write(
    server: ObjectServer, storage: ObjectStorage, verb: str
) -> None:
    stale = storage.create("object", b"first")
    storage.replace("object", b"second", stale)
    server.requests.clear()

    with pytest.raises(StorageError):
        storage.create("object", b"x") if verb == "create" else storage.replace(
            "object", b"x", stale
        )

    assert [request.method for request in server.requests] == ["PUT"]


def test_a_conditional_write_that_never_gets_through_says_how_often_it_was_tried(
    server: ObjectServer,
) -> None:
    storage = make_s3(server.url, settings=THREE_TRIES)
    version = storage.create("object", b"first")
    server.inject([Rule(SLOW_DOWN, method="PUT")])

    with pytest.raises(ThrottledError, match=r"'new' after 3 tries.*503"):
        storage.create("new", b"x")
    with pytest.raises(ThrottledError, match=r"'object' after 3 tries.*503"):
        storage.replace("object", b"x", version)


VERBS: dict[str, Callable[[ObjectStorage], object]] = {
    "get": lambda storage: storage.get("object"),
    "get of a range": lambda storage: storage.get("object", ByteRange(0, 1)),
    "get_async": lambda storage: asyncio.run(_collect(storage)),
    "get_versioned": lambda storage: storage.get_versioned("object"),
    "head": lambda storage: storage.head("object"),
    "put": lambda storage: storage.put("object", b"new"),
    "copy": lambda storage: storage.copy("object", "copy"),
    "list": lambda storage: list(storage.list("obj")),
}


async def _collect(storage: ObjectStorage) -> bytes:
    return bytes(await storage.get_async("object"))


@pytest.mark.parametrize("fault", [DropConnection(), Refuse(500), SLOW_DOWN], ids=repr)
@pytest.mark.parametrize("verb", VERBS)
def test_a_failure_that_passes_is_not_noticed_and_one_that_stays_is_reported(
    server: ObjectServer, fault: Fault, verb: str
) -> None:
    storage = make_s3(server.url, settings=THREE_TRIES)
    storage.put("object", b"data")
    server.inject([Rule(fault, count=2)])
    VERBS[verb](storage)

    server.inject([Rule(fault)])
    expected = StorageUnreachableError if isinstance(fault, DropConnection) else ThrottledError
    with pytest.raises(expected, match=r"'(obj|object|)' after 3 tries"):
        VERBS[verb](storage)


@pytest.mark.parametrize("verb", ["get", "get of a range", "get_async", "get_versioned", "list"])
def test_a_body_that_stays_cut_is_an_incomplete_response(server: ObjectServer, verb: str) -> None:
    storage = make_s3(server.url, settings=THREE_TRIES)
    storage.put("object", b"data")
    server.inject([Rule(Truncate(0), method="GET")])

    with pytest.raises(IncompleteResponseError, match="the response ended too early") as raised:
        VERBS[verb](storage)

    assert raised.value.kind == "io"


@pytest.mark.parametrize("verb", VERBS)
def test_a_refused_connection_is_reported_as_one(verb: str) -> None:
    with socket.socket() as reserved:
        # Bound and not listening: the port belongs to nobody else, and refuses.
        reserved.bind(("127.0.0.1", 0))
        storage = make_s3(f"http://127.0.0.1:{reserved.getsockname()[1]}", settings=THREE_TRIES)

        with pytest.raises(
            StorageUnreachableError, match="the storage can't be reached, connection refused"
        ) as raised:
            VERBS[verb](storage)

    assert raised.value.kind == "object-store"


def test_an_unknown_host_is_reported_as_one() -> None:
    storage = make_s3("http://nowhere.invalid:9", settings=THREE_TRIES)

    with pytest.raises(StorageUnreachableError, match="can't be reached, unknown host name"):
        storage.get("object")


def test_a_body_that_was_cut_is_read_again(server: ObjectServer, storage: ObjectStorage) -> None:
    data = random.Random(1).randbytes(200_000)
    storage.put("object", data)
    for fault in (Truncate(0), Truncate(100_000)):
        server.inject([Rule(fault, method="GET", count=1)])
        assert bytes(storage.get("object")) == data
        server.inject([Rule(fault, method="GET", count=1)])
        assert bytes(storage.get("object", ByteRange(10, 199_990))) == data[10:199_990]
        server.inject([Rule(fault, method="GET", count=1)])
        assert bytes(storage.get_versioned("object").data) == data


def test_keys_that_can_not_be_deleted_are_reported_with_the_reason(
    server: ObjectServer,
) -> None:
    storage = make_s3(server.url, settings=THREE_TRIES)
    for key in ("a", "b", "c"):
        storage.put(key, b"")
    server.inject(
        [
            Rule(Refuse(403, "AccessDenied"), key="*/b"),
            Rule(Refuse(400, "Malformed"), method="POST"),
        ]
    )

    report = storage.delete_many(["a", "b", "c", "missing"])

    assert report.deleted == 3
    assert list(report.failed) == ["b"]
    assert "403" in report.failed["b"]


def test_a_silent_server_is_waited_for_so_long_and_no_longer(server: ObjectServer) -> None:
    settings = StorageSettings(
        retries=StorageRetriesSettings(max_tries=1),
        timeouts=StorageTimeoutSettings(read_timeout_ms=100),
    )
    storage = make_s3(server.url, settings=settings)
    storage.put("object", b"data")
    server.inject([Rule(Delay(0.5), count=1)])

    with pytest.raises(StorageTimeoutError, match="object"):
        storage.get("object")


def test_a_write_has_time_for_its_bytes_whatever_the_silence_allowed(server: ObjectServer) -> None:
    settings = StorageSettings(
        retries=StorageRetriesSettings(max_tries=1),
        timeouts=StorageTimeoutSettings(read_timeout_ms=100),
    )
    storage = make_s3(server.url, settings=settings)
    server.inject([Rule(Delay(0.5), method="PUT")])

    storage.put("object", b"data")
    storage.create("another", b"data")

    assert server.buckets["bucket"].count_writes() == 2


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_with_a_fifth_of_all_requests_failing_everything_is_as_it_should_be(
    make: Callable[..., ObjectStorage],
) -> None:
    faults = (DropConnection(), Refuse(500), SLOW_DOWN, LoseResponse(), DoAndRefuse(500))
    with ObjectServer() as server:
        storage = make(server.url)
        server.inject([Rule(fault, probability=0.044) for fault in faults], seed=7)

        def work(number: int) -> bytes:
            key = f"objects/{number}"
            data = random.Random(number).randbytes(1000 + number)
            storage.put(key, data)
            version = storage.create(f"refs/{number}", b"0")
            for step in range(1, 4):
                version = storage.replace(f"refs/{number}", str(step).encode(), version)
            storage.copy(f"refs/{number}", f"copies/{number}", version)
            with pytest.raises(ObjectExistsError):
                storage.create(f"refs/{number}", b"again")
            assert bytes(storage.get(key)) == data
            assert bytes(storage.get(key, ByteRange(10, 20))) == data[10:20]
            return bytes(storage.get(f"copies/{number}"))

        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(work, range(60)))
        listed = [info.key for info in storage.list_sorted("objects/")]
        report = storage.delete_many(f"objects/{number}" for number in range(60))

        failed = len(server.requests)
        server.inject([])
        assert results == [b"3"] * 60
        assert listed == sorted(f"objects/{number}" for number in range(60))
        assert (report.deleted, dict(report.failed)) == (60, {})
        assert list(storage.list("objects/")) == []
        assert failed > 60 * 10


def test_threads_that_append_lose_nothing_while_answers_get_lost() -> None:
    with ObjectServer() as server:
        storage = make_s3(server.url)
        storage.create("log", b"")
        server.inject(
            [Rule(LoseResponse(), probability=0.1), Rule(DoAndRefuse(500), probability=0.1)], seed=3
        )

        def append(thread: int) -> None:
            for number in range(15):
                while True:
                    found = storage.get_versioned("log")
                    line = f"{thread}.{number}\n".encode()
                    try:
                        storage.replace("log", bytes(found.data) + line, found.version)
                        break
                    except VersionMismatchError:
                        continue

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(append, range(4)))

        server.inject([])
        lines = bytes(storage.get("log")).decode().split()
        # A write that happened, lost its answer and was written over before it was looked for
        # counts as lost and is done again: never fewer, and no line is torn.
        assert {*lines} == {f"{thread}.{number}" for thread in range(4) for number in range(15)}
