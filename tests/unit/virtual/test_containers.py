"""Containers of virtual chunks, and references as users hand them over."""

from datetime import UTC, datetime

import pytest

import frazil
from frazil.errors import InvalidInputError
from frazil.storage import AnyObjectStoreConfig, ObjectStoreConfig, S3Options
from frazil.virtual import VirtualChunkContainer, VirtualChunkSpec
from frazil.virtual.containers import is_valid_container, validate_container

STORES: dict[str, AnyObjectStoreConfig] = {
    "memory": ObjectStoreConfig.InMemory(),
    "file": ObjectStoreConfig.LocalFileSystem("/a"),
    "s3": ObjectStoreConfig.S3(S3Options()),
    "compatible": ObjectStoreConfig.S3Compatible(S3Options()),
    "tigris": ObjectStoreConfig.Tigris(S3Options()),
    "gcs": ObjectStoreConfig.Gcs(),
    "azure": ObjectStoreConfig.Azure(),
    "http": ObjectStoreConfig.Http(),
}
# What the official library lets pass, by prefix.
ALLOWED = {
    "s3://b/": {"s3", "compatible", "tigris"},
    "S3://b/": {"s3", "compatible", "tigris"},
    "s3://b/?q/": {"s3", "compatible", "tigris"},
    "tigris://b/": {"tigris"},
    "gs://b/": {"gcs"},
    "gcs://b/x/": {"gcs"},
    "az://c/": {"azure"},
    "azure://c/": {"azure"},
    "abfs://c/": {"azure"},
    "abfss://c/": set(),
    "http://h/": {"http"},
    "https://h/a/": {"http"},
    "file:///a/": {"file"},
    "file://a/": {"file"},
    "file://localhost/a/": {"file"},
    "file:///": set(),
    "s3://b": set(),
    "s3://": set(),
    "s3:///x/": set(),
    "memory://a/": set(),
    "vcc://a/": set(),
    "r2://a/": set(),
    "foo/": set(),
    "": set(),
}


@pytest.mark.parametrize("prefix", ALLOWED)
def test_a_prefix_goes_with_the_stores_of_its_scheme(prefix: str) -> None:
    passed = {
        name
        for name, store in STORES.items()
        if is_valid_container(VirtualChunkContainer(prefix, store))
    }

    assert passed == ALLOWED[prefix]


@pytest.mark.parametrize("name", ["", "a/b", "/"])
def test_a_name_has_characters_and_no_slash(name: str) -> None:
    with pytest.raises(ValueError, match="the name") as caught:
        validate_container(VirtualChunkContainer("s3://b/", STORES["s3"], name))

    assert isinstance(caught.value, InvalidInputError)
    assert caught.value.kind == "bad-prefix"


def test_a_container_shows_itself_as_the_call_that_makes_it() -> None:
    container = VirtualChunkContainer("s3://b/", STORES["s3"], "name")

    assert eval(repr(container), {"frazil": frazil}) == container
    assert str(container).startswith("<frazil.virtual.VirtualChunkContainer>\n")


def test_a_reference_is_a_value() -> None:
    spec = VirtualChunkSpec([1, 2], "s3://b/k", 3, 4, etag_checksum="e")

    assert spec == VirtualChunkSpec([1, 2], "s3://b/k", 3, 4, "e")
    assert len({spec, VirtualChunkSpec([1, 2], "s3://b/k", 3, 4, "e")}) == 1
    assert eval(repr(spec), {"frazil": frazil}) == spec


def test_a_checksum_in_time_knows_its_time_zone() -> None:
    moment = datetime(2020, 1, 1)

    VirtualChunkSpec([0], "s3://b/k", 0, 1, last_updated_at_checksum=moment.replace(tzinfo=UTC))
    with pytest.raises(TypeError, match="time zone"):
        VirtualChunkSpec([0], "s3://b/k", 0, 1, last_updated_at_checksum=moment)
