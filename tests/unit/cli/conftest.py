"""A repository with some history, and the command line."""

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from tests.command_line import Frazil, make_frazil


@pytest.fixture(scope="session")
def run() -> Frazil:
    """Runs a command line."""
    return make_frazil()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository of two commits, a tag, a branch."""
    place = tmp_path / "weather"
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(place)))
    session = repo.writable_session("main")
    group = zarr.group(session.store)
    array = group.create_array(
        "surface/t2m", shape=(20, 6), chunks=(5, 6), dtype="f4", dimension_names=("time", "lat")
    )
    array.attrs["units"] = "K"
    array[:10] = np.arange(60).reshape(10, 6)
    repo.create_tag("v1", session.commit("ten days"))
    session = repo.writable_session("main")
    zarr.open_array(session.store, path="surface/t2m")[10:] = 7
    session.commit("ten more")
    repo.create_branch("experiment", repo.lookup_tag("v1"))
    return place
