"""Credentials: which kind the arguments mean, and when a function is asked again."""

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from frazil.credentials import (
    AzureCredentials,
    AzureRefreshableCredential,
    AzureStaticCredentials,
    Credentials,
    GcsBearerCredential,
    GcsCredentials,
    GcsStaticCredentials,
    HttpAccess,
    LocalFileSystemAccess,
    Refresher,
    S3Credentials,
    S3StaticCredentials,
    azure_anonymous_credentials,
    azure_credentials,
    azure_from_env_credentials,
    azure_static_credentials,
    containers_credentials,
    gcs_anonymous_credentials,
    gcs_credentials,
    gcs_from_env_credentials,
    gcs_static_credentials,
    is_expired,
    s3_anonymous_credentials,
    s3_credentials,
    s3_from_env_credentials,
    s3_refreshable_credentials,
    s3_static_credentials,
)
from frazil.errors import InvalidInputError, PermissionDeniedError

CALLS = list[int]()
STATIC = S3StaticCredentials("key", "secret")


def get_static() -> S3StaticCredentials:
    return STATIC


def get_bearer() -> GcsBearerCredential:
    return GcsBearerCredential("token")


def get_azure() -> AzureRefreshableCredential.SasToken:
    return AzureRefreshableCredential.SasToken("token")


def get_short() -> S3StaticCredentials:
    CALLS.append(1)
    return S3StaticCredentials("key", "secret", None, datetime.now(UTC) - timedelta(seconds=1))


def get_long() -> S3StaticCredentials:
    CALLS.append(1)
    return S3StaticCredentials("key", "secret", None, datetime.now(UTC) + timedelta(hours=1))


def get_eternal() -> S3StaticCredentials:
    CALLS.append(1)
    return STATIC


def fail() -> S3StaticCredentials:
    raise OSError("the vault is at https://user:password@vault")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (s3_credentials(), S3Credentials.FromEnv()),
        (s3_credentials(from_env=True), s3_from_env_credentials()),
        (s3_credentials(anonymous=True), s3_anonymous_credentials()),
        (
            s3_credentials(access_key_id="key", secret_access_key="secret"),
            s3_static_credentials(access_key_id="key", secret_access_key="secret"),
        ),
        (
            s3_credentials(get_credentials=get_static),
            S3Credentials.Refreshable(pickle.dumps(get_static)),
        ),
        (
            s3_credentials(get_credentials=get_static, scatter_initial_credentials=True),
            S3Credentials.Refreshable(pickle.dumps(get_static), STATIC),
        ),
        (gcs_credentials(), gcs_from_env_credentials()),
        (gcs_credentials(anonymous=True), gcs_anonymous_credentials()),
        (
            gcs_credentials(service_account_file="file"),
            GcsCredentials.Static(GcsStaticCredentials.ServiceAccount("file")),
        ),
        (
            gcs_credentials(service_account_key="key"),
            GcsCredentials.Static(GcsStaticCredentials.ServiceAccountKey("key")),
        ),
        (
            gcs_credentials(application_credentials="file"),
            GcsCredentials.Static(GcsStaticCredentials.ApplicationCredentials("file")),
        ),
        (
            gcs_credentials(bearer_token="token"),
            GcsCredentials.Static(GcsStaticCredentials.BearerToken("token")),
        ),
        (
            gcs_credentials(get_credentials=get_bearer),
            GcsCredentials.Refreshable(pickle.dumps(get_bearer)),
        ),
        (azure_credentials(), azure_from_env_credentials()),
        (azure_credentials(anonymous=True), azure_anonymous_credentials()),
        (
            azure_credentials(access_key="key"),
            AzureCredentials.Static(AzureStaticCredentials.AccessKey("key")),
        ),
        (
            azure_credentials(sas_token="token"),
            AzureCredentials.Static(AzureStaticCredentials.SasToken("token")),
        ),
        (
            azure_credentials(bearer_token="token"),
            AzureCredentials.Static(AzureStaticCredentials.BearerToken("token")),
        ),
        (
            azure_credentials(get_credentials=get_azure),
            AzureCredentials.Refreshable(pickle.dumps(get_azure)),
        ),
    ],
    ids=range(19),
)
def test_the_arguments_report_the_kind(made: object, expected: object) -> None:
    assert made == expected
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    "make",
    [
        lambda: s3_credentials(access_key_id="key"),
        lambda: s3_credentials(from_env=False),
        lambda: s3_credentials(anonymous=True, from_env=True),
        lambda: s3_credentials(access_key_id="k", secret_access_key="s", from_env=True),
        lambda: s3_credentials(access_key_id="k", secret_access_key="s", anonymous=True),
        lambda: s3_credentials(get_credentials=get_static, anonymous=True),
        lambda: gcs_static_credentials(),
        lambda: gcs_credentials(from_env=False),
        lambda: gcs_credentials(bearer_token="t", from_env=True),
        lambda: azure_static_credentials(),
        lambda: azure_static_credentials(access_key="k", sas_token="t"),
        lambda: azure_credentials(from_env=False),
        lambda: azure_credentials(access_key="k", from_env=True),
    ],
    ids=range(13),
)
def test_arguments_that_contradict_each_other_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="Conflicting arguments"):
        make()


