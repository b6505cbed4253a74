"""Xarray's engine: repositories opened by URL, by path, and as objects."""

import copy
import pickle
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import frazil
from frazil.errors import InvalidInputError
from frazil.xarray import to_icechunk
from frazil.xarray_backend import FrazilBackendEntrypoint

OPEN_A_DATASET_AND_COMPLAIN = """
import sys
from importlib.metadata import entry_points

# Only this one: engines of others may load what they like.
(entry,) = entry_points(group="xarray.backends", name="frazil")
engine = entry.load()()
assert not engine.guess_can_open("file.nc")
assert not engine.guess_can_open(object())
heavy_modules = {"zarr", "obstore", "frazil.repository.session", "frazil.storage"}
for heavy in sorted(heavy_modules & sys.modules.keys()):
    print("imports", heavy)
"""


def weather(first: int) -> xr.Dataset:
    hours = np.arange(first, first + 6)
    return xr.Dataset(
        {"temperature": (("time", "place"), hours[:, None] * 10.0 + np.arange(4))},
        coords={"time": hours, "place": list("abcd")},
        attrs={"first": first},
    )


def alone(first: int) -> xr.Dataset:
    return xr.Dataset({"alone": ("number", np.arange(first))}, attrs={"first": first})


@pytest.fixture
def repository(tmp_path: Path) -> frazil.Repository:
    """Another dataset in each version: v1, main, and the branch dev."""
    repository = frazil.Repository.create(frazil.storage_from_url(tmp_path))
    repository.create_tag("v1", commit(repository, "main", 1))
    repository.create_branch("dev", repository.lookup_branch("main"))
    commit(repository, "main", 2)
    commit(repository, "dev", 3)
    return repository


def commit(repository: frazil.Repository, branch: str, first: int) -> str:
    session = repository.writable_session(branch)
    to_icechunk(weather(first), session, mode="w", encoding={"temperature": {"chunks": (3, 4)}})
    to_icechunk(alone(first), session, mode="w", group="a/b")
    return session.commit(f"from {first}")


@pytest.fixture
def url(repository: frazil.Repository, tmp_path: Path) -> str:
    assert repository.list_tags() == {"v1"}
    return f"icechunk+file://{tmp_path}"


def first_of(dataset: xr.Dataset) -> int:
    first = int(dataset.attrs["first"])
    expected = alone(first) if "alone" in dataset else weather(first)
    xr.testing.assert_identical(dataset.load(), expected)
    return first


def test_a_url_that_says_what_it_is_needs_no_engine(url: str) -> None:
    assert first_of(xr.open_dataset(url)) == 2
    assert first_of(xr.open_dataset(f"{url}@v1")) == 1
    assert first_of(xr.open_dataset(f"{url}?branch=dev")) == 3
    assert first_of(xr.open_dataset(url.replace("+file", ""), engine="frazil")) == 2


@pytest.mark.usefixtures("repository")
def test_paths_are_opened_by_the_named_engine(tmp_path: Path) -> None:
    assert first_of(xr.open_dataset(str(tmp_path), engine="frazil")) == 2
    assert first_of(xr.open_dataset(f"{tmp_path}@v1", engine="frazil")) == 1
    assert first_of(xr.open_dataset(tmp_path, engine="frazil")) == 2


def test_arguments_name_the_version(repository: frazil.Repository, url: str) -> None:
    id = repository.lookup_tag("v1")
    moment = datetime.now(UTC)
    commit(repository, "main", 4)

    assert first_of(xr.open_dataset(url)) == 4
    assert first_of(xr.open_dataset(url, branch="dev")) == 3
    assert first_of(xr.open_dataset(url, tag="v1")) == 1
    assert first_of(xr.open_dataset(url, snapshot=id)) == 1
    assert first_of(xr.open_dataset(url, snapshot_id=id)) == 1
    assert first_of(xr.open_dataset(url, as_of=moment)) == 2
    assert first_of(xr.open_dataset(url, branch="main", as_of=moment.isoformat())) == 2


def test_objects_are_opened_as_they_are(repository: frazil.Repository) -> None:
    session = repository.readonly_session(tag="v1")

    assert first_of(open_object(repository)) == 2
    assert first_of(open_object(repository, branch="dev")) == 3
    assert first_of(open_object(session)) == 1
    assert first_of(open_object(session.store)) == 1
    assert first_of(open_object(repository, engine="frazil", tag="v1")) == 1


def test_a_writable_session_shows_what_was_not_committed_yet(
    repository: frazil.Repository,
) -> None:
    session = repository.writable_session("main")
    to_icechunk(weather(7), session, mode="w")

    assert first_of(open_object(session)) == 7
    assert first_of(open_object(session, chunks={})) == 7


def open_object(object: Any, **options: Any) -> xr.Dataset:
    return xr.open_dataset(object, **options)


def test_a_group_is_opened(url: str) -> None:
    assert first_of(xr.open_dataset(url, group="a/b")) == 2
    assert first_of(xr.open_dataset(f"{url}@v1", group="/a/b")) == 1


