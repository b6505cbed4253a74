"""One way to authorize access to containers of virtual chunks: `authorize`."""

from pathlib import Path
from typing import Any

import pytest
import xarray as xr
import zarr

import frazil
from frazil.credentials import LocalFileSystemAccess
from frazil.errors import InvalidInputError
from frazil.virtual.access import list_prefixes


def test_access_to_more_containers_leaves_what_was_given() -> None:
    repository = frazil.Repository.create(
        frazil.in_memory_storage(),
        authorize_virtual_chunk_access={"file:///one/": LocalFileSystemAccess},
    )

    more = repository.authorize({"file:///two/": LocalFileSystemAccess})

    assert more.authorized_virtual_container_prefixes == {"file:///one/", "file:///two/"}
    assert repository.authorized_virtual_container_prefixes == {"file:///one/"}
    assert more.storage is repository.storage
    assert repository.authorize(()) is repository


@pytest.fixture
def place(tmp_path: Path) -> tuple[str, str]:
    """A repository with a virtual chunk, and the prefix of its container."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "data").write_bytes(bytes(8))
    prefix = f"file://{tmp_path}/source/"
    config = frazil.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        frazil.VirtualChunkContainer(prefix, frazil.local_filesystem_store(str(tmp_path)))
    )
    storage = frazil.local_filesystem_storage(str(tmp_path / "repo"))
    repo = frazil.Repository.create(storage, config)
    repo.save_config()
    with repo.transaction("main", message="virtual") as store:
        zarr.create_array(
            store, name="t", shape=(2,), chunks=(2,), dtype="f4", compressors=None, filters=None,
            dimension_names=("x",),
        )  # fmt: skip
        store.set_virtual_ref("t/c/0", f"{prefix}data", offset=0, length=8)
    return str(tmp_path / "repo"), prefix


def test_every_way_to_open_takes_the_same_argument(place: tuple[str, str]) -> None:
    url, prefix = place
    plain = frazil.open_repository(url)

    for authorize in ("*", prefix, [prefix], ("*",), {prefix: LocalFileSystemAccess}):
        repo = frazil.open_repository(url, authorize=authorize)
        session = frazil.open_session(url, authorize=authorize)
        opened = (repo.readonly_session("main").store, session.store)
        assert [zarr.open_array(each, path="t")[0] for each in opened] == [0, 0]
        sources: list[Any] = [url, plain]
        for source in sources:
            dataset = xr.open_dataset(source, engine="frazil", authorize=authorize)
            assert float(dataset.t[1]) == 0


def test_a_refusal_says_what_to_add_in_python(place: tuple[str, str]) -> None:
    url, prefix = place
    dataset = xr.open_dataset(url, engine="frazil")

    with pytest.raises(InvalidInputError) as refused:
        dataset.t.load()

    assert f'add authorize="{prefix}", or authorize="*"' in refused.value.message


def test_an_unknown_prefix_is_refused_with_those_that_are_declared(place: tuple[str, str]) -> None:
    url, prefix = place

    with pytest.raises(InvalidInputError, match=f"the containers of the repository are {prefix}"):
        frazil.open_repository(url, authorize="s3://elsewhere/")
    with pytest.raises(InvalidInputError, match="authorize is for URLs"):
        xr.open_dataset(frazil.open_session(url), engine="frazil", authorize="*")  # type: ignore[arg-type]


def test_queries_take_prefixes() -> None:
    assert list_prefixes("s3://a/") == list_prefixes(["s3://a/"]) == ("s3://a/",)
    with pytest.raises(InvalidInputError, match="credentials from the environment"):
        list_prefixes({"s3://a/": LocalFileSystemAccess})
