"""Credentials of S3, GCS, Azure and containers: values that never show their secrets."""

import pickle
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Generic, Protocol, TypeVar

from frazil.display import Item, Listed
from frazil.errors import IcechunkError, InvalidInputError, PermissionDeniedError

# Renewed this early, so that a request that starts now ends before they expire.
_MARGIN = timedelta(seconds=5)


class Expiring(Protocol):
    """What may expire."""

    @property
    def expires_after(self) -> datetime | None: ...


_Credential = TypeVar("_Credential", bound=Expiring)


class Refresher(Generic[_Credential]):
    """Credentials as of now: the ones at hand, or after their end new ones, asked for once.

    Safe to call from many threads. Pickled, it holds the function and what the user chose to send
    along, never what the function returned here.
    """

    def __init__(self, pickled_function: bytes, initial: _Credential | None) -> None:
        self._pickled_function = pickled_function
        self._initial = initial
        self._current = initial
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._pickled_function, self._initial))

    def __repr__(self) -> str:
        return "<refreshable credentials>"

    def __call__(self) -> _Credential:
        """Raises PermissionDeniedError if the user's function fails."""
        with self._lock:
            if self._current is None or is_expired(self._current):
                self._current = self._ask()
            return self._current

    def _ask(self) -> _Credential:
        failed = ""
        try:
            get_credentials: Callable[[], _Credential] = pickle.loads(self._pickled_function)
            if not callable(get_credentials):
                raise IcechunkError(f"{type(get_credentials).__name__!r} object is not callable")
            return get_credentials()
        except IcechunkError as error:
            failed = f"{type(error).__name__}: {error}"  # of ours, so meant to be read
        except Exception as error:
            failed = type(error).__name__
        # Outside of the handler: what the function said may tell secrets, so it is not chained.
        raise PermissionDeniedError(f"the function that gets credentials raised {failed}")


def is_expired(credential: Expiring) -> bool:
    """Whether credentials are over, or as good as that."""
    end = credential.expires_after
    return end is not None and datetime.now(UTC) >= in_utc(end) - _MARGIN


def in_utc(moment: datetime) -> datetime:
    """A time with its zone; one without is taken to be UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def pickle_function(get_credentials: Callable[[], _Credential]) -> bytes:
    """The function as it travels between processes."""
    try:
        return pickle.dumps(get_credentials)
    except Exception as error:
        raise InvalidInputError(
            f"the function that gets credentials can't be pickled: {error}", kind="storage-config"
        ) from error


class AzureRefreshableCredential:
    """The kinds of credentials that a function may return, each with its end."""

    @dataclass(frozen=True, slots=True)
    class AccessKey:
        """An account's key."""

        key: str = field(repr=False)
        _: KW_ONLY
        expires_after: datetime | None = None

    @dataclass(frozen=True, slots=True)
    class SasToken:
        """A shared access signature."""

        token: str = field(repr=False)
        _: KW_ONLY
        expires_after: datetime | None = None

    @dataclass(frozen=True, slots=True)
    class BearerToken:
        """A token."""

        bearer: str = field(repr=False)
        _: KW_ONLY
        expires_after: datetime | None = None


AnyAzureRefreshableCredential = (
    AzureRefreshableCredential.AccessKey
    | AzureRefreshableCredential.SasToken
    | AzureRefreshableCredential.BearerToken
)


class AzureStaticCredentials:
    """The kinds of credentials that do not change."""

    @dataclass(frozen=True, slots=True)
    class AccessKey:
        """An account's key."""

        key: str = field(repr=False)

    @dataclass(frozen=True, slots=True)
    class SasToken:
        """A shared access signature."""

        token: str = field(repr=False)

    @dataclass(frozen=True, slots=True)
    class BearerToken:
        """A token."""

        token: str = field(repr=False)


AnyAzureStaticCredential = (
    AzureStaticCredentials.AccessKey
    | AzureStaticCredentials.SasToken
    | AzureStaticCredentials.BearerToken
)


