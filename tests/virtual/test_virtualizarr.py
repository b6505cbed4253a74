"""VirtualiZarr's datasets go into a session and come out of one."""

from pathlib import Path

import pytest
import xarray as xr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr import open_virtual_dataset
from virtualizarr.manifests import ManifestArray
from virtualizarr.parsers import HDFParser

import frazil
from frazil import virtual
from frazil.errors import InvalidInputError
from tests.virtual.files import days, save
from tests.virtual.repositories import commit, make_repository, read


def open_with_virtualizarr(path: Path) -> xr.Dataset:
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    return open_virtual_dataset(path.as_uri(), registry=registry, parser=HDFParser())


def written(folder: Path, *datasets: xr.Dataset, group: str = "") -> frazil.Repository:
    """A repository with a dataset and what is appended to it, each in a commit of its own."""
    repository = make_repository(folder)
    for at, dataset in enumerate(datasets):
        session = repository.writable_session("main")
        append_dim = "time" if at else None
        virtual.write_dataset(dataset, session.store, group=group, append_dim=append_dim)
        session.commit("more")
    return repository


@pytest.mark.parametrize("group", ["", "some/where"])
def test_a_virtual_dataset_is_written(tmp_path: Path, group: str) -> None:
    path = save(days(0, 4).assign_coords(height=((), 2.0)), tmp_path / "a.nc")

    repository = written(tmp_path, open_with_virtualizarr(path), group=group)

    with xr.open_dataset(path) as expected:
        xr.testing.assert_identical(read(repository, group or None), expected.load())
    located = repository.readonly_session("main").all_virtual_chunk_locations()
    assert set(located) == {path.as_uri()}


def test_a_virtual_dataset_is_appended(tmp_path: Path) -> None:
    paths = [save(days(start, 4), tmp_path / f"{start}.nc") for start in (0, 4)]

    repository = written(tmp_path, *map(open_with_virtualizarr, paths))

    parts = [xr.open_dataset(path) for path in paths]
    expected = xr.concat(parts, "time", data_vars="minimal", join="exact")
    xr.testing.assert_identical(read(repository), expected.load())


def test_what_does_not_fit_is_not_appended(tmp_path: Path) -> None:
    first = save(days(0, 3), tmp_path / "a.nc")
    other = save(days(3, 2), tmp_path / "b.nc", t={"zlib": True, "chunksizes": (1, 20, 30)})
    ragged = save(days(3, 2), tmp_path / "c.nc")
    repository = written(tmp_path, open_with_virtualizarr(first))
    session = repository.writable_session("main")

    with pytest.raises(InvalidInputError, match=r"chunk shape is .* elsewhere"):
        virtual.write_dataset(open_with_virtualizarr(other), session.store, append_dim="time")
    with pytest.raises(InvalidInputError, match="don't end where the array does"):
        virtual.write_dataset(open_with_virtualizarr(ragged), session.store, append_dim="time")
    with pytest.raises(InvalidInputError, match="no dimension 'run'"):
        virtual.write_dataset(open_with_virtualizarr(ragged), session.store, append_dim="run")
    assert not session.has_uncommitted_changes


def test_datasets_that_virtualizarr_has_combined_are_written(tmp_path: Path) -> None:
    paths = [save(days(start, 2), tmp_path / f"{start}.nc") for start in (0, 2)]
    parts = [open_with_virtualizarr(path) for path in paths]
    together = xr.concat(
        parts, "time", data_vars="minimal", coords="minimal", compat="override", join="exact"
    )

    found = read(written(tmp_path, together))

    assert found["t"].values[2:].tolist() == days(2, 2)["t"].values.tolist()


def test_a_session_opens_as_a_virtual_dataset_and_is_written_again(tmp_path: Path) -> None:
    source = virtual.open(save(days(0, 4).assign(n=((), 5)), tmp_path / "a.nc"))
    repository = commit(virtual.combine([source]), [source], tmp_path)
    session = repository.readonly_session("main")

    opened = virtual.read_dataset(session.store)
    again = written(tmp_path, opened)

    assert isinstance(opened["t"].variable.data, ManifestArray)
    directly = open_with_virtualizarr(tmp_path / "a.nc")
    assert opened["t"].variable.data.manifest == directly["t"].variable.data.manifest
    xr.testing.assert_identical(read(again), read(repository))


def test_groups_below_come_along_as_manifests(tmp_path: Path) -> None:
    source = virtual.open(save(days(0, 2), tmp_path / "a.nc"))
    repository = make_repository(tmp_path)
    session = repository.writable_session("main")
    virtual.write(virtual.combine([source]), session.store, [source], group="a/b")
    session.commit("deep")

    store = virtual.manifest_store(repository.readonly_session("main").store)

    tree = store.to_virtual_datatree()
    assert isinstance(tree["a/b"].dataset["t"].variable.data, ManifestArray)


def test_a_file_with_spaces_in_its_name_is_written(tmp_path: Path) -> None:
    path = save(days(0, 2), tmp_path / "a file.nc")
    source = virtual.open(path)
    repository = commit(virtual.combine([source]), [source], tmp_path)

    again = written(tmp_path, virtual.read_dataset(repository.readonly_session("main").store))

    xr.testing.assert_identical(read(again), read(repository))
