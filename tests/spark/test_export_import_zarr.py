"""Versions of repositories as plain Zarr, and plain Zarr as versions of repositories."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr

import frazil
from frazil import Repository, RepositoryConfig
from frazil.credentials import LocalFileSystemAccess, containers_credentials
from frazil.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NodeNotFoundError,
    StorageError,
    ThrottledError,
)
from frazil.storage import MemoryStorage, Storage, local_filesystem_storage, local_filesystem_store
from frazil.storage.interface import ObjectInfo
from frazil.storage.wrappers import ForwardingStorage, Request, Verb
from frazil.virtual import VirtualChunkContainer
from tests.spark.copied_samples import Watched, contents

# Zarr tells of types and codecs that its specification does not have yet, and of both formats.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """Native, inline, virtual and missing chunks; a shard; an array without axes."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "values.bin").write_bytes(np.arange(8, dtype="<i4").tobytes())
    prefix = f"file://{folder}/"
    config = RepositoryConfig(inline_chunk_threshold_bytes=40)
    config.set_virtual_chunk_container(
        VirtualChunkContainer(prefix, local_filesystem_store(str(folder)), "here")
    )
    repo = Repository.create(
        local_filesystem_storage(str(tmp_path / "repo")), config,
        containers_credentials({prefix: LocalFileSystemAccess}),
    )  # fmt: skip
    repo.save_config()
    session = repo.writable_session("main")
    root = zarr.group(session.store, attributes={"title": "all"})
    t = root.create_array(
        "ocean/t", shape=(12, 20), chunks=(2, 20), dtype="f8", dimension_names=("time", "x")
    )
    t[:7] = np.random.default_rng(1).normal(size=(7, 20))
    root.create_array("ocean/small", shape=(4,), chunks=(2,), dtype="i1", dimension_names=("y",))[
        :
    ] = [1, 2, 3, 4]
    root.create_array("scalar", shape=(), dtype="i4")[...] = 7
    root.create_array("shards", shape=(9, 9), chunks=(2, 2), shards=(4, 4), dtype="i4")[:5] = 3
    root.create_array(
        "virtual", shape=(16,), chunks=(4,), dtype="<i4", compressors=None, fill_value=9
    )
    for number in range(2):
        session.store.set_virtual_ref(
            f"virtual/c/{number}", "vcc://here/values.bin", offset=16 * number, length=16
        )
    repo.create_tag("v1", session.commit("first"))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="ocean/t")[2:4] = 1.5
    session.commit("second")
    return repo


def arrays(group: Any, prefix: str = "") -> dict[str, Any]:
    found = {f"{prefix}{name}": np.asarray(array[...]) for name, array in group.arrays()}
    for name, below in group.groups():
        found |= arrays(below, f"{prefix}{name}/")
    return found


def of_repository(repo: Repository, group: str = "", **version: Any) -> dict[str, Any]:
    session = repo.readonly_session(**(version or {"branch": "main"}))
    return arrays(zarr.open_group(session.store, path=group, mode="r"))