class AzureCredentials:
    """The kinds of credentials; an alternative each."""

    @dataclass(frozen=True, slots=True)
    class Anonymous:
        """None: requests are not signed."""

    @dataclass(frozen=True, slots=True)
    class FromEnv:
        """Whatever the environment provides."""

    @dataclass(frozen=True, slots=True)
    class Static:
        """Always the same."""

        credentials: AnyAzureStaticCredential

    @dataclass(frozen=True, slots=True)
    class Refreshable:
        """What a pickled function returns; `current` holds until it expires."""

        pickled_function: bytes = field(repr=False)
        current: AnyAzureRefreshableCredential | None = field(default=None, repr=False)


AnyAzureCredential = (
    AzureCredentials.FromEnv
    | AzureCredentials.Anonymous
    | AzureCredentials.Static
    | AzureCredentials.Refreshable
)


def azure_static_credentials(
    *,
    access_key: str | None = None,
    sas_token: str | None = None,
    bearer_token: str | None = None,
) -> AnyAzureStaticCredential:
    """Credentials of the kind that is given; raises ValueError unless exactly one is."""
    match access_key, sas_token, bearer_token:
        case str(key), None, None:
            return AzureStaticCredentials.AccessKey(key)
        case None, str(token), None:
            return AzureStaticCredentials.SasToken(token)
        case None, None, str(token):
            return AzureStaticCredentials.BearerToken(token)
    raise ValueError("Conflicting arguments to azure_static_credentials function")


def azure_refreshable_credentials(
    get_credentials: Callable[[], AnyAzureRefreshableCredential],
    scatter_initial_credentials: bool = False,
) -> AzureCredentials.Refreshable:
    """Credentials that a picklable function provides, asked again when they expire.

    With `scatter_initial_credentials` it is asked now, and its answer travels in pickles.
    """
    current = get_credentials() if scatter_initial_credentials else None
    return AzureCredentials.Refreshable(pickle_function(get_credentials), current)


def azure_from_env_credentials() -> AzureCredentials.FromEnv:
    """Credentials from the environment."""
    return AzureCredentials.FromEnv()


def azure_anonymous_credentials() -> AzureCredentials.Anonymous:
    """No credentials, for what is public."""
    return AzureCredentials.Anonymous()


def azure_credentials(
    *,
    access_key: str | None = None,
    sas_token: str | None = None,
    bearer_token: str | None = None,
    from_env: bool | None = None,
    anonymous: bool | None = None,
    get_credentials: Callable[[], AnyAzureRefreshableCredential] | None = None,
    scatter_initial_credentials: bool = False,
) -> AnyAzureCredential:
    """Credentials of the kind that the arguments mean; from the environment if there are none.

    Raises ValueError if they mean several.
    """
    if anonymous:
        return azure_anonymous_credentials()
    if get_credentials is not None:
        return azure_refreshable_credentials(get_credentials, scatter_initial_credentials)
    has_parts = any(part is not None for part in (access_key, sas_token, bearer_token))
    if not has_parts and from_env is not False:
        return azure_from_env_credentials()
    if has_parts and not from_env:
        return AzureCredentials.Static(
            azure_static_credentials(
                access_key=access_key, sas_token=sas_token, bearer_token=bearer_token
            )
        )
    raise ValueError("Conflicting arguments to azure_credentials function")


@dataclass(frozen=True, slots=True)
class GcsBearerCredential:
    """A token, and when it ends."""

    bearer: str = field(repr=False)
    _: KW_ONLY
    expires_after: datetime | None = None


class GcsStaticCredentials:
    """The kinds of credentials that do not change."""

    @dataclass(frozen=True, slots=True)
    class ServiceAccount:
        """A file with a service account's key."""

        path: str

    @dataclass(frozen=True, slots=True)
    class ServiceAccountKey:
        """A service account's key itself."""

        key: str = field(repr=False)

    @dataclass(frozen=True, slots=True)
    class ApplicationCredentials:
        """A file with application default credentials."""

        path: str

    @dataclass(frozen=True, slots=True)
    class BearerToken:
        """A token."""

        token: str = field(repr=False)


