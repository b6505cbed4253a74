"""Decode values of source files and write them as native chunks, in tasks."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, product
from typing import Any, Protocol, Self

import h5py
import numpy as np
import zarr
from numpy.typing import NDArray

from frazil.errors import InvalidInputError, InvalidSourcesError
from frazil.format.manifest import ChunkKind
from frazil.maintenance.reachability import pack
from frazil.repository.context import SessionState
from frazil.repository.session import ForkSession, Session
from frazil.spark.ingestion.ingest_plan import IngestPlan, NativeArray
from frazil.spark.ingestion.ledger import is_same_version
from frazil.spark.ingestion.source_data import Reading, open_file, refer_to
from frazil.spark.regions import (
    LEAST_TASK_BYTES,
    AnyArray,
    Box,
    Shape,
    choose_task_bytes,
    count_items,
    grow,
    open_for_writing,
    shift,
    slices_of,
)
from frazil.spark.runtime import Runner, count_slots
from frazil.spark.transaction import count_written, write_regions
from frazil.virtual import source_formats
from frazil.virtual.combine_plan import as_zarr, join
from frazil.virtual.conversions import (
    Conversion,
    ConvertedArray,
    Packing,
    Repacked,
    Repacking,
    find_converted,
    find_decoder,
)
from frazil.virtual.grib import open_grib
from frazil.virtual.hdf5 import is_open_otherwise
from frazil.virtual.source import FileVersion, SourceHeader
from frazil.virtual.source_formats import (
    GRIB,
    HDF5,
    SourceStores,
    key_url,
    without_codec_warnings,
)

with suppress(ImportError):
    import hdf5plugin  # noqa: F401 (makes its filters known to the library of HDF5)

_OPEN_FILES = 128
_CONCURRENT_OPENS = 8
_MOST_WHOLE_BYTES = 64 << 20
"""Maximum size of a remote file that is fetched whole, if most of it is read."""
_KEPT_BYTES = 256 << 20
"""Maximum size of the whole files a task keeps in memory."""
_NOT_A_COORDINATE = "_nc4_non_coord_"
"""Prefix of NetCDF-4 in HDF5 for a variable that has the name of a dimension but is no coordinate."""
_PLAIN_KINDS = "biufc"


@dataclass(frozen=True, slots=True)
class Fragment:
    """Part of a source that goes to a box of the array."""

    source: str
    box: Box
    origin: Shape
    """Position of the source's first element in the array."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Fragments of an array that one task writes together."""

    array: str
    fragments: tuple[Fragment, ...]
    bytes: int
    start: int
    """Position along the append dimension."""


@dataclass(frozen=True, slots=True)
class Written:
    """Chunks and bytes that tasks wrote of an array."""

    chunks: int
    bytes: int
    """Encoded size."""


def plan_tasks(arrays: Sequence[NativeArray], slots: int) -> list[list[Piece]]:
    """Return the pieces of all arrays, grouped by task."""
    limit = choose_task_bytes(sum(each.bytes for each in arrays), slots)
    pieces = [
        piece for array in arrays for piece in plan_pieces(array, min(limit, LEAST_TASK_BYTES))
    ]
    pieces.sort(key=lambda each: each.start)
    return pack(pieces, [each.bytes for each in pieces], limit)


def plan_pieces(array: NativeArray, most_bytes: int) -> list[Piece]:
    """Split the array into pieces of whole chunks of about the given size."""
    block = _choose_block(array, most_bytes)
    found: defaultdict[Shape, list[Fragment]] = defaultdict(list)
    for part in array.parts:
        for place, box in _slice_native(part.box, block):
            found[place].append(Fragment(part.source, box, part.origin))
    pieces = []
    for place in sorted(found):
        fragments = tuple(found[place])
        size = sum(count_items(each.box) for each in fragments) * array.itemsize
        start = 0 if array.axis is None else place[array.axis] * block[array.axis]
        pieces.append(Piece(array.name, fragments, size, start))
    return pieces


def bounding(boxes: Sequence[Box]) -> Box | None:
    """Return the box that disjoint boxes fill without gaps, or None."""
    ends = [list(zip(*each, strict=True)) for each in zip(*boxes, strict=True)]
    whole = tuple((min(starts), max(stops)) for starts, stops in ends)
    return whole if sum(map(count_items, boxes)) == count_items(whole) else None


