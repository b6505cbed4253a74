"""URLs of repositories: what they mean, and what they may not hold."""

import traceback
from datetime import UTC, datetime
from pathlib import Path

import pytest

from frazil.errors import InvalidInputError
from frazil.urls import (
    BranchRef,
    NamedRef,
    Ref,
    RepositoryUrl,
    SnapshotRef,
    TagRef,
    make_ref,
    parse_location,
)

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECRET = "sentinel5ecret"

PLACES = {
    "repository": RepositoryUrl("file", "", "repository"),
    "/data/repository": RepositoryUrl("file", "", "/data/repository"),
    "/": RepositoryUrl("file", "", "/"),
    "100%/a b#c": RepositoryUrl("file", "", "100%/a b#c"),
    "/data/run@2/": RepositoryUrl("file", "", "/data/run@2"),
    "/data@2/repository": RepositoryUrl("file", "", "/data@2/repository"),
    "file:///data/a%3Fb": RepositoryUrl("file", "", "/data/a?b"),
    "s3://bucket": RepositoryUrl("s3", "bucket", ""),
    "s3://bucket/a/b%20c": RepositoryUrl("s3", "bucket", "a/b c"),
    "gs://bucket/prefix": RepositoryUrl("gs", "bucket", "prefix"),
    "az://container/prefix?account=name": RepositoryUrl(
        "az", "container", "prefix", None, (("account", "name"),)
    ),
    "http://127.0.0.1:8000/prefix": RepositoryUrl("http", "127.0.0.1:8000", "prefix"),
    "https://[::1]:8000/prefix": RepositoryUrl("https", "[::1]:8000", "prefix"),
    "memory://name": RepositoryUrl("memory", "name", ""),
}

REFS: dict[str, Ref] = {
    "s3://bucket/prefix@v1": NamedRef("v1"),
    "s3://bucket/prefix@a@b": NamedRef("a@b"),
    "s3://bucket/@v1": NamedRef("v1"),
    "repository@v1": NamedRef("v1"),
    "run@2/@v1": NamedRef("v1"),
    "repository?ref=feature/x": NamedRef("feature/x"),
    "repository?branch=feature/x": BranchRef("feature/x"),
    "repository?tag=v1": TagRef("v1"),
    "memory://name?snapshot=VY76P925PRY57WFEK410": SnapshotRef("VY76P925PRY57WFEK410"),
    "repository?branch=dev&as_of=2026-01-31T12:00:00Z": BranchRef("dev", NOON),
}


@pytest.mark.parametrize("text", PLACES)
def test_a_place_is_read_and_spelled_again(text: str) -> None:
    url = RepositoryUrl.parse(text)

    assert url == PLACES[text]
    assert str(url) == text


@pytest.mark.parametrize("text", REFS)
def test_a_version_is_read_and_spelled_again(text: str) -> None:
    url = RepositoryUrl.parse(text)

    assert url.ref == REFS[text]
    assert str(url) == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("icechunk:///data/repository", "/data/repository"),
        ("icechunk+file:///data/repository", "/data/repository"),
        ("icechunk+s3://bucket/prefix@v1", "s3://bucket/prefix@v1"),
        ("file://localhost/data/repository/", "/data/repository"),
        ("S3://bucket/prefix/", "s3://bucket/prefix"),
        ("s3://bucket/prefix?region=x&anonymous", "s3://bucket/prefix?anonymous=true&region=x"),
        ("memory://n?as_of=2026-01-31T13:00:00+01:00", "memory://n?as_of=2026-01-31T12:00:00Z"),
        ("memory://n/@dev?as_of=2026-01-31T12Z", "memory://n?branch=dev&as_of=2026-01-31T12Z"),
    ],
)
def test_what_means_the_same_is_the_same_value(text: str, same: str) -> None:
    assert RepositoryUrl.parse(text) == RepositoryUrl.parse(same)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "nothing says where"),
        ("?branch=main", "nothing says where"),
        ("ftp://server/path", "no repositories at ftp://"),
        ("icechunk://bucket/prefix", r"icechunk\+s3://bucket/prefix"),
        ("file://server/path", "three slashes"),
        ("s3:///prefix", "followed by a name"),
        ("s3://bucket/prefix#part", "no fragment"),
        ("s3://bucket/%ff", "no UTF-8"),
        ("memory://name@v1", "follows a slash, as in memory://name/@ref"),
        ("repository@", "nothing follows the @"),
        ("repository?branch=a&tag=b", "one version can be named, not 2: branch, tag"),
        ("repository@v1?tag=v1", "one version can be named"),
        ("repository?branch=a&branch=b", "'branch' is said twice"),
        ("repository?tag=v1&as_of=2026-01-31T12:00:00Z", "as_of goes with a branch"),
        ("repository?as_of=2026-01-31", "needs a time zone"),
        ("repository?as_of=yesterday", "is no time"),
        ("repository?region=x", "file: no option 'region'"),
        ("s3://bucket?account=x", "there are branch, .*, region"),
        ("s3://bucket?anonymous=perhaps", "anonymous is true or false"),
    ],
)
def test_what_is_no_url_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        RepositoryUrl.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        f"s3://key:{SECRET}@bucket/prefix",
        f"s3://key:{SECRET}/with/slashes@bucket/prefix",
        f"s3://{SECRET}@bucket/prefix",
        f"https://user:{SECRET}@server/path",
        f"https://user:{SECRET}/x@server/path",
        f"icechunk+s3://key:{SECRET}@bucket/prefix",
        f"s3://bucket/prefix?access_key_id=key&secret_access_key={SECRET}",
        f"s3://bucket/prefix?session_token={SECRET}",
        f"az://container/prefix?account=name&sas_token={SECRET}",
        f"https://server/path?token={SECRET}",
        f"https://server/path?unknown={SECRET}",
        f"s3://bucket/prefix?endpoint_url=http://user:{SECRET}@server",
        f"s3://bucket/prefix?endpoint_url=http://server/?token={SECRET}",
    ],
)
def test_secrets_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        RepositoryUrl.parse(text)

    reported = traceback.format_exception_only(caught.value)
    assert SECRET not in "".join([*reported, repr(caught.value), *map(str, caught.value.args)])


def test_a_path_of_a_program_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run@2?branch=x"

    url = parse_location(path)

    assert url == RepositoryUrl("file", "", str(path))
    assert parse_location(str(url)) == url
    assert parse_location(url) is url


def test_only_text_and_paths_are_locations() -> None:
    with pytest.raises(TypeError, match="not a int"):
        parse_location(3)  # type: ignore[arg-type]


def test_one_version_is_made_of_arguments() -> None:
    assert make_ref() is None
    assert make_ref(branch="dev") == BranchRef("dev")
    assert make_ref(tag="v1") == TagRef("v1")
    assert make_ref(snapshot="x") == SnapshotRef("x")
    assert make_ref(as_of=NOON) == BranchRef("main", NOON)
    assert make_ref(branch="dev", as_of="2026-01-31T12:00:00Z") == BranchRef("dev", NOON)
    with pytest.raises(InvalidInputError, match="needs a time zone"):
        make_ref(as_of=datetime(2026, 1, 31))
