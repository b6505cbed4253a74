"""Tasks of an ingest: parse source files, write references to manifests, check the new version."""

import contextlib
import hashlib
import io
import json
import pickle
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import chain
from math import prod
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import zstandard

import frazil
from frazil.errors import (
    FailedChecksError,
    IcechunkError,
    InvalidSourcesError,
    JobError,
    StorageError,
)
from frazil.format.manifest import ChunkRef, ChunkTable, InlineRef, NativeRef, concatenate
from frazil.maintenance.leases import PARSED
from frazil.protocols.assets import Assets
from frazil.repository.changes import prewrite_manifest
from frazil.repository.context import SessionState
from frazil.repository.session import Session
from frazil.repository.virtual_refs import ChecksumColumn, TextColumn, make_table
from frazil.spark.audit import (
    AnyCheck,
    FileRegion,
    Finding,
    Subject,
    VariableMetadata,
    render_findings,
    run_checks,
)
from frazil.spark.ingestion.discovery import SourceFile
from frazil.spark.ingestion.ingest_plan import IngestPlan
from frazil.spark.ingestion.ledger import is_same_version
from frazil.spark.ingestion.source_data import (
    BadFile,
    Outcome,
    ParsedSource,
    Reading,
    SourceData,
    bad_files,
    group_files,
    pack,
    parse,
    share_equal,
    unpack,
)
from frazil.spark.ingestion.target_arrays import PlacedManifest, Placement, SplitRegionTask
from frazil.spark.job import Job, SparkSession
from frazil.spark.runtime import (
    RESULT_SCHEMA,
    Runner,
    collect_results,
    find_max_failures,
    freeze_worker,
    map_batches,
    map_numbers,
    result_fields,
    run_task,
    shuffle_by_number,
)
from frazil.storage.interface import Storage
from frazil.virtual.combine_plan import NOT_PLACED
from frazil.virtual.source import FileVersion, HeaderPool, ReferenceColumns, Source
from frazil.virtual.source import concatenate as unite


class Cutter:
    """Collects references of sources, and splits those of each array by split region in one pass."""

    def __init__(self, placement: Placement, assets: Assets) -> None:
        self._placement = placement
        self._assets = assets
        self._parts: dict[str, list[ReferenceColumns]] = {}
        self.rows = 0
        """Number of references not yet split."""

    def add(
        self, source: str, version: FileVersion, references: Mapping[str, ReferenceColumns]
    ) -> None:
        """Add references of a source; raise InvalidSourcesError if it has changed since planning."""
        placement = self._placement
        if source not in placement.sources:
            return
        if not is_same_version(version, placement.versions[source]):
            raise InvalidSourcesError(f"{source} was changed while it was ingested", files=[source])
        number = placement.sources[source]
        for name, target in placement.targets.items():
            offset = target.offsets[number]
            if name in references and not np.any(offset == NOT_PLACED):
                moved = references[name].shift(offset)
                self._parts.setdefault(name, []).append(moved)
                self.rows += len(moved) + len(moved.inline_chunks)

    def cut(self) -> Iterator[tuple[int, ChunkTable]]:
        """Yield the collected references with the index of their split region."""
        parts, self._parts, self.rows = self._parts, {}, 0
        for name, columns in parts.items():
            target = self._placement.targets[name]
            table = to_table(unite(columns), self._placement, self._assets)
            for region, part in table.split(target.edges).items():
                yield target.numbers[region], part.compact()


def to_table(columns: ReferenceColumns, placement: Placement, assets: Assets) -> ChunkTable:
    """Convert references to a chunk table; large chunks included in a header are written to storage."""
    tables = [
        make_table(
            np.ascontiguousarray(part.coordinates, np.uint32),
            TextColumn(part.location_codes, part.locations),
            part.offsets,
            part.lengths,
            ChecksumColumn.of(checksums, len(part)),
            placement.id_size,
        )
        for part, checksums in columns.by_checksum_kind()
    ]
    inline: dict[tuple[int, ...], ChunkRef] = {
        tuple(where): _keep(data, placement, assets)
        for where, data in zip(
            columns.inline_coordinates.tolist(), columns.inline_chunks, strict=True
        )
    }
    if inline:
        tables.append(ChunkTable.of(columns.axes, inline, placement.id_size))
    return concatenate([ChunkTable.empty(columns.axes, placement.id_size), *tables]).sort()


