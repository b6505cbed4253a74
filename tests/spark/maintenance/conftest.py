"""A repository on a disk with many small chunks."""

from pathlib import Path

import numpy as np
import pytest
import zarr

import frazil
from frazil import Repository
from tests.repositories import split_every
from tests.spark.maintenance.contents import VALUES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two arrays of a hundred chunks, in manifests of nine, and one whose chunks are in manifests."""
    storage = frazil.local_filesystem_storage(str(tmp_path / "repo"))
    repo = Repository.create(storage, split_every(3, inline_up_to=64))
    repo.save_config()
    session = repo.writable_session("main")
    for name in ("data/a", "data/b"):
        array = zarr.create_array(
            session.store, name=name, shape=VALUES.shape, chunks=(3, 3), dtype="i8"
        )
        array[...] = VALUES
    zarr.create_array(
        session.store, name="small", shape=(40,), chunks=(2,), dtype="i8", compressors=None
    )[...] = np.arange(40)
    session.commit("written")
    return tmp_path / "repo"


@pytest.fixture
def repo(path: Path) -> Repository:
    """The repository at the path."""
    return Repository.open(frazil.local_filesystem_storage(str(path)))