AnyGcsStaticCredential = (
    GcsStaticCredentials.ServiceAccount
    | GcsStaticCredentials.ServiceAccountKey
    | GcsStaticCredentials.ApplicationCredentials
    | GcsStaticCredentials.BearerToken
)


class GcsCredentials:
    """The kinds of credentials; an alternative each."""

    @dataclass(frozen=True, slots=True)
    class Anonymous:
        """None: requests are not signed."""

    @dataclass(frozen=True, slots=True)
    class FromEnv:
        """Whatever the environment provides."""

    @dataclass(frozen=True, slots=True)
    class Static:
        """Always the same."""

        credentials: AnyGcsStaticCredential

    @dataclass(frozen=True, slots=True)
    class Refreshable:
        """What a pickled function returns; `current` holds until it expires."""

        pickled_function: bytes = field(repr=False)
        current: GcsBearerCredential | None = field(default=None, repr=False)


AnyGcsCredential = (
    GcsCredentials.Anonymous
    | GcsCredentials.FromEnv
    | GcsCredentials.Static
    | GcsCredentials.Refreshable
)


def gcs_static_credentials(
    *,
    service_account_file: str | None = None,
    service_account_key: str | None = None,
    application_credentials: str | None = None,
    bearer_token: str | None = None,
) -> AnyGcsStaticCredential:
    """Credentials of the first kind that is given; raises ValueError if none is."""
    if service_account_file is not None:
        return GcsStaticCredentials.ServiceAccount(service_account_file)
    if service_account_key is not None:
        return GcsStaticCredentials.ServiceAccountKey(service_account_key)
    if application_credentials is not None:
        return GcsStaticCredentials.ApplicationCredentials(application_credentials)
    if bearer_token is not None:
        return GcsStaticCredentials.BearerToken(bearer_token)
    raise ValueError("Conflicting arguments to gcs_static_credentials function")


def gcs_refreshable_credentials(
    get_credentials: Callable[[], GcsBearerCredential],
    scatter_initial_credentials: bool = False,
) -> GcsCredentials.Refreshable:
    """Credentials that a picklable function provides, asked again when they expire.

    With `scatter_initial_credentials` it is asked now, and its answer travels in pickles.
    """
    current = get_credentials() if scatter_initial_credentials else None
    return GcsCredentials.Refreshable(pickle_function(get_credentials), current)


def gcs_anonymous_credentials() -> GcsCredentials.Anonymous:
    """No credentials, for what is public."""
    return GcsCredentials.Anonymous()


def gcs_from_env_credentials() -> GcsCredentials.FromEnv:
    """Credentials from the environment."""
    return GcsCredentials.FromEnv()


def gcs_credentials(
    *,
    service_account_file: str | None = None,
    service_account_key: str | None = None,
    application_credentials: str | None = None,
    bearer_token: str | None = None,
    from_env: bool | None = None,
    anonymous: bool | None = None,
    get_credentials: Callable[[], GcsBearerCredential] | None = None,
    scatter_initial_credentials: bool = False,
) -> AnyGcsCredential:
    """Credentials of the kind that the arguments mean; from the environment if there are none.

    Raises ValueError if they mean several.
    """
    if anonymous:
        return gcs_anonymous_credentials()
    parts = (service_account_file, service_account_key, application_credentials, bearer_token)
    has_parts = any(part is not None for part in parts)
    # The official library takes the environment before a function, which is then never called.
    if get_credentials is not None and not has_parts and not from_env:
        return gcs_refreshable_credentials(get_credentials, scatter_initial_credentials)
    if not has_parts and from_env is not False:
        return gcs_from_env_credentials()
    if has_parts and not from_env and get_credentials is None:
        return GcsCredentials.Static(
            gcs_static_credentials(
                service_account_file=service_account_file,
                service_account_key=service_account_key,
                application_credentials=application_credentials,
                bearer_token=bearer_token,
            )
        )
    raise ValueError("Conflicting arguments to gcs_credentials function")


