"""Credentials in the words of obstore.

Ours are handed over by a function rather than as configuration: next to configured ones, obstore would
take a session token or an account from the environment, which belongs to somebody else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from typing import Any

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
    S3Credentials,
    S3StaticCredentials,
)
from frazil.credentials.refresh import Refresher, in_utc
from frazil.errors import InvalidTypeError, PermissionDeniedError

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Authorization:
    """What a store is opened with: configuration, or a function that is asked."""

    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    provider: Callable[[], Answer] | None = None


_ANONYMOUS = Authorization({"skip_signature": True})
_FROM_ENVIRONMENT = Authorization()


def authorize_s3(credentials: AnyS3Credential, *, is_anonymous: bool) -> Authorization:
    """How S3 learns who asks."""
    match credentials:
        case _ if is_anonymous:
            return _ANONYMOUS
        case S3Credentials.Anonymous():
            return _ANONYMOUS
        case S3Credentials.FromEnv():
            return _FROM_ENVIRONMENT
        case S3Credentials.Static(static):
            return Authorization(provider=partial(_answer_s3, lambda: static))
        case S3Credentials.Refreshable(function, current):
            return Authorization(provider=partial(_answer_s3, Refresher(function, current)))
    raise InvalidTypeError(f"{type(credentials).__name__} is no credential of S3's")


def authorize_gcs(credentials: AnyGcsCredential) -> Authorization:
    """How Google learns who asks."""
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
    raise InvalidTypeError(f"{type(credentials).__name__} is no credential of Google's")


def authorize_azure(credentials: AnyAzureCredential) -> Authorization:
    """How Azure learns who asks."""
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
    raise InvalidTypeError(f"{type(credentials).__name__} is no credential of Azure's")


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
    raise InvalidTypeError(f"{type(found).__name__} is no credential of Azure's")


def _end(credential: Any) -> Any:
    return None if credential.expires_after is None else in_utc(credential.expires_after)


def find_secrets(credentials: object) -> tuple[str, ...]:
    """All texts in a credential that its own `repr` leaves out."""
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
