"""Which store, where in it, and as whom: frozen, picklable, opened where it is used."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast
from urllib.parse import urlsplit, urlunsplit

from obstore.store import AzureStore, GCSStore, HTTPStore, ObjectStore, S3Store

from frazil.credentials import AnyAzureCredential, AnyGcsCredential, AnyS3Credential
from frazil.errors import InvalidInputError
from frazil.storage.authorization import (
    authorize_azure,
    authorize_gcs,
    authorize_s3,
    find_secrets,
)
from frazil.storage.client import DEFAULT_SILENCE_SECONDS, ClientPlan, Headers, Purpose
from frazil.storage.settings import StorageSettings
from frazil.storage.store_config import ChecksumAlgorithm, S3Options
from frazil.urls import is_secret


@dataclass(frozen=True, slots=True)
class Traits:
    """What a kind of store can do."""

    is_read_only: bool = False
    has_suffix_ranges: bool = True
    can_list: bool = True
    lists_in_order: bool = True
    """Whether a list is in the order of the keys' bytes."""
    has_plain_metadata_names: bool = False
    """Whether the names in an object's metadata must be like those of variables."""
    delete_batch_size: int = 1000
    settings: StorageSettings = field(default_factory=StorageSettings)
    """What holds here unless the user says otherwise."""


class Connection(Protocol):
    """A store that can be opened; each client of it, with a plan of its own."""

    @property
    def traits(self) -> Traits: ...

    @property
    def headers(self) -> Headers: ...

    @property
    def silence_seconds(self) -> float | None: ...

    def describe(self) -> str:
        """One line for people, without secrets."""

    def details(self) -> dict[str, object]:
        """Return the kind of store and where in it, by the official names, without secrets."""

    def find_secrets(self) -> tuple[str, ...]:
        """What must not be told."""

    def open(self, plan: ClientPlan) -> ObjectStore:
        """A client, connected when it is first used."""

    def resolve(self) -> "Connection":
        """The connection to open in the end; one that redirects finds out which."""


@dataclass(frozen=True, slots=True)
class S3Connection:
    """A bucket of S3, or of what speaks like it."""

    bucket: str
    prefix: str
    options: S3Options
    credentials: AnyS3Credential
    headers: Headers = field(default_factory=Headers)
    kind: str = "S3"
    traits: Traits = field(default_factory=Traits)

    def __post_init__(self) -> None:
        options = self.options
        # A server of one's own, asked by path, may have tenants: `tenant:bucket`.
        is_path = options.endpoint_url is not None and options.force_path_style
        require_name("tenant and bucket" if is_path else "bucket", self.bucket)
        if options.endpoint_url is not None:
            require_endpoint("endpoint_url", options.endpoint_url)
        if options.region is not None and (options.region or options.endpoint_url is None):
            require_name("region", options.region)

    @property
    def silence_seconds(self) -> float | None:
        return _silence(self.options.network_stream_timeout_seconds)

    def describe(self) -> str:
        return f"{self.kind}, bucket {self.bucket!r}, prefix {self.prefix!r}"

    def details(self) -> dict[str, object]:
        options = self.options
        endpoint = None if options.endpoint_url is None else _without_secrets(options.endpoint_url)
        found = {
            "type": self.kind,
            "bucket": self.bucket,
            "prefix": self.prefix,
            "region": options.region,
            "endpoint_url": endpoint,
            "anonymous": options.anonymous or None,
            "force_path_style": options.force_path_style or None,
        }
        return {name: value for name, value in found.items() if value is not None}

    def find_secrets(self) -> tuple[str, ...]:
        return (*find_secrets(self.credentials), *self.headers.secrets)

    def resolve(self) -> "S3Connection":
        return self

    def open(self, plan: ClientPlan) -> ObjectStore:
        options = self.options
        endpoint, is_virtual_hosted = address_bucket(options, self.bucket)
        config: dict[str, Any] = {"virtual_hosted_style_request": is_virtual_hosted}
        if endpoint is not None:
            config["endpoint"] = endpoint
        if options.region is not None:
            config["region"] = options.region
        if plan.purpose is Purpose.SINGLE_DELETE:
            config["disable_bulk_delete"] = True
        if options.requester_pays:
            config["request_payer"] = True
        if options.checksum_algorithm in _CHECKSUMS:
            config["checksum_algorithm"] = _CHECKSUMS[options.checksum_algorithm]
        authorization = authorize_s3(self.credentials, is_anonymous=options.anonymous)
        return S3Store(
            self.bucket,
            prefix=self.prefix or None,
            config=cast("Any", {**config, **authorization.config}),
            client_options=cast("Any", {**plan.options, "allow_http": options.allow_http}),
            retry_config=cast("Any", plan.retries),
            credential_provider=cast("Any", authorization.provider),
        )