_COVERED = "****"


@dataclass(frozen=True, slots=True, repr=False)
class S3StaticCredentials(Listed):
    """A key, its secret, and perhaps a session; `expires_after` tells when they end."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    expires_after: datetime | None = None

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields, of secrets only whether they are set, of the key its first letters."""
        is_long = len(self.access_key_id) > 8
        yield Item("access_key_id", (self.access_key_id[:4] if is_long else "") + _COVERED)
        yield Item("secret_access_key", _COVERED)
        yield Item("session_token", None if self.session_token is None else _COVERED)
        yield Item("expires_after", self.expires_after)


class S3Credentials:
    """The kinds of credentials; an alternative each."""

    @dataclass(frozen=True, slots=True)
    class FromEnv:
        """Whatever the environment, its files or the machine provide."""

    @dataclass(frozen=True, slots=True)
    class Anonymous:
        """None: requests are not signed."""

    @dataclass(frozen=True, slots=True)
    class Static:
        """Always the same."""

        credentials: S3StaticCredentials

    @dataclass(frozen=True, slots=True)
    class Refreshable:
        """What a pickled function returns; `current` holds until it expires."""

        pickled_function: bytes = field(repr=False)
        current: S3StaticCredentials | None = field(default=None, repr=False)


AnyS3Credential = (
    S3Credentials.Static
    | S3Credentials.Anonymous
    | S3Credentials.FromEnv
    | S3Credentials.Refreshable
)


def s3_refreshable_credentials(
    get_credentials: Callable[[], S3StaticCredentials],
    scatter_initial_credentials: bool = False,
) -> S3Credentials.Refreshable:
    """Credentials that a picklable function provides, asked again when they expire.

    With `scatter_initial_credentials` it is asked now, and its answer travels in pickles.
    """
    current = get_credentials() if scatter_initial_credentials else None
    return S3Credentials.Refreshable(pickle_function(get_credentials), current)


def s3_static_credentials(
    *,
    access_key_id: str,
    secret_access_key: str,
    session_token: str | None = None,
    expires_after: datetime | None = None,
) -> S3Credentials.Static:
    """Credentials that do not change."""
    return S3Credentials.Static(
        S3StaticCredentials(access_key_id, secret_access_key, session_token, expires_after)
    )


def s3_anonymous_credentials() -> S3Credentials.Anonymous:
    """No credentials, for what is public."""
    return S3Credentials.Anonymous()


def s3_from_env_credentials() -> S3Credentials.FromEnv:
    """Credentials from the environment."""
    return S3Credentials.FromEnv()


def s3_credentials(
    *,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    expires_after: datetime | None = None,
    anonymous: bool | None = None,
    from_env: bool | None = None,
    get_credentials: Callable[[], S3StaticCredentials] | None = None,
    scatter_initial_credentials: bool = False,
) -> AnyS3Credential:
    """Credentials of the kind that the arguments mean; from the environment if there are none.

    Raises ValueError if they mean several.
    """
    parts = (access_key_id, secret_access_key, session_token, expires_after)
    has_parts = any(part is not None for part in parts)
    match has_parts, bool(anonymous), bool(from_env), get_credentials:
        case False, False, _, None if from_env is not False:
            return s3_from_env_credentials()
        case False, True, False, None:
            return s3_anonymous_credentials()
        case False, False, False, function if function is not None:
            return s3_refreshable_credentials(function, scatter_initial_credentials)
        case True, False, False, None if access_key_id and secret_access_key:
            return s3_static_credentials(
                access_key_id=access_key_id,
                secret_access_key=secret_access_key,
                session_token=session_token,
                expires_after=expires_after,
            )
    raise ValueError("Conflicting arguments to s3_credentials function")


