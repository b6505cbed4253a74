"""Functions that create a storage, with the official names and signatures."""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from frazil.errors import InvalidInputError
from frazil.lazy import lazy_modules
from frazil.storage.interface import Storage as Storage

if TYPE_CHECKING:
    from frazil import credentials as known
    from frazil import urls
    from frazil.credentials import (
        AnyAzureCredential,
        AnyGcsCredential,
        AnyS3Credential,
        GcsBearerCredential,
        S3StaticCredentials,
    )
    from frazil.storage import (
        connections,
        local,
        memory,
        object_store,
        s3_services,
        store_config,
    )
    from frazil.storage.store_config import ChecksumAlgorithm, S3Options
    from frazil.urls import Location, RepositoryUrl
else:
    # A program uses one kind of storage.
    known, urls, connections, local, memory, object_store, s3_services, store_config = lazy_modules(
        "frazil.credentials", "frazil.urls", "frazil.storage.connections", "frazil.storage.local",
        "frazil.storage.memory", "frazil.storage.object_store", "frazil.storage.s3_services",
        "frazil.storage.store_config",
    )  # fmt: skip


def in_memory_storage() -> Storage:
    """Create a storage in the memory of this process, for tests and scratch work.

    Returns
    -------
    Storage
        An empty storage.
    """
    return memory.MemoryStorage()


def local_filesystem_storage(path: str) -> Storage:
    """Create a storage in a directory. Concurrent commits from many processes are safe.

    Parameters
    ----------
    path
        The directory, created on the first write.

    Returns
    -------
    Storage
    """
    return local.LocalStorage(path)