def _keep(data: bytes, placement: Placement, assets: Assets) -> ChunkRef:
    if len(data) <= placement.inline_bytes:
        return InlineRef(data)
    return NativeRef(assets.write_chunk(data), 0, len(data))


def write(assets: Assets, task: SplitRegionTask, parts: Iterable[ChunkTable]) -> PlacedManifest:
    """Write the manifest of a split region from all its parts."""
    # The order of arrival does not matter: no two sources share a chunk.
    table = concatenate(parts).sort()
    manifest = prewrite_manifest(assets, task.node_id, task.box, task.base, table)
    return PlacedManifest(task.variable, manifest, len(table), int(table.length.sum()))


_RESULT_FIELDS = result_fields()
_PARSED_FIELDS = pa.schema([*_RESULT_FIELDS, ("source", pa.string()), ("references", pa.binary())])
_PARSED_SCHEMA = RESULT_SCHEMA + ", source string, references binary"
_PLACED_FIELDS = pa.schema(
    [("task", pa.int32()), ("region", pa.int32()), ("references", pa.binary())]
)
_PLACED_SCHEMA = "task int, region int, references binary"
_CUT_REFERENCES = 500_000
"""References collected before they are sent to the tasks that write them."""
_FAILED = -1
"""Marker in place of a split region, for the error that stopped a source."""


@dataclass(frozen=True, slots=True, eq=False)
class SourcesOnSpark:
    """Opened sources: their headers on the driver, their references on the workers."""

    outcomes: tuple[Outcome, ...]
    runner: Runner
    spark: SparkSession
    frame: Any

    def write_manifests(self, placement: Placement, assets: Assets) -> list[PlacedManifest]:
        """Collect references by split region, and write one manifest per region."""
        return write_manifests(self.spark, self.runner.job, self.frame, placement, assets)


KEPT_SECONDS = 0.2
"""Seconds of a task from which what it has parsed is kept in the storage while the job runs."""
_KEPT_HOURS = 24
_PARSED_CLASSES = {
    *((each.__module__, each.__name__) for each in (ParsedSource, BadFile, FileVersion)),
    *(("frazil.virtual.source", name) for name in ("ArrayHeader", "ReferenceColumns", "SourceHeader")),
    *(("datetime", name) for name in ("datetime", "timedelta", "timezone")),
    *((module, name) for module in ("numpy._core.multiarray", "numpy.core.multiarray")
      for name in ("_reconstruct", "scalar")),
    ("numpy._core.numeric", "_frombuffer"), ("numpy.core.numeric", "_frombuffer"),
    ("numpy", "ndarray"), ("numpy", "dtype"),
}  # fmt: skip
Parsed = tuple[list[Outcome], list[tuple[str, bytes]]]
"""Outcome of each file of a task, and the packed references of each source."""


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """Files of a task, and the object that keeps what was parsed while the job runs.

    If the driver is lost, a job with the same files and options continues with it. The key names the
    versions of all files and the options, so the object is the right one or there is none.
    """

    locations: tuple[str, ...]
    storage: Storage
    key: str | None
    """None if options can't be compared."""
    least_seconds: float

    def parse(self, reading: Reading) -> Parsed:
        """Parse the files, unless they were."""
        known = self._load()
        if known is not None:
            return known
        begin = time.perf_counter()
        parsed = _parse_files(self.locations, reading)
        is_slow = time.perf_counter() - begin >= self.least_seconds
        # A bad file may be there later, or what is missing to read it.
        if self.key is not None and is_slow and not bad_files(parsed[0]):
            compressor = zstandard.ZstdCompressor(1, write_checksum=True)
            with contextlib.suppress(StorageError, pickle.PicklingError, TypeError):
                data = pickle.dumps((time.time(), *parsed), pickle.HIGHEST_PROTOCOL)
                self.storage.put(self.key, compressor.compress(data))
        return parsed

    def _load(self) -> Parsed | None:
        if self.key is None:
            return None
        try:
            data = zstandard.decompress(self.storage.get(self.key))
            written_at, outcomes, references = _ParsedReader(io.BytesIO(data)).load()
        except (IcechunkError, zstandard.ZstdError, pickle.UnpicklingError, ValueError, EOFError):
            return None
        return (outcomes, references) if time.time() - written_at < _KEPT_HOURS * 3600 else None


