"""Check manifests and chunk references against the inventory and the source files."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from frazil.errors import (
    FormatError,
    InvalidInputError,
    ObjectNotFoundError,
    ObjectRangeError,
    StorageError,
)
from frazil.format.coordinates import Extents, Rows, bounding_box, rows_inside
from frazil.format.files import decode_manifest
from frazil.format.header import Dialect
from frazil.format.ids import ManifestId, NodeId
from frazil.format.manifest import (
    Checksum,
    ChunkKind,
    ChunkRef,
    ChunkTable,
    InlineRef,
    Manifest,
    NativeRef,
    VirtualRef,
)
from frazil.format.v2.manifest_decoder import EncodedRefs
from frazil.format.v2.schema import is_ascending
from frazil.maintenance.check_metadata import EncodedArray, Use, check_header
from frazil.maintenance.findings import (
    MOST_ALIKE,
    Counts,
    Problem,
    Problems,
    Severity,
    error,
    few,
    note,
    warning,
)
from frazil.maintenance.gc import distinct_chunk_ids
from frazil.maintenance.inventory import ChunkFiles, Pace, WrongFiles
from frazil.maintenance.reachability import Ids, ids_of
from frazil.protocols.assets import Assets
from frazil.repository.virtual_refs import spell_ids
from frazil.virtual.access import MODIFIED, VirtualChunkAccess
from frazil.virtual.containers import ContainerIndex


@dataclass(frozen=True, slots=True)
class Place:
    """Origin of chunk references: the key of a manifest and the path of an array."""

    key: str
    path: str
    folder: str
    """Folder of the chunk files."""


def check_native(table: ChunkTable, chunks: ChunkFiles, place: Place) -> Problems:
    """Check that every native chunk has a file that is long enough."""
    rows = np.flatnonzero(table.kind == ChunkKind.NATIVE)
    if not rows.size:
        return
    is_there, all_sizes = chunks.measure(ids_of(table.chunk_id[rows]))
    absent = rows[~is_there]
    there, sizes = rows[is_there], all_sizes[is_there]
    is_short = _ends(table, there) > sizes
    whole = error(place.key, "chunks have no file", path=place.path)
    yield from few(_missing(table, absent, place), len(absent), whole)
    short, short_sizes = there[is_short], sizes[is_short]
    whole = error(place.key, "chunks have files that are too short", path=place.path)
    yield from few(_too_short(table, short, short_sizes, place), len(short), whole)


def _ends(table: ChunkTable, rows: Rows) -> NDArray[np.uint64]:
    """Return the end offset of each reference in its file, saturated at the 64-bit maximum."""
    ends: NDArray[np.uint64] = table.offset[rows] + table.length[rows]
    # A sum that is smaller than a summand has overflowed 64 bits.
    ends[ends < table.offset[rows]] = np.iinfo(np.uint64).max
    return ends


@dataclass(frozen=True, slots=True, eq=False)
class NeededFiles:
    """Distinct chunk files that references need, sorted by id, with the required size of each."""

    ids: Ids
    ends: NDArray[np.uint64]

    @classmethod
    def of(cls, tables: Iterable[ChunkTable]) -> "NeededFiles":
        """Collect the files of all native references in some tables."""
        parts = [
            cls(ids_of(table.chunk_id[rows]), _ends(table, rows))
            for table in tables
            for rows in [np.flatnonzero(table.kind == ChunkKind.NATIVE)]
            if rows.size
        ]
        return cls.unite(parts)

    @classmethod
    def unite(cls, parts: "Sequence[NeededFiles]") -> "NeededFiles":
        """Merge several parts, which may overlap."""
        filled = [each for each in parts if len(each.ids)]
        if not filled:
            return cls(np.empty(0, "S12"), np.empty(0, np.uint64))
        ids = np.concatenate([each.ids for each in filled])
        ends = np.concatenate([each.ends for each in filled])
        order = np.argsort(ids, kind="stable")
        ids, ends = ids[order], ends[order]
        first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        return cls(ids[first], np.maximum.reduceat(ends, first))

    def find_wrong(self, files: ChunkFiles) -> WrongFiles:
        """Return the files that are missing or too short."""
        is_there, sizes = files.measure(self.ids)
        is_wrong = ~is_there | (self.ends > sizes)
        return WrongFiles(self.ids[is_wrong], is_there[is_wrong], sizes[is_wrong])


def _missing(table: ChunkTable, rows: Rows, place: Place) -> Problems:
    shown = rows[:MOST_ALIKE]
    for row, name in zip(shown.tolist(), spell_ids(table.chunk_id[shown]), strict=True):
        yield error(
            f"{place.folder}/{name}",
            f"there is no such file, and {place.key} refers to it",
            path=place.path,
            coordinate=_coordinate(table, row),
        )


def _too_short(table: ChunkTable, rows: Rows, sizes: NDArray[np.uint64], place: Place) -> Problems:
    shown = rows[:MOST_ALIKE]
    names = spell_ids(table.chunk_id[shown])
    for row, name, size in zip(shown.tolist(), names, sizes.tolist(), strict=False):
        start, length = int(table.offset[row]), int(table.length[row])
        yield error(
            f"{place.folder}/{name}",
            f"it has {size} bytes, and {place.key} refers to {start}..{start + length}",
            path=place.path,
            coordinate=_coordinate(table, row),
        )


def check_inline(table: ChunkTable, place: Place) -> Problems:
    """Check that no native or inline chunk is empty; writers refuse empty chunks."""
    empty = np.flatnonzero((table.kind != ChunkKind.VIRTUAL) & (table.length == 0))
    problems = (
        error(place.key, "the chunk has no bytes", None, place.path, _coordinate(table, row))
        for row in empty.tolist()
    )
    whole = error(place.key, "chunks have no bytes", path=place.path)
    yield from few(problems, len(empty), whole)


def _coordinate(table: ChunkTable, row: int) -> tuple[int, ...]:
    return tuple(table.coordinates[row].tolist())


@dataclass(frozen=True, slots=True)
class ChunkReader:
    """Chunk reader shared by the threads of a process, with a common rate limit for source files."""

    assets: Assets
    virtual: VirtualChunkAccess
    pace: Pace

    def read(self, ref: ChunkRef) -> bytes | None:
        """Read the bytes of a chunk; None if another stage reports why they can't be read.

        That is the comparison with the chunk listing, or the check of source files.
        Raises StorageError.
        """
        match ref:
            case InlineRef(data):
                return data
            case NativeRef():
                return self._read_native(ref)
            case VirtualRef():
                self.pace.wait()
                return self._read_virtual(ref)

    def _read_native(self, ref: NativeRef) -> bytes | None:
        try:
            return bytes(self.assets.read_chunk(ref.chunk_id, ref.offset, ref.offset + ref.length))
        except (ObjectNotFoundError, ObjectRangeError):
            return None

    def _read_virtual(self, ref: VirtualRef) -> bytes | None:
        try:
            return bytes(self.virtual.read(ref, 0, ref.length))
        except (ObjectNotFoundError, ObjectRangeError, InvalidInputError):
            return None
        except StorageError as failure:
            if failure.kind == MODIFIED:
                return None
            raise


Kinds = frozenset[ChunkKind]

OWN = frozenset({ChunkKind.NATIVE, ChunkKind.INLINE})
"""Kinds of chunks that are stored in the repository."""
ALL = OWN | {ChunkKind.VIRTUAL}

ReadChunk = Callable[[ChunkRef], bytes | None]
"""Function that reads the bytes of a chunk; None if another stage reports the reason."""

_Region = tuple[slice, ...]


def find_rows(table: ChunkTable, num_chunks: tuple[int, ...], kinds: Kinds) -> list[int]:
    """Return the rows of chunks of some kinds that lie inside an array's grid."""
    inside = np.all(table.coordinates < np.array(num_chunks, np.uint64), axis=1)
    rows: list[int] = np.flatnonzero(np.isin(table.kind, list(kinds)) & inside).tolist()
    return rows


