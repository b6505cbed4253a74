"""Going through the manifests of a repository, each read once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from frazil.assets import Assets
from frazil.format.chunks import ChunkTable
from frazil.format.files import decode_manifest
from frazil.format.ids import ManifestId
from frazil.format.snapshot import ManifestFileInfo
from frazil.maintenance.checking.decoding import check_row, native_rows
from frazil.maintenance.checking.inventory import Inventory
from frazil.maintenance.checking.manifests import (
    ManifestFindings,
    Surroundings,
    check_manifest_file,
)
from frazil.maintenance.checking.problems import Problem, Problems, error
from frazil.maintenance.checking.reading import Failed, read_or_fail
from frazil.maintenance.checking.report import Counts
from frazil.maintenance.checking.snapshots import EncodedArray
from frazil.maintenance.checking.virtual import Need, Source, add_need
from frazil.maintenance.checking.walking import FileFacts, Gathered
from frazil.maintenance.id_columns import IdSet
from frazil.maintenance.limits import WalkLimits
from frazil.maintenance.walking import plan_batches
from frazil.virtual.locations import ContainerIndex

DecodedTable = tuple[EncodedArray, ChunkTable]


@dataclass(frozen=True, slots=True)
class ReadManifest:
    """A manifest, and if its chunks are to be decoded, its tables."""

    findings: ManifestFindings
    tables: tuple[DecodedTable, ...] = ()


@dataclass(slots=True)
class ManifestCheck:
    """The manifests that snapshots refer to, and what was found in them."""

    assets: Assets
    inventory: Inventory
    gathered: Gathered
    containers: ContainerIndex | None
    collects_sources: bool
    chunk_ids: IdSet = field(default_factory=IdSet)
    sources: dict[Source, Need] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    has_all: bool = True

    def check(self, pool: ThreadPoolExecutor, limits: WalkLimits) -> Problems:
        """Look at all manifests, and at their chunks if these are to be decoded."""
        for batch in plan_batches(self._plan(), limits):
            present = [info.id for info in batch if info.size_bytes is not None]
            yield from (self._missing(info.id) for info in batch if info.size_bytes is None)
            for outcome in pool.map(self._read, present):
                if isinstance(outcome, Failed):
                    self.has_all = False
                    yield outcome.problem
                else:
                    yield from self._take(outcome.findings)
                    yield from self._decode(pool, outcome.tables)
        self.counts += Counts(native_chunks=len(self.chunk_ids), virtual_sources=len(self.sources))

    def _plan(self) -> Iterator[ManifestFileInfo]:
        """All manifests with the sizes that they really have; None where there is no file."""
        for id in sorted(self.gathered.uses.keys() | self.gathered.facts.keys()):
            known: FileFacts = next(iter(self.gathered.facts.get(id, ())), (None, None))
            yield ManifestFileInfo(id, self.inventory.manifests.find_size(id), known[1])

    def _missing(self, id: ManifestId) -> Problem:
        self.has_all = False
        key = self.assets.layout.manifest_key(id)
        uses = self.gathered.uses.get(id, {})
        owner = next(iter(self.gathered.facts.get(id, {}).values()), "a snapshot")
        path = next(iter(uses.values()), None)
        return error(key, f"there is no such file, and {owner} refers to it", path=path)

    def _read(self, id: ManifestId) -> ReadManifest | Failed:
        key, uses = self.assets.layout.manifest_key(id), self.gathered.uses.get(id, {})
        around = Surroundings(
            self.assets.dialect,
            self.inventory.chunks,
            self.assets.layout.chunks,
            self.containers,
            self.collects_sources,
        )

        def check(data: bytes) -> ReadManifest:
            findings = check_manifest_file(data, id, key, uses, around)
            return ReadManifest(findings, self._tables(data, id))

        return read_or_fail(self.assets, key, check)

    def _tables(self, data: bytes, id: ManifestId) -> tuple[DecodedTable, ...]:
        """The tables of the arrays that are to be decoded."""
        if not self.gathered.keeps_arrays:
            return ()
        manifest = decode_manifest(data).value
        arrays = self.gathered.arrays
        wanted = {use.node_id: arrays[id, use.node_id] for use in self.gathered.uses.get(id, ())}
        return tuple(
            (array, manifest.table(node_id, len(array.num_chunks)))
            for node_id, array in wanted.items()
        )

    def _take(self, findings: ManifestFindings) -> Problems:
        self.chunk_ids.add(findings.chunk_ids)
        self.counts += findings.counts
        for source, need in findings.sources.items():
            add_need(self.sources, source, need)
        yield from findings.problems
        yield from check_facts(findings, self.gathered.facts.get(findings.id, {}))

    def _decode(
        self, pool: ThreadPoolExecutor, tables: tuple[DecodedTable, ...]
    ) -> Iterator[Problem]:
        folder, read = self.assets.layout.chunks, self.assets.read_chunk
        for array, table in tables:
            rows = native_rows(table, array.num_chunks)
            self.counts += Counts(decoded_chunks=len(rows))
            found = pool.map(lambda row: check_row(array, table, row, folder, read), rows)  # noqa: B023
            yield from (problem for problem in found if problem is not None)


def check_facts(findings: ManifestFindings, facts: "dict[FileFacts, str]") -> Problems:
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
