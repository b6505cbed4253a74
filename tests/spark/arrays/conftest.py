"""Repositories on a disk, which tasks in other processes share."""

from pathlib import Path

import pytest

import frazil
from frazil import Repository


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """A new repository."""
    return Repository.create(frazil.local_filesystem_storage(str(tmp_path / "repo")))
