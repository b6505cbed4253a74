"""Xarray's objects, written to a session and read back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import dask
import numpy as np
import pytest
import xarray as xr

from frazil.repository import Repository
from frazil.repository.session import Session
from frazil.storage import local_filesystem_storage
from frazil.xarray import _XarrayDatasetWriter, to_icechunk


@pytest.fixture
def session(tmp_path: Path) -> Session:
    repository = Repository.create(local_filesystem_storage(str(tmp_path / "repository")))
    return repository.writable_session("main")


@pytest.fixture(params=["synchronous", "threads", "processes"])
def scheduler(request: pytest.FixtureRequest) -> Iterator[None]:
    with dask.config.set(scheduler=request.param):
        yield


def weather(first: int = 0, count: int = 6) -> xr.Dataset:
    hours = np.arange(first, first + count)
    values = hours[:, None] * 10.0 + np.arange(4)
    return xr.Dataset(
        {"temperature": (("time", "place"), values), "height": ("place", np.arange(4.0))},
        coords={"time": hours, "place": list("abcd")},
        attrs={"title": "made up"},
    )


def lazily(dataset: xr.Dataset) -> xr.Dataset:
    return dataset.chunk({"time": 2, "place": 2})


def read(session: Session, group: str | None = None) -> xr.Dataset:
    found: xr.Dataset = xr.open_zarr(session.store, group=group, consolidated=False, chunks=None)
    return found.load()


def test_to_zarr_writes_what_open_zarr_reads(session: Session) -> None:
    weather().to_zarr(session.store, consolidated=False)

    xr.testing.assert_identical(read(session), weather())


def test_to_zarr_appends(session: Session) -> None:
    weather().to_zarr(session.store, consolidated=False)

    weather(6, 3).to_zarr(session.store, append_dim="time", consolidated=False)

    xr.testing.assert_identical(read(session), weather(0, 9))


def test_to_zarr_writes_regions(session: Session) -> None:
    weather().to_zarr(session.store, consolidated=False)
    part = (weather(2, 2) + 100).drop_vars(["height", "place"])

    part.to_zarr(session.store, region={"time": slice(2, 4)}, consolidated=False)

    found = read(session).temperature.values[:, 0].tolist()
    assert found == [0, 10, 120, 130, 40, 50]


def test_a_commit_keeps_what_was_written(tmp_path: Path) -> None:
    repository = Repository.create(local_filesystem_storage(str(tmp_path)))
    session = repository.writable_session("main")
    to_icechunk(weather(), session)

    session.commit("weather")

    xr.testing.assert_identical(read(repository.readonly_session("main")), weather())


@pytest.mark.usefixtures("scheduler")
@pytest.mark.parametrize("split_every", [None, 2])
def test_dask_arrays_are_written_by_any_scheduler(
    session: Session, split_every: int | None
) -> None:
    to_icechunk(lazily(weather()), session, split_every=split_every)

    xr.testing.assert_identical(read(session), weather())
    assert session.has_uncommitted_changes


@pytest.mark.usefixtures("scheduler")
def test_dask_arrays_are_appended_in_the_same_session(session: Session) -> None:
    to_icechunk(lazily(weather()), session)
    to_icechunk(lazily(weather(6, 4)), session, append_dim="time")

    xr.testing.assert_identical(read(session), weather(0, 10))


@pytest.mark.parametrize("region", ["auto", {"time": slice(2, 4)}])
def test_dask_arrays_are_written_to_regions(
    session: Session, region: Literal["auto"] | dict[str, slice]
) -> None:
    to_icechunk(weather(), session, encoding={"temperature": {"chunks": (2, 2)}})
    part = lazily(weather(2, 2) + 100).drop_vars(["height", "place"])

    to_icechunk(part, session, region=region)

    found = read(session).temperature.values[:, 0].tolist()
    assert found == [0, 10, 120, 130, 40, 50]


def test_a_group_can_be_named_and_replaced(session: Session) -> None:
    to_icechunk(weather(), session, group="a/b")
    to_icechunk(weather(5), session, group="a/b", mode="w")

    xr.testing.assert_identical(read(session, "a/b"), weather(5))
    with pytest.raises(FileExistsError):
        to_icechunk(weather(), session, group="a/b")


@pytest.mark.parametrize("name", [None, "temperature", "time"])
def test_a_lone_array_is_restored_with_its_name(session: Session, name: str | None) -> None:
    array = weather().temperature.rename(name)

    to_icechunk(array, session)

    store: Any = session.store
    found = xr.open_dataarray(store, engine="zarr", consolidated=False)
    xr.testing.assert_identical(found.load(), array)


def test_encodings_are_kept(session: Session) -> None:
    encoding: dict[str, Any] = {
        "temperature": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}
    }

    to_icechunk(weather(), session, encoding=encoding)

    found = read(session)
    assert found.temperature.encoding["dtype"] == np.dtype("i2")
    np.testing.assert_array_equal(found.temperature, weather().temperature)


def test_chunks_that_two_tasks_would_write_are_refused(session: Session) -> None:
    to_icechunk(weather(), session, encoding={"temperature": {"chunks": (4, 4)}})

    with pytest.raises(ValueError, match="chunk"):
        to_icechunk(lazily(weather()), session, mode="a")
    to_icechunk(lazily(weather()), session, mode="a", align_chunks=True)


def test_the_steps_of_a_writer_come_in_order(session: Session) -> None:
    writer = _XarrayDatasetWriter(weather(), store=session.store)
    writer._open_group(group=None, mode=None, append_dim=None, region=None)

    with pytest.raises(ValueError, match="write_metadata first"):
        writer.write_eager()
    writer.write_metadata()
    assert not read(session).temperature.notnull().any()
    with pytest.raises(TypeError, match="no Dask arrays"):
        writer.write_lazy()
    writer.write_eager()

    xr.testing.assert_identical(read(session), weather())


def test_only_the_store_of_a_session_is_written_to() -> None:
    with pytest.raises(ValueError, match="dict is no store of one"):
        _XarrayDatasetWriter(weather(), store={})  # type: ignore[arg-type]
