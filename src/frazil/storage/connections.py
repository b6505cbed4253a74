"""Connections: the store, the location in it, and the credentials. Frozen, picklable, opened lazily."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import urlsplit, urlunsplit

from obstore.store import AzureStore, GCSStore, HTTPStore, ObjectStore, S3Store

from frazil import __version__
from frazil.credentials import (
    AnyAzureCredential,
    AnyGcsCredential,
    AnyS3Credential,
    AzureCredentials,
    AzureRefreshableCredential,
    AzureStaticCredentials,
    GcsBearerCredential,
    GcsCredentials,
    GcsStaticCredentials,
    Refresher,
    S3Credentials,
    S3StaticCredentials,
    in_utc,
)
from frazil.errors import InvalidInputError, InvalidTypeError, PermissionDeniedError
from frazil.lazy import dataclass, lazy_modules
from frazil.storage.interface import EffectiveSettings, StorageSettings
from frazil.storage.store_config import ChecksumAlgorithm, S3Options
from frazil.urls import is_secret

if TYPE_CHECKING:
    import configparser
    import ipaddress
    import json
    import shlex
    import subprocess
else:
    configparser, ipaddress, json, shlex, subprocess = lazy_modules(
        "configparser", "ipaddress", "json", "shlex", "subprocess"
    )

DEFAULT_SILENCE_SECONDS = 60.0
_DEFAULT_RETRY_SECONDS = 180.0
# Without a configured deadline a request has none; the read timeout detects a stalled response.
_NO_DEADLINE_SECONDS = 24 * 3600.0
# A write slower than this is considered stuck.
_SLOWEST_BYTES_PER_SECOND = 128 * 1024


class Purpose(Enum):
    """Purpose of a client."""

    READ = "read"
    WRITE = "write"
    CONDITIONAL_WRITE = "conditional write"
    """Never retried by the client: the caller must see each response to resolve the outcome."""
    SINGLE_DELETE = "single delete"
    """Without bulk delete, which not every store supports."""


_HEADER_NAME = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_HEADER_VALUE = r"[\t\x20-\x7e\x80-\xff]*"


@dataclass(frozen=True, slots=True)
class Headers:
    """Additional HTTP headers of all reads and all writes."""

    read: Mapping[str, str] = field(default_factory=dict, repr=False)
    write: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        return (*self.read.values(), *self.write.values())


def merge_headers(
    both: Mapping[str, str] | None,
    read: Mapping[str, str] | None,
    write: Mapping[str, str] | None,
) -> Headers:
    """Merge common headers with those for reads and for writes, which take precedence.

    Raises InvalidInputError, a ValueError, for an invalid header name or value.
    """
    for name, value in ((n, v) for each in (both, read, write) for n, v in (each or {}).items()):
        # The value may be a secret, so the message omits it.
        if not re.fullmatch(_HEADER_NAME, name) or not re.fullmatch(_HEADER_VALUE, value):
            raise InvalidInputError(f"invalid HTTP header {name!r}", kind="storage-config")
    return Headers({**(both or {}), **(read or {})}, {**(both or {}), **(write or {})})


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """Configuration of one client: obstore's client options and retry configuration."""

    options: Mapping[str, Any]
    retries: Mapping[str, Any]
    purpose: Purpose = Purpose.READ


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Upper size limit of the writes that share a client."""

    max_bytes: int


SIZE_CLASSES = (SizeClass(8 << 20), SizeClass(128 << 20), SizeClass(5 << 30))


def size_class(size_bytes: int) -> SizeClass:
    """Return the class of a write. The last class includes everything above its limit."""
    return next((each for each in SIZE_CLASSES if size_bytes <= each.max_bytes), SIZE_CLASSES[-1])


def plan_client(
    settings: EffectiveSettings,
    purpose: Purpose,
    writes: SizeClass,
    headers: Headers,
    silence_seconds: float | None,
    user_agent: str = "",
) -> ClientPlan:
    """Return the client configuration for a purpose. `silence_seconds=None` means no read timeout."""
    is_read = purpose is Purpose.READ
    options: dict[str, Any] = {"user_agent": f"frazil/{__version__} {user_agent}".rstrip()}
    if settings.connect_timeout_seconds is not None:
        options["connect_timeout"] = timedelta(seconds=settings.connect_timeout_seconds)
    if settings.read_timeout_seconds is not None:
        silence_seconds = settings.read_timeout_seconds
    deadline = settings.attempt_timeout_seconds
    if not is_read:
        # The client's read timeout starts with the first byte sent, so a write is limited only by
        # its deadline.
        allowance = writes.max_bytes / _SLOWEST_BYTES_PER_SECOND
        base = deadline if deadline is not None else silence_seconds
        deadline = None if base is None else base + allowance
    elif silence_seconds is not None:
        options["read_timeout"] = timedelta(seconds=silence_seconds)
    options["timeout"] = timedelta(seconds=_NO_DEADLINE_SECONDS if deadline is None else deadline)
    if chosen := headers.read if is_read else headers.write:
        options["default_headers"] = dict(chosen)
    return ClientPlan(options, _plan_retries(settings, purpose), purpose)


def _plan_retries(settings: EffectiveSettings, purpose: Purpose) -> dict[str, Any]:
    tries = 1 if purpose is Purpose.CONDITIONAL_WRITE else settings.max_tries
    return {
        "max_retries": tries - 1,
        "retry_timeout": timedelta(
            seconds=settings.operation_timeout_seconds or _DEFAULT_RETRY_SECONDS
        ),
        "backoff": {
            "init_backoff": timedelta(seconds=settings.initial_backoff_seconds),
            "max_backoff": timedelta(seconds=settings.max_backoff_seconds),
            "base": 2,
        },
    }


Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Authorization:
    """Credentials of a store: configuration, or a provider function."""

    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    provider: Callable[[], Answer] | None = None


_ANONYMOUS = Authorization({"skip_signature": True})
_FROM_ENVIRONMENT = Authorization()


def authorize_s3(credentials: AnyS3Credential, *, is_anonymous: bool) -> Authorization:
    """Return the authorization for S3."""
    match credentials:
        case _ if is_anonymous:
            return _ANONYMOUS
        case S3Credentials.Anonymous():
            return _ANONYMOUS
        case S3Credentials.FromEnv():
            return _authorize_aws_environment()
        case S3Credentials.Static(static):
            return Authorization(provider=partial(_answer_s3, lambda: static))
        case S3Credentials.Refreshable(function, current):
            return Authorization(provider=partial(_answer_s3, Refresher(function, current)))
    raise InvalidTypeError(f"{type(credentials).__name__} is not an S3 credential")


def _authorize_aws_environment() -> Authorization:
    """Return credentials and region as AWS's own libraries find them: variables, profile, role."""
    profile = _read_aws_profile()
    is_placed = "AWS_REGION" in os.environ or "AWS_DEFAULT_REGION" in os.environ
    config = {"region": profile["region"]} if "region" in profile and not is_placed else {}
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return Authorization(config)
    if "aws_access_key_id" in profile and "aws_secret_access_key" in profile:
        found = S3StaticCredentials(
            profile["aws_access_key_id"],
            profile["aws_secret_access_key"],
            profile.get("aws_session_token"),
        )
        return Authorization(config, partial(_answer_s3, lambda: found))
    if "credential_process" in profile:
        command = shlex.split(profile["credential_process"])
        return Authorization(config, partial(_answer_s3, partial(_run_credential_process, command)))
    if any(name.startswith(_AWS_SERVICES) for name in profile):
        return Authorization(config, partial(_answer_s3, _ask_botocore))
    return Authorization(config)


