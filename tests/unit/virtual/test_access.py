"""Virtual chunks in files, in S3, in Google Cloud Storage and on web servers."""

import asyncio
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import obstore
import pytest
from obstore.store import LocalStore

import frazil.credentials
from frazil.credentials import AnyCredential, Credentials, HttpAccess, LocalFileSystemAccess
from frazil.errors import InvalidInputError, ObjectNotFoundError, ObjectRangeError, StorageError
from frazil.format.manifest import Checksum, ETag, LastModified, VirtualRef
from frazil.storage import (
    AnyObjectStoreConfig,
    ObjectStoreConfig,
    S3Options,
    azure_store,
    gcs_store,
    http_store,
    local_filesystem_store,
    s3_store,
    set_max_concurrent_requests,
)
from frazil.storage.clients import DEFAULT_MAX_CONCURRENT_REQUESTS
from frazil.testing.object_server import (
    NO_CONDITION,
    Delay,
    Description,
    ObjectServer,
    Rule,
    ServerOptions,
)
from frazil.virtual import VirtualChunkContainer
from frazil.virtual.access import VirtualChunkAccess

DATA = bytes(range(100))
S3_KEY = Credentials.S3(
    frazil.credentials.s3_static_credentials(access_key_id="key", secret_access_key="secret")
)
GCS_TOKEN = Credentials.Gcs(frazil.credentials.gcs_credentials(bearer_token="token"))


def access_to(
    url_prefix: str, store: AnyObjectStoreConfig, credential: AnyCredential | None
) -> VirtualChunkAccess:
    container = VirtualChunkContainer(url_prefix, store, "place")
    return VirtualChunkAccess({url_prefix: container}, {url_prefix: credential})


@dataclass(frozen=True)
class Place:
    """A container with an object `f` of a hundred bytes."""

    url_prefix: str
    access: VirtualChunkAccess
    e_tag: str
    modified_at: int

    def refer(self, path: str = "f", checksum: Checksum | None = None) -> VirtualRef:
        return VirtualRef(self.url_prefix + path, 10, 20, checksum)


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer(ServerOptions(access_keys=None)) as running:
        yield running


def s3_config(server: ObjectServer, *, anonymous: bool = False) -> AnyObjectStoreConfig:
    return s3_store(
        region="us-east-1",
        endpoint_url=server.url,
        allow_http=True,
        s3_compatible=True,
        force_path_style=True,
        anonymous=anonymous,
    )


@pytest.fixture(params=["file", "s3", "tigris", "gs", "http"])
def place(request: pytest.FixtureRequest, tmp_path: Path, server: ObjectServer) -> Place:
    if request.param == "file":
        return place_in_files(tmp_path)
    stored = server.buckets["bucket"].put("data/f", DATA, Description(), NO_CONDITION)
    options = S3Options(region="r", endpoint_url=server.url, allow_http=True, force_path_style=True)
    google = gcs_store({"google_base_url": server.url})
    prefix, access = {
        "s3": access_at("s3://bucket/data/", s3_config(server), S3_KEY),
        "tigris": access_at("tigris://bucket/data/", ObjectStoreConfig.Tigris(options), S3_KEY),
        "gs": access_at("gs://bucket/data/", google, GCS_TOKEN),
        "http": access_at(f"{server.url}/bucket/data/", http_store(), HttpAccess),
    }[request.param]
    return Place(prefix, access, stored.e_tag, int(stored.modified_at))


def access_at(
    url_prefix: str, store: AnyObjectStoreConfig, credential: AnyCredential
) -> tuple[str, VirtualChunkAccess]:
    return url_prefix, access_to(url_prefix, store, credential)


def place_in_files(folder: Path) -> Place:
    (folder / "f").write_bytes(DATA)
    prefix = f"file://{folder}/"
    e_tag = obstore.head(LocalStore(folder), "f")["e_tag"]
    assert e_tag is not None
    access = access_to(prefix, local_filesystem_store(str(folder)), LocalFileSystemAccess)
    return Place(prefix, access, e_tag, int((folder / "f").stat().st_mtime))


def test_bytes_are_counted_from_the_first_of_the_chunk(place: Place) -> None:
    ref = place.refer()

    assert bytes(place.access.read(ref, 0, 20)) == DATA[10:30]
    assert bytes(place.access.read(ref, 3, 5)) == DATA[13:15]
    assert bytes(place.access.read(ref, 7, 7)) == b""
    assert bytes(asyncio.run(place.access.read_async(ref, 3, 5))) == DATA[13:15]