class _ParsedReader(pickle.Unpickler):
    """Reads headers and nothing else: others may write to the storage of a repository."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PARSED_CLASSES:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a header")
        return super().find_class(module, name)


def keep_files(
    files: Sequence[SourceFile], storage: Storage, reading: Reading, least_seconds: float
) -> KeptFiles:
    """Return the files of a task with the key of what they are parsed to."""
    locations = tuple(each.location for each in files)
    if any(not type(each).__module__.startswith("frazil.") for each in reading.coords.values()):
        return KeptFiles(locations, storage, None, least_seconds)  # a function may have changed
    options = (
        reading.source_group, sorted(reading.load), sorted(reading.skip), sorted(reading.take),
        sorted(reading.rename.items()), reading.dims, sorted(reading.coords.items()),
        frazil.__version__, np.__version__, find_spec("gribberish") is None,
    )  # fmt: skip
    versions = [(each.location, repr(each.version)) for each in files]
    digest = hashlib.sha256(repr((options, versions)).encode()).hexdigest()
    return KeptFiles(locations, storage, f"{PARSED}/{digest}", least_seconds)


@contextlib.contextmanager
def parse_sources(
    runner: Runner, spark: SparkSession, reading: Reading, groups: Sequence[KeptFiles]
) -> Iterator[SourcesOnSpark]:
    """Open files, one group per task; references are kept until the block ends.

    What tasks have kept in the storage stays there if the job is to be run again as it is.
    """
    max_failures = find_max_failures(spark)

    def run(number: int) -> Iterator[pa.RecordBatch]:
        yield from _parse_group(number, groups[number], reading, max_failures)

    count = len(groups)
    runner.job.expect("opening files", files=sum(len(each.locations) for each in groups))
    frame = map_numbers(spark, count, run, _PARSED_SCHEMA, is_stateless=True).persist()
    try:
        results = frame.where("source is null").select(*_RESULT_FIELDS.names)
        share = partial(share_equal, pool=HeaderPool())
        found = collect_results(spark, runner.job, "opening files", results, count, share)
        outcomes = tuple(each for group in found for each in group)
        del found, share
        yield SourcesOnSpark(outcomes, runner, spark, frame)
    except (JobError, StorageError):
        raise
    except Exception:
        _delete_kept(groups)
        raise
    else:
        _delete_kept(groups)
    finally:
        frame.unpersist()


def _delete_kept(groups: Sequence[KeptFiles]) -> None:
    storage, own = groups[0].storage, {each.key for each in groups}
    with contextlib.suppress(StorageError):  # garbage collection deletes them later
        kept = [each.key for each in storage.list(f"{PARSED}/") if each.key in own]
        if kept:
            storage.delete_many(kept)


def _parse_files(locations: Sequence[str], reading: Reading) -> Parsed:
    outcomes: list[Outcome] = []
    references: list[tuple[str, bytes]] = []
    stores = reading.open_stores()
    for location in locations:
        for outcome, source in parse(location, reading, stores):
            outcomes.append(outcome)
            if source is not None:
                references.append((source.header.name, pack(source)))
    return share_equal(outcomes, HeaderPool()), references


def _parse_group(
    number: int, files: KeptFiles, reading: Reading, max_failures: int
) -> Iterator[pa.RecordBatch]:
    kept: list[tuple[str, bytes]] = []

    def parse_all() -> list[Outcome]:
        outcomes, references = files.parse(reading)
        kept.extend(references)
        return outcomes

    row = run_task(number, parse_all, max_failures)
    nothing = [pa.nulls(1, field.type) for field in list(_PARSED_FIELDS)[-2:]]
    yield pa.RecordBatch.from_arrays([*row.columns, *nothing], schema=_PARSED_FIELDS)
    if kept:
        empty = [pa.nulls(len(kept), field.type) for field in _RESULT_FIELDS]
        names, blobs = zip(*kept, strict=True)
        columns = [pa.array(names, pa.string()), pa.array(blobs, pa.binary())]
        yield pa.RecordBatch.from_arrays([*empty, *columns], schema=_PARSED_FIELDS)


def write_manifests(
    spark: SparkSession, job: Job, frame: Any, placement: Placement, assets: Assets
) -> list[PlacedManifest]:
    """Collect references by split region, and write one manifest per region."""
    if not placement.regions:
        return []
    max_failures = find_max_failures(spark)
    count = placement.tasks[-1] + 1

    def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _cut_sources(placement, assets, batch)
        freeze_worker()

    def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = pa.Table.from_batches(batches, _PLACED_FIELDS)
        if len(tables):
            yield _write_task(placement, assets, tables, max_failures)

    references = frame.where("source is not null").select("source", "references")
    placed = map_batches(references, cut, _PLACED_SCHEMA, is_stateless=True)
    shuffled = shuffle_by_number(placed, count, "task")
    written = map_batches(shuffled, gather, RESULT_SCHEMA, is_stateless=True)
    job.expect("writing references", manifests=len(placement.regions))
    found = collect_results(spark, job, "writing references", written, count)
    return [each for group in found if group for each in group]


Part = tuple[int, int, bytes]
"""Task, split region, and packed references."""


def _cut_sources(
    placement: Placement, assets: Assets, sources: pa.RecordBatch
) -> Iterator[pa.RecordBatch]:
    """Split references of sources by split region, in batches of limited size."""
    cutter = Cutter(placement, assets)
    try:
        for source, data in zip(*(column.to_pylist() for column in sources.columns), strict=True):
            cutter.add(source, *unpack(data))
            if cutter.rows > _CUT_REFERENCES:
                yield _cut(placement, cutter)
        yield _cut(placement, cutter)
    except StorageError:
        raise
    except IcechunkError as error:
        # The error is deterministic, so the task that writes the references raises it.
        yield _to_batch([(0, _FAILED, _pack(error))])


def _cut(placement: Placement, cutter: Cutter) -> pa.RecordBatch:
    return _to_batch(
        [(placement.tasks[region], region, _pack(part)) for region, part in cutter.cut()]
    )


def _to_batch(parts: Sequence[Part]) -> pa.RecordBatch:
    columns = zip(*parts, strict=True) if parts else ((), (), ())
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, _PLACED_FIELDS, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_PLACED_FIELDS)


def _write_task(
    placement: Placement, assets: Assets, parts: pa.Table, max_failures: int
) -> pa.RecordBatch:
    """Write the split regions of a task, whose partition holds all their parts."""
    tasks, regions, blobs = (column.to_pylist() for column in parts.columns)
    by_region: defaultdict[int, list[bytes]] = defaultdict(list)
    for region, data in zip(regions, blobs, strict=True):
        by_region[region].append(data)

    def write_all() -> list[PlacedManifest]:
        if _FAILED in by_region:
            raise _unpack(by_region[_FAILED][0])
        placed = [
            write(assets, placement.regions[region], map(_unpack, by_region[region]))
            for region in sorted(by_region)
        ]
        # Reported manifests must be durable if this worker or its host is lost.
        assets.storage.flush()
        return placed

    return run_task(tasks[0], write_all, max_failures)


def _pack(value: object) -> bytes:
    return zstandard.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 1)


def _unpack(data: bytes) -> Any:
    return pickle.loads(zstandard.decompress(data))


@dataclass(frozen=True, slots=True, eq=False)
class SourcesHere:
    """Sources opened in this process, with their references."""

    outcomes: tuple[Outcome, ...]
    runner: Runner
    sources: tuple[Source, ...]

    def write_manifests(self, placement: Placement, assets: Assets) -> list[PlacedManifest]:
        """Collect references by split region, and write one manifest per region."""
        cutter = Cutter(placement, assets)
        for each in self.sources:
            cutter.add(each.header.name, each.version, each.references)
        parts = dict(cutter.cut())

        def write_one(region: int) -> PlacedManifest:
            return write(assets, placement.regions[region], [parts[region]])

        return self.runner.run("writing references", write_one, sorted(parts))


def parse_here(runner: Runner, reading: Reading, locations: Sequence[str]) -> SourcesHere:
    """Open files in this process."""
    opened = runner.run("opening files", lambda location: parse(location, reading), locations)
    outcomes, sources = zip(*chain.from_iterable(opened), strict=True)
    return SourcesHere(outcomes, runner, tuple(each for each in sources if each is not None))


class OpenedSources(Protocol):
    """Opened sources and their references, wherever these are kept."""

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Return the outcome of each file."""

    @property
    def runner(self) -> Runner:
        """Return the runner of the ingest's tasks."""

    def write_manifests(self, placement: Placement, assets: Assets) -> list[PlacedManifest]:
        """Collect references by split region, and write one manifest per region."""