def test_a_tree_is_opened(url: str) -> None:
    tree = xr.open_datatree(url, engine="frazil", tag="v1")
    guessed = xr.open_datatree(url)
    groups = xr.open_groups(url, branch="dev")

    assert sorted(tree.groups) == ["/", "/a", "/a/b"]
    assert first_of(tree.children["a"].children["b"].to_dataset(inherit=False)) == 1
    assert first_of(guessed.to_dataset()) == 2
    assert sorted(groups) == ["/", "/a", "/a/b"]
    assert first_of(groups["/a/b"]) == 3


def test_a_tree_can_begin_at_a_group(url: str) -> None:
    tree = xr.open_datatree(url, group="a")

    assert sorted(tree.groups) == ["/", "/b"]


def test_chunks_make_dask_arrays(url: str, repository: frazil.Repository) -> None:
    by_url = xr.open_dataset(url, chunks={"time": 3})
    by_session = open_object(repository.readonly_session("main"), chunks={})

    assert by_url.temperature.chunks == ((3, 3), (4,))
    assert by_session.temperature.chunks == ((3, 3), (4,))
    assert first_of(by_url) == first_of(by_session) == 2


@pytest.mark.parametrize("kind", ["URL", "path", "repository", "session"])
def test_dask_distinguishes_what_was_opened_before_and_after_a_commit(
    repository: frazil.Repository, url: str, kind: str
) -> None:
    def open_again() -> xr.Dataset:
        places = {
            "URL": url,
            "path": url.removeprefix("icechunk+file://"),
            "repository": repository,
            "session": repository.readonly_session("main"),
        }
        return open_object(places[kind], engine="frazil", chunks={})

    old = open_again()
    commit(repository, "main", 5)
    new = open_again()

    difference = new.temperature.variable - old.temperature.variable
    assert (difference.compute() == 30).all()


def test_dask_distinguishes_versions_of_a_tree(repository: frazil.Repository, url: str) -> None:
    old = xr.open_datatree(url, chunks={})
    commit(repository, "main", 5)
    new = xr.open_datatree(url, chunks={})

    difference = new.dataset.temperature.variable - old.dataset.temperature.variable
    assert (difference.compute() == 30).all()


def test_what_was_opened_can_be_sent_to_another_process(url: str) -> None:
    lazy = xr.open_dataset(url)
    chunked = xr.open_dataset(url, chunks={})

    assert first_of(pickle.loads(pickle.dumps(lazy))) == 2
    assert first_of(pickle.loads(pickle.dumps(chunked))) == 2
    assert first_of(copy.deepcopy(lazy)) == 2
    assert first_of(lazy.chunk(time=3)) == 2


def test_decoding_can_be_switched_off(url: str, repository: frazil.Repository) -> None:
    session = repository.writable_session("main")
    encoding: Any = {"temperature": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}}
    to_icechunk(weather(1), session, mode="w", encoding=encoding)
    session.commit("encoded")

    assert xr.open_dataset(url, decode_cf=False).temperature.dtype == np.dtype("i2")
    assert xr.open_dataset(url, mask_and_scale=False).temperature.dtype == np.dtype("i2")
    assert list(xr.open_dataset(url, drop_variables="temperature").data_vars) == []
    xr.testing.assert_equal(xr.open_dataset(url).load(), weather(1))


def test_two_versions_are_not_one(repository: frazil.Repository, url: str) -> None:
    session = repository.readonly_session("main")

    with pytest.raises(InvalidInputError, match="and so do the arguments"):
        xr.open_dataset(f"{url}@v1", tag="v1")
    with pytest.raises(InvalidInputError, match="one version can be named"):
        xr.open_dataset(url, tag="v1", branch="main")
    with pytest.raises(InvalidInputError, match="give one"):
        xr.open_dataset(url, snapshot="x", snapshot_id="x")
    with pytest.raises(InvalidInputError, match="a session reads one version"):
        open_object(session, tag="v1")
    with pytest.raises(InvalidInputError, match="storage_options is for URLs"):
        open_object(session, storage_options={"region": "r"})


def test_an_argument_that_nobody_knows_is_refused(url: str) -> None:
    with pytest.raises(TypeError, match="brunch"):
        xr.open_dataset(url, brunch="main")


def test_only_what_says_so_is_taken_for_a_repository(tmp_path: Path) -> None:
    engine = FrazilBackendEntrypoint()

    assert engine.guess_can_open("icechunk:///data")
    assert engine.guess_can_open("icechunk+s3://bucket")
    for other in ("s3://bucket", "file.nc", str(tmp_path), tmp_path, b"CDF", object()):
        assert not engine.guess_can_open(other)


def test_guessing_an_engine_loads_nothing_heavy() -> None:
    child = subprocess.run(
        [sys.executable, "-c", OPEN_A_DATASET_AND_COMPLAIN],
        capture_output=True,
        text=True,
        check=True,
    )

    assert child.stdout == ""
