"""Backups of the repo info: whether they could be restored."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from frazil.assets import Assets
from frazil.format.dialect import Dialect
from frazil.format.files import decode_repo_info
from frazil.maintenance.checking.problems import Problem, Severity
from frazil.maintenance.checking.reading import Failed, read_files, read_or_fail


@dataclass(frozen=True, slots=True)
class CheckBackups:
    """Reads backups."""

    assets: Assets

    def __call__(self, pool: ThreadPoolExecutor, keys: Sequence[str]) -> list[Problem]:
        """A warning for each that can't be read."""
        found = (outcome for _, outcome in read_files(pool, keys, self._read))
        return [
            replace(each.problem, severity=Severity.WARNING)
            for each in found
            if isinstance(each, Failed)
        ]

    def _read(self, key: str) -> Dialect | Failed:
        return read_or_fail(self.assets, key, lambda data: decode_repo_info(data).dialect)
