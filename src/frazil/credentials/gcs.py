"""Who asks Google Cloud Storage."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime

from frazil.credentials.refresh import pickle_function


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
