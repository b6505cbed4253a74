"""The functions that make a storage, as users of Icechunk call them, but for S3 and its kin.

They keep the official signatures; each says which connection is meant, and opens nothing.
"""

from collections.abc import Callable

from frazil.credentials import GcsBearerCredential, azure_credentials, gcs_credentials
from frazil.storage.client import Headers, merge_headers
from frazil.storage.connections import (
    AzureConnection,
    GcsConnection,
    HttpConnection,
    normalize_prefix,
)
from frazil.storage.interface import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.object_store import ObjectStorage
from frazil.storage.redirect import RedirectConnection


def in_memory_storage() -> Storage:
    """A storage in this process's memory, for tests and scratch work."""
    return MemoryStorage()


def local_filesystem_storage(path: str) -> Storage:
    """A storage in a directory, safe to commit to from many processes."""
    return LocalStorage(path)


def http_storage(
    base_url: str,
    opts: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A storage behind a web server, to read from.

    `opts` are options of obstore's client (`allow_http`, `timeout`, `proxy_url` and so on); `headers`
    go out with every request.
    """
    sent = dict(headers or {})
    return ObjectStorage(HttpConnection(base_url, dict(opts or {}), Headers(sent, sent)))


def redirect_storage(base_url: str) -> Storage:
    """A storage to read from, at the place to which a web address leads when it is first used.

    That is an address of the scheme s3, gs, gcs, r2, tigris, http(s)+icechunk or http(s)+ic, which is
    asked without credentials.
    """
    return ObjectStorage(RedirectConnection(base_url))


def gcs_storage(
    *,
    bucket: str,
    prefix: str | None,
    service_account_file: str | None = None,
    service_account_key: str | None = None,
    application_credentials: str | None = None,
    bearer_token: str | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    config: dict[str, str] | None = None,
    get_credentials: Callable[[], GcsBearerCredential] | None = None,
    scatter_initial_credentials: bool = False,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A storage in Google Cloud Storage; `config` are obstore's options for it and for its client."""
    credentials = gcs_credentials(
        service_account_file=service_account_file,
        service_account_key=service_account_key,
        application_credentials=application_credentials,
        bearer_token=bearer_token,
        from_env=from_env,
        anonymous=anonymous,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    sent = merge_headers(headers, read_headers, write_headers)
    place = normalize_prefix(prefix)
    return ObjectStorage(GcsConnection(bucket, place, credentials, dict(config or {}), sent))


def azure_storage(
    *,
    account: str,
    container: str,
    prefix: str,
    access_key: str | None = None,
    sas_token: str | None = None,
    bearer_token: str | None = None,
    from_env: bool | None = None,
    anonymous: bool | None = None,
    config: dict[str, str] | None = None,
) -> Storage:
    """A storage in Azure Blob Storage; `config` are obstore's options for it and for its client."""
    credentials = azure_credentials(
        access_key=access_key,
        sas_token=sas_token,
        bearer_token=bearer_token,
        from_env=from_env,
        anonymous=anonymous,
    )
    place = normalize_prefix(prefix)
    return ObjectStorage(
        AzureConnection(account, container, place, credentials, dict(config or {}))
    )