# Settings of profiles whose credentials come from another service of AWS.
_AWS_SERVICES = ("role_arn", "sso_", "web_identity_token_file", "login_session")


def _read_aws_profile() -> dict[str, str]:
    """Return the settings of the chosen profile of AWS's shared files; empty if there are none."""
    chosen = os.environ.get("AWS_PROFILE")
    name = chosen or "default"
    settings: dict[str, str] = {}
    is_known = False
    for variable, default, sections in (
        ("AWS_CONFIG_FILE", "config", (f"profile {name}", name if name == "default" else "")),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", (name,)),
    ):
        path = Path(os.environ.get(variable) or f"~/.aws/{default}").expanduser()
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        try:
            parser.read_string(text)
        except configparser.Error as error:
            # Its message quotes lines, which may be secrets.
            lines = [number for number, _ in getattr(error, "errors", ())] or [
                getattr(error, "lineno", 1)
            ]
            problem = f"line {lines[0]} of {path} is no setting of a profile"
        else:
            for section in filter(parser.has_section, sections):
                is_known = True
                settings |= {key: value for key, value in parser.items(section) if value}
            continue
        raise InvalidInputError(problem, kind="storage-config")
    if chosen and not is_known and "AWS_ACCESS_KEY_ID" not in os.environ:
        raise InvalidInputError(
            f"AWS_PROFILE is {chosen!r}, which is neither in ~/.aws/config nor in ~/.aws/credentials",
            kind="storage-config",
        )
    return settings


