"""Secrets are not shown: by `repr`, `str`, logs, exceptions and their chains, or pickles."""

import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from frazil import credentials
from frazil.credentials import AzureRefreshableCredential, GcsBearerCredential, S3StaticCredentials
from frazil.errors import StorageError
from frazil.storage import (
    ObjectStorage,
    ObjectStoreConfig,
    Storage,
    StorageRetriesSettings,
    StorageSettings,
    StorageTimeoutSettings,
    azure_storage,
    gcs_storage,
    http_storage,
    http_store,
    r2_storage,
    s3_storage,
)
from frazil.testing.object_server import DropConnection, Fault, ObjectServer, Refuse, Rule, Truncate

SECRET = "sentinel5ecret"
ONE_TRY = StorageSettings(
    retries=StorageRetriesSettings(max_tries=1),
    timeouts=StorageTimeoutSettings(read_timeout_ms=2_000),
)


def get_s3() -> S3StaticCredentials:
    return S3StaticCredentials(
        "AKIAEXAMPLE", SECRET, SECRET, datetime.now(UTC) + timedelta(hours=1)
    )


def get_gcs() -> GcsBearerCredential:
    return GcsBearerCredential(SECRET, expires_after=datetime.now(UTC) + timedelta(hours=1))


def get_azure() -> AzureRefreshableCredential.SasToken:
    return AzureRefreshableCredential.SasToken(f"sv=2021-08-06&sig={SECRET}")


def raise_with_secret() -> S3StaticCredentials:
    raise RuntimeError(f"the vault says {SECRET}")


@dataclass(frozen=True)
class Case:
    make: Callable[[str], Storage]
    is_refreshable: bool = False


def _s3(url: str, **arguments: object) -> Storage:
    place = {"bucket": "bucket", "prefix": "p", "endpoint_url": url, "allow_http": True}
    return s3_storage(**place, region="us-east-1", **arguments)  # type: ignore[arg-type]


def _azure(url: str, **arguments: str) -> Storage:
    config = {"endpoint": f"{url}/account", "allow_http": "true"}
    return azure_storage(account="a", container="bucket", prefix="p", config=config, **arguments)  # type: ignore[arg-type]


CASES = {
    "s3, static": Case(
        lambda url: _s3(
            url, access_key_id="AKIAEXAMPLE", secret_access_key=SECRET, session_token=SECRET
        )
    ),
    "s3, refreshable": Case(lambda url: _s3(url, get_credentials=get_s3), True),
    "s3, a function that fails": Case(
        lambda url: _s3(url, get_credentials=raise_with_secret), True
    ),
    "s3, headers": Case(
        lambda url: _s3(url, anonymous=True, headers={"authorization": f"Bearer {SECRET}"})
    ),
    "r2": Case(
        lambda url: r2_storage(
            bucket="bucket",
            endpoint_url=url,
            allow_http=True,
            access_key_id="k",
            secret_access_key=SECRET,
        )
    ),
    "gcs, token": Case(
        lambda url: gcs_storage(
            bucket="bucket",
            prefix="p",
            bearer_token=SECRET,
            config={"base_url": url, "allow_http": "true"},
        )
    ),
    "gcs, refreshable": Case(
        lambda url: gcs_storage(
            bucket="bucket",
            prefix="p",
            get_credentials=get_gcs,
            config={"base_url": url, "allow_http": "true"},
        ),
        True,
    ),
    "azure, key": Case(lambda url: _azure(url, access_key="c2VudGluZWw1ZWNyZXQ=")),
    "azure, signature": Case(lambda url: _azure(url, sas_token=f"?sv=2021-08-06&sig={SECRET}")),
    "azure, token": Case(lambda url: _azure(url, bearer_token=SECRET)),
    "http, headers": Case(lambda url: http_storage(url, headers={"authorization": SECRET})),
    "http, address": Case(
        lambda url: http_storage(
            url.replace("://", f"://user:{SECRET}@") + f"/bucket?token={SECRET}"
        )
    ),
}

FAULTS: list[Fault] = [
    Refuse(403, "AccessDenied"),
    Refuse(400, "BadRequest"),
    Refuse(500),
    Refuse(409, "Conflict"),
    Refuse(404, "NoSuchBucket"),
    DropConnection(),
    Truncate(0),
]


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer() as running:
        yield running