def lists_in_order(connection: Connection) -> bool:
    """Whether a list is in the order of the keys' bytes: directory buckets of S3 have none."""
    is_directory = isinstance(connection, S3Connection) and connection.bucket.endswith("--x-s3")
    return connection.traits.lists_in_order and not is_directory


# The others are not computed by obstore, and not needed: every body is signed with its SHA-256.
_CHECKSUMS = {ChecksumAlgorithm.Sha256: "sha256", ChecksumAlgorithm.Crc64Nvme: "crc64nvme"}


def address_bucket(options: S3Options, bucket: str) -> tuple[str | None, bool]:
    """The endpoint to speak to, and whether it is the bucket's own.

    As Amazon's clients do with an endpoint of one's own: the bucket is a part of the host's name unless
    that can't be. Where none is given, the environment may name one, which has to stay as it is.
    """
    url = options.endpoint_url
    if url is None or options.force_path_style or "." in bucket:
        return url, False
    parts = urlsplit(url)
    if _is_address(parts.hostname or "") or parts.hostname == "localhost":
        return url, False
    return urlunsplit(parts._replace(netloc=f"{bucket}.{parts.netloc}")), True


# Everything here becomes a part of a URL, and anybody may have written it: the configuration of a
# repository, or the answer of a server that redirects. The names are what clouds and their kin allow.
_NAMES = {
    "region": re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,-]{0,254}"),
    "bucket": re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}"),
    "tenant and bucket": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,254}"),
    "account": re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}"),
    "container": re.compile(r"\$?[A-Za-z0-9][A-Za-z0-9_. -]{0,254}"),
    "namespace": re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}"),
    "tenant": re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,254}"),
}
_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_PATH = re.compile(r"[A-Za-z0-9_./~%:$+-]*")
_OPTION_NAMES = {
    "account": "account", "account_name": "account",
    "bucket": "bucket", "bucket_name": "bucket",
    "container": "container", "container_name": "container",
    "tenant_id": "tenant", "authority_id": "tenant",
}  # fmt: skip
_OPTION_ADDRESSES = ("endpoint", "_url", "authority_host", "workload_host")


def require_name(kind: str, value: str) -> None:
    """Raise InvalidInputError for a name that could lead a URL elsewhere."""
    if not _NAMES[kind].fullmatch(value):
        raise InvalidInputError(
            f"invalid {kind} {value!r}: expected letters, digits and a few marks such as '-', as the"
            " storage service allows; correct it in the call or in the repository's configuration",
            kind="storage-config",
        )


def require_endpoint(name: str, value: str) -> None:
    """Raise InvalidInputError for what is not the plain address of a server."""
    scheme, _, rest = value.partition("://")
    host, _, path = rest.partition("/")
    if scheme not in ("http", "https") or not _HOST.fullmatch(host) or not _PATH.fullmatch(path):
        # What stands there may be a password.
        shown = f" {value!r}" if "@" not in value and "?" not in value else ""
        raise InvalidInputError(
            f"invalid {name}{shown}: expected http:// or https://, a server and perhaps a path, without"
            " user or query",
            kind="storage-config",
        )


def _require_addresses(options: Mapping[str, str]) -> None:
    for given, value in options.items():
        name = re.sub(r"^(?:azure|google)_(?:storage_)?", "", given.lower())
        if name in _OPTION_NAMES:
            require_name(_OPTION_NAMES[name], value)
        elif name.endswith(_OPTION_ADDRESSES) and not name.startswith(("use_", "proxy_")):
            require_endpoint(given, value)