def check_row(
    array: EncodedArray, table: ChunkTable, place: Place, read: ReadChunk, row: int
) -> Problem | None:
    """Read and decode a chunk; returns a problem, or None."""
    ref = table.ref(row)
    key, coordinate = _name(ref, place), tuple(table.coordinates[row].tolist())
    try:
        data = read(ref)
    except StorageError as failure:
        if isinstance(ref, VirtualRef):
            return error(key, failure.message, path=array.path, coordinate=coordinate)
        raise
    return None if data is None else next(check_chunk(array, coordinate, data, key), None)


def _name(ref: ChunkRef, place: Place) -> str:
    """Return the key or location of the object that holds the bytes of a chunk."""
    match ref:
        case NativeRef():
            return f"{place.folder}/{ref.chunk_id}"
        case VirtualRef():
            return ref.location
    return place.key


def check_chunk(
    array: EncodedArray, coordinate: tuple[int, ...], data: bytes, key: str
) -> Problems:
    """Check that the bytes of a chunk decode to a chunk of its array."""
    try:
        opened = _open(array.user_data, coordinate, data)
    # Zarr and its plugins can raise any exception.
    except Exception as failure:
        yield note(key, f"Zarr can't open its array here: {failure}", path=array.path)
        return
    region = _region(json.loads(array.user_data), coordinate)
    try:
        opened[region]
    except Exception as failure:
        what = f"its bytes can't be decoded: {type(failure).__name__}: {failure}"
        yield error(key, what, path=array.path, coordinate=coordinate)


