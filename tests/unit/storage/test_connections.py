"""Which store is meant: addresses, services, clients, and what an error says about them."""

import json
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from frazil.credentials import GcsCredentials, S3Credentials, s3_anonymous_credentials
from frazil.errors import InvalidInputError, PermissionDeniedError, StorageError
from frazil.storage import (
    S3Options,
    Storage,
    StorageSettings,
    StorageTimeoutSettings,
    azure_storage,
    gcs_storage,
    hf_storage,
    http_storage,
    in_memory_storage,
    local_filesystem_storage,
    r2_storage,
    redirect_storage,
    s3_storage,
    tigris_storage,
)
from frazil.storage.clients import Failure, diagnose, redact
from frazil.storage.connections import (
    SIZE_CLASSES,
    Authorization,
    GcsConnection,
    Headers,
    Purpose,
    S3Connection,
    address_bucket,
    authorize_s3,
    plan_client,
    size_class,
    split_options,
)
from frazil.storage.interface import resolve_settings
from frazil.storage.s3_services import connect, hf_connection, r2_connection, tigris_connection
from frazil.storage.store_config import cover
from frazil.urls import RepositoryUrl

ANONYMOUS = s3_anonymous_credentials()


@pytest.mark.parametrize(
    ("options", "bucket", "expected"),
    [
        (S3Options(), "b", (None, False)),
        (S3Options(force_path_style=True), "b", (None, False)),
        (S3Options(endpoint_url="https://h"), "dotted.bucket", ("https://h", False)),
        (S3Options(endpoint_url="https://host"), "b", ("https://b.host", True)),
        (
            S3Options(endpoint_url="https://host", force_path_style=True),
            "b",
            ("https://host", False),
        ),
        (S3Options(endpoint_url="http://127.0.0.1:9"), "b", ("http://127.0.0.1:9", False)),
        (S3Options(endpoint_url="http://localhost:9"), "b", ("http://localhost:9", False)),
        (S3Options(endpoint_url="http://[::1]:9"), "b", ("http://[::1]:9", False)),
    ],
)
def test_a_bucket_is_addressed_as_amazon_s_clients_do(
    options: S3Options, bucket: str, expected: tuple[str | None, bool]
) -> None:
    assert address_bucket(options, bucket) == expected


def test_tigris_is_asked_to_be_consistent() -> None:
    headers = Headers({"x-own": "r"}, {"x-tigris-regions": "elsewhere"})

    found = tigris_connection(
        S3Options("iad"), "b", "p/", ANONYMOUS, headers, is_weakly_consistent=False
    )

    required = {"X-Tigris-Regions": "iad", "X-Tigris-Consistent": "true"}
    assert found.headers.write == required
    assert found.headers.read == {"x-own": "r", **required, "Cache-Control": "no-cache"}
    assert found.options.endpoint_url == "https://t3.storage.dev"
    assert found.prefix == "p"
    assert not found.traits.is_read_only


def test_tigris_without_a_region_can_only_be_read() -> None:
    assert tigris_storage(bucket="b", prefix=None, use_weak_consistency=True).is_read_only
    with pytest.raises(StorageError, match="region"):
        tigris_storage(bucket="b", prefix=None)
    with pytest.raises(StorageError, match="constructor of its own"):
        s3_storage(bucket="b", prefix=None, endpoint_url="https://t3.storage.dev")


def test_r2_finds_account_bucket_and_region() -> None:
    found = r2_connection(S3Options(), None, "bucket/a/b", "account", ANONYMOUS, Headers())

    assert (found.bucket, found.prefix) == ("bucket", "a/b")
    assert found.options.endpoint_url == "https://account.r2.cloudflarestorage.com"
    assert found.options.region == "auto"
    assert found.options.force_path_style
    with pytest.raises(InvalidInputError, match="bucket or prefix must be given"):
        r2_storage(account_id="a")
    with pytest.raises(InvalidInputError, match="account_id must be given"):
        r2_storage(bucket="b")


