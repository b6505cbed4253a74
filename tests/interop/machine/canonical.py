"""Names for what is random: ids in the order in which they appear, times, backups, sizes of files."""

import json
import re
from datetime import datetime
from typing import Any

_ID = re.compile(r"\b(?:[0-9A-HJKMNP-TV-Z]{20}|[0-9A-HJKMNP-TV-Z]{13})\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
_BACKUP = re.compile(r"repo\.\d{14}\.[0-9A-Z]{20}")

_BY_ITS_WRITER = frozenset({"size_bytes", "written_by", "app_name", "app_version"})
"""What depends on who wrote a file, and says nothing about what is in it."""

_UNORDERED = frozenset({
    "snapshots", "manifests", "manifest_files", "new_groups", "new_arrays", "deleted_groups",
    "deleted_arrays", "updated_groups", "updated_arrays", "updated_chunks", "conflicts",
    "conflicted_chunks", "chunks", "set",
})  # fmt: skip
"""Lists that are in the order of ids, or in none."""

_NAMED_LATE = ("log", "manifests", "manifest_files", "repo_info", "conflicts")
"""Their ids appear in an order that means something elsewhere."""


class Names:
    """The names of one repository's ids."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def canonical(self, value: Any, key: str = "") -> Any:
        """The same value for the same history, whatever chance and clock said."""
        match value:
            case dict():
                return self._canonical_map(value)
            case list() | tuple():
                items = [self.canonical(each) for each in value]
                return sorted(items, key=_sort_key) if key in _UNORDERED else items
            case datetime():
                return "a time"
            case str():
                return self._canonical_text(value)
        return value

    def _canonical_map(self, value: dict[str, Any]) -> dict[str, Any]:
        keys = sorted(value, key=lambda key: _NAMED_LATE.index(key) if key in _NAMED_LATE else -1)
        return {
            self._canonical_text(key): self.canonical(value[key], key)
            for key in keys
            if key not in _BY_ITS_WRITER
        }

    def _canonical_text(self, text: str) -> str:
        text = _TIME.sub("a time", _BACKUP.sub("a backup", text))
        return _ID.sub(lambda match: self._name(match[0]), text)

    def _name(self, id: str) -> str:
        return self._names.setdefault(id, f"id {len(self._names)}")


def _sort_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)