def assert_equal(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


# Out


@pytest.mark.parametrize("consolidated", [False, True])
def test_plain_zarr_reads_what_was_exported(
    repo: Repository, tmp_path: Path, consolidated: bool
) -> None:
    report = frazil.export_zarr(repo, str(tmp_path / "out"), consolidated=consolidated)

    group = zarr.open_group(str(tmp_path / "out"), mode="r")
    assert_equal(arrays(group), of_repository(repo))
    assert group.attrs["title"] == "all"
    assert (group.metadata.consolidated_metadata is not None) is consolidated
    assert (report.arrays, report.groups) == (5, 2)
    # Four of six, two, one, four of nine, and two of four.
    files = [each for each in (tmp_path / "out").rglob("c*/**/*") if each.is_file()]
    assert report.chunks == 4 + 2 + 1 + 6 + 2 == len(files) + 1
    assert not (tmp_path / "out" / "virtual" / "c" / "2").exists()
    assert (tmp_path / "out" / "virtual" / "c" / "1").read_bytes() == b"".join(
        each.to_bytes(4, "little") for each in range(4, 8)
    )
    dataset = xr.open_zarr(str(tmp_path / "out"), group="ocean", consolidated=consolidated)
    assert dataset.t.dims == ("time", "x")


def test_a_version_and_a_group_are_chosen(repo: Repository, tmp_path: Path) -> None:
    frazil.export_zarr(repo, str(tmp_path / "out"), tag="v1", group="ocean")

    found = arrays(zarr.open_group(str(tmp_path / "out"), mode="r"))
    assert_equal(found, of_repository(repo, "ocean", tag="v1"))


def test_the_ledger_is_exported_only_if_it_is_asked_for(repo: Repository, tmp_path: Path) -> None:
    session = repo.writable_session("main")
    zarr.create_array(session.store, name="_frazil/ledger/source", shape=(1,), dtype="i4")[:] = 5
    session.commit("a ledger")

    frazil.export_zarr(repo, str(tmp_path / "out"))
    frazil.export_zarr(repo, str(tmp_path / "own"), group="_frazil/ledger")

    assert "_frazil" not in zarr.open_group(str(tmp_path / "out"), mode="r")
    own = zarr.open_group(str(tmp_path / "own"), mode="r")
    assert_equal(arrays(own), of_repository(repo, "_frazil/ledger"))


def test_an_export_that_was_broken_off_goes_on(repo: Repository, tmp_path: Path) -> None:
    place = local_filesystem_storage(str(tmp_path / "out"))
    puts: list[str] = []

    def fail_late(request: Request) -> None:
        puts.extend(request.keys if request.verb is Verb.PUT else ())
        if len(puts) > 8:
            raise ThrottledError("enough")

    with pytest.raises(ThrottledError):
        frazil.export_zarr(repo, Watched(place, fail_late))
    assert not (tmp_path / "out" / "zarr.json").exists()
    with pytest.raises(AlreadyExistsError, match="another version"):
        frazil.export_zarr(repo, place, tag="v1")
    report = frazil.export_zarr(repo, place)

    assert report.present > 0
    assert report.present + report.chunks == 15
    assert_equal(arrays(zarr.open_group(str(tmp_path / "out"), mode="r")), of_repository(repo))
    assert [each.name for each in (tmp_path / "out").iterdir() if each.name[0] == "."] == []
    with pytest.raises(AlreadyExistsError, match="where nothing is"):
        frazil.export_zarr(repo, place)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"group": "none"}, NodeNotFoundError), ({"zarr_format": 2}, InvalidInputError)],
)
def test_a_wrong_export_writes_nothing(
    repo: Repository, arguments: dict[str, Any], error: type[Exception]
) -> None:
    place = MemoryStorage()

    with pytest.raises(error):
        frazil.export_zarr(repo, place, **arguments)

    assert list(place.list()) == []


# In


def test_what_was_exported_is_imported(repo: Repository) -> None:
    place = MemoryStorage()
    frazil.export_zarr(repo, place, consolidated=True)
    other = Repository.create(MemoryStorage(), RepositoryConfig(inline_chunk_threshold_bytes=0))

    report = frazil.import_zarr(other, place, group="a/b", message="from elsewhere")

    assert_equal(of_repository(other, "a/b"), of_repository(repo))
    assert report.chunks == 15
    assert next(each.message for each in other.ancestry(branch="main")) == "from elsewhere"
    assert other.check(deep=True).is_healthy
    found = contents(other.readonly_session("main"))
    # Whether inline, virtual or native, the bytes are the same.
    assert found["/a/b/virtual", (1,)] == np.arange(4, 8, dtype="<i4").tobytes()
    wanted = contents(repo.readonly_session("main"))
    assert found["/a/b/shards", (0, 1)] == wanted["/shards", (0, 1)]
    assert found["/a/b/ocean/t"] == wanted["/ocean/t"]


