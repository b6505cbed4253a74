"""The local disk keeps the contract."""

from pathlib import Path

import pytest

from frazil.storage.interface import Storage
from frazil.storage.local import LocalStorage
from frazil.testing.storage_contract import StorageContract


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path / "objects")