def _choose_block(array: NativeArray, most_bytes: int) -> Shape:
    goals = [
        min(-(-size // unit) * unit, length)
        for size, unit, length in zip(array.source_chunks, array.unit, array.shape, strict=True)
    ]
    size = grow(array.unit, array.shape, most_bytes // max(array.itemsize, 1), goals)
    # A whole axis need not be a multiple of the unit, but blocks must end at chunk boundaries.
    return tuple(-(-each // unit) * unit for each, unit in zip(size, array.unit, strict=True))


def _slice_native(box: Box, block: Shape) -> Iterable[tuple[Shape, Box]]:
    """Yield the parts of a box with the block they lie in."""
    axes = [
        [
            (number, (max(start, number * size), min(stop, (number + 1) * size)))
            for number in range(start // size, -(-stop // size))
        ]
        for (start, stop), size in zip(box, block, strict=True)
    ]
    for combination in product(*axes):
        yield tuple(each[0] for each in combination), tuple(each[1] for each in combination)


@dataclass(frozen=True, slots=True)
class SourceToRead:
    """Source file of a plan, as tasks read it."""

    location: str
    format: str
    version: FileVersion
    decoders: Mapping[str, Packing | Repacked | ConvertedArray] = field(default_factory=dict)
    """Arrays that are decoded by their own scale and offset, repacked, or converted."""

    @classmethod
    def of(
        cls,
        header: SourceHeader,
        packings: Mapping[str, Repacking | None] | None = None,
        conversions: Mapping[str, Sequence[Conversion]] | None = None,
    ) -> Self:
        """Return the source of a header, some of whose arrays are decoded."""
        decoders: dict[str, Packing | Repacked | ConvertedArray] = {
            name: found
            for name, each in (packings or {}).items()
            if name in header.arrays and (found := find_decoder(header.arrays[name], each))
        }
        decoders |= find_converted(header, conversions or {})
        return cls(header.location, header.format, header.version, decoders)


class Values(Protocol):
    """Arrays of an open source file."""

    def read(self, name: str, box: Box, target: NDArray[Any], place: Box) -> None:
        """Read a box of an array into a region of another array."""

    def close(self) -> None:
        """Close the file."""


class Hdf5Values:
    """Values of an HDF5 file, read with h5py."""

    def __init__(self, file: Any, reading: Reading) -> None:
        # Without a lock, so that others can write; changes are detected afterwards.
        try:
            self._file = h5py.File(
                file, "r", **({"locking": False} if isinstance(file, str) else {})
            )
        except OSError as error:
            if not is_open_otherwise(error):
                raise
            self._file = h5py.File(file, "r")
        self._group = self._file[reading.source_group or "/"]
        self._names = {new: old for old, new in reading.rename.items()}

    def read(self, name: str, box: Box, target: NDArray[Any], place: Box) -> None:
        """Read a box of an array into a region of another array."""
        old = self._names.get(name, name)
        found: Any = self._group.get(old)
        if not isinstance(found, h5py.Dataset):
            found = self._group[_NOT_A_COORDINATE + old]
        target, box, place = without_new_axes(target, box, place, found.ndim)
        if any(stop > extent for (_, stop), extent in zip(box, found.shape, strict=True)):
            # A variable of NetCDF may have fewer records than its unlimited dimension.
            target[slices_of(place)] = found.fillvalue
            limits = [
                max(0, min(stop, n) - start)
                for (start, stop), n in zip(box, found.shape, strict=True)
            ]
            box = tuple((start, start + n) for (start, _), n in zip(box, limits, strict=True))
            place = tuple((start, start + n) for (start, _), n in zip(place, limits, strict=True))
            if 0 in limits:
                return
        here, there = slices_of(box), slices_of(place)
        if box and found.dtype == target.dtype and target.dtype.kind in _PLAIN_KINDS:
            found.read_direct(target, here, there)
            return
        is_text = h5py.check_string_dtype(found.dtype) is not None and target.dtype.kind in "OTU"
        target[there] = (found.asstr() if is_text else found)[here]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class GribValues:
    """Values of a GRIB file, decoded with eccodes."""

    def __init__(self, stores: SourceStores, source: SourceToRead, reading: Reading) -> None:
        url = key_url(source.location)
        self._file = open_grib(stores, url, source.version.size_bytes)
        self._names = {new: old for old, new in reading.find_names(source.format).items()}

    def read(self, name: str, box: Box, target: NDArray[Any], place: Box) -> None:
        """Read a box of an array into a region of another array."""
        old = self._names.get(name, name)
        target, box, place = without_new_axes(target, box, place, self._file.count_axes(old))
        target[slices_of(place)] = self._file.read_box(old, box)

    def close(self) -> None:
        """Do nothing: no file is open."""


def without_new_axes(
    target: NDArray[Any], box: Box, place: Box, ndim: int
) -> tuple[NDArray[Any], Box, Box]:
    """Drop the first axes, of length one, that the arrays of a file don't have."""
    new = len(box) - ndim
    if not new:
        return target, box, place
    corner: tuple[Any, ...] = (*(start for start, _ in place[:new]), ...)
    return target[corner], box[new:], place[new:]


class ChunkValues:
    """Values read through virtual references, with the codecs of Zarr."""

    def __init__(self, store: object) -> None:
        self._store = as_zarr(store)

    def read(self, name: str, box: Box, target: NDArray[Any], place: Box) -> None:
        """Read a box of an array into a region of another array."""
        with without_codec_warnings():
            array = zarr.open_array(self._store, path=name, mode="r", zarr_format=3)
            target, box, place = without_new_axes(target, box, place, array.ndim)
            target[slices_of(place)] = array[slices_of(box)]

    def close(self) -> None:
        """Do nothing: no file is open."""


def _read_raw(values: Values, array: str, box: Box, dtype: str) -> NDArray[Any]:
    shape = tuple(stop - start for start, stop in box)
    raw = np.empty(shape, dtype)
    values.read(array, box, raw, tuple((0, extent) for extent in shape))
    return raw


@dataclass(slots=True)
class OpenSources:
    """Source files that a task reads, opened once each up to a limit of open files."""

    sources: Mapping[str, SourceToRead]
    reading: Reading
    wanted_bytes: Mapping[str, int] = field(default_factory=dict)
    """Decoded bytes that will be read of each source."""
    _stores: SourceStores = field(init=False)
    _opened: OrderedDict[str, Values] = field(init=False, default_factory=OrderedDict)
    _seen: set[str] = field(init=False, default_factory=set)
    _whole: tuple[str, str, NDArray[Any]] | None = field(init=False, default=None)
    """Last array of a file that was converted as a whole."""

    def __enter__(self) -> Self:
        self._stores = SourceStores(self.reading.containers, self.reading.credentials)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._opened.values():
            each.close()
        self._opened.clear()

    def read(self, source: str, array: str, box: Box, target: NDArray[Any], place: Box) -> None:
        """Read a box of an array of a source into a region of another array."""
        values = self._opened.get(source)
        if values is None:
            values = source_formats.patiently(lambda: self._open(source))
        self._opened.move_to_end(source)
        decoder = self.sources[source].decoders.get(array)
        if decoder is None:
            values.read(array, box, target, place)
            return
        try:
            if isinstance(decoder, ConvertedArray):
                found = self._convert(source, array, box, values, decoder)
            else:
                found = decoder.decode(_read_raw(values, array, box, decoder.dtype))
        except InvalidInputError as error:
            raise InvalidInputError(f"{array} of {source}: {error}") from error
        target[slices_of(place)] = found

    def _convert(
        self, source: str, array: str, box: Box, values: Values, decoder: ConvertedArray
    ) -> NDArray[Any]:
        """Return the converted values of a box, for which the whole array may be needed."""
        dtype = decoder.packing.dtype
        if not decoder.is_per_file:
            return decoder.decode(_read_raw(values, array, box, dtype))
        if self._whole is None or self._whole[:2] != (source, array):
            everything = tuple((0, extent) for extent in decoder.array.shape)
            raw = _read_raw(values, array, everything, dtype)
            self._whole = source, array, decoder.decode(raw)
        return self._whole[2][slices_of(box)]

    def prepare(self, sources: Iterable[str]) -> None:
        """Open the next files to be read, several at a time."""
        wanted = [each for each in dict.fromkeys(sources) if each not in self._opened]
        if len(wanted) < 2 or all(each.startswith("file:") for each in wanted):
            return
        sizes = accumulate(map(self._weigh, wanted))
        fitting = [name for name, size in zip(wanted, sizes, strict=True) if size <= _KEPT_BYTES]
        with ThreadPoolExecutor(_CONCURRENT_OPENS) as pool:
            list(pool.map(self._open, fitting[:_OPEN_FILES]))

    def refuse_changed(self) -> None:
        """Raise InvalidSourcesError if a file has changed since it was planned."""
        names = sorted(self._seen)
        with ThreadPoolExecutor(_CONCURRENT_OPENS) as pool:
            list(pool.map(self._check, names))

    def _open(self, name: str) -> Values:
        source = self.sources[name]
        self._check(name)
        self._seen.add(name)
        url = key_url(source.location)
        with source_formats.reading(self._stores, url):
            values = self._open_values(name)
        self._opened[name] = values
        self._close_oldest()
        return values

    def _close_oldest(self) -> None:
        kept = sum(map(self._weigh, list(self._opened)))
        while len(self._opened) > 1 and (len(self._opened) > _OPEN_FILES or kept > _KEPT_BYTES):
            name, oldest = self._opened.popitem(last=False)
            oldest.close()
            kept -= self._weigh(name)

    def _weigh(self, name: str) -> int:
        """Return how many bytes of a file are in memory while it is open."""
        source = self.sources[name]
        size = source.version.size_bytes
        if source.location.startswith("file:") or source.format != HDF5.name:
            return 0
        is_worth = 2 * self.wanted_bytes.get(name, size) >= size
        return size if size <= _MOST_WHOLE_BYTES and is_worth else 0

    def _open_values(self, name: str) -> Values:
        source, reading = self.sources[name], self.reading
        if source.format == HDF5.name:
            file = open_file(
                self._stores,
                source.location,
                source.version.size_bytes,
                is_whole=self._weigh(name) > 0,
            )
            return Hdf5Values(file, reading)
        if source.format == GRIB.name:
            return GribValues(self._stores, source, reading)
        return ChunkValues(refer_to(source.location, reading).store)

    def _check(self, name: str) -> None:
        source = self.sources[name]
        url = key_url(source.location)
        is_folder = source.format in ("zarr", "kerchunk-parquet")
        observe = source_formats.observe_folder if is_folder else source_formats.observe
        if not is_same_version(observe(self._stores, url), source.version):
            raise InvalidSourcesError(
                f"{name} was changed while it was ingested: run the ingest again", files=[name]
            )


@dataclass(frozen=True, slots=True)
class WritePieces:
    """Task function that writes pieces and opens each source file once."""

    group: str
    sources: Mapping[str, SourceToRead]
    reading: Reading

    def __call__(self, session: ForkSession, pieces: Sequence[Piece]) -> None:
        """Write the pieces; raise InvalidSourcesError if a file has changed since it was planned."""
        arrays: dict[str, AnyArray] = {}
        wanted: Counter[str] = Counter()
        for piece in pieces:
            items = sum(count_items(each.box) for each in piece.fragments)
            for each in piece.fragments:
                wanted[each.source] += piece.bytes * count_items(each.box) // max(1, items)
        opened = OpenSources(self.sources, self.reading, wanted)
        with without_codec_warnings(), opened as sources:
            for piece in pieces:
                if piece.array not in arrays:
                    path = join(self.group, piece.array)
                    arrays[piece.array] = open_for_writing(session, path)
                write_piece(arrays[piece.array], piece, sources)
            sources.refuse_changed()


def write_piece(array: AnyArray, piece: Piece, sources: OpenSources) -> None:
    """Write the fragments of a piece, in one write if they have no gaps."""
    sources.prepare(each.source for each in piece.fragments)
    whole = bounding([each.box for each in piece.fragments])
    if whole is not None:
        _write(array, piece.array, whole, piece.fragments, sources)
        return
    for each in piece.fragments:
        _write(array, piece.array, each.box, [each], sources)


def _write(
    array: AnyArray, name: str, box: Box, fragments: Sequence[Fragment], sources: OpenSources
) -> None:
    corner = [start for start, _ in box]
    values = np.empty([stop - start for start, stop in box], array.dtype)
    for each in fragments:
        here = shift(each.box, _negative(each.origin))
        sources.read(each.source, name, here, values, shift(each.box, _negative(corner)))
    array[slices_of(box)] = values


def _negative(offsets: Sequence[int]) -> Shape:
    return tuple(-each for each in offsets)


def find_native(
    state: SessionState, group: str, names: Iterable[str], *, or_empty: bool = False
) -> frozenset[str]:
    """Return the arrays of a group with native chunks, judged by their first chunks."""
    paths = {name: f"/{join(group, name)}" for name in names}
    return frozenset(name for name, path in paths.items() if _is_native(state, path, or_empty))


def _is_native(state: SessionState, path: str, or_empty: bool) -> bool:
    node, _ = state.view.get_array(path)
    for table in state.view.tables(node):
        if len(table):
            return not bool((table.kind == ChunkKind.VIRTUAL).any())
    return or_empty


def write_natives(
    runner: Runner,
    session: Session,
    found: IngestPlan,
    headers: Sequence[SourceHeader],
    reading: Reading,
    group: str,
) -> dict[str, Written]:
    """Decode and write the native variables of a plan; return what was written, by variable."""
    tasks = plan_tasks(list(found.natives.values()), count_slots(runner.spark))
    if not tasks:
        return {}
    used = {each.source for array in found.natives.values() for each in array.parts}
    sources = {
        each.name: SourceToRead.of(each, found.packings, reading.convert)
        for each in headers
        if each.name in used
    }
    write_pieces = WritePieces(group, sources, reading)
    write_regions(runner, session, write_pieces, [[each] for each in tasks], "writing values")
    return {name: _measure(session.state, f"/{join(group, name)}") for name in found.natives}


def _measure(state: SessionState, path: str) -> Written:
    node, _ = state.view.get_array(path)
    return Written(*count_written(state.changes, node.id))