def test_other_keys_of_chunks_are_translated() -> None:
    place = MemoryStorage()
    document: dict[str, Any] = {
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "chunk_key_encoding": {"name": "v2"}, "fill_value": 5, "codecs": [{"name": "bytes"}],
        "attributes": {"x": 1},
    }  # fmt: skip
    place.put("zarr.json", json.dumps({"zarr_format": 3, "node_type": "group"}).encode())
    dots = {
        **document, "shape": [4, 2],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
    }  # fmt: skip
    place.put("dots/zarr.json", json.dumps(dots).encode())
    place.put("dots/c.1.0", b"\1\2\3\4")
    place.put("no/group/old/zarr.json", json.dumps(document).encode())
    place.put("no/group/old/1", b"\7\7")
    repo = Repository.create(MemoryStorage())

    frazil.import_zarr(repo, place)

    found = of_repository(repo)
    assert found["dots"].tolist() == [[5, 5], [5, 5], [1, 2], [3, 4]]
    assert found["no/group/old"].tolist() == [5, 5, 7, 7]


def make_zarr_v2(place: Path) -> Any:
    """Arrays of Zarr V2 with all kinds of codecs."""
    group = zarr.open_group(str(place), mode="w", zarr_format=2, attributes={"of": "old"})
    kinds: dict[str, dict[str, Any]] = {
        "blosc": {"dtype": ">f8", "compressors": numcodecs.Blosc("lz4", 5, 1)},
        "gzip_f": {"dtype": "<i4", "order": "F", "compressors": numcodecs.GZip(1)},
        "zlib": {"dtype": "<i4", "compressors": numcodecs.Zlib(3), "fill_value": 42},
        "zstd_delta": {"dtype": "<i4", "filters": [numcodecs.Delta("<i4")],
                       "compressors": numcodecs.Zstd(3)},
        "delta_f": {"dtype": "<i4", "order": "F", "filters": [numcodecs.Delta("<i4")]},
        "shuffle": {"dtype": "<i4", "filters": [numcodecs.Shuffle(4)],
                    "compressors": numcodecs.LZ4()},
        "both": {"dtype": "<i4", "filters": [numcodecs.Delta("<i4"), numcodecs.Shuffle(4)]},
        "plain": {"dtype": "?", "compressors": None},
        "bytes": {"dtype": "S3"},
        "times": {"dtype": "<M8[s]"},
        "text": {"dtype": "<U4"},
        "slash": {"dtype": "<c16", "chunk_key_encoding": {"name": "v2", "separator": "/"}},
    }  # fmt: skip
    for name, kind in kinds.items():
        array = group.create_array(f"below/{name}", shape=(9, 7), chunks=(4, 3), **kind)
        array[:7] = np.arange(49).reshape(7, 7).astype(kind["dtype"])
    group.create_array("scalar", shape=(), chunks=(), dtype="f8")[...] = 3.5
    texts = group.create_array("texts", shape=(3,), chunks=(2,), dtype=str)
    texts[:] = np.array(["a", "bc", "déf"], dtype=object)
    return zarr.open_group(str(place), mode="r", zarr_format=2)


def test_zarr_v2_is_translated(tmp_path: Path) -> None:
    second = make_zarr_v2(tmp_path / "old")
    repo = Repository.create(MemoryStorage(), RepositoryConfig(inline_chunk_threshold_bytes=0))

    report = frazil.import_zarr(repo, str(tmp_path / "old"))

    assert_equal(of_repository(repo), arrays(second))
    assert report.notes == ("encoded anew: texts",)
    found = contents(repo.readonly_session("main"))
    for name, key in (("zlib", "1.2"), ("delta_f", "0.0"), ("both", "1.0"), ("slash", "1/1")):
        coordinate = tuple(map(int, key.replace("/", ".").split(".")))
        stored = (tmp_path / "old" / "below" / name / key).read_bytes()
        assert found[f"/below/{name}", coordinate] == stored, name
    assert zarr.open_group(repo.readonly_session("main").store, mode="r").attrs["of"] == "old"
    assert repo.check(deep=True).is_healthy