def test_hugging_face_keeps_no_metadata() -> None:
    found = hf_connection(S3Options(), "b", None, "owner", ANONYMOUS, Headers())

    assert found.options.endpoint_url == "https://s3.hf.co/owner"
    assert found.traits.settings.unsafe_use_metadata is False


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://b/p/q?region=eu", "S3, bucket 'b', prefix 'p/q'"),
        ("gs://b/p", "Google Cloud Storage, bucket 'b', prefix 'p'"),
        ("gcs://b/p/", "Google Cloud Storage, bucket 'b', prefix 'p'"),
        ("r2://b/p?account_id=x", "R2, bucket 'b', prefix 'p'"),
        ("tigris://b/p", "Tigris, bucket 'b', prefix 'p'"),
        ("https+icechunk://host/p", "HTTP, https://host/p"),
        ("http+ic://host/p", "HTTP, http://host/p"),
    ],
)
def test_an_address_of_a_storage_means_a_connection(url: str, expected: str) -> None:
    assert connect(url).describe() == expected


def test_an_address_that_lacks_something_is_refused() -> None:
    for url, reason in (("s3://b/p", "region"), ("gs:///p", "bucket")):
        with pytest.raises(StorageError, match=reason):
            connect(url)


STORAGES: dict[str, Storage] = {
    "memory": in_memory_storage(),
    "disk": local_filesystem_storage("/nowhere"),
    "s3": s3_storage(bucket="b", prefix="p", from_env=True),
    "tigris": tigris_storage(bucket="b", prefix="p", region="iad"),
    "r2": r2_storage(bucket="b", prefix="p", account_id="a"),
    "hf": hf_storage(bucket="b", prefix="p", namespace="n"),
    "gcs": gcs_storage(bucket="b", prefix="p"),
    "azure": azure_storage(account="a", container="c", prefix="p"),
    "http": http_storage("https://host/p"),
    "redirect": redirect_storage("https://host/p"),
}


@pytest.mark.parametrize("name", STORAGES)
def test_a_storage_that_is_made_shows_and_travels_without_being_opened(name: str) -> None:
    storage = STORAGES[name]

    copy = pickle.loads(pickle.dumps(storage))

    assert repr(copy) == repr(storage)
    assert repr(storage).startswith("<frazil.Storage>\ntype: ")
    assert copy.is_read_only == (name in ("http", "redirect"))


def test_keys_that_begin_with_a_slash_are_refused_in_words() -> None:
    with pytest.raises(InvalidInputError, match="begin with a slash"):
        s3_storage(bucket="b", prefix=None, legacy_rooted_keys=True)


def test_options_of_the_client_are_distinguished_from_those_of_the_store() -> None:
    store, client = split_options({"base_url": "u", "allow_http": "true", "timeout": "5s"})

    assert store == {"base_url": "u"}
    assert client == {"allow_http": "true", "timeout": "5s"}


def test_an_option_that_nobody_knows_is_an_error_that_names_it() -> None:
    storage = gcs_storage(bucket="b", prefix="p", anonymous=True, config={"no_such_option": "x"})

    with pytest.raises(StorageError, match="no_such_option"):
        storage.get("object")


def plan(purpose: Purpose, settings: StorageSettings, size_bytes: int = 0) -> Any:
    effective = resolve_settings(settings)
    return plan_client(effective, purpose, size_class(size_bytes), Headers(), 60.0)


def test_a_read_is_limited_by_silence_and_a_write_by_its_size() -> None:
    read = plan(Purpose.READ, StorageSettings())
    small, large = (plan(Purpose.WRITE, StorageSettings(), size) for size in (1, 100 << 20))

    assert read.options["read_timeout"].total_seconds() == 60
    assert read.options["timeout"].total_seconds() > 3600
    assert "read_timeout" not in small.options
    assert 60 < small.options["timeout"].total_seconds() < large.options["timeout"].total_seconds()
    assert large.options["timeout"].total_seconds() > 600


def test_timeouts_that_are_set_hold() -> None:
    settings = StorageSettings(timeouts=StorageTimeoutSettings(1_000, 2_000, 3_000, 4_000))
    read, write = plan(Purpose.READ, settings), plan(Purpose.WRITE, settings, 8 << 20)

    assert read.options["connect_timeout"].total_seconds() == 1
    assert read.options["read_timeout"].total_seconds() == 2
    assert read.retries["retry_timeout"].total_seconds() == 3
    assert read.options["timeout"].total_seconds() == 4
    assert write.options["timeout"].total_seconds() == 4 + 64


