"""The storage that a URL means, without asking it anything."""

from pathlib import Path

import pytest

from frazil.credentials import AzureCredentials, GcsCredentials, S3Credentials
from frazil.errors import InvalidInputError
from frazil.storage import LocalStorage, MemoryStorage, ObjectStorage, storage_from_url
from frazil.storage.connections import (
    AzureConnection,
    Connection,
    GcsConnection,
    HttpConnection,
    S3Connection,
)


def connection_of(url: str, **options: object) -> Connection:
    storage = storage_from_url(url, **options)
    assert isinstance(storage, ObjectStorage)
    return storage._connection


def test_a_bucket_of_s3_is_asked_as_the_environment_says() -> None:
    found = connection_of(
        "s3://bucket/a/b@v1?region=r&endpoint_url=http://127.0.0.1:1&allow_http&force_path_style"
    )

    assert isinstance(found, S3Connection)
    assert (found.bucket, found.prefix) == ("bucket", "a/b")
    assert found.options.region == "r"
    assert found.options.endpoint_url == "http://127.0.0.1:1"
    assert found.options.allow_http
    assert found.options.force_path_style
    assert not found.options.requester_pays
    assert isinstance(found.credentials, S3Credentials.FromEnv)


def test_options_of_the_call_win_and_may_be_credentials() -> None:
    found = connection_of(
        "s3://bucket?region=r", region="q", access_key_id="key", secret_access_key="secret"
    )

    assert isinstance(found, S3Connection)
    assert found.options.region == "q"
    assert isinstance(found.credentials, S3Credentials.Static)


def test_a_bucket_can_be_asked_anonymously() -> None:
    found = connection_of("s3://bucket?anonymous")

    assert isinstance(found, S3Connection)
    assert isinstance(found.credentials, S3Credentials.Anonymous)


def test_a_bucket_of_google() -> None:
    found = connection_of("gs://bucket/a?anonymous=false&endpoint_url=http://x&allow_http=true")

    assert isinstance(found, GcsConnection)
    assert (found.bucket, found.prefix) == ("bucket", "a")
    assert found.config == {"base_url": "http://x", "allow_http": "true"}
    assert isinstance(found.credentials, GcsCredentials.FromEnv)


def test_a_container_of_azure_belongs_to_an_account() -> None:
    found = connection_of("az://container/a?account=name&endpoint_url=http://x")

    assert isinstance(found, AzureConnection)
    assert (found.account, found.container, found.prefix) == ("name", "container", "a")
    assert found.config == {"endpoint": "http://x"}
    assert isinstance(found.credentials, AzureCredentials.FromEnv)
    with pytest.raises(InvalidInputError, match=r"az://container/a\?account=name"):
        storage_from_url("az://container/a")


def test_a_web_server() -> None:
    found = connection_of("https://server:8000/a%20b@v1")

    assert isinstance(found, HttpConnection)
    assert found.base_url == "https://server:8000/a%20b"


def test_a_folder_by_path_and_by_url(tmp_path: Path) -> None:
    storages = [
        storage_from_url(place)
        for place in (str(tmp_path), tmp_path, f"file://{tmp_path}", f"icechunk://{tmp_path}@v1")
    ]

    storages[0].put("object", b"data")

    assert all(isinstance(each, LocalStorage) for each in storages)
    assert all(bytes(each.get("object")) == b"data" for each in storages)


def test_a_name_in_memory_is_one_storage() -> None:
    first = storage_from_url("memory://test_from_url/a")

    assert isinstance(first, MemoryStorage)
    assert storage_from_url("memory://test_from_url/a@v1") is first
    assert storage_from_url("memory://test_from_url/b") is not first
    assert storage_from_url("memory://test_from_url") is not first


def test_options_that_a_storage_does_not_take_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"options of s3.*regoin"):
        storage_from_url("s3://bucket", regoin="r")
    with pytest.raises(InvalidInputError, match="no options, such as 'region'"):
        storage_from_url("memory://test_from_url", region="r")
