"""Spellings of locations, and the containers they belong to."""

import pytest

from frazil.errors import InvalidInputError
from frazil.storage import ObjectStoreConfig, S3Options, local_filesystem_store
from frazil.virtual import VirtualChunkContainer
from frazil.virtual.containers import (
    absolute_location,
    find_container,
    normalize_location,
    parse_address,
)


def s3_container(url_prefix: str, name: str | None = None) -> VirtualChunkContainer:
    return VirtualChunkContainer(url_prefix, ObjectStoreConfig.S3(S3Options()), name)


def file_container(url_prefix: str, name: str | None = None) -> VirtualChunkContainer:
    return VirtualChunkContainer(url_prefix, local_filesystem_store("/"), name)


def by_prefix(*containers: VirtualChunkContainer) -> dict[str, VirtualChunkContainer]:
    return {container.url_prefix: container for container in containers}


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("S3://Bucket/A//b/./c/../d?q=1#f", "s3://Bucket/A//b/./c/../d?q=1#f"),
        ("s3://bucket/a%20b c", "s3://bucket/a%20b c"),
        ("s3://bucket", "s3://bucket"),
        ("HTTPS://User:pw@Host:80/a/../b", "https://User:pw@Host:80/a/../b"),
        ("gs://b/ü", "gs://b/ü"),
        ("foo://b/x", "foo://b/x"),
        ("VCC://Name/a/../b", "vcc://Name/a/../b"),
        ("file:///a/./b/../c//d?q#f", "file:///a/c//d?q#f"),
        ("file:///a/%2E%2e/b/%2e", "file:///b/"),
        ("file:///../a", "file:///a"),
        ("file:///a b%20c", "file:///a%20b%20c"),
        ("file:///a%2Fb/ü", "file:///a%2Fb/%C3%BC"),
        ("FILE:///a", "file:///a"),
        ("file://localhost/a", "file:///a"),
        ("file://host/a", "file://host/a"),
        ("file:/a/b", "file:///a/b"),
        ("file:a", "file:///a"),
        ("file://", "file:///"),
        ("file:///a\\b\tc", "file:///a/bc"),
        ("file:///a|b^c`d{}\"<>[]'", "file:///a|b^c%60d%7B%7D%22%3C%3E[]'"),
    ],
)
def test_a_location_has_one_spelling(given: str, normal: str) -> None:
    assert normalize_location(given) == normal
    assert normalize_location(normal) == normal


@pytest.mark.parametrize(
    "given", ["", "plain", "/path", "s3:key", "s3:///key", "http://", "file://a|b/c"]
)
def test_what_is_no_url_of_an_object_is_refused(given: str) -> None:
    with pytest.raises(InvalidInputError, match="error parsing virtual ref URL") as caught:
        normalize_location(given)

    assert caught.value.kind == "invalid-virtual-ref"


@pytest.mark.parametrize("given", ["vcc:///path", "vcc://name"])
def test_a_relative_location_names_its_container(given: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        normalize_location(given)

    assert caught.value.kind == "no-container-for-virtual-chunk"


def test_a_relative_location_begins_with_the_prefix_of_its_container() -> None:
    containers = by_prefix(s3_container("s3://bucket/data/", "here"), file_container("file:///d/"))

    assert absolute_location(containers, "vcc://here/a b") == "s3://bucket/data/a b"
    assert absolute_location(containers, "File:///d/x/../y") == "file:///d/y"
    with pytest.raises(InvalidInputError, match="'there'") as caught:
        absolute_location(containers, "vcc://there/a")
    assert caught.value.kind == "no-container-for-virtual-chunk"


def test_the_container_with_the_longest_prefix_holds_a_location() -> None:
    outer, inner = s3_container("s3://bucket/a/"), s3_container("s3://bucket/a/b/", "inner")
    containers = by_prefix(inner, outer)

    assert find_container(containers, "s3://bucket/a/c") is outer
    assert find_container(containers, "S3://bucket/a/b/c") is inner
    assert find_container(containers, "vcc://inner/c") is inner
    assert find_container(containers, "vcc://inner/../c") is outer


@pytest.mark.parametrize(
    "outside",
    [
        "s3://bucket/other/f",
        "s3://bucket/data",
        "s3://Bucket/data/f",
        "s3://bucket/data/../other/f",
        "s3://bucket/data/%2e%2E/other/f",
        "s3://user@bucket/data/f",
        "gs://bucket/data/f",
    ],
)
def test_no_spelling_of_a_location_leads_into_a_container_it_is_not_in(outside: str) -> None:
    containers = by_prefix(s3_container("s3://bucket/data/"), s3_container("s3://bucket/dat"))

    with pytest.raises(InvalidInputError, match="set_virtual_chunk_container") as caught:
        find_container(containers, outside)

    assert caught.value.kind == "no-container-for-virtual-chunk"


@pytest.mark.parametrize("prefix", ["file:///a b/ü/", "file:///a%20b/%C3%BC/"])
@pytest.mark.parametrize("location", ["file:///a b/ü/f", "file:///a%20b/%c3%bc/f"])
def test_prefixes_and_locations_may_escape_differently(prefix: str, location: str) -> None:
    container = file_container(prefix)

    assert find_container(by_prefix(container), location) is container


def test_a_key_is_the_path_with_its_escapes_read() -> None:
    address = parse_address("s3://bucket/a%20b/c%2520?query#fragment")

    assert (address.scheme, address.host, address.key) == ("s3", "bucket", "a b/c%20")


@pytest.mark.parametrize("path", ["a//b", "./a", "a/..%2fb", "a/", "", "a%00b"])
def test_keys_that_no_store_can_be_asked_for_are_refused(path: str) -> None:
    with pytest.raises(InvalidInputError, match="can be asked") as caught:
        parse_address(f"s3://bucket/{path}")

    assert caught.value.kind == "invalid-virtual-ref"
