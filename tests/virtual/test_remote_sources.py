"""Sources in buckets and on web servers, opened and read through a repository."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import xarray as xr

import frazil
from frazil import virtual
from frazil.credentials import AnyCredential, HttpAccess, containers_credentials, s3_credentials
from frazil.errors import InvalidInputError, ObjectNotFoundError, PermissionDeniedError
from frazil.storage.ranges import BLOCK_BYTES
from frazil.testing.object_server import (
    NO_CONDITION,
    Delay,
    Description,
    ObjectServer,
    Refuse,
    Rule,
    ServerOptions,
)
from frazil.virtual import Source
from tests.storage.file_server import serve_files
from tests.virtual.files import days, save
from tests.virtual.repositories import read

SECRET = "do-not-tell-anybody"
PREFIX = "s3://bucket/my data/"


def grant(access_key_id: str) -> Mapping[str, AnyCredential | None]:
    """Access to the container for the holder of a key."""
    key = s3_credentials(access_key_id=access_key_id, secret_access_key=SECRET)
    return containers_credentials({PREFIX: key})


FRIEND = grant("friend")


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with ObjectServer(ServerOptions(access_keys=frozenset(("friend",)))) as running:
        yield running


def container(server: ObjectServer) -> frazil.VirtualChunkContainer:
    store = frazil.s3_store(
        region="us-east-1", endpoint_url=server.url, allow_http=True, s3_compatible=True,
        force_path_style=True,
    )  # fmt: skip
    return frazil.VirtualChunkContainer(PREFIX, store)


def committed(
    source: Source,
    container: frazil.VirtualChunkContainer,
    access: Mapping[str, AnyCredential | None],
) -> frazil.Repository:
    """A repository with a source, which may read what is in a container."""
    config = frazil.RepositoryConfig.default()
    config.set_virtual_chunk_container(container)
    repository = frazil.Repository.create(
        frazil.in_memory_storage(),
        config=config,
        authorize_virtual_chunk_access=access,
    )
    session = repository.writable_session("main")
    virtual.write(virtual.combine([source]), session.store, [source])
    session.commit("source")
    return repository


def upload(server: ObjectServer, path: Path, key: str) -> None:
    server.buckets["bucket"].put(key, path.read_bytes(), Description(), NO_CONDITION)


def test_a_file_in_a_bucket_reads_the_same(server: ObjectServer, tmp_path: Path) -> None:
    path = save(days(0, 4), tmp_path / "a.nc")
    upload(server, path, "my data/a.nc")

    source = virtual.open(
        PREFIX + "a.nc",
        containers=[container(server)],
        credentials=FRIEND,
    )
    repository = committed(source, container(server), FRIEND)

    with xr.open_dataset(path) as expected:
        xr.testing.assert_identical(read(repository), expected.load())
    assert source.version.e_tag is not None
    assert source.version.checksum == source.version.e_tag


def test_a_file_in_a_bucket_is_opened_by_few_requests(server: ObjectServer, tmp_path: Path) -> None:
    path = save(days(0, 1000), tmp_path / "a.nc", t={"zlib": True, "chunksizes": (1, 20, 30)})
    small = save(days(0, 4), tmp_path / "b.nc")
    upload(server, path, "my data/a.nc")
    upload(server, small, "my data/b.nc")
    assert path.stat().st_size > 9 * BLOCK_BYTES > BLOCK_BYTES > small.stat().st_size
    counts = {}

    for name in ("a.nc", "b.nc"):
        before = len(server.requests)
        virtual.open(PREFIX + name, containers=[container(server)], credentials=FRIEND)
        counts[name] = [each.method for each in server.requests[before:]]

    # Two ask what the file is, before and after; one brings its start.
    assert sorted(counts["b.nc"]) == ["GET", "HEAD", "HEAD"]
    assert counts["a.nc"].count("HEAD") == 2
    assert counts["a.nc"].count("GET") <= 4


def test_a_server_that_fails_in_the_middle_of_a_file_is_not_the_fault_of_the_file(
    server: ObjectServer, tmp_path: Path
) -> None:
    path = save(days(0, 200), tmp_path / "a.nc", t={"zlib": True, "chunksizes": (1, 20, 30)})
    upload(server, path, "my data/a.nc")
    server.inject([Rule(Delay(0), "GET", count=1), Rule(Refuse(403, "AccessDenied"), "GET")])

    with pytest.raises(PermissionDeniedError, match=r"my data/a\.nc"):
        virtual.open(PREFIX + "a.nc", containers=[container(server)], credentials=FRIEND)


def test_another_object_of_that_name_is_refused(server: ObjectServer, tmp_path: Path) -> None:
    upload(server, save(days(0, 4), tmp_path / "a.nc"), "my data/a.nc")
    source = virtual.open(
        PREFIX + "a.nc",
        containers=[container(server)],
        credentials=FRIEND,
    )
    repository = committed(source, container(server), FRIEND)

    upload(server, save(days(1, 4), tmp_path / "a.nc"), "my data/a.nc")

    with pytest.raises(frazil.StorageError, match="its etag was to be"):
        read(repository)


def test_wrong_credentials_are_reported_without_secrets(
    server: ObjectServer, tmp_path: Path
) -> None:
    upload(server, save(days(0, 2), tmp_path / "a.nc"), "my data/a.nc")

    with pytest.raises(PermissionDeniedError, match=r"my data/a\.nc") as caught:
        virtual.open(
            PREFIX + "a.nc",
            containers=[container(server)],
            credentials=grant("stranger"),
        )

    assert SECRET not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_an_object_that_is_not_there_is_named(server: ObjectServer) -> None:
    with pytest.raises(ObjectNotFoundError, match=PREFIX + "nothing"):
        virtual.open(
            PREFIX + "nothing",
            containers=[container(server)],
            credentials=FRIEND,
        )


def test_a_zarr_hierarchy_in_a_bucket_reads_the_same(server: ObjectServer, tmp_path: Path) -> None:
    folder = tmp_path / "a.zarr"
    days(0, 4).chunk(time=2).to_zarr(folder, zarr_format=3, consolidated=False)
    for file in folder.rglob("*"):
        if file.is_file():
            upload(server, file, f"my data/a.zarr/{file.relative_to(folder).as_posix()}")

    source = virtual.open(
        PREFIX + "a.zarr",
        small_bytes=0,
        containers=[container(server)],
        credentials=FRIEND,
    )
    repository = committed(source, container(server), FRIEND)

    xr.testing.assert_equal(read(repository), xr.open_zarr(folder, consolidated=False).load())
    assert all(each is not None and each.e_tag for each in source.references["t"].versions)


def test_a_file_on_a_web_server_reads_the_same(tmp_path: Path) -> None:
    path = save(days(0, 4), tmp_path / "a file.nc")

    with serve_files(tmp_path) as address:
        source = virtual.open(f"{address}/a%20file.nc")
        place = frazil.VirtualChunkContainer(f"{address}/", frazil.http_store())
        repository = committed(source, place, {place.url_prefix: HttpAccess})
        found = read(repository)

    with xr.open_dataset(path) as expected:
        xr.testing.assert_identical(found, expected.load())


def test_a_store_that_nobody_knows_is_named() -> None:
    with pytest.raises(InvalidInputError, match="containers="):
        virtual.open("ftp://host/a.nc")
