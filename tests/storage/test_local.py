"""The local disk keeps the contract: with its durability, without it, and on lesser file systems."""

from pathlib import Path

import pytest

from frazil.storage import disk
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


class TestLocalStorageWithoutNamelessFilesAndExchange(StorageContract):
    """As on macOS, and on file systems that have neither."""

    race_rounds = 300

    @pytest.fixture
    def storage(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
        monkeypatch.setattr(disk, "_NAMELESS", None)
        monkeypatch.setattr(disk, "exchange", lambda *_: False)
        return LocalStorage(tmp_path / "objects", durability=Durability.NONE)
