"""Functions that make a storage, with the official names and signatures."""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from frazil.credentials import (
    AnyAzureCredential,
    AnyGcsCredential,
    AnyS3Credential,
    GcsBearerCredential,
    S3StaticCredentials,
    azure_credentials,
    azure_from_env_credentials,
    gcs_credentials,
    gcs_from_env_credentials,
    s3_credentials,
    s3_from_env_credentials,
)
from frazil.errors import InvalidInputError
from frazil.storage.connections import (
    AzureConnection,
    GcsConnection,
    Headers,
    HttpConnection,
    merge_headers,
    normalize_prefix,
)
from frazil.storage.interface import Storage
from frazil.storage.local import LocalStorage
from frazil.storage.memory import MemoryStorage
from frazil.storage.object_store import ObjectStorage
from frazil.storage.s3_services import (
    RedirectConnection,
    hf_connection,
    r2_connection,
    refuse_rooted_keys,
    s3_connection,
    tigris_connection,
)
from frazil.storage.store_config import ChecksumAlgorithm, S3Options
from frazil.urls import SWITCHES, Location, RepositoryUrl, Scheme, parse_location


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


def s3_storage(
    *,
    bucket: str,
    prefix: str | None,
    region: str | None = None,
    endpoint_url: str | None = None,
    allow_http: bool = False,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: Callable[[], S3StaticCredentials] | None = None,
    scatter_initial_credentials: bool = False,
    force_path_style: bool = False,
    network_stream_timeout_seconds: int = 60,
    requester_pays: bool = False,
    checksum_algorithm: ChecksumAlgorithm | None = None,
    legacy_rooted_keys: bool | None = None,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A storage in S3, or in what speaks like it.

    Credentials are static, anonymous, from the environment (also if nothing is said), or what
    `get_credentials` returns, asked again when they expire; with `scatter_initial_credentials` it is
    asked now, and its answer travels in pickles. `network_stream_timeout_seconds` is the longest
    silence, 0 for ever. `headers` go out with all requests, the others with reads or writes, and win
    over them.
    """
    credentials = s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    options = S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        force_path_style=force_path_style,
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        requester_pays=requester_pays,
        anonymous=anonymous or False,
        checksum_algorithm=checksum_algorithm,
    )
    refuse_rooted_keys(legacy_rooted_keys)
    sent = merge_headers(headers, read_headers, write_headers)
    return ObjectStorage(s3_connection(options, bucket, prefix, credentials, sent))


def s3_object_store_storage(
    *,
    bucket: str,
    prefix: str | None,
    region: str | None = None,
    endpoint_url: str | None = None,
    allow_http: bool = False,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    force_path_style: bool = False,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """The same as `s3_storage`: here there is one client for both."""
    return s3_storage(
        bucket=bucket,
        prefix=prefix,
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        anonymous=anonymous,
        from_env=from_env,
        force_path_style=force_path_style,
        read_headers=read_headers,
        write_headers=write_headers,
        headers=headers,
    )


def tigris_storage(
    *,
    bucket: str,
    prefix: str | None,
    region: str | None = None,
    endpoint_url: str | None = None,
    use_weak_consistency: bool = False,
    allow_http: bool = False,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: Callable[[], S3StaticCredentials] | None = None,
    scatter_initial_credentials: bool = False,
    network_stream_timeout_seconds: int = 60,
    checksum_algorithm: ChecksumAlgorithm | None = None,
    legacy_rooted_keys: bool | None = None,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A storage in Tigris. It needs a region, or, to read only, `use_weak_consistency`."""
    credentials = s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    options = S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        anonymous=anonymous or False,
        checksum_algorithm=checksum_algorithm,
    )
    refuse_rooted_keys(legacy_rooted_keys)
    sent = merge_headers(headers, read_headers, write_headers)
    return ObjectStorage(
        tigris_connection(
            options, bucket, prefix, credentials, sent, is_weakly_consistent=use_weak_consistency
        )
    )


