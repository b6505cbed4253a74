"""Going through the manifests of a repository, each read once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from frazil.assets import Assets
from frazil.errors import FormatError
from frazil.format.files import decode_manifest
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import Manifest
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.checking.chunk_walking import ChunkRows, plan_rows
from frazil.maintenance.checking.decoding import Kinds
from frazil.maintenance.checking.inventory import Listed
from frazil.maintenance.checking.manifests import (
    ManifestFindings,
    Surroundings,
    check_manifest_file,
)
from frazil.maintenance.checking.problems import Problem, Problems, error
from frazil.maintenance.checking.reading import Failed, read_or_fail
from frazil.maintenance.checking.report import Counts
from frazil.maintenance.checking.snapshots import EncodedArray, Use
from frazil.maintenance.checking.virtual import Need, Source, add_need
from frazil.maintenance.checking.walking import FileFacts, Gathered
from frazil.maintenance.limits import WalkLimits
from frazil.maintenance.walking import plan_batches

Take = Callable[[ManifestFindings], object]
"""Keeps what is wanted of the chunks of a manifest."""


@dataclass(frozen=True, slots=True)
class WantedManifest:
    """A manifest file to look at, and what snapshots expect of it."""

    info: ManifestFileInfo
    """With the size that the file really has."""
    uses: Mapping[Use, str]
    facts: Mapping[FileFacts, str]
    arrays: Mapping[NodeId, EncodedArray]
    """Whose chunks are to be decoded."""


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """The manifests to read, and what is wrong with those that there are not."""

    present: Sequence[WantedManifest]
    missing: Sequence[Problem]


def plan_manifests(assets: Assets, gathered: Gathered, listed: Listed) -> ManifestPlan:
    """The manifests that snapshots refer to, in the order of their ids."""
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
    """What was found in manifests, but for the chunks that they refer to."""

    problems: list[Problem] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    sources: dict[Source, Need] = field(default_factory=dict)
    rows: list[ChunkRows] = field(default_factory=list)
    """Chunks to decode."""
    has_all: bool = True

    def add(self, later: "ManifestTotals") -> None:
        """Take over what was found in the manifests that follow."""
        self.problems += later.problems
        self.counts += later.counts
        for source, need in later.sources.items():
            add_need(self.sources, source, need)
        self.rows += later.rows
        self.has_all &= later.has_all


@dataclass(frozen=True, slots=True)
class CheckManifests:
    """Looks at manifest files."""

    assets: Assets
    around: Surroundings
    limits: WalkLimits
    kinds: Kinds
    """Of the chunks that are to be decoded."""

    def check(
        self, pool: ThreadPoolExecutor, wanted: Sequence[WantedManifest], take: Take
    ) -> ManifestTotals:
        """What was found in all of them; of their chunks only `take` keeps something."""
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
                told = [*findings.problems, *problems]
                totals.problems += dict.fromkeys(told)
                totals.problems += check_facts(findings, by_id[findings.id].facts)
        return totals

    def _read(
        self, wanted: WantedManifest
    ) -> tuple[ManifestFindings, list[ChunkRows], list[Problem]] | Failed:
        id, key = wanted.info.id, self.assets.layout.manifest_key(wanted.info.id)

        def check(data: bytes) -> tuple[ManifestFindings, list[ChunkRows], list[Problem]]:
            findings = check_manifest_file(data, id, key, wanted.uses, self.around)
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
    """The chunks of the arrays that are to be decoded."""
    for node_id, array in wanted.arrays.items():
        try:
            table = manifest.table(node_id, len(array.num_chunks))
        except FormatError as failure:
            problems.append(error(key, failure.message, path=array.path))
        else:
            yield from plan_rows(table, kinds, wanted.info.id, node_id, array)


def check_facts(findings: ManifestFindings, facts: Mapping[FileFacts, str]) -> Problems:
    """Whether snapshots have the size and the number of references that a manifest has."""
    for (size, count), key in facts.items():
        if size is not None and size != findings.size_bytes:
            what = (
                f"it says that manifest {findings.id} has {size} bytes, and {findings.size_bytes}"
            )
            yield error(key, f"{what} it has: the official library reads no more than it says")
        if count is not None and count != findings.num_chunk_refs:
            what = f"it says that manifest {findings.id} has {count} references"
            yield error(key, f"{what}, and {findings.num_chunk_refs} it has")
