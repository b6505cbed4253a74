"""Performing a check: reads and lists, and lets pure functions decide."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain

from frazil.assets import Assets
from frazil.format.dialect import Dialect
from frazil.format.files import decode_repo_info
from frazil.format.ids import SnapshotId
from frazil.maintenance.checking.base import Base, UnreadableRepoError, read_base
from frazil.maintenance.checking.history import Links, check_links
from frazil.maintenance.checking.inventory import Inventory, take_inventory
from frazil.maintenance.checking.leftovers import check_leftovers, list_leftovers
from frazil.maintenance.checking.log_walking import check_logs, plan_logs
from frazil.maintenance.checking.manifest_walking import ManifestCheck
from frazil.maintenance.checking.ops_log import check_ops_log
from frazil.maintenance.checking.orphans import Used, count_orphans, tell_orphans
from frazil.maintenance.checking.problems import Problem, Problems, Severity, error, note
from frazil.maintenance.checking.reading import Failed, read_files, read_or_fail
from frazil.maintenance.checking.repo_info import find_page_size
from frazil.maintenance.checking.report import CheckReport, Counts
from frazil.maintenance.checking.virtual import check_source
from frazil.maintenance.checking.walking import (
    Gathered,
    check_snapshots,
    choose_snapshots,
    read_links,
)
from frazil.maintenance.limits import WalkLimits
from frazil.maintenance.walking import uncached
from frazil.protocols.interface import CommitProtocol
from frazil.protocols.repo_file import REPO
from frazil.virtual.access import VirtualChunkAccess


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How far a check goes."""

    branch: str | None = None
    """Only this one, and what it leads to; None for all."""
    decodes_chunks: bool = False
    """Whether every native chunk is read and decoded, and every backup."""
    asks_sources: bool = False
    """Whether the files that virtual chunks are in are asked for."""
    limits: WalkLimits = field(default_factory=WalkLimits)


def check_repository(
    protocol: CommitProtocol, virtual: VirtualChunkAccess, options: CheckOptions
) -> CheckReport:
    """Look at all that a repository consists of; nothing is written.

    Others may commit meanwhile. Where they collect garbage, files may go that were still to be read.
    """
    assets = uncached(protocol.assets)
    try:
        base = read_base(protocol, assets)
    except UnreadableRepoError as failure:
        return CheckReport(assets.dialect.value, (failure.problem,), Counts())
    with ThreadPoolExecutor(assets.storage.concurrency) as pool:
        # Only now: what the refs lead to was there before it was listed.
        inventory = take_inventory(assets)
        links = base.links or read_links(pool, assets, inventory.snapshots)
        chosen = choose_snapshots(base, links, options.branch)
        gathered = Gathered(options.decodes_chunks)
        check = _Check(assets, virtual, options, base, pool, inventory, links, chosen, gathered)
        return check.run()


