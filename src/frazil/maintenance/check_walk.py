"""Stages of a check that walk snapshots, logs, manifests and chunks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

import numpy as np

from frazil.errors import FormatError, StorageError
from frazil.format.files import decode_manifest, decode_snapshot
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, NodeId, SnapshotId
from frazil.format.manifest import ChunkTable, Manifest
from frazil.format.repo_info import SnapshotInfo
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.check_chunks import (
    CheckContext,
    ChunkReader,
    Kinds,
    ManifestFindings,
    Need,
    Place,
    Source,
    add_need,
    check_manifest_file,
    check_row,
    find_rows,
)
from frazil.maintenance.check_metadata import (
    Base,
    EncodedArray,
    Link,
    Links,
    SnapshotFindings,
    Use,
    check_log_file,
    check_snapshot_file,
    needs_log,
    walk,
)
from frazil.maintenance.findings import Counts, Problem, Problems, Repair, error, warning
from frazil.maintenance.inventory import (
    Failed,
    Inventory,
    Listed,
    Pace,
    get_metadata_file,
    read_files,
    read_or_fail,
)
from frazil.maintenance.reachability import MEBIBYTE, WalkLimits, pack, plan_batches
from frazil.protocols.assets import Assets
from frazil.virtual.access import VirtualChunkAccess

FileFacts = tuple[int | None, int | None]
"""Size and number of references of a manifest file, as a snapshot records them."""


@dataclass(slots=True)
class Gathered:
    """References of the snapshots of a repository."""

    keeps_arrays: bool = False
    """Keep the metadata of arrays, to decode their chunks."""
    dialects: dict[SnapshotId, Dialect] = field(default_factory=dict)
    """Dialects of the snapshots that could be read."""
    uses: dict[ManifestId, dict[Use, str]] = field(default_factory=dict)
    facts: dict[ManifestId, dict[FileFacts, str]] = field(default_factory=dict)
    """Recorded facts of manifest files, each with the key of a snapshot that records them."""
    arrays: dict[tuple[ManifestId, NodeId], EncodedArray] = field(default_factory=dict)
    num_nodes: int = 0
    problems: list[Problem] = field(default_factory=list)
    has_all: bool = True
    """False if a snapshot could not be read, so that its references are unknown."""

    def take(self, findings: SnapshotFindings, key: str) -> None:
        """Add the references of a snapshot."""
        self.problems += findings.problems
        self.dialects[findings.id] = findings.dialect
        self.num_nodes += findings.num_nodes
        for id, uses in findings.uses.items():
            self.uses.setdefault(id, {}).update(uses)
            for use in uses if self.keeps_arrays else ():
                self.arrays[id, use.node_id] = findings.arrays[use.node_id]
        for info in findings.files:
            facts = self.facts.setdefault(info.id, {})
            facts.setdefault((info.size_bytes, info.num_chunk_refs), key)

    def lose(self, problem: Problem) -> None:
        """Record a snapshot that can't be read, whose references are unknown."""
        self.has_all = False
        self.problems.append(problem)

    def add(self, later: "Gathered") -> None:
        """Merge the references of the snapshots that follow."""
        self.dialects |= later.dialects
        for id, uses in later.uses.items():
            self.uses.setdefault(id, {}).update(uses)
        for manifest_id, facts in later.facts.items():
            known = self.facts.setdefault(manifest_id, {})
            for fact, key in facts.items():
                known.setdefault(fact, key)
        self.arrays |= later.arrays
        self.num_nodes += later.num_nodes
        self.problems += later.problems
        self.has_all &= later.has_all


# Parents of snapshots, in the generations before V2


@dataclass(frozen=True, slots=True)
class ReadLinks:
    """Stage that reads the parents of snapshots from their files."""

    assets: Assets

    def __call__(
        self, pool: ThreadPoolExecutor, ids: Sequence[SnapshotId]
    ) -> list[tuple[SnapshotId, Link]]:
        """Return the link of each readable file, with the id that names the file."""
        found = read_files(pool, ids, lambda id: _find_link(self.assets, id))
        return [(id, link) for id, link in found if link is not None]


def list_ids(listed: Listed) -> list[SnapshotId]:
    """Return the ids of the listed snapshot files."""
    size = listed.ids.dtype.itemsize
    data = listed.ids.tobytes()
    return [SnapshotId(data[at : at + size]) for at in range(0, len(data), size)]