def _open(user_data: bytes, coordinate: tuple[int, ...], data: bytes) -> "zarr.Array[Any]":
    """Open an array in memory with only this chunk."""
    buffer = default_buffer_prototype().buffer
    name = "/".join(["c", *map(str, coordinate)])
    files = {"zarr.json": buffer.from_bytes(user_data), name: buffer.from_bytes(data)}
    with zarr.config.set({"array.rectilinear_chunks": True}):
        return zarr.open_array(MemoryStore(files), mode="r", zarr_format=3)


def _region(document: Mapping[str, Any], coordinate: tuple[int, ...]) -> _Region:
    """Return the slices of an array that a chunk covers."""
    configuration = document["chunk_grid"]["configuration"]
    lengths = configuration.get("chunk_shape") or configuration.get("chunk_shapes") or []
    return tuple(_extent(each, at) for each, at in zip(lengths, coordinate, strict=True))


def _extent(lengths: Any, at: int) -> slice:
    if isinstance(lengths, int):
        return slice(lengths * at, lengths * (at + 1))
    pairs = (item if isinstance(item, list) else (item, 1) for item in lengths)
    edges = [0, *accumulate(size for size, times in pairs for _ in range(times))]
    return slice(edges[at], edges[at + 1])


_NO_CONTAINER = "no-container-for-virtual-chunk"


@dataclass(frozen=True, slots=True)
class Source:
    """Source file of virtual chunks, with the checksum that references expect."""

    location: str
    checksum: Checksum | None


@dataclass(frozen=True, slots=True)
class Need:
    """Required size of a source file, and the chunk that requires it."""

    end: int
    key: str
    path: str
    coordinate: tuple[int, ...]


Sources = Mapping[Source, Need]


def check_locations(
    table: ChunkTable, place: Place, containers: ContainerIndex | None, dialect: Dialect
) -> Problems:
    """Check that every location is valid and belongs to a container of the configuration."""
    if containers is None:
        return
    used = np.unique(table.location[table.kind == ChunkKind.VIRTUAL]).tolist()
    unheld, wrong = find_bad_locations((table.locations[each] for each in used), containers)
    problems = (error(place.key, what, path=place.path) for what in wrong)
    whole = error(place.key, "locations of virtual chunks are none", path=place.path)
    yield from few(problems, len(wrong), whole)
    if unheld:
        # Readers may pass containers when they open a repository; V2 can save all of them.
        severity = Severity.WARNING if dialect.has_repo_info else Severity.NOTE
        what = f"no container of the configuration holds {len(unheld)} locations, as {unheld[0]!r}"
        yield Problem(severity, place.key, what, path=place.path)


def find_bad_locations(
    locations: Iterable[str], containers: ContainerIndex
) -> tuple[list[str], list[str]]:
    """Return the locations without a container, and the error messages of invalid ones."""
    unheld, wrong = list[str](), list[str]()
    for location in locations:
        try:
            containers.locate(location)
        except InvalidInputError as failure:
            if failure.kind == _NO_CONTAINER:
                unheld.append(location)
            else:
                wrong.append(failure.message)
    return unheld, wrong


