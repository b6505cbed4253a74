"""Who asks S3, and what speaks like it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from frazil.credentials.refresh import pickle_function
from frazil.rendering import Item, Listed

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