def join_links(links: Iterable[tuple[SnapshotId, Link]]) -> dict[SnapshotId, Link]:
    """Return the links by the ids that name the files."""
    found: dict[SnapshotId, Link] = {}
    names: dict[SnapshotId, SnapshotId] = {}
    for id, link in links:
        # The first alphas named the file of the first snapshot differently from its id.
        names[link.id] = id
        found[id] = replace(link, id=id)
    return {
        id: link
        if link.parent_id is None
        else replace(link, parent_id=names.get(link.parent_id, link.parent_id))
        for id, link in found.items()
    }


def _find_link(assets: Assets, id: SnapshotId) -> Link | None:
    key = assets.layout.snapshot_key(id)
    try:
        snapshot = decode_snapshot(get_metadata_file(assets, key)).value
    except (FormatError, StorageError):
        return None  # reported if something refers to it
    return Link(key, snapshot.id, snapshot.parent_id, snapshot.flushed_at)


def select_snapshots(base: Base, links: Links, branch: str | None) -> dict[SnapshotId, str]:
    """Return the snapshots to check, each with a description of what refers to it."""
    chosen: dict[SnapshotId, str] = {}
    tips = base.refs.tips if branch is None else base.refs.branches
    for tip in tips:
        if branch not in (None, tip.name):
            continue
        reason = str(tip)
        for id in walk(links, tip.snapshot_id):
            chosen.setdefault(id, reason)
            reason = f"snapshot {id}"
    if branch is None:
        for id in base.listed:
            chosen.setdefault(id, "the repo info")
    return chosen


@dataclass(frozen=True, slots=True)
class WantedSnapshot:
    """Snapshot file to check, with its entry in the repo info."""

    id: SnapshotId
    listed: SnapshotInfo | None


@dataclass(frozen=True, slots=True)
class CheckSnapshots:
    """Stage that checks snapshot files and gathers their references."""

    assets: Assets
    keeps_arrays: bool

    def __call__(self, pool: ThreadPoolExecutor, wanted: Sequence[WantedSnapshot]) -> Gathered:
        """Check the files and return their merged findings."""
        gathered = Gathered(self.keeps_arrays)
        for each, outcome in read_files(pool, wanted, self._check):
            if isinstance(outcome, Failed):
                gathered.lose(outcome.problem)
            else:
                gathered.take(outcome, self.assets.layout.snapshot_key(each.id))
        return gathered

    def _check(self, wanted: WantedSnapshot) -> SnapshotFindings | Failed:
        id, key, dialect = (
            wanted.id,
            self.assets.layout.snapshot_key(wanted.id),
            self.assets.dialect,
        )
        return read_or_fail(
            self.assets,
            key,
            lambda data: check_snapshot_file(data, id, key, wanted.listed, dialect),
        )


def check_missing(
    assets: Assets, chosen: Mapping[SnapshotId, str], present: Listed
) -> Iterator[Problem]:
    """Yield a problem for each snapshot that is referred to but has no file."""
    for id, reason in chosen.items():
        if present.find_size(id) is None:
            is_loose = reason == "the repo info"
            yield error(
                assets.layout.snapshot_key(id),
                f"there is no such file, and {reason} leads to it",
                Repair.DROP_SNAPSHOT if is_loose else None,
            )


@dataclass(frozen=True, slots=True)
class WantedLog:
    """Transaction log to check."""

    size_bytes: int
    is_first: bool = False
    """True for the log of a first snapshot."""
    repair: Repair | None = None
    """Repair to suggest if it is damaged."""


@dataclass(frozen=True, slots=True)
class LogPlan:
    """Logs to read, and the problems of missing ones."""

    present: Mapping[SnapshotId, WantedLog]
    missing: tuple[Problem, ...]


_LOG_BYTES = 16 * MEBIBYTE
"""Maximum size of the logs that are checked at once."""


@dataclass(frozen=True, slots=True)
class CheckLogs:
    """Stage that checks transaction logs."""

    assets: Assets

    def __call__(
        self, pool: ThreadPoolExecutor, wanted: Sequence[tuple[SnapshotId, WantedLog]]
    ) -> list[Problem]:
        """Return the problems of the logs."""
        problems: list[Problem] = []
        # A log of millions of chunks takes ten times its size while it is checked.
        sizes = [log.size_bytes for _, log in wanted]
        for part in pack(wanted, sizes, _LOG_BYTES):
            for _, outcome in read_files(pool, part, lambda each: self._check(*each)):
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
    """Plan to read the logs of these snapshots, and those they took over from expired ancestors."""
    if assets.layout.transactions is None:
        return LogPlan({}, ())
    present: dict[SnapshotId, WantedLog] = {}
    missing: list[Problem] = []
    logs = inventory.transaction_logs
    for id, dialect in dialects.items():
        repair = None if _pruned(base, id) else Repair.REBUILD_LOG
        link = links.get(id)
        is_first = link is not None and link.parent_id is None
        if (size := logs.find_size(id)) is not None:
            present[id] = WantedLog(size, is_first, repair)
        elif needs_log(dialect, is_first=is_first):
            what = "there is no such file: rebases and diffs across its snapshot fail"
            missing.append(error(_key(assets, id), what, repair))
    for id, owner in _all_pruned(base, dialects):
        if (size := logs.find_size(id)) is not None:
            present.setdefault(id, WantedLog(size))
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