def _run_credential_process(command: list[str]) -> S3StaticCredentials:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60)
        found = json.loads(done.stdout)
        end = found.get("Expiration")
        return S3StaticCredentials(
            found["AccessKeyId"],
            found["SecretAccessKey"],
            found.get("SessionToken"),
            None if end is None else datetime.fromisoformat(end),
        )
    except Exception as error:
        failed = type(error).__name__
    # Raised outside of the handler: what the program printed may be a secret.
    raise PermissionDeniedError(
        f"the credential_process {command[0]!r} of the AWS profile failed: {failed}"
    )


def _ask_botocore() -> S3StaticCredentials:
    try:
        session = import_module("botocore.session").Session()
    except ImportError:
        raise PermissionDeniedError(
            "the AWS profile signs in with a role or single sign-on, which needs botocore:"
            " pip install boto3, or give credentials"
        ) from None
    try:
        credentials = session.get_credentials()
        frozen = credentials.get_frozen_credentials()
    except Exception as error:
        raise PermissionDeniedError(f"the AWS profile gives no credentials: {error}") from error
    end = getattr(credentials, "_expiry_time", None)
    return S3StaticCredentials(frozen.access_key, frozen.secret_key, frozen.token, end)


def authorize_gcs(credentials: AnyGcsCredential) -> Authorization:
    """Return the authorization for Google Cloud Storage."""
    match credentials:
        case GcsCredentials.Anonymous():
            return _ANONYMOUS
        case GcsCredentials.FromEnv():
            return _FROM_ENVIRONMENT
        case GcsCredentials.Refreshable(function, current):
            return Authorization(provider=partial(_answer_gcs, Refresher(function, current)))
        case GcsCredentials.Static(GcsStaticCredentials.ServiceAccount(path)):
            return Authorization({"service_account": path})
        case GcsCredentials.Static(GcsStaticCredentials.ServiceAccountKey(key)):
            return Authorization({"service_account_key": key})
        case GcsCredentials.Static(GcsStaticCredentials.ApplicationCredentials(path)):
            return Authorization({"application_credentials": path})
        case GcsCredentials.Static(GcsStaticCredentials.BearerToken(token)):
            bearer = GcsBearerCredential(token)
            return Authorization(provider=partial(_answer_gcs, lambda: bearer))
    raise InvalidTypeError(f"{type(credentials).__name__} is not a Google Cloud Storage credential")