class Credentials:
    """Credentials with the kind of store they are for."""

    @dataclass(frozen=True, slots=True)
    class S3:
        """For S3 and what speaks like it."""

        credentials: AnyS3Credential

    @dataclass(frozen=True, slots=True)
    class Gcs:
        """For Google Cloud Storage."""

        credentials: AnyGcsCredential

    @dataclass(frozen=True, slots=True)
    class Azure:
        """For Azure Blob Storage."""

        credentials: AnyAzureCredential

    @dataclass(frozen=True, slots=True)
    class LocalFileSystemAccess:
        """Leave to read files, which takes no credentials."""

    @dataclass(frozen=True, slots=True)
    class HttpAccess:
        """Leave to read from web servers, which takes no credentials."""


AnyCredential = (
    Credentials.S3
    | Credentials.Gcs
    | Credentials.Azure
    | Credentials.LocalFileSystemAccess
    | Credentials.HttpAccess
)

LocalFileSystemAccess = Credentials.LocalFileSystemAccess()
"""Leave to read a container of files."""

HttpAccess = Credentials.HttpAccess()
"""Leave to read a container on a web server."""

_S3 = (
    S3Credentials.FromEnv,
    S3Credentials.Anonymous,
    S3Credentials.Static,
    S3Credentials.Refreshable,
)
_GCS = (
    GcsCredentials.FromEnv,
    GcsCredentials.Anonymous,
    GcsCredentials.Static,
    GcsCredentials.Refreshable,
)
_AZURE = (
    AzureCredentials.FromEnv,
    AzureCredentials.Anonymous,
    AzureCredentials.Static,
    AzureCredentials.Refreshable,
)


def containers_credentials(
    m: Mapping[
        str,
        AnyS3Credential
        | AnyGcsCredential
        | AnyAzureCredential
        | Credentials.LocalFileSystemAccess
        | Credentials.HttpAccess
        | None,
    ],
) -> dict[str, AnyCredential | None]:
    """Credentials by the URL prefix of the container that they are for.

    Containers that need none take `LocalFileSystemAccess` or `HttpAccess`; None is accepted still.
    Raises ValueError for what is no credential.
    """
    return {prefix: _wrap(credential) for prefix, credential in m.items()}


def _wrap(credential: object) -> AnyCredential | None:
    if credential is None:
        return None
    if isinstance(credential, Credentials.LocalFileSystemAccess | Credentials.HttpAccess):
        return credential
    if isinstance(credential, _S3):
        return Credentials.S3(credential)
    if isinstance(credential, _GCS):
        return Credentials.Gcs(credential)
    if isinstance(credential, _AZURE):
        return Credentials.Azure(credential)
    raise ValueError(f"Unknown credential type {type(credential)}")


__all__ = [
    "AnyAzureCredential",
    "AnyAzureStaticCredential",
    "AnyCredential",
    "AnyGcsCredential",
    "AnyGcsStaticCredential",
    "AnyS3Credential",
    "AzureCredentials",
    "AzureRefreshableCredential",
    "AzureStaticCredentials",
    "Credentials",
    "GcsBearerCredential",
    "GcsCredentials",
    "GcsStaticCredentials",
    "HttpAccess",
    "LocalFileSystemAccess",
    "S3Credentials",
    "S3StaticCredentials",
    "azure_anonymous_credentials",
    "azure_credentials",
    "azure_from_env_credentials",
    "azure_refreshable_credentials",
    "azure_static_credentials",
    "containers_credentials",
    "gcs_anonymous_credentials",
    "gcs_credentials",
    "gcs_from_env_credentials",
    "gcs_refreshable_credentials",
    "gcs_static_credentials",
    "s3_anonymous_credentials",
    "s3_credentials",
    "s3_from_env_credentials",
    "s3_refreshable_credentials",
    "s3_static_credentials",
]
