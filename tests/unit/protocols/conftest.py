"""The storages on which protocols are tested."""

from pathlib import Path

import pytest

from frazil.storage.interface import Storage
from frazil.storage.local import Durability, LocalStorage
from frazil.storage.memory import MemoryStorage


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty storage of each kind."""
    if request.param == "memory":
        return MemoryStorage()
    return LocalStorage(tmp_path / "repository", durability=Durability.NONE)
