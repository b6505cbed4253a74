"""Going through the transaction logs of a repository."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from frazil.assets import Assets
from frazil.format.dialect import Dialect
from frazil.format.ids import SnapshotId
from frazil.maintenance.checking.base import Base
from frazil.maintenance.checking.history import Links
from frazil.maintenance.checking.inventory import Inventory
from frazil.maintenance.checking.logs import check_log_file, needs_log
from frazil.maintenance.checking.problems import Problem, Repair, error, warning
from frazil.maintenance.checking.reading import Failed, read_files, read_or_fail


@dataclass(frozen=True, slots=True)
class WantedLog:
    """What is known of a log before it is read."""

    is_first: bool = False
    """Whether it is that of a first snapshot."""
    repair: Repair | None = None
    """What repairs it, should it be damaged."""


@dataclass(frozen=True, slots=True)
class LogPlan:
    """The logs to read, and what is wrong with those that there are not."""

    present: Mapping[SnapshotId, WantedLog]
    missing: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class CheckLogs:
    """Looks at transaction logs."""

    assets: Assets

    def __call__(
        self, pool: ThreadPoolExecutor, wanted: Sequence[tuple[SnapshotId, WantedLog]]
    ) -> list[Problem]:
        """All that is wrong with them."""
        problems: list[Problem] = []
        for _, outcome in read_files(pool, wanted, lambda each: self._check(*each)):
            problems += (outcome.problem,) if isinstance(outcome, Failed) else outcome
        return problems

    def _check(self, id: SnapshotId, wanted: WantedLog) -> tuple[Problem, ...] | Failed:
        key, dialect = _key(self.assets, id), self.assets.dialect
        return read_or_fail(
            self.assets,
            key,
            lambda data: check_log_file(data, id, key, dialect, is_first=wanted.is_first),
            wanted.repair,
        )


def plan_logs(
    assets: Assets,
    base: Base,
    links: Links,
    dialects: Mapping[SnapshotId, Dialect],
    inventory: Inventory,
) -> LogPlan:
    """The logs of these snapshots, and those that they took over from expired ancestors."""
    if assets.layout.transactions is None:
        return LogPlan({}, ())
    present: dict[SnapshotId, WantedLog] = {}
    missing: list[Problem] = []
    logs = inventory.transaction_logs
    for id, dialect in dialects.items():
        repair = None if _pruned(base, id) else Repair.REBUILD_LOG
        link = links.get(id)
        is_first = link is not None and link.parent_id is None
        if logs.find_size(id) is not None:
            present[id] = WantedLog(is_first, repair)
        elif needs_log(dialect, is_first=is_first):
            what = "there is no such file: rebases and diffs across its snapshot fail"
            missing.append(error(_key(assets, id), what, repair))
    for id, owner in _all_pruned(base, dialects):
        if logs.find_size(id) is not None:
            present.setdefault(id, WantedLog())
        else:
            what = f"there is no such file: rebases and diffs across snapshot {owner} miss changes"
            missing.append(warning(_key(assets, id), what))
    return LogPlan(present, tuple(missing))


def _pruned(base: Base, id: SnapshotId) -> tuple[SnapshotId, ...]:
    listed = base.listed.get(id)
    return () if listed is None else listed.pruned_ancestor_tx_logs


def _all_pruned(
    base: Base, ids: Mapping[SnapshotId, Dialect]
) -> Iterator[tuple[SnapshotId, SnapshotId]]:
    owners: dict[SnapshotId, SnapshotId] = {}
    for owner in ids:
        for id in _pruned(base, owner):
            if id not in ids:
                owners.setdefault(id, owner)
    return iter(owners.items())


def _key(assets: Assets, id: SnapshotId) -> str:
    key = assets.layout.find_transaction_log_key(id)
    assert key is not None
    return key