@contextlib.contextmanager
def open_sources(
    runner: Runner, reading: Reading, files: Sequence[SourceFile], storage: Storage, slots: int
) -> Iterator[OpenedSources]:
    """Open files, on Spark or in this process; references are kept until the block ends."""
    if runner.spark is None:
        yield parse_here(runner, reading, [each.location for each in files])
        return
    groups = group_files(files, slots, runner.job.files_per_task)
    kept = [keep_files(each, storage, reading, KEPT_SECONDS) for each in groups]
    with parse_sources(runner, runner.spark, reading, kept) as parsed:
        yield parsed


_GUESSED_ITEM_BYTES = 16


def check_session(
    runner: Runner,
    session: Session,
    checks: Sequence[AnyCheck],
    found: IngestPlan,
    sources: Sequence[ParsedSource],
    reading: Reading,
    group: str,
) -> None:
    """Run checks on the uncommitted session; raise FailedChecksError with all findings."""
    if not checks:
        return
    regions = plan_regions(found, sources)
    subject = Subject(
        session=session.fork(),
        former=Session(SessionState(session.state.context, session.state.view.snapshot)),
        group=group,
        dim=found.dims[0] if found.dims else None,
        regions=regions,
        file_metadata=gather(sources),
        open_source=SourceData(reading),
        bytes_each=count_bytes(found) // max(1, len(regions)),
    )
    findings = run_checks(runner, subject, checks)
    if findings:
        raise refuse(findings)


