"""From a store's configuration and credentials to a connection, for buckets that others wrote."""

from collections.abc import Mapping
from dataclasses import replace

from frazil.credentials import (
    AnyCredential,
    AnyS3Credential,
    Credentials,
    GcsCredentials,
    S3Credentials,
)
from frazil.errors import StorageError
from frazil.storage.client import Headers
from frazil.storage.connections import (
    AzureConnection,
    Connection,
    GcsConnection,
    HttpConnection,
    S3Connection,
    require_endpoint,
)
from frazil.storage.store_config import AnyObjectStoreConfig, ObjectStoreConfig, S3Options

_NO_HEADERS = Headers()
_TIGRIS_ENDPOINT = "https://t3.storage.dev"
_ACCOUNT_NAMES = ("account", "account_name", "azure_storage_account_name")


def connect_bucket(
    config: AnyObjectStoreConfig, bucket: str, credential: AnyCredential | None
) -> Connection:
    """How to reach a bucket; raises StorageError where the credential is of another kind of store.

    Without a credential S3 is asked as its options say or as the environment does, and Google
    anonymously; Azure wants one.
    """
    match config, credential:
        case (
            (ObjectStoreConfig.S3(options) | ObjectStoreConfig.S3Compatible(options)),
            (None | Credentials.S3()),
        ):
            return _connect_s3(options, bucket, credential, "S3")
        case ObjectStoreConfig.Tigris(options), (None | Credentials.S3()):
            endpoint = options.endpoint_url or _TIGRIS_ENDPOINT
            return _connect_s3(
                replace(options, endpoint_url=endpoint), bucket, credential, "Tigris"
            )
        case ObjectStoreConfig.Gcs(opts), None:
            return GcsConnection(bucket, "", GcsCredentials.Anonymous(), _spell(opts))
        case ObjectStoreConfig.Gcs(opts), Credentials.Gcs(given):
            return GcsConnection(bucket, "", given, _spell(opts))
        case ObjectStoreConfig.Azure(opts), Credentials.Azure(given):
            account, rest = _split_account(_spell(opts))
            return AzureConnection(account, bucket, "", given, rest)
    raise mismatch(config, credential)


def connect_server(
    config: AnyObjectStoreConfig, base_url: str, credential: AnyCredential | None
) -> Connection:
    """How to reach a web server; raises StorageError where the credential is of another kind."""
    match config, credential:
        case ObjectStoreConfig.Http(opts, headers), (None | Credentials.HttpAccess()):
            require_endpoint("server", base_url)
            return HttpConnection(base_url, dict(opts or {}), Headers(read=dict(headers or {})))
    raise mismatch(config, credential)


def mismatch(config: AnyObjectStoreConfig, credential: AnyCredential | None) -> StorageError:
    """What to say about a credential that is of another kind of store."""
    given = "no credential" if credential is None else f"a {type(credential).__qualname__}"
    return StorageError(f"{given} does not give access to {type(config).__qualname__}")


def _connect_s3(
    options: S3Options, bucket: str, credential: Credentials.S3 | None, kind: str
) -> S3Connection:
    given: AnyS3Credential = S3Credentials.FromEnv()
    if credential is not None:
        # A credential that was given says more than the configuration that anybody may have written.
        given, options = credential.credentials, replace(options, anonymous=False)
    return S3Connection(bucket, "", options, given, _NO_HEADERS, kind)


def _spell(opts: Mapping[str, str] | None) -> dict[str, str]:
    """Options by names in small letters, which obstore takes for the same.

    An endpoint without encryption, which nobody names by mistake, is allowed.
    """
    given = {name.lower(): value for name, value in (opts or {}).items()}
    if any(value.startswith("http://") for value in given.values()):
        given.setdefault("allow_http", "true")
    return given


def _split_account(opts: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    account = next((opts[name] for name in _ACCOUNT_NAMES if name in opts), None)
    if account is None:
        raise StorageError("the configuration of Azure names no account", kind="storage-config")
    return account, {name: opts[name] for name in opts if name not in _ACCOUNT_NAMES}