def test_a_conditional_write_is_tried_once_by_the_client() -> None:
    assert plan(Purpose.CONDITIONAL_WRITE, StorageSettings()).retries["max_retries"] == 0
    assert plan(Purpose.WRITE, StorageSettings()).retries["max_retries"] == 9


def test_every_size_has_a_class() -> None:
    assert [size_class(each.max_bytes) for each in SIZE_CLASSES] == list(SIZE_CLASSES)
    assert size_class(1 << 50) == SIZE_CLASSES[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "GET https://h/p?sv=1&sig=abc%3D&se=2 failed",
            "GET https://h/p?sv=1&sig=****&se=2 failed",
        ),
        (
            "GET https://h/p?X-Amz-Signature=abc failed",
            "GET https://h/p?X-Amz-Signature=**** failed",
        ),
        ("header Authorization: Bearer abc.def", "header Authorization: Bearer ****"),
        ("https://user:pass@host/p", "https://****@host/p"),
        ("nothing to hide in s3://bucket/key", "nothing to hide in s3://bucket/key"),
        ("known: topsecret", "known: ****"),
    ],
)
def test_what_looks_like_a_secret_is_covered(text: str, expected: str) -> None:
    assert redact(text, ["topsecret", ""]) == expected


def test_a_failure_reports_how_often_it_was_tried_and_no_internals() -> None:
    error = OSError(
        "Generic S3 error: Error performing GET u in 2s, after 3 retries, max_retries: 3 - Server "
        "returned non-2xx status code: 503 Slow Down\n\nDebug source:\nRetryError"
    )

    found = diagnose(error)

    assert (found.failure, found.tries) == (Failure.UNAVAILABLE, 4)
    assert "Debug" not in found.text
    assert "'k' after 4 tries" in str(found.to_error("read", "k"))


def test_a_connection_shows_no_credentials() -> None:
    shown = repr(S3Connection("b", "p", S3Options(), ANONYMOUS, Headers({"a": "secret"}, {})))

    assert "secret" not in shown


@pytest.mark.parametrize(
    "name",
    [
        "access_key",
        "CLIENT_SECRET",
        "token",
        "password",
        "sas_token",
        "azure_credential",
        "signature",
    ],
)
def test_one_list_reports_which_options_are_secrets(name: str) -> None:
    value = "not-to-be-told"
    connection = GcsConnection("bucket", "", GcsCredentials.Anonymous(), {name: value})

    assert cover({name: value}) == {name: "****"}
    assert connection.find_secrets() == (value,)
    assert redact(f"GET https://h/p?{name}={value} failed") == f"GET https://h/p?{name}=**** failed"
    with pytest.raises(InvalidInputError, match="holds no secrets") as refusal:
        RepositoryUrl.parse(f"gs://bucket/path?{name}={value}")
    assert value not in str(refusal.value)


def test_what_is_no_secret_is_shown() -> None:
    options = {"skip_signature": "true", "base_url": "http://h"}

    assert cover(options) == options
    assert GcsConnection("b", "", GcsCredentials.Anonymous(), options).find_secrets() == ()


@pytest.mark.parametrize("account", ["evil.example/", "x@127.0.0.1:9/?", ""])
def test_a_redirect_can_not_choose_the_host_by_an_account_or_region(account: str) -> None:
    for url in (f"r2://bucket/p?account_id={account}x/", f"s3://bucket/p?region={account}x/"):
        with pytest.raises(InvalidInputError, match=r"invalid (account|region)"):
            connect(url)