def test_xarray_reads_a_dataset_of_zarr_v2_as_before(tmp_path: Path) -> None:
    days = np.datetime64("2020-01-01", "ns") + np.arange(6) * np.timedelta64(1, "D")
    values = np.where(np.arange(24) % 5 == 0, np.nan, np.arange(24.0)).reshape(6, 4)
    dataset = xr.Dataset(
        {"t": (("time", "x"), values, {"units": "K"}), "n": ("time", np.arange(6, dtype="i2"))},
        {"time": days, "name": ("x", ["a", "b", "c", "dd"])},
    )
    packed = {"t": {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -99, "chunks": (4, 4)}}
    dataset.to_zarr(tmp_path / "old", zarr_format=2, encoding=packed, consolidated=True)
    repo = Repository.create(MemoryStorage())

    frazil.import_zarr(repo, str(tmp_path / "old"))

    found = xr.open_zarr(repo.readonly_session("main").store, consolidated=False)
    xr.testing.assert_identical(found.load(), xr.open_zarr(tmp_path / "old").load())


def test_a_group_that_has_something_is_not_imported_to(repo: Repository) -> None:
    place = MemoryStorage()
    place.put("zarr.json", b'{"zarr_format":3,"node_type":"group"}')
    before = repo.lookup_branch("main")

    with pytest.raises(AlreadyExistsError, match="/ocean"):
        frazil.import_zarr(repo, place)
    frazil.import_zarr(repo, place, group="new")

    assert repo.lookup_branch("main") != before


def test_a_place_without_a_hierarchy_is_refused(repo: Repository) -> None:
    place: Storage = MemoryStorage()
    place.put("data.nc", b"")

    with pytest.raises(InvalidInputError, match="no Zarr hierarchy"):
        frazil.import_zarr(repo, place, group="new")


def test_a_sparse_array_is_asked_only_for_what_it_has() -> None:
    place, gets = MemoryStorage(), list[str]()
    array = {
        "zarr_format": 3, "node_type": "array", "shape": [300, 300], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 2]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "bytes"}],
    }  # fmt: skip
    place.put("zarr.json", json.dumps(array).encode())
    for key, data in (("c/7/8", b"\1\2"), ("c/299/149", b"\3\4"), ("c/299/150", b"no"), ("x", b"")):
        place.put(key, data)
    repo = Repository.create(MemoryStorage())

    def see(request: Request) -> None:
        gets.extend(request.keys if request.verb is Verb.GET else ())

    report = frazil.import_zarr(repo, Watched(place, see), group="sparse")

    assert report.chunks == 2
    assert len(gets) < 10
    found = zarr.open_array(repo.readonly_session("main").store, path="sparse", mode="r")
    assert np.asarray(found[7, 14:20]).tolist() == [0, 0, 1, 2, 0, 0]
    assert np.asarray(found[299, 296:]).tolist() == [0, 0, 3, 4]


class WithMarkers(ForwardingStorage):
    """A storage with objects that mark folders, as consoles of object stores make them."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        for info in super().list(prefix):
            yield replace(info, key=info.key.rpartition("/")[0] + "/")
            yield info


def test_markers_of_folders_are_not_chunks() -> None:
    place = MemoryStorage()
    array = {
        "zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "|i1", "compressor": None,
        "fill_value": 0, "order": "C", "filters": None,
    }  # fmt: skip
    place.put("a/.zarray", json.dumps(array).encode())
    place.put("a/1", b"\3\4")
    repo = Repository.create(MemoryStorage())

    report = frazil.import_zarr(repo, WithMarkers(place))

    assert report.chunks == 1
    found = zarr.open_array(repo.readonly_session("main").store, path="a", mode="r")
    assert np.asarray(found[:]).tolist() == [0, 0, 3, 4]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated_metadata_reports_what_can_not_be_listed(
    tmp_path: Path, zarr_format: Any
) -> None:
    dataset = xr.Dataset({"t": ("x", np.arange(5.0), {"units": "K"})})
    dataset.to_zarr(tmp_path / "plain", zarr_format=zarr_format, consolidated=True)
    repo = Repository.create(MemoryStorage())

    def refuse(request: Request) -> None:
        if request.verb is Verb.LIST:
            raise StorageError("a server of web pages can't list")

    place = Watched(local_filesystem_storage(str(tmp_path / "plain")), refuse)
    frazil.import_zarr(repo, place)

    found = xr.open_zarr(repo.readonly_session("main").store, consolidated=False)
    xr.testing.assert_identical(found.load(), xr.open_zarr(tmp_path / "plain").load())
