"""Check a repository: read and list its objects, and evaluate them with pure functions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Protocol, TypeVar

from frazil.config.saved_config import decode_config
from frazil.config.settings import resolve_config
from frazil.errors import FormatError, IcechunkError, ObjectNotFoundError, RepositoryNotFoundError
from frazil.format.files import decode_snapshot
from frazil.format.header import Dialect
from frazil.format.ids import SnapshotId
from frazil.maintenance.check_chunks import (
    ALL,
    OWN,
    AskSources,
    CheckContext,
    Kinds,
    ManifestFindings,
)
from frazil.maintenance.check_metadata import (
    Base,
    CheckBackups,
    Links,
    UnreadableRepoError,
    check_links,
    check_ops_log,
    find_page_size,
    list_ref_files,
    plan_ref_files,
    read_base,
)
from frazil.maintenance.check_walk import (
    CheckLogs,
    CheckManifests,
    CheckSnapshots,
    DecodeChunks,
    Gathered,
    LogPlan,
    ManifestTotals,
    ReadLinks,
    WantedManifest,
    WantedSnapshot,
    check_missing,
    join_links,
    list_ids,
    plan_logs,
    plan_manifests,
    select_snapshots,
)
from frazil.maintenance.findings import (
    CheckReport,
    Counts,
    Orphans,
    Problem,
    Problems,
    Repair,
    Severity,
    error,
    note,
)
from frazil.maintenance.inventory import (
    ChunkTotals,
    Inventory,
    Used,
    check_temporary_files,
    count_orphans,
    list_temporary_files,
    report_orphans,
    take_inventory,
)
from frazil.maintenance.reachability import MEBIBYTE, IdSet, WalkLimits, pack, uncached
from frazil.maintenance.repair import (
    Outcome,
    RepairReport,
    Restored,
    list_backups,
    repair_repository,
    restore_repo,
)
from frazil.progress import count
from frazil.protocols.assets import Assets
from frazil.protocols.detection import open_protocol
from frazil.protocols.protocol import CommitProtocol, UpdatePolicy
from frazil.protocols.sequence_protocol import SequenceProtocol
from frazil.protocols.v1_protocol import V1Protocol, find_object
from frazil.protocols.v2_protocol import REPO, V2Protocol
from frazil.storage.interface import Storage
from frazil.virtual.access import VirtualChunkAccess

T = TypeVar("T")
R = TypeVar("R")

_PART_BYTES = 512 * MEBIBYTE
"""Bytes that the threads process between two progress updates."""
_FILE_BYTES = MEBIBYTE // 2
"""Overhead of a file in bytes, added to its size."""

Stage = Callable[[ThreadPoolExecutor, Sequence[T]], R]


class Workers(Protocol):
    """Workers that run the stages of a check."""

    @property
    def parallel(self) -> int:
        """Number of parts that run concurrently."""

    def take_inventory(self, assets: Assets) -> Inventory:
        """List the objects of a repository; `check_manifests` may list the chunks instead."""

    def run(
        self, what: str, stage: Stage[T, R], items: Sequence[T], sizes: Sequence[int]
    ) -> Iterable[R]:
        """Run a stage on parts of the items, split by `sizes` in bytes; yields a result per part."""

    def check_manifests(
        self, stage: CheckManifests, wanted: Sequence[WantedManifest], inventory: Inventory
    ) -> tuple[ManifestTotals, ChunkTotals]:
        """Check all manifests, and compare their chunk references with the listed chunk files."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Workers that are the threads of this process."""

    pool: ThreadPoolExecutor

    @property
    def parallel(self) -> int:
        """Number of parts that run concurrently."""
        return 1

    def take_inventory(self, assets: Assets) -> Inventory:
        """List all objects of the repository."""
        return take_inventory(assets)

    def run(
        self,
        what: str,
        stage: Stage[T, R],
        items: Sequence[T],
        sizes: Sequence[int],
    ) -> Iterable[R]:
        """Run a stage on one part of the items after the other, and report progress."""
        done = count(what, "files", len(items))
        for part in pack(items, [size + _FILE_BYTES for size in sizes], _PART_BYTES):
            yield stage(self.pool, part)
            done.add(len(part))

    def check_manifests(
        self, stage: CheckManifests, wanted: Sequence[WantedManifest], inventory: Inventory
    ) -> tuple[ManifestTotals, ChunkTotals]:
        """Check each manifest against the chunk listing, which is in memory."""
        stage = replace(stage, context=replace(stage.context, chunks=inventory.chunks))
        used = IdSet()
        done = count("reading manifests", "manifests", len(wanted))

        def take(findings: ManifestFindings) -> None:
            used.add(findings.chunk_ids)
            done.add(1)

        totals = stage.check(self.pool, wanted, take)
        return totals, ChunkTotals.of(inventory.chunks, used)


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Scope of a check."""

    branch: str | None = None
    """Branch to check, with all it reaches; None for the whole repository."""
    decodes_chunks: bool = False
    """Read and decode every native and inline chunk, and every backup."""
    asks_sources: bool = False
    """Check the source files of virtual chunks; with `decodes_chunks`, decode their chunks, too."""
    limits: WalkLimits = field(default_factory=WalkLimits)
    requests_per_second: float | None = None
    """Maximum requests per second to source files, over all workers; None for no limit."""


def check_repository(
    protocol: CommitProtocol,
    virtual: VirtualChunkAccess,
    options: CheckOptions,
    workers: Workers | None = None,
) -> CheckReport:
    """Check all objects of a repository. Read-only.

    Other processes may commit meanwhile. If they collect garbage, files may disappear before the check
    reads them.

    Parameters
    ----------
    protocol
        The commit protocol of the repository.
    virtual
        Access to the source files of virtual chunks.
    options
        Scope of the check.
    workers
        Workers that run the stages; None for threads of this process.

    Returns
    -------
    CheckReport
        Problems, counts and orphans.
    """
    assets = uncached(protocol.assets)
    try:
        base = read_base(protocol, assets)
    except UnreadableRepoError as failure:
        return CheckReport(assets.dialect.value, (failure.problem,), Counts())
    if workers is not None:
        return _check(assets, virtual, options, base, workers)
    with ThreadPoolExecutor(assets.storage.concurrency) as pool:
        return _check(assets, virtual, options, base, Threads(pool))


def _check(
    assets: Assets,
    virtual: VirtualChunkAccess,
    options: CheckOptions,
    base: Base,
    workers: Workers,
) -> CheckReport:
    # List after the refs were read: all that they reach existed before the listing.
    inventory = workers.take_inventory(assets)
    links = base.links
    if not links:
        ids, sizes = list_ids(inventory.snapshots), inventory.snapshots.sizes.tolist()
        parts = workers.run("reading history", ReadLinks(assets), ids, sizes)
        links = join_links(chain.from_iterable(parts))
    chosen = select_snapshots(base, links, options.branch)
    gathered = Gathered(options.decodes_chunks)
    check = _Check(assets, virtual, options, base, workers, inventory, links, chosen, gathered)
    return check.run()


@dataclass(frozen=True, slots=True)
class _Check:
    """A check, with everything it has gathered so far."""

    assets: Assets
    virtual: VirtualChunkAccess
    options: CheckOptions
    base: Base
    workers: Workers
    inventory: Inventory
    links: Links
    chosen: Mapping[SnapshotId, str]
    gathered: Gathered

    def run(self) -> CheckReport:
        """Run all stages in order; each uses the results of those before it."""
        problems = [*self.base.problems, *self._check_refs()]
        problems += check_links({id: self.links[id] for id in self.chosen if id in self.links})
        problems += self._check_state()
        problems += self._check_snapshots()
        manifests, chunks = self._check_manifests()
        problems += manifests.problems
        problems += self._decode(manifests)
        logs = plan_logs(self.assets, self.base, self.links, self.gathered.dialects, self.inventory)
        problems += self._check_logs(logs)
        problems += self._ask_sources(manifests)
        problems += check_temporary_files(
            list_temporary_files(self.assets.storage), datetime.now(UTC)
        )
        counts = self._count(logs, manifests, chunks)
        return self._report(problems, manifests, chunks, counts)

    @property
    def _kinds(self) -> Kinds:
        return ALL if self.options.asks_sources else OWN

    @property
    def _per_second(self) -> float | None:
        """Maximum requests per second to source files of one concurrent part."""
        rate = self.options.requests_per_second
        return None if rate is None else rate / self.workers.parallel

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
        if not self.assets.dialect.has_repo_info:
            return
        size = find_page_size(self.base.config)
        yield from check_ops_log(self.base.ops_log, self.inventory.others, size)
        if self.options.decodes_chunks:
            yield from self._check_backups()

    def _check_backups(self) -> Problems:
        """Check that all existing backups can be read."""
        pages = {page.key for page in self.base.ops_log.pages}
        backups = sorted((self.base.ops_log.backups() - pages) & self.inventory.others.keys())
        sizes = [self.inventory.others[key].size_bytes for key in backups]
        stage = CheckBackups(self.assets)
        for found in self.workers.run("reading backups", stage, backups, sizes):
            yield from found

    def _check_snapshots(self) -> Problems:
        missing = list(check_missing(self.assets, self.chosen, self.inventory.snapshots))
        for problem in missing:
            self.gathered.lose(problem)
        sizes = {id: self.inventory.snapshots.find_size(id) for id in self.chosen}
        wanted = [
            WantedSnapshot(id, self.base.listed.get(id)) for id, n in sizes.items() if n is not None
        ]
        stage = CheckSnapshots(self.assets, self.options.decodes_chunks)
        known = [size for size in sizes.values() if size is not None]
        for part in self.workers.run("reading snapshots", stage, wanted, known):
            self.gathered.add(part)
        yield from self.gathered.problems

    def _check_manifests(self) -> tuple[ManifestTotals, ChunkTotals]:
        plan = plan_manifests(self.assets, self.gathered, self.inventory.manifests)
        containers = self.virtual.index if self.base.has_usable_config else None
        context = CheckContext(
            self.assets.dialect,
            None,
            self.assets.layout.chunks,
            containers,
            self.options.asks_sources,
        )
        stage = CheckManifests(self.assets, context, self.options.limits, self._kinds)
        found, chunks = self.workers.check_manifests(stage, plan.present, self.inventory)
        totals = ManifestTotals(list(plan.missing), has_all=not plan.missing)
        totals.add(found)
        return totals, chunks

    def _decode(self, manifests: ManifestTotals) -> Problems:
        sizes = [each.effort_bytes for each in manifests.rows]
        stage = DecodeChunks(self.assets, self._kinds, self.virtual, self._per_second)
        for found in self.workers.run("decoding chunks", stage, manifests.rows, sizes):
            yield from found

    def _check_logs(self, plan: LogPlan) -> Problems:
        yield from plan.missing
        wanted = list(plan.present.items())
        sizes = [log.size_bytes for _, log in wanted]
        for found in self.workers.run("reading logs", CheckLogs(self.assets), wanted, sizes):
            yield from found

    def _ask_sources(self, manifests: ManifestTotals) -> Iterator[Problem]:
        sources = sorted(manifests.sources.items(), key=lambda each: each[0].location)
        stage, sizes = AskSources(self.virtual, self._per_second), [0] * len(sources)
        parts = self.workers.run("asking for sources", stage, sources, sizes)
        yield from dict.fromkeys(chain.from_iterable(parts))

    def _report(
        self,
        problems: Sequence[Problem],
        manifests: ManifestTotals,
        chunks: ChunkTotals,
        counts: Counts,
    ) -> CheckReport:
        is_whole = self._has_all_refs() and self.gathered.has_all and manifests.has_all
        orphans = count_orphans(self.inventory, self._used(), chunks) if is_whole else ()
        reported = (*problems, *report_orphans(orphans, self.assets.layout))
        order = list(Severity)
        return CheckReport(
            self.assets.dialect.value,
            tuple(sorted(reported, key=lambda each: order.index(each.severity))),
            counts,
            orphans,
            is_whole,
        )

    def _has_all_refs(self) -> bool:
        """Return whether all refs were read, so that everything they reach is known."""
        unread = (each for each in self.base.refs.problems if each.severity is Severity.ERROR)
        return self.options.branch is None and next(unread, None) is None

    def _used(self) -> Used:
        logs = set(self.chosen)
        for info in self.base.listed.values():
            logs.update(info.pruned_ancestor_tx_logs)
        named = chain(self.gathered.uses, self.gathered.facts)
        return Used(self.chosen.keys(), logs, set(named), self.base.ops_log.backups())

    def _count(self, logs: LogPlan, manifests: ManifestTotals, chunks: ChunkTotals) -> Counts:
        refs = self.base.refs
        return manifests.counts + Counts(
            branches=len(refs.branches),
            tags=len(refs.tags),
            snapshots=len(self.gathered.dialects),
            nodes=self.gathered.num_nodes,
            transaction_logs=len(logs.present),
            native_chunks=chunks.num_used,
            virtual_sources=len(manifests.sources),
            decoded_chunks=sum(each.stop - each.start for each in manifests.rows),
        )


def _refs_key(assets: Assets) -> str:
    """Return the key or prefix of the refs."""
    if assets.dialect.has_repo_info:
        return REPO
    return "r/" if assets.dialect is Dialect.DRAFT else "refs/"


_V1_ENDING = "/ref.json"


def check_storage(
    storage: Storage, options: CheckOptions | None = None, workers: Workers | None = None
) -> CheckReport:
    """Check the repository in a storage.

    No virtual chunk container is authorized; `Repository.check` uses those that are.

    Parameters
    ----------
    storage
        The storage of the repository.
    options
        Scope of the check.
    workers
        Workers that run the stages; None for threads of this process.

    Returns
    -------
    CheckReport
        Problems, counts and orphans.

    Raises
    ------
    RepositoryNotFoundError
        If there is no repository, not even a damaged one.
    """
    if find_object(storage, REPO) is None and next(list_backups(storage), None) is not None:
        problem = error(REPO, "it is gone, and backups of it are there", Repair.RESTORE_REPO)
        return CheckReport(Dialect.V2.value, (problem,), Counts())
    protocol = open_anyway(storage)
    return check_repository(protocol, _find_access(protocol), options or CheckOptions(), workers)


def repair_storage(storage: Storage, report: CheckReport, *, dry_run: bool = False) -> RepairReport:
    """Repair the problems of a report, even in a repository that can't be opened.

    Parameters
    ----------
    storage
        The storage of the repository.
    report
        The report of a check.
    dry_run
        Whether to write nothing.

    Returns
    -------
    RepairReport
        The outcome of each repair.
    """
    return repair_repository(open_anyway(storage), report, dry_run=dry_run)


def open_anyway(storage: Storage) -> CommitProtocol:
    """Open the commit protocol of a repository whose files may be damaged or missing."""
    try:
        return open_protocol(storage)
    except (FormatError, ObjectNotFoundError, RepositoryNotFoundError) as failure:
        if find_object(storage, REPO) is not None or any(True for _ in list_backups(storage)):
            return V2Protocol(Assets(storage, Dialect.V2), UpdatePolicy())
        plan = plan_ref_files(info.key for info in list_ref_files(storage))
        if not plan.branches:
            raise failure
        if all(key.endswith(_V1_ENDING) for keys in plan.branches.values() for key in keys):
            return V1Protocol(Assets(storage, Dialect.V1))
        # Only their files tell the older generations apart, and one of them can't be read.
        return SequenceProtocol(Assets(storage, _guess_dialect(storage)))


def _guess_dialect(storage: Storage) -> Dialect:
    if any(True for _ in storage.list("r/")):
        return Dialect.DRAFT
    found = [_find_dialect(storage, info.key) for info in storage.list("snapshots/")]
    known = [each for each in found if each is not None]
    if any(True for _ in storage.list("transactions/")):
        # Snapshots of the first alphas look like later ones, but the first alphas had no logs.
        known.append(Dialect.ALPHA_B)
    return max(known, key=lambda each: each.age, default=Dialect.ALPHA_H)


def _find_dialect(storage: Storage, key: str) -> Dialect | None:
    try:
        return decode_snapshot(bytes(storage.get(key))).dialect
    except (FormatError, ObjectNotFoundError):
        return None


def _find_access(protocol: CommitProtocol) -> VirtualChunkAccess:
    """Return access to the containers of the saved configuration; none if it can't be read."""
    try:
        saved = protocol.read_config()
        containers = () if saved is None else resolve_config(decode_config(saved)).containers
    except (IcechunkError, ValueError, TypeError):
        containers = ()
    return VirtualChunkAccess({each.url_prefix: each for each in containers}, {})


__all__ = [
    "CheckOptions",
    "CheckReport",
    "Counts",
    "Orphans",
    "Outcome",
    "Problem",
    "Repair",
    "RepairReport",
    "Restored",
    "Severity",
    "Workers",
    "check_repository",
    "check_storage",
    "repair_repository",
    "repair_storage",
    "restore_repo",
]