def collect_sources(tables: Iterable[tuple[ChunkTable, Place]]) -> dict[Source, Need]:
    """Return the distinct source files of virtual chunks, with the required size of each."""
    found: dict[Source, Need] = {}
    for table, place in tables:
        for row in _last_rows(table):
            ref = table.ref(row)
            assert isinstance(ref, VirtualRef)
            coordinate = tuple(table.coordinates[row].tolist())
            need = Need(ref.offset + ref.length, place.key, place.path, coordinate)
            add_need(found, Source(ref.location, ref.checksum), need)
    return found


def add_need(found: dict[Source, Need], source: Source, need: Need) -> None:
    """Add a need, keeping the largest per source file."""
    known = found.get(source)
    if known is None or known.end < need.end:
        found[source] = need


def _last_rows(table: ChunkTable) -> list[int]:
    """Return, for each distinct source file, the row with the largest end offset."""
    rows = np.flatnonzero(table.kind == ChunkKind.VIRTUAL)
    if not rows.size:
        return []
    columns = (table.location[rows], table.etag[rows], table.last_modified[rows].astype(np.int64))
    ends = table.offset[rows] + table.length[rows]
    order = np.lexsort((ends, *columns))
    keys = np.stack([column[order] for column in columns])
    is_last = np.append(np.any(keys[:, 1:] != keys[:, :-1], axis=0), True)
    last: list[int] = rows[order[is_last]].tolist()
    return last


@dataclass(frozen=True, slots=True)
class AskSources:
    """Stage that checks the source files of virtual chunks, with a rate limit."""

    access: VirtualChunkAccess
    per_second: float | None

    def __call__(
        self, pool: ThreadPoolExecutor, wanted: Sequence[tuple[Source, Need]]
    ) -> list[Problem]:
        """Return the distinct problems of the source files."""
        pace = Pace(self.per_second)

        def ask(source: Source, need: Need) -> Problem | None:
            pace.wait()
            return check_source(self.access, source, need)

        answers = pool.map(lambda each: ask(*each), wanted)
        return list(dict.fromkeys(answer for answer in answers if answer is not None))


def check_source(access: VirtualChunkAccess, source: Source, need: Need) -> Problem | None:
    """Read the last required byte of a source file: it proves access, size and checksum."""
    ref = VirtualRef(source.location, max(0, need.end - 1), min(1, need.end), source.checksum)
    try:
        access.read(ref, 0, ref.length)
    except ObjectNotFoundError:
        what = "the file that virtual chunks are in is gone"
    except ObjectRangeError:
        what = f"the file is too short: {need.end} bytes of it are needed"
    except StorageError as failure:
        what = failure.message
    except InvalidInputError as failure:
        if failure.kind == _NO_CONTAINER:
            return None  # reported for the manifest
        return note(need.key, f"its virtual chunks were not looked at: {failure.message}")
    else:
        return None
    return error(source.location, what, path=need.path, coordinate=need.coordinate)


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Facts about a repository that its manifests are checked against."""

    dialect: Dialect
    chunks: ChunkFiles | None
    """None if chunk files are listed later, by other workers."""
    chunk_folder: str
    containers: ContainerIndex | None
    """None if the configuration can't be read."""
    collects_sources: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ManifestFindings:
    """Findings of the check of a manifest file."""

    id: ManifestId
    size_bytes: int
    num_chunk_refs: int
    chunk_ids: Ids
    """Distinct ids of its native chunks, sorted."""
    chunk_ends: NDArray[np.uint64] | None
    """Required size of each chunk file; None if the chunk files were listed before."""
    sources: Sources
    counts: Counts
    problems: tuple[Problem, ...]