_RANGE_BYTES = 64 * MEBIBYTE
"""Bytes of a manifest's chunks that one worker decodes at a time."""
_CHUNK_BYTES = 64 * 1024
"""Fixed cost of decoding a chunk, in bytes."""
_MOST_BYTES = 1 << 40
"""Upper bound of the bytes of one chunk in sums: damaged references may have absurd lengths."""


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """Range of chunks of an array in a manifest; rows count only the chunks of the wanted kinds."""

    manifest_id: ManifestId
    node_id: NodeId
    array: EncodedArray
    start: int
    stop: int
    effort_bytes: int
    """Estimated cost of reading and decoding them, in bytes."""


def plan_rows(
    table: ChunkTable, kinds: Kinds, manifest_id: ManifestId, node_id: NodeId, array: EncodedArray
) -> Iterator[ChunkRows]:
    """Split the chunks inside an array's grid into ranges of limited cost."""
    lengths = table.length[find_rows(table, array.num_chunks, kinds)]
    ends = np.cumsum(np.minimum(lengths, _MOST_BYTES) + _CHUNK_BYTES)
    start, done = 0, 0
    while start < len(ends):
        stop = int(np.searchsorted(ends, done + _RANGE_BYTES, "right"))
        stop = max(stop, start + 1)
        end = int(ends[stop - 1])
        yield ChunkRows(manifest_id, node_id, array, start, stop, end - done)
        start, done = stop, end


@dataclass(frozen=True, slots=True)
class DecodeChunks:
    """Stage that reads and decodes chunks."""

    assets: Assets
    kinds: Kinds
    virtual: VirtualChunkAccess
    per_second: float | None
    """Maximum requests per second to the source files of virtual chunks; None for no limit."""

    def __call__(self, pool: ThreadPoolExecutor, wanted: Sequence[ChunkRows]) -> list[Problem]:
        """Return the problems of the chunks."""
        problems: list[Problem] = []
        reader = ChunkReader(self.assets, self.virtual, Pace(self.per_second))
        for id, parts in groupby(wanted, lambda each: each.manifest_id):
            key = self.assets.layout.manifest_key(id)
            found = read_or_fail(self.assets, key, lambda data: decode_manifest(data).value)
            if isinstance(found, Failed):
                problems.append(found.problem)
            else:
                problems += self._decode(pool, found, key, parts, reader)
        return problems

    def _decode(
        self,
        pool: ThreadPoolExecutor,
        manifest: Manifest,
        key: str,
        parts: Iterable[ChunkRows],
        reader: ChunkReader,
    ) -> Problems:
        for node_id, ranges in groupby(parts, lambda each: each.node_id):
            first, *others = ranges
            array, table = first.array, manifest.table(node_id, len(first.array.num_chunks))
            rows = find_rows(table, array.num_chunks, self.kinds)
            place = Place(key, array.path, self.assets.layout.chunks)
            check = partial(check_row, array, table, place, reader.read)
            for part in (first, *others):
                found = pool.map(check, rows[part.start : part.stop])
                yield from (problem for problem in found if problem is not None)


Take = Callable[[ManifestFindings], object]
"""Callback that receives the findings of each manifest."""


@dataclass(frozen=True, slots=True)
class WantedManifest:
    """Manifest file to check, with the expectations of snapshots."""

    info: ManifestFileInfo
    """Entry of the manifest, with the actual size of the file."""
    uses: Mapping[Use, str]
    facts: Mapping[FileFacts, str]
    arrays: Mapping[NodeId, EncodedArray]
    """Arrays whose chunks are to be decoded."""


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """Manifests to read, and the problems of missing ones."""

    present: Sequence[WantedManifest]
    missing: Sequence[Problem]