def authorize_azure(credentials: AnyAzureCredential) -> Authorization:
    """Return the authorization for Azure."""
    match credentials:
        case AzureCredentials.Anonymous():
            return _ANONYMOUS
        case AzureCredentials.FromEnv():
            return _FROM_ENVIRONMENT
        case AzureCredentials.Refreshable(function, current):
            return Authorization(provider=partial(_answer_azure, Refresher(function, current)))
        case AzureCredentials.Static(AzureStaticCredentials.AccessKey(key)):
            return _fixed_azure(AzureRefreshableCredential.AccessKey(key))
        case AzureCredentials.Static(AzureStaticCredentials.SasToken(token)):
            return _fixed_azure(AzureRefreshableCredential.SasToken(token))
        case AzureCredentials.Static(AzureStaticCredentials.BearerToken(token)):
            return _fixed_azure(AzureRefreshableCredential.BearerToken(token))
    raise InvalidTypeError(f"{type(credentials).__name__} is not an Azure credential")


def _fixed_azure(credential: Any) -> Authorization:
    return Authorization(provider=partial(_answer_azure, lambda: credential))


def _answer_s3(get: Callable[[], S3StaticCredentials]) -> Answer:
    found = get()
    if not isinstance(found, S3StaticCredentials):
        raise PermissionDeniedError(
            f"the function that gets credentials must return S3StaticCredentials, not"
            f" {type(found).__name__}"
        )
    return {
        "access_key_id": found.access_key_id,
        "secret_access_key": found.secret_access_key,
        "token": found.session_token,
        "expires_at": _end(found),
    }


def _answer_gcs(get: Callable[[], GcsBearerCredential]) -> Answer:
    found = get()
    return {"token": found.bearer, "expires_at": _end(found)}


def _answer_azure(get: Callable[[], Any]) -> Answer:
    found = get()
    match found:
        case AzureRefreshableCredential.AccessKey(key):
            return {"access_key": key, "expires_at": _end(found)}
        case AzureRefreshableCredential.SasToken(token):
            return {"sas_token": token.lstrip("?"), "expires_at": _end(found)}
        case AzureRefreshableCredential.BearerToken(bearer):
            return {"token": bearer, "expires_at": _end(found)}
    raise InvalidTypeError(f"{type(found).__name__} is not an Azure credential")


def _end(credential: Any) -> Any:
    return None if credential.expires_after is None else in_utc(credential.expires_after)


def find_secrets(credentials: object) -> tuple[str, ...]:
    """Return all strings of a credential that its `repr` hides."""
    if not is_dataclass(credentials):
        return ()
    found: list[str] = []
    for each in fields(credentials):
        value = getattr(credentials, each.name)
        if is_dataclass(value):
            found += find_secrets(value)
        elif isinstance(value, str) and not each.repr:
            found.append(value)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Traits:
    """Capabilities of a kind of store."""

    is_read_only: bool = False
    has_suffix_ranges: bool = True
    can_list: bool = True
    lists_in_order: bool = True
    """True if listings are ordered by the bytes of the keys."""
    has_plain_metadata_names: bool = False
    """True if names of object metadata must be valid identifiers."""
    delete_batch_size: int = 1000
    settings: StorageSettings = field(default_factory=StorageSettings)
    """Default settings of this kind of store."""


class Connection(Protocol):
    """A store that can be opened with different client configurations."""

    @property
    def traits(self) -> Traits: ...

    @property
    def headers(self) -> Headers: ...

    @property
    def silence_seconds(self) -> float | None: ...

    def describe(self) -> str:
        """Return a one-line description without secrets."""

    def details(self) -> dict[str, object]:
        """Return the kind of store and where in it, by the official names, without secrets."""

    def find_secrets(self) -> tuple[str, ...]:
        """Return the secrets that messages must not contain."""

    def open(self, plan: ClientPlan) -> ObjectStore:
        """Return a client, which connects on first use."""

    def resolve(self) -> "Connection":
        """Return the connection to open; a redirect resolves to its target."""