def http_storage(
    base_url: str,
    opts: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """Create a read-only storage behind a web server.

    Parameters
    ----------
    base_url
        URL of the directory that holds the repository.
    opts
        Options of obstore's client (`allow_http`, `timeout`, `proxy_url` and so on).
    headers
        HTTP headers of every request.

    Returns
    -------
    Storage
    """
    sent = dict(headers or {})
    return object_store.ObjectStorage(
        connections.HttpConnection(base_url, dict(opts or {}), connections.Headers(sent, sent))
    )


def redirect_storage(base_url: str) -> Storage:
    """Create a read-only storage at the target of an HTTP redirect, resolved on first use.

    The target must have the scheme s3, gs, gcs, r2, tigris, http(s)+icechunk or http(s)+ic. It is
    read without credentials.

    Parameters
    ----------
    base_url
        The URL that redirects.

    Returns
    -------
    Storage
    """
    return object_store.ObjectStorage(s3_services.RedirectConnection(base_url))


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
    get_credentials: "Callable[[], GcsBearerCredential] | None" = None,
    scatter_initial_credentials: bool = False,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """Create a storage in Google Cloud Storage.

    Parameters
    ----------
    bucket, prefix
        Location of the repository.
    service_account_file, service_account_key, application_credentials, bearer_token
        Static credentials.
    anonymous, from_env
        Use no credentials, or those of the environment.
    config
        Options of obstore for the store and its client.
    get_credentials
        Function that returns a credential, called again when it expires.
    scatter_initial_credentials
        Call `get_credentials` now and include its result in pickles.
    read_headers, write_headers, headers
        HTTP headers of reads, of writes, and of all requests; the specific ones take precedence.

    Returns
    -------
    Storage
    """
    credentials = known.gcs_credentials(
        service_account_file=service_account_file,
        service_account_key=service_account_key,
        application_credentials=application_credentials,
        bearer_token=bearer_token,
        from_env=from_env,
        anonymous=anonymous,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    sent = connections.merge_headers(headers, read_headers, write_headers)
    place = connections.normalize_prefix(prefix)
    return object_store.ObjectStorage(
        connections.GcsConnection(bucket, place, credentials, dict(config or {}), sent)
    )


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
    """Create a storage in Azure Blob Storage.

    Parameters
    ----------
    account, container, prefix
        Location of the repository.
    access_key, sas_token, bearer_token
        Static credentials.
    from_env, anonymous
        Use the credentials of the environment, or none.
    config
        Options of obstore for the store and its client.

    Returns
    -------
    Storage
    """
    credentials = known.azure_credentials(
        access_key=access_key,
        sas_token=sas_token,
        bearer_token=bearer_token,
        from_env=from_env,
        anonymous=anonymous,
    )
    place = connections.normalize_prefix(prefix)
    return object_store.ObjectStorage(
        connections.AzureConnection(account, container, place, credentials, dict(config or {}))
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
    get_credentials: "Callable[[], S3StaticCredentials] | None" = None,
    scatter_initial_credentials: bool = False,
    force_path_style: bool = False,
    network_stream_timeout_seconds: int = 60,
    requester_pays: bool = False,
    checksum_algorithm: "ChecksumAlgorithm | None" = None,
    legacy_rooted_keys: bool | None = None,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """Create a storage in S3 or in an S3-compatible store.

    Parameters
    ----------
    bucket, prefix
        Location of the repository.
    region, endpoint_url, allow_http, force_path_style
        Address of the store.
    access_key_id, secret_access_key, session_token, expires_after
        Static credentials.
    anonymous, from_env
        Use no credentials, or those of the environment, which is the default.
    get_credentials
        Function that returns credentials, called again when they expire.
    scatter_initial_credentials
        Call `get_credentials` now and include its result in pickles.
    network_stream_timeout_seconds
        Read timeout; 0 for none.
    requester_pays
        Accept the charges of a requester-pays bucket.
    checksum_algorithm
        Checksum of the bodies of writes.
    legacy_rooted_keys
        Not supported; must be None or False.
    read_headers, write_headers, headers
        HTTP headers of reads, of writes, and of all requests; the specific ones take precedence.

    Returns
    -------
    Storage
    """
    credentials = known.s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    options = store_config.S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        force_path_style=force_path_style,
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        requester_pays=requester_pays,
        anonymous=anonymous or False,
        checksum_algorithm=checksum_algorithm,
    )
    s3_services.refuse_rooted_keys(legacy_rooted_keys)
    sent = connections.merge_headers(headers, read_headers, write_headers)
    return object_store.ObjectStorage(
        s3_services.s3_connection(options, bucket, prefix, credentials, sent)
    )


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
    """Create a storage in S3; equivalent to `s3_storage`, because both use the same client.

    The parameters are those of `s3_storage`.

    Returns
    -------
    Storage
    """
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
    get_credentials: "Callable[[], S3StaticCredentials] | None" = None,
    scatter_initial_credentials: bool = False,
    network_stream_timeout_seconds: int = 60,
    checksum_algorithm: "ChecksumAlgorithm | None" = None,
    legacy_rooted_keys: bool | None = None,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """Create a storage in Tigris.

    The other parameters are those of `s3_storage`.

    Parameters
    ----------
    region
        Region to read from and write to; required unless `use_weak_consistency`.
    use_weak_consistency
        Read from the nearest region; the storage is then read-only.

    Returns
    -------
    Storage

    Raises
    ------
    StorageError
        If there is neither a region nor `use_weak_consistency`.
    """
    credentials = known.s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    options = store_config.S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        anonymous=anonymous or False,
        checksum_algorithm=checksum_algorithm,
    )
    s3_services.refuse_rooted_keys(legacy_rooted_keys)
    sent = connections.merge_headers(headers, read_headers, write_headers)
    return object_store.ObjectStorage(
        s3_services.tigris_connection(
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
    get_credentials: "Callable[[], S3StaticCredentials] | None" = None,
    scatter_initial_credentials: bool = False,
    network_stream_timeout_seconds: int = 60,
    checksum_algorithm: "ChecksumAlgorithm | None" = None,
    legacy_rooted_keys: bool | None = None,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """Create a storage in Cloudflare R2.

    The other parameters are those of `s3_storage`.

    Parameters
    ----------
    bucket, prefix
        Location of the repository; without a bucket, the first segment of the prefix names it.
    account_id, endpoint_url
        Cloudflare account or the address of the store; one is required.

    Returns
    -------
    Storage

    Raises
    ------
    InvalidInputError
        If there is no bucket, or neither `account_id` nor `endpoint_url`.
    """
    credentials = known.s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        anonymous=anonymous,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    options = store_config.S3Options(
        region=region,
        endpoint_url=endpoint_url,
        allow_http=allow_http,
        network_stream_timeout_seconds=network_stream_timeout_seconds,
        anonymous=anonymous or False,
        checksum_algorithm=checksum_algorithm,
    )
    s3_services.refuse_rooted_keys(legacy_rooted_keys)
    sent = connections.merge_headers(headers, read_headers, write_headers)
    return object_store.ObjectStorage(
        s3_services.r2_connection(options, bucket, prefix, account_id, credentials, sent)
    )


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
    get_credentials: "Callable[[], S3StaticCredentials] | None" = None,
    scatter_initial_credentials: bool = False,
    network_stream_timeout_seconds: int = 60,
    legacy_rooted_keys: bool | None = None,
    read_headers: dict[str, str] | None = None,
    write_headers: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """Create a storage in a Hugging Face bucket.

    The gateway drops object metadata, so a conditional write with a lost response is resolved by
    comparing bytes. The other parameters are those of `s3_storage`.

    Parameters
    ----------
    bucket, prefix
        Location of the repository.
    namespace
        User or organization that owns the bucket.

    Returns
    -------
    Storage
    """
    credentials = known.s3_credentials(
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        expires_after=expires_after,
        from_env=from_env,
        get_credentials=get_credentials,
        scatter_initial_credentials=scatter_initial_credentials,
    )
    options = store_config.S3Options(network_stream_timeout_seconds=network_stream_timeout_seconds)
    s3_services.refuse_rooted_keys(legacy_rooted_keys)
    sent = connections.merge_headers(headers, read_headers, write_headers)
    return object_store.ObjectStorage(
        s3_services.hf_connection(options, bucket, prefix, namespace, credentials, sent)
    )


Sent = dict[str, str] | None
"""HTTP headers given by the user."""


def new_s3(
    config: "S3Options",
    bucket: str,
    prefix: str | None,
    credentials: "AnyS3Credential | None" = None,
    legacy_rooted_keys: bool | None = None,
    *,
    read_headers: Sent = None,
    write_headers: Sent = None,
    headers: Sent = None,
) -> Storage:
    """Create a storage in S3 or an S3-compatible store.

    `config` has the address of the store; credentials default to the environment. The other
    parameters are those of `s3_storage`.
    """
    s3_services.refuse_rooted_keys(legacy_rooted_keys)
    sent = connections.merge_headers(headers, read_headers, write_headers)
    return object_store.ObjectStorage(
        s3_services.s3_connection(config, bucket, prefix, _s3(credentials), sent)
    )


def new_s3_object_store(
    config: "S3Options",
    bucket: str,
    prefix: str | None,
    credentials: "AnyS3Credential | None" = None,
    *,
    read_headers: Sent = None,
    write_headers: Sent = None,
    headers: Sent = None,
) -> Storage:
    """Create a storage in S3; equivalent to `new_s3`, because both use the same client."""
    sent = connections.merge_headers(headers, read_headers, write_headers)
    return object_store.ObjectStorage(
        s3_services.s3_connection(config, bucket, prefix, _s3(credentials), sent)
    )


def new_tigris(
    config: "S3Options",
    bucket: str,
    prefix: str | None,
    use_weak_consistency: bool,
    credentials: "AnyS3Credential | None" = None,
    legacy_rooted_keys: bool | None = None,
    *,
    read_headers: Sent = None,
    write_headers: Sent = None,
    headers: Sent = None,
) -> Storage:
    """Create a storage in Tigris; see `new_s3` and `tigris_storage` for the parameters."""
    s3_services.refuse_rooted_keys(legacy_rooted_keys)
    sent = connections.merge_headers(headers, read_headers, write_headers)
    return object_store.ObjectStorage(
        s3_services.tigris_connection(
            config,
            bucket,
            prefix,
            _s3(credentials),
            sent,
            is_weakly_consistent=use_weak_consistency,
        )
    )


def new_r2(
    config: "S3Options",
    bucket: str | None = None,
    prefix: str | None = None,
    account_id: str | None = None,
    credentials: "AnyS3Credential | None" = None,
    legacy_rooted_keys: bool | None = None,
    *,
    read_headers: Sent = None,
    write_headers: Sent = None,
    headers: Sent = None,
) -> Storage:
    """Create a storage in Cloudflare R2; see `new_s3` and `r2_storage` for the parameters."""
    s3_services.refuse_rooted_keys(legacy_rooted_keys)
    sent = connections.merge_headers(headers, read_headers, write_headers)
    return object_store.ObjectStorage(
        s3_services.r2_connection(config, bucket, prefix, account_id, _s3(credentials), sent)
    )


def new_hf(
    config: "S3Options",
    bucket: str,
    prefix: str | None,
    namespace: str,
    credentials: "AnyS3Credential | None" = None,
    legacy_rooted_keys: bool | None = None,
    *,
    read_headers: Sent = None,
    write_headers: Sent = None,
    headers: Sent = None,
) -> Storage:
    """Create a storage in a Hugging Face bucket; see `new_s3` and `hf_storage` for the parameters."""
    s3_services.refuse_rooted_keys(legacy_rooted_keys)
    sent = connections.merge_headers(headers, read_headers, write_headers)
    return object_store.ObjectStorage(
        s3_services.hf_connection(config, bucket, prefix, namespace, _s3(credentials), sent)
    )


def new_gcs(
    bucket: str,
    prefix: str | None,
    credentials: "AnyGcsCredential | None" = None,
    *,
    config: dict[str, str] | None = None,
    read_headers: Sent = None,
    write_headers: Sent = None,
    headers: Sent = None,
) -> Storage:
    """Create a storage in Google Cloud Storage.

    Credentials default to the environment. The other parameters are those of `gcs_storage`.
    """
    sent = connections.merge_headers(headers, read_headers, write_headers)
    who = credentials or known.gcs_from_env_credentials()
    place = connections.normalize_prefix(prefix)
    return object_store.ObjectStorage(
        connections.GcsConnection(bucket, place, who, dict(config or {}), sent)
    )


def new_azure_blob(
    account: str,
    container: str,
    prefix: str,
    credentials: "AnyAzureCredential | None" = None,
    *,
    config: dict[str, str] | None = None,
) -> Storage:
    """Create a storage in Azure Blob Storage.

    Credentials default to the environment. The other parameters are those of `azure_storage`.
    """
    who = credentials or known.azure_from_env_credentials()
    place = connections.normalize_prefix(prefix)
    return object_store.ObjectStorage(
        connections.AzureConnection(account, container, place, who, dict(config or {}))
    )


def new_http(
    base_url: str,
    config: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> Storage:
    """Create a read-only storage behind a web server; see `http_storage` for the parameters."""
    return http_storage(base_url, config, headers)


def _s3(credentials: "AnyS3Credential | None") -> "AnyS3Credential":
    return credentials or known.s3_from_env_credentials()


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


def storage_from_url(url: "Location", **options: Any) -> Storage:
    """Create the storage of a URL, ignoring the version that the URL names.

    Parameters
    ----------
    url
        Location of a repository.
    **options
        Arguments of the matching constructor (`s3_storage` and so on), which override those in the
        URL. Credentials can be given here and come from the environment otherwise.

    Returns
    -------
    Storage

    Raises
    ------
    InvalidInputError
        If the URL is invalid or the constructor does not accept an option.
    """
    parsed = urls.parse_location(url)
    said: dict[str, Any] = {name: _decode(name, value) for name, value in parsed.options}
    try:
        return _MAKERS[parsed.scheme](parsed, said | options)
    except TypeError as error:
        raise InvalidInputError(f"options of {parsed.scheme}: {error}") from error


def _decode(name: str, value: str) -> str | bool:
    return value == "true" if name in urls.SWITCHES else value


def _make_local(url: "RepositoryUrl", options: dict[str, Any]) -> Storage:
    return local_filesystem_storage(url.path, **options)


def _make_s3(url: "RepositoryUrl", options: dict[str, Any]) -> Storage:
    return s3_storage(bucket=url.host, prefix=url.path or None, **options)


def _make_gcs(url: "RepositoryUrl", options: dict[str, Any]) -> Storage:
    config = _take_config(options, "base_url")
    return gcs_storage(bucket=url.host, prefix=url.path or None, config=config, **options)


def _make_azure(url: "RepositoryUrl", options: dict[str, Any]) -> Storage:
    if "account" not in options:
        raise InvalidInputError(
            f"the option account is missing: give it as in az://{url.host}/{url.path}?account=name"
        )
    config = _take_config(options, "endpoint")
    return azure_storage(container=url.host, prefix=url.path, config=config, **options)


def _take_config(options: dict[str, Any], endpoint: str) -> dict[str, str]:
    """Remove the options that obstore takes under its own names, and return them under those."""
    config: dict[str, str] = dict(options.pop("config", None) or {})
    if "endpoint_url" in options:
        config[endpoint] = options.pop("endpoint_url")
    if "allow_http" in options:
        config["allow_http"] = "true" if options.pop("allow_http") else "false"
    return config


def _make_http(url: "RepositoryUrl", options: dict[str, Any]) -> Storage:
    path = quote(url.path, safe="/:@!$&'()*+,;=~")
    return http_storage(f"{url.scheme}://{url.host}/{path}", **options)


def _make_memory(url: "RepositoryUrl", options: dict[str, Any]) -> Storage:
    if options:
        raise InvalidInputError(f"a storage in memory has no options, such as {min(options)!r}")
    name = f"{url.host}/{url.path}"
    with _SHARED_LOCK:
        return _SHARED.setdefault(name, memory.MemoryStorage())


_MAKERS: "Mapping[urls.Scheme, Callable[[RepositoryUrl, dict[str, Any]], Storage]]" = {
    "file": _make_local,
    "s3": _make_s3,
    "gs": _make_gcs,
    "az": _make_azure,
    "http": _make_http,
    "https": _make_http,
    "memory": _make_memory,
}

_SHARED: "dict[str, memory.MemoryStorage]" = {}
"""In-memory storages by name, kept until the process ends."""
_SHARED_LOCK = threading.Lock()