def test_a_location_may_be_relative_to_a_named_container(place: Place) -> None:
    assert bytes(place.access.read(VirtualRef("vcc://place/f", 0, 5), 0, 5)) == DATA[:5]


def test_a_source_that_is_what_it_was_is_read(place: Place) -> None:
    for checksum in (
        ETag(place.e_tag),
        ETag(place.e_tag.strip('"')),
        LastModified(place.modified_at),
        LastModified(place.modified_at + 1000),
    ):
        assert bytes(place.access.read(place.refer(checksum=checksum), 0, 5)) == DATA[10:15]


def test_a_source_with_another_etag_is_refused(place: Place) -> None:
    ref = place.refer(checksum=ETag("other"))

    with pytest.raises(StorageError, match="was to be other, and is") as caught:
        place.access.read(ref, 0, 5)
    with pytest.raises(StorageError, match="was to be other, and is"):
        asyncio.run(place.access.read_async(ref, 0, 5))

    assert caught.value.kind == "virtual-chunk-modified"
    assert place.e_tag.strip('"') in caught.value.message
    assert ref.location in caught.value.message


def test_a_source_that_was_modified_later_is_refused(place: Place) -> None:
    ref = place.refer(checksum=LastModified(place.modified_at - 1))

    with pytest.raises(StorageError, match=r"to be unmodified since .*, and is of") as caught:
        place.access.read(ref, 0, 5)

    assert caught.value.kind == "virtual-chunk-modified"
    assert ref.location in caught.value.message


def test_a_missing_source_is_named(place: Place) -> None:
    ref = place.refer("missing")

    with pytest.raises(ObjectNotFoundError) as caught:
        place.access.read(ref, 0, 5)

    assert caught.value.kind == "virtual-chunk-fetch"
    assert ref.location in caught.value.message


@pytest.mark.parametrize("offset", [90, 100, 1000])
def test_a_source_that_is_too_short_is_named(place: Place, offset: int) -> None:
    ref = VirtualRef(f"{place.url_prefix}f", offset, 20)

    with pytest.raises(ObjectRangeError) as caught:
        place.access.read(ref, 0, 20)

    assert caught.value.kind == "virtual-chunk-fetch"
    assert ref.location in caught.value.message


def test_access_survives_pickling(place: Place) -> None:
    place.access.read(place.refer(), 0, 5)

    restored = pickle.loads(pickle.dumps(place.access))

    assert bytes(restored.read(place.refer(), 0, 5)) == DATA[10:15]
    assert restored.authorized_prefixes == {place.url_prefix}


def test_no_location_leaves_the_folder_of_its_container(tmp_path: Path) -> None:
    place = place_in_files(tmp_path)

    for path, kind in [
        ("../secret", "no-container-for-virtual-chunk"),
        ("%2e%2e/secret", "no-container-for-virtual-chunk"),
        ("..%2fsecret", "invalid-virtual-ref"),
    ]:
        with pytest.raises(InvalidInputError) as caught:
            place.access.read(place.refer(path), 0, 5)
        assert caught.value.kind == kind


