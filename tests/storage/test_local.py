"""The local disk keeps the contract, with and without its durability."""

from pathlib import Path

import pytest

from frazil.storage.interface import Storage
from frazil.storage.local import Durability, LocalStorage
from frazil.testing.storage_contract import StorageContract


class TestLocalStorage(StorageContract):
    race_rounds = 100  # the full number is run below, where no round waits for the disk

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path / "objects")


class TestLocalStorageWithoutDurability(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path / "objects", durability=Durability.NONE)
