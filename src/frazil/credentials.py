"""Credentials for S3, GCS, Azure and virtual chunk containers. They never display their secrets."""

import pickle
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, field
from datetime import UTC, datetime, timedelta
from typing import Generic, Protocol, TypeVar

from frazil.display import Item, Listed
from frazil.errors import IcechunkError, InvalidInputError, PermissionDeniedError
from frazil.lazy import dataclass

# Renew this early, so that a request that starts now ends before the credentials expire.
_MARGIN = timedelta(seconds=5)


class Expiring(Protocol):
    """Credential that may expire."""

    @property
    def expires_after(self) -> datetime | None: ...


_Credential = TypeVar("_Credential", bound=Expiring)


class Refresher(Generic[_Credential]):
    """Returns the current credentials and renews them once they have expired.

    Safe to call from many threads. A pickle holds the function and the initial credentials that the
    user chose to include, never those that the function returned here.
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
        """Return current credentials; raise PermissionDeniedError if the user's function fails."""
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
        # Raised outside of the handler: the user's exception may contain secrets, so it is not
        # chained.
        raise PermissionDeniedError(f"the function that gets credentials raised {failed}")


def is_expired(credential: Expiring) -> bool:
    """Return True if credentials have expired or are about to."""
    end = credential.expires_after
    return end is not None and datetime.now(UTC) >= in_utc(end) - _MARGIN


def in_utc(moment: datetime) -> datetime:
    """Return a time with a time zone; a naive time is assumed to be UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def pickle_function(get_credentials: Callable[[], _Credential]) -> bytes:
    """Pickle the function; raise InvalidInputError if that fails."""
    try:
        return pickle.dumps(get_credentials)
    except Exception as error:
        raise InvalidInputError(
            f"the function that gets credentials can't be pickled: {error}", kind="storage-config"
        ) from error


class AzureRefreshableCredential:
    """Credentials that a function may return, with an optional expiry time."""

    @dataclass(frozen=True, slots=True)
    class AccessKey:
        """Account key."""

        key: str = field(repr=False)
        _: KW_ONLY
        expires_after: datetime | None = None

    @dataclass(frozen=True, slots=True)
    class SasToken:
        """Shared access signature."""

        token: str = field(repr=False)
        _: KW_ONLY
        expires_after: datetime | None = None

    @dataclass(frozen=True, slots=True)
    class BearerToken:
        """Bearer token."""

        bearer: str = field(repr=False)
        _: KW_ONLY
        expires_after: datetime | None = None


AnyAzureRefreshableCredential = (
    AzureRefreshableCredential.AccessKey
    | AzureRefreshableCredential.SasToken
    | AzureRefreshableCredential.BearerToken
)


class AzureStaticCredentials:
    """Credentials that do not change."""

    @dataclass(frozen=True, slots=True)
    class AccessKey:
        """Account key."""

        key: str = field(repr=False)

    @dataclass(frozen=True, slots=True)
    class SasToken:
        """Shared access signature."""

        token: str = field(repr=False)

    @dataclass(frozen=True, slots=True)
    class BearerToken:
        """Bearer token."""

        token: str = field(repr=False)


AnyAzureStaticCredential = (
    AzureStaticCredentials.AccessKey
    | AzureStaticCredentials.SasToken
    | AzureStaticCredentials.BearerToken
)


class AzureCredentials:
    """Kinds of Azure credentials."""

    @dataclass(frozen=True, slots=True)
    class Anonymous:
        """No credentials: requests are not signed."""

    @dataclass(frozen=True, slots=True)
    class FromEnv:
        """Credentials from the environment."""

    @dataclass(frozen=True, slots=True)
    class Static:
        """Fixed credentials."""

        credentials: AnyAzureStaticCredential

    @dataclass(frozen=True, slots=True)
    class Refreshable:
        """Credentials returned by a pickled function; `current` is used until it expires."""

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
    """Create fixed Azure credentials from exactly one of the arguments.

    Parameters
    ----------
    access_key, sas_token, bearer_token
        Key of the account, shared access signature, or token of an identity.

    Raises
    ------
    ValueError
        If none or several are given.
    """
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
    """Create credentials from a picklable function, which is called again when they expire.

    Parameters
    ----------
    get_credentials
        Function that returns a credential.
    scatter_initial_credentials
        Call the function now and include its result in pickles.
    """
    current = get_credentials() if scatter_initial_credentials else None
    return AzureCredentials.Refreshable(pickle_function(get_credentials), current)


def azure_from_env_credentials() -> AzureCredentials.FromEnv:
    """Create credentials that are read from the environment."""
    return AzureCredentials.FromEnv()


def azure_anonymous_credentials() -> AzureCredentials.Anonymous:
    """Create anonymous credentials, for public data."""
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
    """Create Azure credentials from the given arguments; without any, from the environment.

    Parameters
    ----------
    access_key, sas_token, bearer_token
        Fixed credentials; at most one of them.
    from_env, anonymous
        Use the credentials of the environment, or none.
    get_credentials
        Function that returns a credential, called again when it expires.
    scatter_initial_credentials
        Call the function now and include its result in pickles.

    Returns
    -------
    AnyAzureCredential

    Raises
    ------
    ValueError
        If the arguments conflict.
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
    """Bearer token with an optional expiry time."""

    bearer: str = field(repr=False)
    _: KW_ONLY
    expires_after: datetime | None = None


