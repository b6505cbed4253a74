"""Which connection a store's configuration and a credential mean."""

import pytest

from frazil.credentials import (
    AnyCredential,
    AzureCredentials,
    Credentials,
    GcsCredentials,
    HttpAccess,
    S3Credentials,
    azure_credentials,
    s3_anonymous_credentials,
)
from frazil.errors import InvalidInputError, StorageError
from frazil.storage import (
    AnyObjectStoreConfig,
    ObjectStoreConfig,
    S3Options,
    azure_store,
    gcs_store,
    http_store,
    s3_store,
)
from frazil.storage.connections import (
    AzureConnection,
    ClientPlan,
    GcsConnection,
    HttpConnection,
    S3Connection,
)
from frazil.storage.source_objects import connect_bucket, connect_server

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


ELSEWHERE = [
    "x@127.0.0.1:9/",
    "x/../y",
    "127.0.0.1:9/?",
    "a#b",
    "a b/",
    "a\\b",
    "a%2fb",
    "",
    "x\n",
    "é",
]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_no_name_of_a_configuration_leads_elsewhere(name: str) -> None:
    anonymous = S3Options(region=name, anonymous=True)
    attempts: list[tuple[AnyObjectStoreConfig, str, AnyCredential | None]] = [
        (ObjectStoreConfig.S3(anonymous), "bucket", None),
        (ObjectStoreConfig.S3Compatible(anonymous), "bucket", None),
        (ObjectStoreConfig.S3(S3Options(region="us-east-1")), name, None),
        (ObjectStoreConfig.S3(S3Options(endpoint_url="https://h")), name, None),
        (
            ObjectStoreConfig.S3(S3Options(endpoint_url="https://h", force_path_style=True)),
            name,
            None,
        ),
        (ObjectStoreConfig.Gcs(), name, None),
        (ObjectStoreConfig.Gcs({"google_bucket": name}), "bucket", None),
        (ObjectStoreConfig.Azure({"account": name}), "container", AZURE_KEY),
        (ObjectStoreConfig.Azure({"ACCOUNT_NAME": name}), "container", AZURE_KEY),
        (ObjectStoreConfig.Azure({"account": "name"}), name, AZURE_KEY),
        (ObjectStoreConfig.Azure({"account": "name", "tenant_id": name}), "container", AZURE_KEY),
    ]
    for config, bucket, credential in attempts:
        with pytest.raises(InvalidInputError, match=r"^invalid ") as refusal:
            connect_bucket(config, bucket, credential)
        assert refusal.value.kind == "storage-config"
        assert repr(name) in str(refusal.value)


@pytest.mark.parametrize(
    "address",
    [
        "https://user@host",
        "https://user:password@host/",
        "https://host?a=b",
        "https://host#b",
        "file:///etc",
        "host",
        "https://",
        "https://ho st",
        "https://host\r\nX: y",
        "https://host\\@elsewhere",
    ],
)
def test_an_endpoint_is_the_plain_address_of_a_server(address: str) -> None:
    attempts: list[tuple[AnyObjectStoreConfig, AnyCredential | None]] = [
        (ObjectStoreConfig.S3Compatible(S3Options(endpoint_url=address)), None),
        (ObjectStoreConfig.Tigris(S3Options(endpoint_url=address)), None),
        (ObjectStoreConfig.Gcs({"google_base_url": address}), None),
        (ObjectStoreConfig.Azure({"account": "a", "endpoint": address}), AZURE_KEY),
        (ObjectStoreConfig.Azure({"account": "a", "azure_authority_host": address}), AZURE_KEY),
    ]
    for config, credential in attempts:
        with pytest.raises(InvalidInputError, match="expected http") as refusal:
            connect_bucket(config, "bucket", credential)
        assert "password" not in str(refusal.value)
    with pytest.raises(InvalidInputError, match="expected http"):
        connect_server(ObjectStoreConfig.Http(), address, None)


@pytest.mark.parametrize(
    "region",
    ["auto", "us-east-1", "garage", "default", "RegionOne", "eu_de", "cn-north.1", "iad,fra", "1"],
)
def test_servers_have_regions_of_their_own(region: str) -> None:
    for endpoint in (
        None,
        "http://localhost:9000",
        "https://s3.example.org/base",
        "http://[::1]:9",
    ):
        options = S3Options(region=region, endpoint_url=endpoint)
        assert isinstance(
            connect_bucket(ObjectStoreConfig.S3Compatible(options), "bucket", None),
            (S3Connection, AzureConnection),
        )


def test_an_empty_region_needs_an_endpoint() -> None:
    options = S3Options(region="", endpoint_url="http://localhost:9000")

    assert isinstance(
        connect_bucket(ObjectStoreConfig.S3Compatible(options), "bucket", None),
        (S3Connection, AzureConnection),
    )


@pytest.mark.parametrize(
    "bucket", ["b", "My_Bucket", "a.b-c", "name--use1-az4--x-s3", "0123", "tenant:bucket"]
)
def test_buckets_of_servers_are_named_as_they_allow(bucket: str) -> None:
    options = S3Options(endpoint_url="http://localhost:9000", force_path_style=True)

    assert isinstance(
        connect_bucket(ObjectStoreConfig.S3Compatible(options), bucket, None),
        (S3Connection, AzureConnection),
    )


@pytest.mark.parametrize("container", ["data", "$web", "a-b", "My Workspace"])
def test_containers_of_azure_are_named_as_it_allows(container: str) -> None:
    config = ObjectStoreConfig.Azure({"account": "devstoreaccount1"})

    assert isinstance(connect_bucket(config, container, AZURE_KEY), (S3Connection, AzureConnection))
