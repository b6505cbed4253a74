"""`Storage.new_…`: constructors as users of the official library find them on the class itself.

The interface knows none of the storages that these make, so they are put onto it here, once, when
`frazil.storage` is imported.
"""

from frazil.credentials import (
    AnyAzureCredential,
    AnyGcsCredential,
    AnyS3Credential,
    azure_from_env_credentials,
    gcs_from_env_credentials,
    s3_from_env_credentials,
)
from frazil.storage.client import Headers, merge_headers
from frazil.storage.connections import AzureConnection, GcsConnection, normalize_prefix
from frazil.storage.constructors import (
    http_storage,
    in_memory_storage,
    local_filesystem_storage,
    redirect_storage,
)
from frazil.storage.interface import Storage
from frazil.storage.object_store import ObjectStorage
from frazil.storage.s3_services import (
    hf_connection,
    r2_connection,
    refuse_rooted_keys,
    s3_connection,
    tigris_connection,
)
from frazil.storage.store_config import S3Options

Sent = dict[str, str] | None
"""Headers as users give them."""


def new_s3(
    config: S3Options,
    bucket: str,
    prefix: str | None,
    credentials: AnyS3Credential | None = None,
    legacy_rooted_keys: bool | None = None,
    *,
    read_headers: Sent = None,
    write_headers: Sent = None,
    headers: Sent = None,
) -> Storage:
    """A storage in S3, or in what speaks like it; without credentials, those of the environment."""
    refuse_rooted_keys(legacy_rooted_keys)
    sent = merge_headers(headers, read_headers, write_headers)
    return ObjectStorage(s3_connection(config, bucket, prefix, _s3(credentials), sent))


def new_s3_object_store(
    config: S3Options,
    bucket: str,
    prefix: str | None,
    credentials: AnyS3Credential | None = None,
    *,
    read_headers: Sent = None,
    write_headers: Sent = None,
    headers: Sent = None,
) -> Storage:
    """The same as `new_s3`: here there is one client for both."""
    sent = merge_headers(headers, read_headers, write_headers)
    return ObjectStorage(s3_connection(config, bucket, prefix, _s3(credentials), sent))


def new_tigris(
    config: S3Options,
    bucket: str,
    prefix: str | None,
    use_weak_consistency: bool,
    credentials: AnyS3Credential | None = None,
    legacy_rooted_keys: bool | None = None,
    *,
    read_headers: Sent = None,
    write_headers: Sent = None,
    headers: Sent = None,
) -> Storage:
    """A storage in Tigris; weakly consistent, it is only read."""
    refuse_rooted_keys(legacy_rooted_keys)
    sent = merge_headers(headers, read_headers, write_headers)
    return ObjectStorage(
        tigris_connection(
            config,
            bucket,
            prefix,
            _s3(credentials),
            sent,
            is_weakly_consistent=use_weak_consistency,
        )
    )


def new_r2(
    config: S3Options,
    bucket: str | None = None,
    prefix: str | None = None,
    account_id: str | None = None,
    credentials: AnyS3Credential | None = None,
    legacy_rooted_keys: bool | None = None,
    *,
    read_headers: Sent = None,
    write_headers: Sent = None,
    headers: Sent = None,
) -> Storage:
    """A storage in Cloudflare's R2, of an account or at an endpoint."""
    refuse_rooted_keys(legacy_rooted_keys)
    sent = merge_headers(headers, read_headers, write_headers)
    return ObjectStorage(r2_connection(config, bucket, prefix, account_id, _s3(credentials), sent))


def new_hf(
    config: S3Options,
    bucket: str,
    prefix: str | None,
    namespace: str,
    credentials: AnyS3Credential | None = None,
    legacy_rooted_keys: bool | None = None,
    *,
    read_headers: Sent = None,
    write_headers: Sent = None,
    headers: Sent = None,
) -> Storage:
    """A storage in a bucket of Hugging Face, whose owner is `namespace`."""
    refuse_rooted_keys(legacy_rooted_keys)
    sent = merge_headers(headers, read_headers, write_headers)
    return ObjectStorage(hf_connection(config, bucket, prefix, namespace, _s3(credentials), sent))


def new_gcs(
    bucket: str,
    prefix: str | None,
    credentials: AnyGcsCredential | None = None,
    *,
    config: dict[str, str] | None = None,
    read_headers: Sent = None,
    write_headers: Sent = None,
    headers: Sent = None,
) -> Storage:
    """A storage in Google Cloud Storage."""
    sent: Headers = merge_headers(headers, read_headers, write_headers)
    who = credentials or gcs_from_env_credentials()
    place = normalize_prefix(prefix)
    return ObjectStorage(GcsConnection(bucket, place, who, dict(config or {}), sent))


def new_azure_blob(
    account: str,
    container: str,
    prefix: str,
    credentials: AnyAzureCredential | None = None,
    *,
    config: dict[str, str] | None = None,
) -> Storage:
    """A storage in Azure Blob Storage."""
    who = credentials or azure_from_env_credentials()
    place = normalize_prefix(prefix)
    return ObjectStorage(AzureConnection(account, container, place, who, dict(config or {})))


def new_http(
    base_url: str,
    config: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A storage behind a web server, to read from."""
    return http_storage(base_url, config, headers)


def _s3(credentials: AnyS3Credential | None) -> AnyS3Credential:
    return credentials or s3_from_env_credentials()


Storage.new_in_memory = staticmethod(in_memory_storage)
Storage.new_local_filesystem = staticmethod(local_filesystem_storage)
Storage.new_s3 = staticmethod(new_s3)
Storage.new_s3_object_store = staticmethod(new_s3_object_store)
Storage.new_tigris = staticmethod(new_tigris)
Storage.new_r2 = staticmethod(new_r2)
Storage.new_hf = staticmethod(new_hf)
Storage.new_gcs = staticmethod(new_gcs)
Storage.new_azure_blob = staticmethod(new_azure_blob)
Storage.new_http = staticmethod(new_http)
Storage.new_redirect = staticmethod(redirect_storage)