@dataclass(frozen=True, slots=True)
class _Check:
    """One check, and what it has gathered so far."""

    assets: Assets
    virtual: VirtualChunkAccess
    options: CheckOptions
    base: Base
    pool: ThreadPoolExecutor
    inventory: Inventory
    links: Links
    chosen: Mapping[SnapshotId, str]
    gathered: Gathered

    def run(self) -> CheckReport:
        """All stages, each with what those before it have gathered."""
        problems = [*self.base.problems, *self._check_refs()]
        problems += check_links({id: self.links[id] for id in self.chosen if id in self.links})
        problems += self._check_state()
        problems += self._check_snapshots()
        manifests = self._manifests()
        problems += manifests.check(self.pool, self.options.limits)
        logs = plan_logs(self.assets, self.base, self.links, self.gathered.dialects, self.inventory)
        problems += check_logs(self.pool, self.assets, logs)
        if self.options.asks_sources:
            problems += self._ask_sources(manifests)
        problems += check_leftovers(list_leftovers(self.assets.storage), datetime.now(UTC))
        counts = self._counts() + Counts(transaction_logs=len(logs.present)) + manifests.counts
        return self._report(problems, manifests, counts)

    def _manifests(self) -> ManifestCheck:
        containers = self.virtual.index if self.base.has_usable_config else None
        asks_sources = self.options.asks_sources
        return ManifestCheck(self.assets, self.inventory, self.gathered, containers, asks_sources)

    def _check_refs(self) -> Problems:
        branch = self.options.branch
        if branch is not None and not self.chosen:
            yield error(
                _refs_key(self.assets), f"there is no branch {branch!r} that leads anywhere"
            )
        for tip in self.base.refs.deleted_tags:
            if self.inventory.snapshots.find_size(tip.snapshot_id) is None:
                yield note(tip.key, f"{tip} pointed to {tip.snapshot_id}, which is gone")

    def _check_state(self) -> Problems:
        if self.assets.dialect is not Dialect.V2:
            return
        size = find_page_size(self.base.config)
        yield from check_ops_log(self.base.ops_log, self.inventory.others, size)
        if self.options.decodes_chunks:
            yield from self._check_backups()

    def _check_backups(self) -> Problems:
        """Whether the backups that are there could be restored."""
        pages = {page.key for page in self.base.ops_log.pages}
        backups = (self.base.ops_log.backups() - pages) & self.inventory.others.keys()
        for _, outcome in read_files(self.pool, sorted(backups), self._read_backup):
            if isinstance(outcome, Failed):
                yield replace(outcome.problem, severity=Severity.WARNING)

    def _read_backup(self, key: str) -> object | Failed:
        return read_or_fail(self.assets, key, lambda data: decode_repo_info(data).dialect)

    def _check_snapshots(self) -> Problems:
        for found in check_snapshots(
            self.pool, self.assets, self.base, self.chosen, self.inventory.snapshots
        ):
            if isinstance(found, Problem):
                self.gathered.has_all = False
                yield found
            else:
                self.gathered.take(found, self.assets.layout.snapshot_key(found.id))
                yield from found.problems

    def _ask_sources(self, manifests: ManifestCheck) -> Iterator[Problem]:
        sources = sorted(manifests.sources.items(), key=lambda each: each[0].location)
        answers = self.pool.map(lambda each: check_source(self.virtual, *each), sources)
        yield from dict.fromkeys(answer for answer in answers if answer is not None)

    def _report(
        self, problems: list[Problem], manifests: ManifestCheck, counts: Counts
    ) -> CheckReport:
        is_whole = self._has_all_refs() and self.gathered.has_all and manifests.has_all
        orphans = count_orphans(self.inventory, self._used(manifests)) if is_whole else ()
        told = (*problems, *tell_orphans(orphans, self.assets.layout))
        order = list(Severity)
        return CheckReport(
            self.assets.dialect.value,
            tuple(sorted(told, key=lambda each: order.index(each.severity))),
            counts,
            orphans,
            is_whole,
        )

    def _has_all_refs(self) -> bool:
        """Whether it is known what every ref leads to."""
        unread = (each for each in self.base.refs.problems if each.severity is Severity.ERROR)
        return self.options.branch is None and next(unread, None) is None

    def _used(self, manifests: ManifestCheck) -> Used:
        logs = set(self.chosen)
        for info in self.base.listed.values():
            logs.update(info.pruned_ancestor_tx_logs)
        named = chain(self.gathered.uses, self.gathered.facts)
        backups = self.base.ops_log.backups()
        return Used(self.chosen.keys(), logs, set(named), manifests.chunk_ids, backups)

    def _counts(self) -> Counts:
        refs = self.base.refs
        return Counts(
            branches=len(refs.branches),
            tags=len(refs.tags),
            snapshots=len(self.gathered.dialects),
            nodes=self.gathered.num_nodes,
        )


def _refs_key(assets: Assets) -> str:
    """Where branches are."""
    if assets.dialect is Dialect.V2:
        return REPO
    return "r/" if assets.dialect is Dialect.DRAFT else "refs/"