def plan_manifests(assets: Assets, gathered: Gathered, listed: Listed) -> ManifestPlan:
    """Plan to read the manifests that snapshots refer to, ordered by id."""
    present, missing = list[WantedManifest](), list[Problem]()
    arrays: dict[ManifestId, dict[NodeId, EncodedArray]] = {}
    for (manifest_id, node_id), array in gathered.arrays.items():
        arrays.setdefault(manifest_id, {})[node_id] = array
    for id in sorted(gathered.uses.keys() | gathered.facts.keys()):
        uses, facts = gathered.uses.get(id, {}), gathered.facts.get(id, {})
        size, known = listed.find_size(id), next(iter(facts), (None, None))
        if size is None:
            owner, path = next(iter(facts.values()), "a snapshot"), next(iter(uses.values()), None)
            what = f"there is no such file, and {owner} refers to it"
            missing.append(error(assets.layout.manifest_key(id), what, path=path))
        else:
            info = ManifestFileInfo(id, size, known[1])
            present.append(WantedManifest(info, uses, facts, arrays.get(id, {})))
    return ManifestPlan(present, missing)


@dataclass(slots=True)
class ManifestTotals:
    """Merged findings of manifests, without the ids of their chunks."""

    problems: list[Problem] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    sources: dict[Source, Need] = field(default_factory=dict)
    rows: list[ChunkRows] = field(default_factory=list)
    """Chunks to decode."""
    has_all: bool = True

    def add(self, later: "ManifestTotals") -> None:
        """Merge the findings of the manifests that follow."""
        self.problems += later.problems
        self.counts += later.counts
        for source, need in later.sources.items():
            add_need(self.sources, source, need)
        self.rows += later.rows
        self.has_all &= later.has_all


@dataclass(frozen=True, slots=True)
class CheckManifests:
    """Stage that checks manifest files."""

    assets: Assets
    context: CheckContext
    limits: WalkLimits
    kinds: Kinds
    """Kinds of chunks to decode."""

    def check(
        self, pool: ThreadPoolExecutor, wanted: Sequence[WantedManifest], take: Take
    ) -> ManifestTotals:
        """Check the files and return their merged findings; chunk ids are passed to `take` only."""
        totals = ManifestTotals()
        by_id = {each.info.id: each for each in wanted}
        for batch in plan_batches((each.info for each in wanted), self.limits):
            for outcome in pool.map(self._read, [by_id[info.id] for info in batch]):
                if isinstance(outcome, Failed):
                    totals.has_all = False
                    totals.problems.append(outcome.problem)
                    continue
                findings, rows, problems = outcome
                take(findings)
                totals.counts += findings.counts
                totals.rows += rows
                for source, need in findings.sources.items():
                    add_need(totals.sources, source, need)
                reported = [*findings.problems, *problems]
                totals.problems += dict.fromkeys(reported)
                totals.problems += check_facts(findings, by_id[findings.id].facts)
        return totals

    def _read(
        self, wanted: WantedManifest
    ) -> tuple[ManifestFindings, list[ChunkRows], list[Problem]] | Failed:
        id, key = wanted.info.id, self.assets.layout.manifest_key(wanted.info.id)

        def check(data: bytes) -> tuple[ManifestFindings, list[ChunkRows], list[Problem]]:
            findings = check_manifest_file(data, id, key, wanted.uses, self.context)
            if not wanted.arrays:
                return findings, [], []
            problems: list[Problem] = []
            manifest = decode_manifest(data).value
            rows = list(_plan_chunks(manifest, self.kinds, wanted, key, problems))
            return findings, rows, problems

        return read_or_fail(self.assets, key, check)


def _plan_chunks(
    manifest: Manifest, kinds: Kinds, wanted: WantedManifest, key: str, problems: list[Problem]
) -> Iterator[ChunkRows]:
    """Yield the chunk ranges of the arrays to decode."""
    for node_id, array in wanted.arrays.items():
        try:
            table = manifest.table(node_id, len(array.num_chunks))
        except FormatError as failure:
            problems.append(error(key, failure.message, path=array.path))
        else:
            yield from plan_rows(table, kinds, wanted.info.id, node_id, array)


def check_facts(findings: ManifestFindings, facts: Mapping[FileFacts, str]) -> Problems:
    """Check the size and number of references that snapshots record for a manifest."""
    for (size, count), key in facts.items():
        if size is not None and size != findings.size_bytes:
            what = (
                f"it says that manifest {findings.id} has {size} bytes, and {findings.size_bytes}"
            )
            yield error(key, f"{what} it has: the official library reads no more than it says")
        if count is not None and count != findings.num_chunk_refs:
            what = f"it says that manifest {findings.id} has {count} references"
            yield error(key, f"{what}, and {findings.num_chunk_refs} it has")