def r2_storage(
    *,
    bucket: str | None = None,
    prefix: str | None = None,
    account_id: str | None = None,
    endpoint_url: str | None = None,
    region: str | None = None,
    allow_http: bool = False,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: Callable[[], S3StaticCredentials] | None = None,
    scatter_initial_credentials: bool = False,
    network_stream_timeout_seconds: int = 60,
    checksum_algorithm: ChecksumAlgorithm | None = None,
    legacy_rooted_keys: bool | None = None,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A storage in Cloudflare's R2, of an account or at an endpoint.

    Without a bucket, the first segment of the prefix names it.
    """
    credentials = s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    options = S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        anonymous=anonymous or False,
        checksum_algorithm=checksum_algorithm,
    )
    refuse_rooted_keys(legacy_rooted_keys)
    sent = merge_headers(headers, read_headers, write_headers)
    return ObjectStorage(r2_connection(options, bucket, prefix, account_id, credentials, sent))


def hf_storage(
    *,
    bucket: str,
    prefix: str | None,
    namespace: str,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    from_env: bool | None = None,
    get_credentials: Callable[[], S3StaticCredentials] | None = None,
    scatter_initial_credentials: bool = False,
    network_stream_timeout_seconds: int = 60,
    legacy_rooted_keys: bool | None = None,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """A storage in a bucket of Hugging Face, whose owner is `namespace`.

    Its gateway drops metadata, so a conditional write whose answer got lost is settled by its bytes.
    """
    credentials = s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    options = S3Options(network_stream_timeout_seconds=network_stream_timeout_seconds)
    refuse_rooted_keys(legacy_rooted_keys)
    sent = merge_headers(headers, read_headers, write_headers)
    return ObjectStorage(hf_connection(options, bucket, prefix, namespace, credentials, sent))


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


def storage_from_url(url: Location, **options: Any) -> Storage:
    """The storage at a URL, whatever version it names.

    `options` are arguments of the function that makes such a storage (`s3_storage` and so on), and win
    over those in the URL; credentials can be given here, and come from the environment otherwise.
    """
    parsed = parse_location(url)
    said: dict[str, Any] = {name: _decode(name, value) for name, value in parsed.options}
    try:
        return _MAKERS[parsed.scheme](parsed, said | options)
    except TypeError as error:
        raise InvalidInputError(f"options of {parsed.scheme}: {error}") from error


def _decode(name: str, value: str) -> str | bool:
    return value == "true" if name in SWITCHES else value


def _make_local(url: RepositoryUrl, options: dict[str, Any]) -> Storage:
    return local_filesystem_storage(url.path, **options)


def _make_s3(url: RepositoryUrl, options: dict[str, Any]) -> Storage:
    return s3_storage(bucket=url.host, prefix=url.path or None, **options)


def _make_gcs(url: RepositoryUrl, options: dict[str, Any]) -> Storage:
    config = _take_config(options, "base_url")
    return gcs_storage(bucket=url.host, prefix=url.path or None, config=config, **options)


def _make_azure(url: RepositoryUrl, options: dict[str, Any]) -> Storage:
    if "account" not in options:
        raise InvalidInputError(
            f"the account is missing, as in az://{url.host}/{url.path}?account=name"
        )
    config = _take_config(options, "endpoint")
    return azure_storage(container=url.host, prefix=url.path, config=config, **options)


def _take_config(options: dict[str, Any], endpoint: str) -> dict[str, str]:
    """What obstore knows by names of its own, taken out of the options."""
    config: dict[str, str] = dict(options.pop("config", None) or {})
    if "endpoint_url" in options:
        config[endpoint] = options.pop("endpoint_url")
    if "allow_http" in options:
        config["allow_http"] = "true" if options.pop("allow_http") else "false"
    return config


def _make_http(url: RepositoryUrl, options: dict[str, Any]) -> Storage:
    path = quote(url.path, safe="/:@!$&'()*+,;=~")
    return http_storage(f"{url.scheme}://{url.host}/{path}", **options)


def _make_memory(url: RepositoryUrl, options: dict[str, Any]) -> Storage:
    if options:
        raise InvalidInputError(f"a storage in memory has no options, such as {min(options)!r}")
    name = f"{url.host}/{url.path}"
    with _SHARED_LOCK:
        return _SHARED.setdefault(name, MemoryStorage())


_MAKERS: Mapping[Scheme, Callable[[RepositoryUrl, dict[str, Any]], Storage]] = {
    "file": _make_local,
    "s3": _make_s3,
    "gs": _make_gcs,
    "az": _make_azure,
    "http": _make_http,
    "https": _make_http,
    "memory": _make_memory,
}

_SHARED: dict[str, MemoryStorage] = {}
"""Storages in memory by name, kept until the process ends."""
_SHARED_LOCK = threading.Lock()
