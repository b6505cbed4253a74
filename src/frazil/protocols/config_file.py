"""The saved configuration as `config.yaml`, with a backup of each one that is overwritten."""

import time
from collections.abc import Mapping

from frazil.assets import new_snapshot_id
from frazil.errors import (
    ConflictError,
    ObjectExistsError,
    ObjectNotFoundError,
    VersionMismatchError,
)
from frazil.format.config import decode_config_yaml, encode_config_yaml
from frazil.format.dialect import Dialect
from frazil.format.json_values import JsonValue
from frazil.storage.interface import Buffer, Storage, Version, Versioned

KEY = "config.yaml"

# Backups count down to the year 3000, so that the newest sorts first.
_END_OF_COUNTDOWN_MS = 32_503_680_000_000


class ConfigFile:
    """One `config.yaml`; a write needs to know what it replaces, so it remembers what was read."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._is_known = False
        self._version: Version | None = None

    def find(self) -> dict[str, JsonValue] | None:
        """The configuration as a tree, if one was saved."""
        found = self._find()
        self._remember(None if found is None else found.version)
        return None if found is None else decode_config_yaml(bytes(found.data))

    def write(self, config: Mapping[str, JsonValue]) -> None:
        """Save the configuration; raises ConflictError if somebody else did since it was read."""
        if not self._is_known:
            found = self._find()
            self._remember(None if found is None else found.version)
        data = encode_config_yaml(config)
        try:
            self._remember(self._put(data))
        except (ObjectExistsError, VersionMismatchError) as error:
            raise ConflictError(
                message=f"{KEY} was saved by somebody else since it was read", kind="config-updated"
            ) from error

    def _find(self) -> Versioned | None:
        try:
            return self._storage.get_versioned(KEY)
        except ObjectNotFoundError:
            return None

    def _put(self, data: Buffer) -> Version:
        if self._version is None:
            return self._storage.create(KEY, data)
        self._storage.copy(KEY, _backup_key(), self._version)
        return self._storage.replace(KEY, data, self._version)

    def _remember(self, version: Version | None) -> None:
        self._is_known = True
        self._version = version


def _backup_key() -> str:
    countdown = _END_OF_COUNTDOWN_MS - time.time_ns() // 10**6
    return f"overwritten/{KEY}.{countdown:014}.{new_snapshot_id(Dialect.V1)}"
