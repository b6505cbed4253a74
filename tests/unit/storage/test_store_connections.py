"""Which connection a store's configuration and a credential mean."""

import pytest

from frazil.credentials import (
    AzureCredentials,
    Credentials,
    GcsCredentials,
    HttpAccess,
    S3Credentials,
    azure_credentials,
    s3_anonymous_credentials,
)
from frazil.errors import StorageError
from frazil.storage import (
    ObjectStoreConfig,
    S3Options,
    azure_store,
    gcs_store,
    http_store,
    s3_store,
)
from frazil.storage.client import ClientPlan
from frazil.storage.connections import AzureConnection, GcsConnection, HttpConnection, S3Connection
from frazil.storage.store_connections import connect_bucket, connect_server

AZURE_KEY = Credentials.Azure(azure_credentials(access_key="c2VjcmV0"))


def test_azure_is_reached_by_its_account_and_container() -> None:
    store = azure_store(account="account", config={"endpoint": "http://127.0.0.1:1/account"})

    connection = connect_bucket(store, "container", AZURE_KEY)

    assert isinstance(connection, AzureConnection)
    assert (connection.account, connection.container) == ("account", "container")
    assert connection.config == {"endpoint": "http://127.0.0.1:1/account", "allow_http": "true"}
    connection.open(ClientPlan({}, {}))


def test_azure_needs_an_account() -> None:
    with pytest.raises(StorageError, match="names no account"):
        connect_bucket(ObjectStoreConfig.Azure({}), "container", AZURE_KEY)


def test_a_given_credential_counts_more_than_an_anonymous_configuration() -> None:
    store = s3_store(anonymous=True)
    given = Credentials.S3(s3_anonymous_credentials())

    without = connect_bucket(store, "bucket", None)
    with_one = connect_bucket(store, "bucket", given)

    assert isinstance(without, S3Connection)
    assert isinstance(with_one, S3Connection)
    assert (without.options.anonymous, without.credentials) == (True, S3Credentials.FromEnv())
    assert (with_one.options.anonymous, with_one.credentials) == (False, S3Credentials.Anonymous())


def test_google_is_asked_anonymously_without_a_credential() -> None:
    connection = connect_bucket(gcs_store(), "bucket", None)

    assert isinstance(connection, GcsConnection)
    assert connection.credentials == GcsCredentials.Anonymous()


def test_tigris_has_an_endpoint_of_its_own() -> None:
    connection = connect_bucket(ObjectStoreConfig.Tigris(S3Options(region="iad")), "bucket", None)

    assert isinstance(connection, S3Connection)
    assert connection.options.endpoint_url == "https://t3.storage.dev"


def test_web_servers_get_their_headers() -> None:
    store = http_store(headers={"x-token": "value"})

    connection = connect_server(store, "https://example.org", HttpAccess)

    assert isinstance(connection, HttpConnection)
    assert connection.headers.read == {"x-token": "value"}


def test_a_credential_of_another_store_is_refused() -> None:
    azure = Credentials.Azure(AzureCredentials.FromEnv())

    with pytest.raises(StorageError, match=r"Credentials\.Azure does not .* ObjectStoreConfig\.S3"):
        connect_bucket(s3_store(), "bucket", azure)
    with pytest.raises(StorageError, match="no credential does not"):
        connect_bucket(azure_store(account="account"), "container", None)
    with pytest.raises(StorageError, match=r"Credentials\.Azure does not"):
        connect_server(http_store(), "https://example.org", azure)