def normalize_prefix(prefix: str | None) -> str:
    """A prefix without slashes at its ends."""
    return (prefix or "").strip("/")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class GcsConnection:
    """A bucket of Google Cloud Storage."""

    bucket: str
    prefix: str
    credentials: AnyGcsCredential
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Headers = field(default_factory=Headers)
    # Objects are deleted one by one here, several at once.
    traits: Traits = field(default_factory=lambda: Traits(delete_batch_size=100))
    silence_seconds: float | None = DEFAULT_SILENCE_SECONDS

    def __post_init__(self) -> None:
        require_name("bucket", self.bucket)
        _require_addresses(self.config)

    def describe(self) -> str:
        return f"Google Cloud Storage, bucket {self.bucket!r}, prefix {self.prefix!r}"

    def details(self) -> dict[str, object]:
        return {"type": "GCS", "bucket": self.bucket, "prefix": self.prefix}

    def find_secrets(self) -> tuple[str, ...]:
        return (
            *find_secrets(self.credentials),
            *self.headers.secrets,
            *_secret_options(self.config),
        )

    def resolve(self) -> "GcsConnection":
        return self

    def open(self, plan: ClientPlan) -> ObjectStore:
        authorization = authorize_gcs(self.credentials)
        config, client = split_options(self.config)
        return GCSStore(
            self.bucket,
            prefix=self.prefix or None,
            config=cast("Any", {**config, **authorization.config}),
            client_options=cast("Any", {**plan.options, **client}),
            retry_config=cast("Any", plan.retries),
            credential_provider=cast("Any", authorization.provider),
        )


@dataclass(frozen=True, slots=True)
class AzureConnection:
    """A container of Azure Blob Storage."""

    account: str
    container: str
    prefix: str
    credentials: AnyAzureCredential
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Headers = field(default_factory=Headers)
    traits: Traits = field(
        default_factory=lambda: Traits(
            has_suffix_ranges=False, has_plain_metadata_names=True, delete_batch_size=256
        )
    )
    silence_seconds: float | None = DEFAULT_SILENCE_SECONDS

    def __post_init__(self) -> None:
        require_name("account", self.account)
        require_name("container", self.container)
        _require_addresses(self.config)

    def describe(self) -> str:
        return (
            f"Azure, account {self.account!r}, container {self.container!r}, prefix {self.prefix!r}"
        )

    def details(self) -> dict[str, object]:
        names = ("account", "container", "prefix")
        return {"type": "Azure", **{name: getattr(self, name) for name in names}}

    def find_secrets(self) -> tuple[str, ...]:
        return (*find_secrets(self.credentials), *_secret_options(self.config))

    def resolve(self) -> "AzureConnection":
        return self

    def open(self, plan: ClientPlan) -> ObjectStore:
        authorization = authorize_azure(self.credentials)
        config, client = split_options(self.config)
        return AzureStore(
            self.container,
            prefix=self.prefix or None,
            config=cast("Any", {"account_name": self.account, **config, **authorization.config}),
            client_options=cast("Any", {**plan.options, **client}),
            retry_config=cast("Any", plan.retries),
            credential_provider=cast("Any", authorization.provider),
        )


@dataclass(frozen=True, slots=True)
class HttpConnection:
    """A directory of a web server, to read from."""

    base_url: str
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Headers = field(default_factory=Headers)
    traits: Traits = field(default_factory=lambda: Traits(is_read_only=True, can_list=False))
    silence_seconds: float | None = DEFAULT_SILENCE_SECONDS

    def describe(self) -> str:
        return f"HTTP, {_without_secrets(self.base_url)}"

    def details(self) -> dict[str, object]:
        return {"type": "HTTP", "url": _without_secrets(self.base_url)}

    def find_secrets(self) -> tuple[str, ...]:
        parts = urlsplit(self.base_url)
        return (*self.headers.secrets, parts.password or "", parts.query)

    def resolve(self) -> "HttpConnection":
        return self

    def open(self, plan: ClientPlan) -> ObjectStore:
        is_plain = self.base_url.startswith("http://")
        options = {"allow_http": is_plain, **plan.options, **self.config}
        return HTTPStore(
            self.base_url,
            client_options=cast("Any", options),
            retry_config=cast("Any", plan.retries),
        )


_CLIENT_OPTIONS = frozenset(
    (
        "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type",
        "http1_only", "http2_keep_alive_interval", "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle", "http2_only", "pool_idle_timeout", "pool_max_idle_per_host",
        "proxy_ca_certificate", "proxy_excludes", "proxy_url", "randomize_addresses",
        "read_timeout", "root_certificate", "timeout", "user_agent",
    )
)  # fmt: skip


def split_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Options of the store, and options of its client, which users give in one."""
    client = {name: value for name, value in options.items() if name in _CLIENT_OPTIONS}
    return {name: value for name, value in options.items() if name not in client}, client


def _secret_options(options: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(value for name, value in options.items() if is_secret(name))


def _without_secrets(url: str) -> str:
    """Return a URL without user, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _silence(seconds: int | None) -> float | None:
    if seconds is None:
        return DEFAULT_SILENCE_SECONDS
    return None if seconds == 0 else float(seconds)
