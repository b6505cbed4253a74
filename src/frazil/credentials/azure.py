"""Who asks Azure Blob Storage."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime

from frazil.credentials.refresh import pickle_function


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