class GcsStaticCredentials:
    """Credentials that do not change."""

    @dataclass(frozen=True, slots=True)
    class ServiceAccount:
        """File with the key of a service account."""

        path: str

    @dataclass(frozen=True, slots=True)
    class ServiceAccountKey:
        """Key of a service account."""

        key: str = field(repr=False)

    @dataclass(frozen=True, slots=True)
    class ApplicationCredentials:
        """File with application default credentials."""

        path: str

    @dataclass(frozen=True, slots=True)
    class BearerToken:
        """Bearer token."""

        token: str = field(repr=False)


AnyGcsStaticCredential = (
    GcsStaticCredentials.ServiceAccount
    | GcsStaticCredentials.ServiceAccountKey
    | GcsStaticCredentials.ApplicationCredentials
    | GcsStaticCredentials.BearerToken
)


class GcsCredentials:
    """Kinds of Google Cloud Storage credentials."""

    @dataclass(frozen=True, slots=True)
    class Anonymous:
        """No credentials: requests are not signed."""

    @dataclass(frozen=True, slots=True)
    class FromEnv:
        """Credentials from the environment."""

    @dataclass(frozen=True, slots=True)
    class Static:
        """Fixed credentials."""

        credentials: AnyGcsStaticCredential

    @dataclass(frozen=True, slots=True)
    class Refreshable:
        """Credentials returned by a pickled function; `current` is used until it expires."""

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
    """Create fixed Google Cloud Storage credentials from the first argument that is given.

    Parameters
    ----------
    service_account_file, service_account_key
        Path of a service account's key file, or its contents.
    application_credentials
        Path of a file of application default credentials.
    bearer_token
        Token of an identity.

    Raises
    ------
    ValueError
        If none is given.
    """
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
    """Create credentials from a picklable function, which is called again when they expire.

    Parameters
    ----------
    get_credentials
        Function that returns a credential.
    scatter_initial_credentials
        Call the function now and include its result in pickles.
    """
    current = get_credentials() if scatter_initial_credentials else None
    return GcsCredentials.Refreshable(pickle_function(get_credentials), current)


def gcs_anonymous_credentials() -> GcsCredentials.Anonymous:
    """Create anonymous credentials, for public data."""
    return GcsCredentials.Anonymous()


def gcs_from_env_credentials() -> GcsCredentials.FromEnv:
    """Create credentials that are read from the environment."""
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
    """Create Google Cloud Storage credentials from the arguments; without any, from the environment.

    Parameters
    ----------
    service_account_file, service_account_key, application_credentials, bearer_token
        Fixed credentials; the first that is given is used.
    from_env, anonymous
        Use the credentials of the environment, or none.
    get_credentials
        Function that returns a credential, called again when it expires.
    scatter_initial_credentials
        Call the function now and include its result in pickles.

    Returns
    -------
    AnyGcsCredential

    Raises
    ------
    ValueError
        If the arguments conflict.
    """
    if anonymous:
        return gcs_anonymous_credentials()
    parts = (service_account_file, service_account_key, application_credentials, bearer_token)
    has_parts = any(part is not None for part in parts)
    # The official library prefers the environment to a function, which is then never called.
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
    """Access key and secret, with an optional session token and expiry time.

    Parameters
    ----------
    access_key_id, secret_access_key, session_token
        The credentials. Representations mask them.
    expires_after
        Expiry time; None if they do not expire.
    """

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    expires_after: datetime | None = None

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields with secrets masked and the key id abbreviated."""
        is_long = len(self.access_key_id) > 8
        yield Item("access_key_id", (self.access_key_id[:4] if is_long else "") + _COVERED)
        yield Item("secret_access_key", _COVERED)
        yield Item("session_token", None if self.session_token is None else _COVERED)
        yield Item("expires_after", self.expires_after)


class S3Credentials:
    """Kinds of S3 credentials."""

    @dataclass(frozen=True, slots=True)
    class FromEnv:
        """Credentials from the environment, its configuration files, or the machine."""

    @dataclass(frozen=True, slots=True)
    class Anonymous:
        """No credentials: requests are not signed."""

    @dataclass(frozen=True, slots=True)
    class Static:
        """Fixed credentials."""

        credentials: S3StaticCredentials

    @dataclass(frozen=True, slots=True)
    class Refreshable:
        """Credentials returned by a pickled function; `current` is used until it expires."""

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
    """Create credentials from a picklable function, which is called again when they expire.

    Parameters
    ----------
    get_credentials
        Function that returns credentials.
    scatter_initial_credentials
        Call the function now and include its result in pickles.
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
    """Create fixed S3 credentials.

    Parameters
    ----------
    access_key_id, secret_access_key, session_token
        The credentials.
    expires_after
        Expiry time; None if they do not expire.
    """
    return S3Credentials.Static(
        S3StaticCredentials(access_key_id, secret_access_key, session_token, expires_after)
    )


