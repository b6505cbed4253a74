"""Stores that promise less than they should: understood where that is possible, refused otherwise."""

from collections.abc import Iterator

import pytest

from frazil.errors import (
    PermissionDeniedError,
    StorageError,
    UnsafeStorageError,
    VersionMismatchError,
)
from frazil.storage import StorageSettings, probe_conditional_writes
from frazil.storage.object_store import ObjectStorage
from frazil.testing.object_server import Conditions, ObjectServer, ServerOptions
from tests.storage.object_stores import make_gcs, make_s3

MAKERS = {"s3": make_s3, "gcs": make_gcs}


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as running:
        yield running


@pytest.fixture(params=MAKERS)
def storage(server: ObjectServer, request: pytest.FixtureRequest) -> ObjectStorage:
    return MAKERS[request.param](server.url)


def test_a_store_that_compares_etags_without_quotes_is_understood() -> None:
    with ObjectServer(ServerOptions(conditions=Conditions.LITERAL)) as server:
        storage = make_s3(server.url)
        first = storage.create("object", b"first")

        second = storage.replace("object", b"second", first)
        server.requests.clear()
        third = storage.replace("object", b"third", second)

        assert len(server.requests) == 1
        with pytest.raises(VersionMismatchError):
            storage.replace("object", b"fourth", second)
        assert storage.get_versioned("object").version == third


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        (Conditions.IGNORED, "it ignores the conditions of writes"),
        (Conditions.NOT_IMPLEMENTED, "501"),
    ],
)
def test_a_store_without_conditional_writes_is_recognised(
    conditions: Conditions, reason: str
) -> None:
    with ObjectServer(ServerOptions(conditions=conditions)) as server:
        with pytest.raises(UnsafeStorageError, match=reason):
            probe_conditional_writes(make_s3(server.url))

        assert server.buckets["bucket"].keys() == []


def test_a_storage_that_is_set_to_write_unconditionally_does_and_is_recognised(
    server: ObjectServer,
) -> None:
    creating = make_s3(server.url, settings=StorageSettings(unsafe_use_conditional_create=False))
    replacing = make_s3(server.url, settings=StorageSettings(unsafe_use_conditional_update=False))
    stale = creating.create("object", b"first")

    creating.create("object", b"second")
    assert bytes(creating.get("object")) == b"second"
    replacing.replace("object", b"third", stale)
    assert bytes(creating.get("object")) == b"third"

    assert not creating.can_create_safely
    assert not replacing.can_replace_safely
    for storage in (creating, replacing):
        with pytest.raises(UnsafeStorageError, match="set not to use conditional writes"):
            probe_conditional_writes(storage)


def test_a_store_that_keeps_its_word_passes_and_nothing_is_left(
    server: ObjectServer, storage: ObjectStorage
) -> None:
    probe_conditional_writes(storage)

    assert server.buckets["bucket"].keys() == []


def test_a_key_that_is_not_known_is_refused() -> None:
    with ObjectServer(ServerOptions(access_keys=frozenset({"known"}))) as server:
        make_s3(server.url, key="known").put("object", b"data")
        stranger = make_s3(server.url, key="stranger")

        for work in (stranger.get, stranger.head, lambda key: stranger.create(key, b"x")):
            with pytest.raises(PermissionDeniedError, match="object"):
                work("object")


def test_a_missing_bucket_is_no_missing_object(server: ObjectServer) -> None:
    storage = make_s3(server.url, bucket="elsewhere")

    for work in (
        storage.get,
        lambda key: storage.put(key, b""),
        lambda key: list(storage.list(key)),
    ):
        with pytest.raises(StorageError, match="NoSuchBucket"):
            work("object")