def test_containers_get_credentials_of_their_kind() -> None:
    found = containers_credentials(
        {
            "s3://b/": s3_anonymous_credentials(),
            "gcs://b/": gcs_anonymous_credentials(),
            "az://b/": azure_anonymous_credentials(),
            "file:///data/": LocalFileSystemAccess,
            "https://host/": HttpAccess,
            "http://host/": None,
        }
    )

    assert found == {
        "s3://b/": Credentials.S3(S3Credentials.Anonymous()),
        "gcs://b/": Credentials.Gcs(GcsCredentials.Anonymous()),
        "az://b/": Credentials.Azure(AzureCredentials.Anonymous()),
        "file:///data/": Credentials.LocalFileSystemAccess(),
        "https://host/": Credentials.HttpAccess(),
        "http://host/": None,
    }
    with pytest.raises(ValueError, match="Unknown credential type"):
        containers_credentials({"s3://b/": "secret"})  # type: ignore[dict-item]


@pytest.mark.parametrize(("function", "calls"), [(get_short, 3), (get_long, 1), (get_eternal, 1)])
def test_a_function_is_asked_again_when_its_credentials_have_expired(
    function: Callable[[], S3StaticCredentials], calls: int
) -> None:
    CALLS.clear()
    refresher = Refresher[S3StaticCredentials](pickle.dumps(function), None)

    for _ in range(3):
        refresher()

    assert len(CALLS) == calls


def test_initial_credentials_hold_until_they_expire() -> None:
    CALLS.clear()
    fresh = Refresher(pickle.dumps(get_eternal), get_static())
    stale = Refresher(pickle.dumps(get_eternal), get_short())
    CALLS.clear()

    assert fresh() == stale() == STATIC
    assert len(CALLS) == 1


def test_threads_that_want_credentials_at_once_ask_once() -> None:
    CALLS.clear()
    refresher = Refresher[S3StaticCredentials](pickle.dumps(get_long), None)
    barrier = threading.Barrier(8)

    def ask(_: int) -> S3StaticCredentials:
        barrier.wait()
        return refresher()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert len(CALLS) == 1


def test_a_time_without_zone_is_taken_as_utc() -> None:
    in_an_hour = datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=1)
    an_hour_ago = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=1)

    assert not is_expired(S3StaticCredentials("k", "s", None, in_an_hour))
    assert is_expired(S3StaticCredentials("k", "s", None, an_hour_ago))


def test_a_function_that_fails_is_named_and_what_it_said_is_not() -> None:
    with pytest.raises(PermissionDeniedError, match="OSError") as caught:
        Refresher[S3StaticCredentials](pickle.dumps(fail), None)()

    assert "password" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_function_that_can_not_be_pickled_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="can't be pickled"):
        s3_refreshable_credentials(lambda: STATIC)