def refuse(findings: Sequence[Finding]) -> FailedChecksError:
    """Return the error for findings."""
    count = f"{len(findings)} findings" if len(findings) > 1 else "a finding"
    return FailedChecksError(
        f"the checks have {count}, and nothing was published:\n{render_findings(findings)}",
        findings=findings,
        files=[file for each in findings for file in each.files],
    )


def plan_regions(found: IngestPlan, sources: Sequence[ParsedSource]) -> tuple[FileRegion, ...]:
    """Return the region of each file, sorted by start."""
    regions = []
    for each in sources:
        place = found.places[each.header.name]
        along = [dim for dim in found.dims if dim in place]
        if not along:
            regions.append(FileRegion(each.location))
            continue
        positions = {dim: _find_positions(found, each.header.name, dim) for dim in along}
        regions.append(FileRegion(each.location, along[0], *place[along[0]], positions))
    return tuple(sorted(regions, key=lambda region: region.start))


def _find_positions(found: IngestPlan, name: str, dim: str) -> slice | tuple[int, ...]:
    axis = found.plan.axes.get(dim)
    runs = () if axis is None else axis.runs[found.plan.sources[name]]
    if len(runs) < 2:
        return slice(*found.places[name][dim])
    return tuple(at for run in runs for at in range(run.start, run.stop))


def gather(sources: Sequence[ParsedSource]) -> tuple[VariableMetadata, ...]:
    """Return the variable metadata of the files, grouped by equal metadata."""
    texts: dict[int, str] = {}
    found: dict[str, VariableMetadata] = {}
    files: dict[str, list[str]] = {}
    for source in sources:
        for name, array in source.header.arrays.items():
            if "data_type" not in array.metadata:
                continue
            # Most files share one header, which is serialized once.
            if id(array) not in texts:
                content = [name, array.metadata["data_type"], dict(array.attributes)]
                texts[id(array)] = json.dumps(content, sort_keys=True)
            text = texts[id(array)]
            data_type = array.metadata["data_type"]
            found.setdefault(text, VariableMetadata(name, data_type, dict(array.attributes), ()))
            files.setdefault(text, []).append(source.location)
    return tuple(replace(each, files=tuple(files[text])) for text, each in found.items())


def count_bytes(found: IngestPlan) -> int:
    """Return the decoded size of all ingested data in bytes."""
    total = 0
    for variable in found.plan.variables.values():
        shape = list(variable.metadata["shape"])
        for axis, dim in enumerate(variable.metadata.get("dimension_names") or ()):
            spans = {each[dim] for each in found.places.values() if dim in each}
            if dim in found.dims and spans:
                shape[axis] = sum(stop - start for start, stop in spans)
        total += prod(shape) * _item_bytes(variable.metadata["data_type"])
    return total


def _item_bytes(data_type: object) -> int:
    with contextlib.suppress(TypeError):
        return np.dtype(data_type).itemsize  # type: ignore[call-overload, no-any-return]
    return _GUESSED_ITEM_BYTES