def test_what_is_no_file_is_no_source(tmp_path: Path) -> None:
    place = place_in_files(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")

    for path, error, message in (
        ("folder", ObjectNotFoundError, "object not found"),
        ("pipe", StorageError, "pipe is a FIFO where a regular file must be"),
        ("f/below", ObjectNotFoundError, "object not found"),
    ):
        with pytest.raises(error, match=message) as caught:
            place.access.read(place.refer(path), 0, 5)
        assert caught.value.kind == "virtual-chunk-fetch"


def test_names_of_files_may_hold_anything(tmp_path: Path) -> None:
    place = place_in_files(tmp_path)
    for name in ("a b", "a%20b", "q?x", "ü", "h#x"):
        (tmp_path / name).write_bytes(name.encode() * 40)

    for path, name in [("a b", "a b"), ("a%2520b", "a%20b"), ("q%3Fx", "q?x"), ("ü", "ü")]:
        assert bytes(place.access.read(place.refer(path), 0, 20)) == (name.encode() * 40)[10:30]


@pytest.mark.parametrize(
    ("url_prefix", "store"),
    [
        ("file:///data/", local_filesystem_store("/data")),
        ("s3://bucket/", s3_store()),
        ("gs://bucket/", gcs_store()),
        ("az://container/", azure_store(account="account")),
        ("https://example.org/", http_store()),
    ],
)
def test_a_refusal_reports_what_would_authorize(
    url_prefix: str, store: AnyObjectStoreConfig
) -> None:
    container = VirtualChunkContainer(url_prefix, store)
    access = VirtualChunkAccess({url_prefix: container}, {})

    with pytest.raises(InvalidInputError) as caught:
        access.read(VirtualRef(f"{url_prefix}f", 0, 5), 0, 5)

    line = caught.value.message.partition("authorize_virtual_chunk_access=")[2]
    authorized = eval(line, {"frazil": frazil})
    assert caught.value.kind == "unauthorized-virtual-chunk-container"
    assert access.refused_prefixes == {url_prefix}
    VirtualChunkAccess({url_prefix: container}, authorized).validate()


def test_a_credential_of_another_store_is_refused() -> None:
    access = access_to("s3://bucket/", s3_store(), HttpAccess)
    local = access_to("file:///data/", local_filesystem_store("/data"), S3_KEY)
    azure = access_to("az://container/", azure_store(account="account"), None)

    for each in (access, local, azure):
        with pytest.raises(StorageError, match="does not give access to"):
            each.validate()


def test_authorized_prefixes_need_no_container() -> None:
    access = VirtualChunkAccess({}, {"s3://bucket/": S3_KEY})

    access.validate()

    assert access.authorized_prefixes == {"s3://bucket/"}


def test_a_missing_credential_means_the_environment_unless_the_store_is_anonymous(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.buckets["bucket"].put("f", DATA, Description(), NO_CONDITION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    for anonymous, credential in [(False, None), (True, None), (True, S3_KEY)]:
        access = access_to("s3://bucket/", s3_config(server, anonymous=anonymous), credential)
        access.read(VirtualRef("s3://bucket/f", 0, 5), 0, 5)

    signers = [request.headers.get("authorization", "") for request in server.requests]
    assert "Credential=from-environment/" in signers[0]
    assert signers[1] == ""
    assert "Credential=key/" in signers[2]


def test_headers_go_out_to_web_servers(server: ObjectServer) -> None:
    server.buckets["bucket"].put("f", DATA, Description(), NO_CONDITION)
    prefix = f"{server.url}/bucket/"
    access = access_to(prefix, http_store(headers={"x-token": "value"}), None)

    access.read(VirtualRef(f"{prefix}f?ignored#too", 0, 5), 0, 5)

    assert [request.headers["x-token"] for request in server.requests] == ["value"]


def test_reads_count_against_the_limit_of_the_process(server: ObjectServer) -> None:
    server.buckets["bucket"].put("f", DATA, Description(), NO_CONDITION)
    server.inject([Rule(Delay(0.02))])
    access = access_to("s3://bucket/", s3_config(server), S3_KEY)
    refs = [VirtualRef("s3://bucket/f", number, 5) for number in range(12)]
    set_max_concurrent_requests(3)

    try:
        with ThreadPoolExecutor(12) as pool:
            found = list(pool.map(lambda ref: bytes(access.read(ref, 0, 5)), refs))
    finally:
        set_max_concurrent_requests(DEFAULT_MAX_CONCURRENT_REQUESTS)

    assert found == [DATA[number : number + 5] for number in range(12)]
    assert server.most_at_once <= 3


def test_a_large_chunk_is_read_in_pieces_that_are_all_checked(server: ObjectServer) -> None:
    data = os.urandom(25 << 20)
    stored = server.buckets["bucket"].put("f", data, Description(), NO_CONDITION)
    access = access_to("s3://bucket/", s3_config(server), S3_KEY)
    ref = VirtualRef("s3://bucket/f", 7, len(data) - 7, ETag(stored.e_tag))

    assert access.read(ref, 0, ref.length) == data[7:]
    assert asyncio.run(access.read_async(ref, 0, ref.length)) == data[7:]

    assert len(server.requests) == 4


def test_a_repository_can_not_make_its_reader_connect_anywhere() -> None:
    with ObjectServer() as server:
        host = server.url.removeprefix("http://")
        store = ObjectStoreConfig.S3(S3Options(region=f"x@{host}/", anonymous=True))
        container = VirtualChunkContainer("s3://bucket/", store)
        access = VirtualChunkAccess({container.url_prefix: container}, {})

        with pytest.raises(InvalidInputError, match="invalid region"):
            access.read(VirtualRef("s3://bucket/key", 0, 4), 0, 4)

        assert not server.requests