def s3_anonymous_credentials() -> S3Credentials.Anonymous:
    """Create anonymous credentials, for public data."""
    return S3Credentials.Anonymous()


def s3_from_env_credentials() -> S3Credentials.FromEnv:
    """Create credentials that are read from the environment."""
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
    """Create S3 credentials from the given arguments; without any, from the environment.

    Parameters
    ----------
    access_key_id, secret_access_key, session_token, expires_after
        Fixed credentials.
    anonymous, from_env
        Use no credentials, or those of the environment.
    get_credentials
        Function that returns credentials, called again when they expire.
    scatter_initial_credentials
        Call the function now and include its result in pickles.

    Returns
    -------
    AnyS3Credential

    Raises
    ------
    ValueError
        If the arguments conflict.
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
    """Credentials of a virtual chunk container, by kind of store."""

    @dataclass(frozen=True, slots=True)
    class S3:
        """Credentials for S3 and S3-compatible stores."""

        credentials: AnyS3Credential

    @dataclass(frozen=True, slots=True)
    class Gcs:
        """Credentials for Google Cloud Storage."""

        credentials: AnyGcsCredential

    @dataclass(frozen=True, slots=True)
    class Azure:
        """Credentials for Azure Blob Storage."""

        credentials: AnyAzureCredential

    @dataclass(frozen=True, slots=True)
    class LocalFileSystemAccess:
        """Authorization to read local files, without credentials."""

    @dataclass(frozen=True, slots=True)
    class HttpAccess:
        """Authorization to read from web servers, without credentials."""

    @dataclass(frozen=True, slots=True)
    class HttpBearer:
        """Bearer token for web servers, of a picklable function called for each connection."""

        get_token: Callable[[], str] = field(repr=False)


AnyCredential = (
    Credentials.S3
    | Credentials.Gcs
    | Credentials.Azure
    | Credentials.LocalFileSystemAccess
    | Credentials.HttpAccess
    | Credentials.HttpBearer
)

LocalFileSystemAccess = Credentials.LocalFileSystemAccess()
"""Authorization to read a container of local files."""

HttpAccess = Credentials.HttpAccess()
"""Authorization to read a container on a web server."""


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
    """Return credentials by the URL prefix of their container.

    Parameters
    ----------
    m
        Credentials by URL prefix. Containers without credentials take `LocalFileSystemAccess` or
        `HttpAccess`; None is also accepted.

    Returns
    -------
    dict
        Argument `authorize_virtual_chunk_access` of `Repository.open` and others.

    Raises
    ------
    ValueError
        If a value is not a credential.

    Examples
    --------
    >>> allowed = containers_credentials({"s3://archive/": s3_anonymous_credentials()})
    >>> Repository.open(storage, authorize_virtual_chunk_access=allowed)  # doctest: +SKIP
    """
    return {prefix: _wrap(credential) for prefix, credential in m.items()}


def _wrap(credential: object) -> AnyCredential | None:
    if credential is None:
        return None
    if isinstance(credential, AnyCredential):
        return credential
    if isinstance(credential, AnyS3Credential):
        return Credentials.S3(credential)
    if isinstance(credential, AnyGcsCredential):
        return Credentials.Gcs(credential)
    if isinstance(credential, AnyAzureCredential):
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