def describe(error: BaseException | None) -> Iterator[str]:
    """All that an exception shows, its notes, causes and contexts too."""
    while error is not None:
        yield from (repr(error), str(error), repr(error.args), repr(error.__dict__))
        yield from getattr(error, "__notes__", ())
        yield "".join(traceback.format_exception(error))
        error = error.__cause__ or error.__context__


def find_reported(storage: Storage, server: ObjectServer) -> Iterator[str]:
    """All that a storage shows while things go wrong."""
    yield from (repr(storage), str(storage), f"{storage}")
    for fault in FAULTS:
        server.inject([Rule(fault)])
        for work in (
            lambda: storage.get("object"),
            lambda: storage.get_versioned("object"),
            lambda: list(storage.list()),
            lambda: storage.put("object", b"data"),
            lambda: storage.create("object", b"data"),
        ):
            try:
                work()
            except Exception as error:
                yield from describe(error)
        if not storage.is_read_only:
            yield repr(storage.delete_many(["object"]))


@pytest.mark.parametrize("name", CASES)
def test_a_storage_never_shows_its_secrets(
    name: str,
    server: ObjectServer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    case = CASES[name]
    storage = case.make(server.url)
    assert isinstance(storage, ObjectStorage)
    storage = storage.with_settings(ONE_TRY)

    with caplog.at_level(logging.DEBUG):
        reported = list(find_reported(storage, server))

    output = capfd.readouterr()
    for text in (*reported, caplog.text, output.out, output.err):
        assert SECRET not in text
        assert "c2VudGluZWw1ZWNyZXQ" not in text
    assert len(reported) > 20
    if case.is_refreshable:
        assert SECRET.encode() not in pickle.dumps(storage)


def test_credentials_never_show_their_secrets() -> None:
    shown = [
        credentials.s3_credentials(
            access_key_id=SECRET, secret_access_key=SECRET, session_token=SECRET
        ),
        credentials.s3_refreshable_credentials(get_s3, scatter_initial_credentials=True),
        credentials.gcs_credentials(bearer_token=SECRET),
        credentials.gcs_credentials(service_account_key=SECRET),
        credentials.gcs_refreshable_credentials(get_gcs, scatter_initial_credentials=True),
        credentials.azure_credentials(access_key=SECRET),
        credentials.azure_credentials(sas_token=SECRET),
        credentials.azure_credentials(bearer_token=SECRET),
        credentials.azure_refreshable_credentials(get_azure, scatter_initial_credentials=True),
        AzureRefreshableCredential.AccessKey(SECRET),
        AzureRefreshableCredential.BearerToken(SECRET),
        credentials.containers_credentials(
            {
                "s3://b/": credentials.s3_static_credentials(
                    access_key_id="a", secret_access_key=SECRET
                )
            }
        ),
        http_store({"proxy_password": SECRET}, {"authorization": SECRET}),
        ObjectStoreConfig.Azure({"account": "a", "sas_token": SECRET}),
        ObjectStoreConfig.Gcs({"service_account_key": SECRET}),
    ]

    for each in shown:
        assert SECRET not in repr(each)
        assert SECRET not in str(each)


def test_what_was_refreshed_does_not_travel_unless_the_user_said_so(server: ObjectServer) -> None:
    kept = _s3(server.url, get_credentials=get_s3)
    scattered = _s3(server.url, get_credentials=get_s3, scatter_initial_credentials=True)
    kept.put("object", b"data")

    assert SECRET.encode() not in pickle.dumps(kept)
    assert SECRET.encode() in pickle.dumps(scattered)
    assert bytes(pickle.loads(pickle.dumps(kept)).get("object")) == b"data"


def test_an_error_of_a_storage_survives_pickling_without_secrets(server: ObjectServer) -> None:
    storage = CASES["azure, signature"].make(server.url)
    assert isinstance(storage, ObjectStorage)
    server.inject([Rule(Refuse(400, "BadRequest"))])

    with pytest.raises(StorageError) as caught:
        storage.with_settings(ONE_TRY).get("object")

    data = pickle.dumps(caught.value)
    assert SECRET.encode() not in data
    assert str(pickle.loads(data)) == str(caught.value)