def check_manifest_file(
    data: bytes, id: ManifestId, key: str, uses: Mapping[Use, str], context: CheckContext
) -> ManifestFindings:
    """Check a manifest file; raises FormatError if it is damaged."""
    decoded = decode_manifest(data)
    manifest = _decode_refs(decoded.value)
    tables = [
        (table, Place(key, path, context.chunk_folder))
        for path, table in _read_tables(manifest, uses)
    ]
    problems = chain(
        check_header(decoded.header, key, context.dialect),
        _check_identity(manifest, id, key),
        _check_order(decoded.value, uses, key),
        _check_uses(manifest, uses, key),
        *(_check_table(table, place, context) for table, place in tables),
    )
    needed = NeededFiles.of(manifest.tables().values()) if context.chunks is None else None
    return ManifestFindings(
        id,
        len(data),
        len(manifest),
        distinct_chunk_ids(manifest) if needed is None else needed.ids,
        None if needed is None else needed.ends,
        collect_sources(tables) if context.collects_sources else {},
        sum((_count(table) for table in manifest.tables().values()), Counts(manifests=1)),
        tuple(problems),
    )


def _decode_refs(manifest: Manifest) -> Manifest:
    """Return the manifest with its references decoded, to decode them only once."""
    arrays = {
        id: refs.table() if isinstance(refs, EncodedRefs) else refs
        for id, refs in manifest.arrays.items()
    }
    return replace(manifest, arrays=arrays)


def _read_tables(manifest: Manifest, uses: Mapping[Use, str]) -> Iterator[tuple[str, ChunkTable]]:
    """Yield path and references of each array that a snapshot uses, once."""
    wanted = {use.node_id: (path, use.axes) for use, path in uses.items()}
    for node_id, (path, axes) in wanted.items():
        refs = manifest.arrays.get(node_id)
        if refs is not None:
            table = refs.table()
            yield path, table if table.axes == axes else _of_axes(manifest, node_id, axes)


def _of_axes(manifest: Manifest, node_id: NodeId, axes: int) -> ChunkTable:
    try:
        return manifest.table(node_id, axes)
    except FormatError:
        return ChunkTable.empty(axes)


def _check_table(table: ChunkTable, place: Place, context: CheckContext) -> Problems:
    if context.chunks is not None:
        yield from check_native(table, context.chunks, place)
    yield from check_inline(table, place)
    yield from check_locations(table, place, context.containers, context.dialect)


def _check_identity(manifest: Manifest, id: ManifestId, key: str) -> Problems:
    if manifest.id is not None and manifest.id != id:
        yield error(key, f"the manifest in it is {manifest.id}")


def _check_order(manifest: Manifest, uses: Mapping[Use, str], key: str) -> Problems:
    paths = {use.node_id: path for use, path in uses.items()}
    encoded = {id: refs for id, refs in manifest.arrays.items() if isinstance(refs, EncodedRefs)}
    if not is_ascending(list(encoded)):
        yield error(key, "the arrays are not in the order of their ids")
    for id, refs in encoded.items():
        if not refs.is_in_order():
            what = "the references are not in order, and readers that search miss some"
            yield error(key, what, path=paths.get(id))


def _check_uses(manifest: Manifest, uses: Mapping[Use, str], key: str) -> Problems:
    for use, path in uses.items():
        if use.extents is None:
            continue
        refs = manifest.arrays.get(use.node_id)
        if refs is None or not len(refs):
            yield error(key, "it has no references of this array", path=path)
            continue
        try:
            table = refs.with_axes(use.axes)
        except FormatError as failure:
            yield error(key, failure.message, path=path)
            continue
        yield from check_coverage(table, use.extents, key, path)


def check_coverage(table: ChunkTable, extents: Extents, key: str, path: str) -> Problems:
    """Check that extents are the bounding box of the references."""
    if not extents or len(extents) != table.axes or bounding_box(table.coordinates) == extents:
        return
    outside = np.flatnonzero(~rows_inside(table.coordinates, extents))
    if outside.size:
        first = tuple(table.coordinates[outside[0]].tolist())
        what = (
            f"{outside.size} references lie outside of the extents {extents}, and nobody finds them"
        )
        yield error(key, what, path=path, coordinate=first)
    else:
        yield warning(key, f"the extents {extents} are larger than its references need", path=path)


def _count(table: ChunkTable) -> Counts:
    kinds = np.bincount(table.kind, minlength=int(max(ChunkKind)) + 1).tolist()
    return Counts(
        native_refs=kinds[ChunkKind.NATIVE],
        inline_refs=kinds[ChunkKind.INLINE],
        virtual_refs=kinds[ChunkKind.VIRTUAL],
    )
