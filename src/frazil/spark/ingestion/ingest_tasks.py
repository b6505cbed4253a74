"""Tasks of an ingest: parse source files, write references to manifests, check the new version."""

import contextlib
import hashlib
import io
import json
import pickle
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
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
from frazil.storage.interface import ByteRange, Storage
from frazil.virtual.combine_plan import NOT_PLACED
from frazil.virtual.source import FileVersion, HeaderPool, ReferenceColumns, Source
from frazil.virtual.source import concatenate as unite
from frazil.virtual.source_formats import patiently


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
    *(("frazil.virtual.source", name)
      for name in ("ArrayHeader", "ArrayHeaders", "ReferenceColumns", "SourceHeader")),
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

    If the driver is lost, a job with the same options continues with what there is of its files. Keys
    name the options, and objects begin with digests of their files and these' versions, so what is
    found is right.
    """

    files: tuple[SourceFile, ...]
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
        outcomes, references = _parse_files([each.location for each in self.files], reading)
        # A bad file may be there later, or what is missing to read it. One that was modified just
        # now may be modified again and keep its version.
        is_certain = all(isinstance(e, ParsedSource) and e.digest is None for e in outcomes)
        is_slow = time.perf_counter() - begin >= self.least_seconds
        if self.key is not None and is_slow and is_certain:
            compressor = zstandard.ZstdCompressor(1, write_checksum=True)
            with contextlib.suppress(StorageError, pickle.PicklingError, TypeError):
                content = time.time(), outcomes, references
                data = compressor.compress(pickle.dumps(content, pickle.HIGHEST_PROTOCOL))
                self.storage.put(self.key, b"".join([*map(_digest_of, self.files), data]))
        return outcomes, references

    def _load(self) -> Parsed | None:
        """Return what was parsed of the files; the object may have more, or may be gone."""
        if self.key is None:
            return None
        try:
            data = bytes(self.storage.get(self.key))
            digests, rest = _split_digests(self.key, data)
            if not digests.keys() >= set(map(_digest_of, self.files)):
                return None
            written_at, outcomes, references = _ParsedReader(
                io.BytesIO(zstandard.decompress(rest))
            ).load()
        except (IcechunkError, zstandard.ZstdError, pickle.UnpicklingError, ValueError, EOFError):
            return None
        if time.time() - written_at >= _KEPT_HOURS * 3600:
            return None
        own = {each.location for each in self.files}
        outcomes = [each for each in outcomes if each.location in own]
        names = {each.header.name for each in outcomes}
        return outcomes, [each for each in references if each[0] in names]


_DIGEST_BYTES = 16


def _digest_of(file: SourceFile) -> bytes:
    text = repr((file.location, file.version)).encode()
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()


def _split_digests(key: str, data: bytes) -> tuple[dict[bytes, int], bytes]:
    """Return the digests of files that an object begins with, and what follows."""
    end = _count_files(key) * _DIGEST_BYTES
    digests = [data[start : start + _DIGEST_BYTES] for start in range(0, end, _DIGEST_BYTES)]
    return {each: at for at, each in enumerate(digests)}, data[end:]


def _count_files(key: str) -> int:
    return int(key.rpartition("-")[2])


class _ParsedReader(pickle.Unpickler):
    """Reads headers and nothing else: others may write to the storage of a repository."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PARSED_CLASSES:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a header")
        return super().find_class(module, name)


def keep_files(
    files: Sequence[SourceFile], storage: Storage, folder: str | None, least_seconds: float
) -> KeptFiles:
    """Return the files of a task with the key of what they are parsed to, in a folder."""
    key = None
    if folder is not None:
        digest = hashlib.sha256(b"".join(map(_digest_of, files))).hexdigest()[: 2 * _DIGEST_BYTES]
        key = f"{folder}/{digest}-{len(files)}"
    return KeptFiles(tuple(files), storage, key, least_seconds)


def find_kept(
    files: Sequence[SourceFile], storage: Storage, folder: str | None, least_seconds: float
) -> tuple[list[KeptFiles], list[SourceFile]]:
    """Return what a job that was killed had parsed, by object, and the files that it had not.

    That job may have had other tasks, and some of the files may have changed since.
    """
    remaining = {} if folder is None else {_digest_of(each): each for each in files}
    found: list[KeptFiles] = []
    with contextlib.suppress(StorageError, ValueError):
        keys = sorted(each.key for each in storage.list(f"{folder}/")) if remaining else []
        sizes = [_count_files(key) * _DIGEST_BYTES for key in keys]
        heads = storage.get_many(
            [(key, ByteRange(0, size)) for key, size in zip(keys, sizes, strict=True)]
        )
        for key, head in zip(keys, heads, strict=True):
            digests, _ = _split_digests(key, bytes(head))
            own = tuple(remaining.pop(each) for each in digests if each in remaining)
            if own:
                found.append(KeptFiles(own, storage, key, least_seconds))
    parsed = {each.location for kept in found for each in kept.files}
    return found, [each for each in files if each.location not in parsed]