@dataclass(frozen=True, slots=True)
class S3Connection:
    """Bucket of S3 or of an S3-compatible store."""

    bucket: str
    prefix: str
    options: S3Options
    credentials: AnyS3Credential
    headers: Headers = field(default_factory=Headers)
    kind: str = "S3"
    traits: Traits = field(default_factory=Traits)

    def __post_init__(self) -> None:
        options = self.options
        # A self-hosted server with path-style addressing may have tenants: `tenant:bucket`.
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
            config=cast("Any", {**authorization.config, **config}),
            client_options=cast("Any", {**plan.options, "allow_http": options.allow_http}),
            retry_config=cast("Any", plan.retries),
            credential_provider=cast("Any", authorization.provider),
        )


def lists_in_order(connection: Connection) -> bool:
    """Return True if listings are ordered by the bytes of the keys. S3 directory buckets are not."""
    is_directory = isinstance(connection, S3Connection) and connection.bucket.endswith("--x-s3")
    return connection.traits.lists_in_order and not is_directory


# obstore does not compute the others, and they are not needed: every body is signed with its
# SHA-256.
_CHECKSUMS = {ChecksumAlgorithm.Sha256: "sha256", ChecksumAlgorithm.Crc64Nvme: "crc64nvme"}


def address_bucket(options: S3Options, bucket: str) -> tuple[str | None, bool]:
    """Return the endpoint, and whether it is specific to the bucket.

    Like the AWS clients, put the bucket into the host name of a custom endpoint where possible.
    Without an endpoint the environment may name one, which stays unchanged.
    """
    url = options.endpoint_url
    if url is None or options.force_path_style or "." in bucket:
        return url, False
    parts = urlsplit(url)
    if _is_address(parts.hostname or "") or parts.hostname == "localhost":
        return url, False
    return urlunsplit(parts._replace(netloc=f"{bucket}.{parts.netloc}")), True


# All of these become part of a URL and may come from an untrusted source: the configuration of a
# repository, or a redirect. The patterns allow the names that cloud providers allow.
_NAMES = {
    "region": r"[A-Za-z0-9][A-Za-z0-9_.,-]{0,254}",
    "bucket": r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}",
    "tenant and bucket": r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,254}",
    "account": r"[A-Za-z0-9][A-Za-z0-9-]{0,62}",
    "container": r"\$?[A-Za-z0-9][A-Za-z0-9_. -]{0,254}",
    "namespace": r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}",
    "tenant": r"[A-Za-z0-9][A-Za-z0-9.-]{0,254}",
}
_HOST = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_PATH = r"[A-Za-z0-9_./~%:$+-]*"
_OPTION_NAMES = {
    "account": "account", "account_name": "account",
    "bucket": "bucket", "bucket_name": "bucket",
    "container": "container", "container_name": "container",
    "tenant_id": "tenant", "authority_id": "tenant",
}  # fmt: skip
_OPTION_ADDRESSES = ("endpoint", "_url", "authority_host", "workload_host")


def require_name(kind: str, value: str) -> None:
    """Raise InvalidInputError for a name that could redirect a URL."""
    if not re.fullmatch(_NAMES[kind], value):
        raise InvalidInputError(
            f"invalid {kind} {value!r}: expected letters, digits and a few marks such as '-', as the"
            " storage service allows; correct it in the call or in the repository's configuration",
            kind="storage-config",
        )


def require_endpoint(name: str, value: str) -> None:
    """Raise InvalidInputError unless the value is a plain server address."""
    scheme, _, rest = value.partition("://")
    host, _, path = rest.partition("/")
    is_plain = re.fullmatch(_HOST, host) and re.fullmatch(_PATH, path)
    if scheme not in ("http", "https") or not is_plain:
        # The value may contain a password.
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
    """Return a prefix without leading and trailing slashes."""
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