PROFILES = """\
[default]
aws_access_key_id = default-key
aws_secret_access_key = default-secret

[work]
aws_access_key_id = work-key
aws_secret_access_key = work-secret
aws_session_token = work-token
"""
CONFIG = """\
[default]
region = eu-west-1

[profile work]
region = us-west-2
s3 =
  max_concurrent_requests = 20

[profile program]
credential_process = {program}

[profile signs-in]
sso_session = office
"""


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Shared files of AWS with some profiles, and no credentials in variables."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    answer = {"Version": 1, "AccessKeyId": "k", "SecretAccessKey": "s", "SessionToken": "t",
              "Expiration": "2030-01-01T00:00:00Z"}  # fmt: skip
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    (tmp_path / "credentials").write_text(PROFILES)
    (tmp_path / "config").write_text(CONFIG.format(program=f"cat '{tmp_path}/answer.json'"))
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/credentials")
    return monkeypatch


def answered(provider: Callable[[], Mapping[str, object]] | None) -> tuple[object, ...]:
    assert provider is not None
    answer = provider()
    return answer["access_key_id"], answer["secret_access_key"], answer["token"]


def environment() -> Authorization:
    return authorize_s3(S3Credentials.FromEnv(), is_anonymous=False)


@pytest.mark.usefixtures("aws")
def test_the_default_profile_of_aws_is_used() -> None:
    found = environment()

    assert answered(found.provider) == ("default-key", "default-secret", None)
    assert found.config == {"region": "eu-west-1"}


def test_a_profile_is_chosen_by_a_variable(aws: pytest.MonkeyPatch) -> None:
    aws.setenv("AWS_PROFILE", "work")
    found = environment()

    assert answered(found.provider) == ("work-key", "work-secret", "work-token")
    assert found.config == {"region": "us-west-2"}


def test_variables_come_before_profiles(aws: pytest.MonkeyPatch) -> None:
    aws.setenv("AWS_ACCESS_KEY_ID", "variable")
    aws.setenv("AWS_REGION", "eu-north-1")

    assert environment() == Authorization()


def test_a_program_gives_the_credentials_of_a_profile(aws: pytest.MonkeyPatch) -> None:
    aws.setenv("AWS_PROFILE", "program")
    found = environment()

    assert answered(found.provider) == ("k", "s", "t")
    assert found.provider is not None
    assert found.provider()["expires_at"] == datetime(2030, 1, 1, tzinfo=UTC)


def test_a_program_that_fails_is_named_without_its_output(
    aws: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "answer.json").write_text("secret")
    aws.setenv("AWS_PROFILE", "program")

    with pytest.raises(PermissionDeniedError, match="credential_process 'cat'") as raised:
        answered(environment().provider)
    assert "secret" not in str(raised.value)
    assert raised.value.__context__ is None


def test_a_profile_that_signs_in_needs_botocore(aws: pytest.MonkeyPatch) -> None:
    aws.setenv("AWS_PROFILE", "signs-in")
    aws.setitem(sys.modules, "botocore.session", None)

    with pytest.raises(PermissionDeniedError, match="pip install boto3"):
        answered(environment().provider)


def test_botocore_signs_in_where_it_is_installed(aws: pytest.MonkeyPatch) -> None:
    keys = SimpleNamespace(access_key="role-key", secret_key="role-secret", token="role-token")
    found = SimpleNamespace(get_frozen_credentials=lambda: keys)
    session = SimpleNamespace(get_credentials=lambda: found)
    aws.setitem(sys.modules, "botocore.session", SimpleNamespace(Session=lambda: session))
    aws.setenv("AWS_PROFILE", "signs-in")

    assert answered(environment().provider) == ("role-key", "role-secret", "role-token")


def test_an_unknown_profile_is_named(aws: pytest.MonkeyPatch) -> None:
    aws.setenv("AWS_PROFILE", "wrok")

    with pytest.raises(InvalidInputError, match="AWS_PROFILE is 'wrok'"):
        environment()


@pytest.mark.usefixtures("aws")
def test_a_damaged_file_of_profiles_is_named_without_its_lines(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id\n= secret\n\n===\nsecret")

    with pytest.raises(InvalidInputError, match=r"of .*/credentials is no setting") as raised:
        environment()
    assert "secret" not in str(raised.value)
    assert raised.value.__context__ is None


def test_without_files_the_environment_decides(aws: pytest.MonkeyPatch, tmp_path: Path) -> None:
    aws.setenv("AWS_CONFIG_FILE", f"{tmp_path}/none")
    aws.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/none")

    assert environment() == Authorization()