def name_folder(reading: Reading) -> str | None:
    """Return the folder of what is parsed with some options; None if they can't be compared."""
    if any(not type(each).__module__.startswith("frazil.") for each in reading.coords.values()):
        return None  # a function may have changed
    options = (
        reading.source_group, sorted(reading.load), sorted(reading.skip), sorted(reading.take),
        sorted(reading.rename.items()), reading.dims, sorted(reading.coords.items()),
        frazil.__version__, np.__version__, find_spec("gribberish") is None,
    )  # fmt: skip
    return f"{PARSED}/{hashlib.sha256(repr(options).encode()).hexdigest()[: 2 * _DIGEST_BYTES]}"


@contextlib.contextmanager
def parse_sources(
    runner: Runner, spark: SparkSession, reading: Reading, groups: Sequence[KeptFiles]
) -> Iterator[SourcesOnSpark]:
    """Open files, one group per task; references are kept until the block ends.

    What tasks have kept in the storage stays there if the job fails: it will be run again, without the
    files that it can't take or as it is.
    """
    count, storage, kept = len(groups), groups[0].storage, {each.key for each in groups}
    runner.job.expect("opening files", files=sum(len(each.files) for each in groups))
    frame = _parse_in_tasks(spark, reading, groups).persist()
    del groups  # the tasks have them: the driver would keep every file once more
    try:
        results = frame.where("source is null").select(*_RESULT_FIELDS.names)
        share = partial(share_equal, pool=HeaderPool())
        found = collect_results(spark, runner.job, "opening files", results, count, share)
        outcomes = tuple(each for group in found for each in group)
        del found, share
        yield SourcesOnSpark(outcomes, runner, spark, frame)
        _delete_kept(storage, kept)
    finally:
        frame.unpersist()


def _parse_in_tasks(spark: SparkSession, reading: Reading, groups: Sequence[KeptFiles]) -> Any:
    max_failures = find_max_failures(spark)

    def run(number: int) -> Iterator[pa.RecordBatch]:
        yield from _parse_group(number, groups[number], reading, max_failures)

    return map_numbers(spark, len(groups), run, _PARSED_SCHEMA, is_stateless=True)


def _delete_kept(storage: Storage, keys: Set[str | None]) -> None:
    folders = {key.rpartition("/")[0] for key in keys if key is not None}
    with contextlib.suppress(StorageError):  # garbage collection deletes them later
        kept = [e.key for each in folders for e in storage.list(f"{each}/") if e.key in keys]
        if kept:
            storage.delete_many(kept)


def _parse_files(locations: Sequence[str], reading: Reading) -> Parsed:
    outcomes: list[Outcome] = []
    references: list[tuple[str, bytes]] = []
    stores = reading.open_stores()
    for location in locations:
        for outcome, source in patiently(partial(parse, location, reading, stores)):
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
    assets = with_small_cache(assets)

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


_CACHED_REFERENCES = 1_000_000


def with_small_cache(assets: Assets) -> Assets:
    """Return assets for workers, which write thousands of manifests and read few of them again."""
    most = min(assets.options.num_chunk_refs, _CACHED_REFERENCES)
    return Assets(assets.storage, assets.dialect, replace(assets.options, num_chunk_refs=most))


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

    def open_one(location: str) -> list[tuple[Outcome, Source | None]]:
        return patiently(partial(parse, location, reading))

    opened = runner.run("opening files", open_one, locations)
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
    groups = plan_groups(runner, reading, files, storage, slots)
    opening = parse_sources(runner, runner.spark, reading, groups)
    del files, groups
    with opening as parsed:
        yield parsed


def plan_groups(
    runner: Runner, reading: Reading, files: Sequence[SourceFile], storage: Storage, slots: int
) -> list[KeptFiles]:
    """Return the files of each task: those that a killed job had parsed together, and all others."""
    folder = name_folder(reading)
    found, others = find_kept(files, storage, folder, KEPT_SECONDS)
    groups = group_files(others, slots, runner.job.files_per_task)
    return [*(keep_files(each, storage, folder, KEPT_SECONDS) for each in groups), *found]


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
