"""Values of source files as they are stored, decoded on workers.

HDF5 is read by its own library, which knows all of its filters; everything else through the chunks that
a parser finds, by the codecs of Zarr.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol, Self

import h5py
import zarr
from numpy.typing import NDArray

from frazil.errors import InvalidSourcesError
from frazil.spark.arrays.regions import Box, slices_of
from frazil.spark.ingesting.files import open_file
from frazil.spark.ingesting.ledger import is_same_version
from frazil.spark.ingesting.parsing import Reading
from frazil.spark.ingesting.source_data import refer_to
from frazil.virtual import FileVersion, SourceHeader
from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.readers import observing
from frazil.virtual.readers.formats import HDF5
from frazil.virtual.readers.stores import SourceStores, key_url
from frazil.virtual.writing import as_zarr

with suppress(ImportError):
    import hdf5plugin  # noqa: F401 (makes its filters known to the library of HDF5)

_OPEN_FILES = 128
_CONCURRENT_OPENS = 8
_MOST_WHOLE_BYTES = 64 << 20
"""A file in a bucket up to this size, of which much is read, is fetched at once."""
_KEPT_BYTES = 256 << 20
"""So much of such files is in memory."""
_NOT_A_COORDINATE = "_nc4_non_coord_"
"""How NetCDF-4 calls a variable in HDF5 that only happens to be named like a dimension."""
_PLAIN_KINDS = "biufc"


@dataclass(frozen=True, slots=True)
class SourceToRead:
    """A source that was planned with."""

    location: str
    format: str
    version: FileVersion

    @classmethod
    def of(cls, header: SourceHeader) -> Self:
        """The source of a header."""
        return cls(header.location, header.format, header.version)


class Values(Protocol):
    """The arrays of an open file."""

    def read(self, name: str, box: Box, target: NDArray[Any], place: Box) -> None:
        """Put a box of an array to a place in another one."""

    def close(self) -> None:
        """Let the file go."""


class Hdf5Values:
    """Through the library of HDF5."""

    def __init__(self, file: Any, reading: Reading) -> None:
        # Nobody is kept from writing: whether the file changes is asked for afterwards.
        self._file = h5py.File(file, "r", **({"locking": False} if isinstance(file, str) else {}))
        self._group = self._file[reading.group or "/"]
        self._names = {new: old for old, new in reading.rename.items()}

    def read(self, name: str, box: Box, target: NDArray[Any], place: Box) -> None:
        """Put a box of an array to a place in another one."""
        old = self._names.get(name, name)
        found: Any = self._group.get(old)
        if not isinstance(found, h5py.Dataset):
            found = self._group[_NOT_A_COORDINATE + old]
        here, there = slices_of(box), slices_of(place)
        if box and found.dtype == target.dtype and target.dtype.kind in _PLAIN_KINDS:
            found.read_direct(target, here, there)
            return
        is_text = h5py.check_string_dtype(found.dtype) is not None and target.dtype.kind in "OTU"
        target[there] = (found.asstr() if is_text else found)[here]

    def close(self) -> None:
        """Let the file go."""
        self._file.close()


class ChunkValues:
    """Through references to chunks, and the codecs of Zarr."""

    def __init__(self, store: object) -> None:
        self._store = as_zarr(store)

    def read(self, name: str, box: Box, target: NDArray[Any], place: Box) -> None:
        """Put a box of an array to a place in another one."""
        with without_codec_warnings():
            array = zarr.open_array(self._store, path=name, mode="r", zarr_format=3)
            target[slices_of(place)] = array[slices_of(box)]

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class OpenSources:
    """The files that a task reads, each opened once, if there are not too many."""

    sources: Mapping[str, SourceToRead]
    reading: Reading
    wanted_bytes: Mapping[str, int] = field(default_factory=dict)
    """How much is going to be read of each, decoded."""
    _stores: SourceStores = field(init=False)
    _opened: OrderedDict[str, Values] = field(init=False, default_factory=OrderedDict)
    _seen: set[str] = field(init=False, default_factory=set)

    def __enter__(self) -> Self:
        self._stores = SourceStores(self.reading.containers, self.reading.credentials)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._opened.values():
            each.close()
        self._opened.clear()

    def read(self, source: str, array: str, box: Box, target: NDArray[Any], place: Box) -> None:
        """Put a box of an array of a source to a place in another array."""
        values = self._opened.get(source)
        if values is None:
            values = self._open(source)
        self._opened.move_to_end(source)
        values.read(array, box, target, place)

    def prepare(self, sources: Iterable[str]) -> None:
        """Open files, several at once, that are read next."""
        wanted = [each for each in dict.fromkeys(sources) if each not in self._opened]
        if len(wanted) < 2 or all(each.startswith("file:") for each in wanted):
            return
        sizes = accumulate(map(self._weigh, wanted))
        fitting = [name for name, size in zip(wanted, sizes, strict=True) if size <= _KEPT_BYTES]
        with ThreadPoolExecutor(_CONCURRENT_OPENS) as pool:
            list(pool.map(self._open, fitting[:_OPEN_FILES]))

    def refuse_changed(self) -> None:
        """Raise InvalidSourcesError where a file is no longer what was planned with."""
        names = sorted(self._seen)
        with ThreadPoolExecutor(_CONCURRENT_OPENS) as pool:
            list(pool.map(self._check, names))

    def _open(self, name: str) -> Values:
        source = self.sources[name]
        self._check(name)
        self._seen.add(name)
        url = key_url(source.location)
        with observing.reading(self._stores, url):
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
        """What of a file is in memory while it is open."""
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
        return ChunkValues(refer_to(source.location, reading).store)

    def _check(self, name: str) -> None:
        source = self.sources[name]
        url = key_url(source.location)
        is_folder = source.format in ("zarr", "kerchunk-parquet")
        observe = observing.observe_folder if is_folder else observing.observe
        if not is_same_version(observe(self._stores, url), source.version):
            raise InvalidSourcesError(
                f"{name} was changed while it was ingested: run the ingest again", files=[name]
            )
