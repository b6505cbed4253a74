"""Formats of source files: recognise, observe and load them."""

import json
import random
import stat
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
import obstore
import zarr
from numpy.typing import NDArray
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore

from frazil.credentials import AnyCredential
from frazil.errors import InvalidInputError, ObjectNotFoundError, StorageError, ThrottledError
from frazil.storage.clients import diagnose
from frazil.storage.connections import SIZE_CLASSES, Connection, Purpose, plan_client
from frazil.storage.interface import StorageSettings, resolve_settings
from frazil.storage.source_objects import connect_bucket, connect_server, keep_open
from frazil.storage.store_config import AnyObjectStoreConfig, ObjectStoreConfig, S3Options
from frazil.virtual.containers import (
    Address,
    VirtualChunkContainer,
    index_containers,
    normalize_location,
    parse_address,
)
from frazil.virtual.source import ArrayHeader, FileVersion, ReferenceColumns, find_bounds

INTERRUPTIONS = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that end a program, and are never caused by a file."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundGroup:
    """Arrays of a group with their references, still without file versions."""

    attributes: Mapping[str, Any]
    arrays: Mapping[str, ArrayHeader]
    references: Mapping[str, ReferenceColumns]
    groups: tuple[str, ...]
    """Names of the direct subgroups."""


@dataclass(frozen=True, slots=True)
class Loading:
    """Selection of the arrays whose values are read with the header."""

    names: frozenset[str]
    small_bytes: int
    """Arrays up to this size are loaded, in addition to the coordinates of dimensions."""


HEAD_BYTES = 4096
"""Bytes of a file read to recognise its format."""
FAR_HEAD_BYTES = 128 << 10
"""Bytes read from a remote file, where more bytes would cost another request."""
# An HDF5 file may start with a user block, after which the signature follows.
_HDF5_STARTS = (0, 512, 1024, 2048)
_LONGEST_HEADING = 512


def _starts_with(*magic: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magic)


def _is_hdf5(head: bytes) -> bool:
    return any(head[at : at + 8] == b"\x89HDF\r\n\x1a\n" for at in _HDF5_STARTS)


def _is_grib(head: bytes) -> bool:
    # The heading of a bulletin may stand before the first message.
    at = head.find(b"GRIB", 0, _LONGEST_HEADING)
    return at >= 0 and head[at + 7 : at + 8] in (b"\1", b"\2")


def _is_kerchunk(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and any(
        word in head for word in (b'"refs"', b'.zgroup"', b'.zarray"', b'.zattrs"')
    )


def _is_dmrpp(head: bytes) -> bool:
    return head.lstrip().startswith(b"<") and b"dmrpp" in head


def _never(head: bytes) -> bool:  # noqa: ARG001 (a folder has no first bytes)
    return False


@dataclass(frozen=True, slots=True)
class Format:
    """Format of source files."""

    name: str
    parser: str
    """Module and class of the parser, separated by a colon."""
    endings: tuple[str, ...]
    recognises: Callable[[bytes], bool]
    """Predicate on the first bytes of a file."""
    install: str
    """Requirement to install if the parser can't be imported."""

    @property
    def is_folder(self) -> bool:
        """Return whether a source of this format is a folder of files."""
        return self.recognises is _never


_PARSERS = "virtualizarr.parsers:"
HDF5 = Format(
    "hdf5", _PARSERS + "HDFParser", (".nc", ".nc4", ".h5", ".hdf5", ".he5"), _is_hdf5,
    "frazil[virtual]",
)  # fmt: skip
GRIB = Format(
    "grib", "frazil.virtual.grib:read_grib", (".grib", ".grib1", ".grib2", ".grb", ".grb1", ".grb2"),
    _is_grib, "frazil[grib]",
)  # fmt: skip
ZARR = Format("zarr", _PARSERS + "ZarrParser", (".zarr",), _never, "frazil[virtual]")
KERCHUNK_PARQUET = Format(
    "kerchunk-parquet", _PARSERS + "KerchunkParquetParser", (".parq", ".parquet"), _never,
    "frazil[virtual] kerchunk fastparquet",
)  # fmt: skip
TIFF = Format(
    "tiff", "virtual_tiff:VirtualTIFF", (".tif", ".tiff"),
    _starts_with(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), "virtual-tiff",
)  # fmt: skip
FORMATS = (
    HDF5,
    Format(
        "netcdf3", _PARSERS + "NetCDF3Parser", (".cdf", ".nc3"),
        _starts_with(b"CDF\x01", b"CDF\x02", b"CDF\x05"), "frazil[virtual]",
    ),
    Format("fits", _PARSERS + "FITSParser", (".fits", ".fit", ".fts"),
           _starts_with(b"SIMPLE  ="), "frazil[virtual] astropy"),
    GRIB,
    TIFF,
    Format("zarr-zip", _PARSERS + "ZippedZarrParser", (".zarr.zip",),
           _starts_with(b"PK\x03\x04"), "frazil[virtual]"),
    Format("kerchunk-json", _PARSERS + "KerchunkJSONParser", (".json",),
           _is_kerchunk, "frazil[virtual]"),
    Format("dmrpp", _PARSERS + "DMRPPParser", (".dmrpp",), _is_dmrpp, "frazil[virtual]"),
    ZARR,
    KERCHUNK_PARQUET,
)  # fmt: skip


def get_format(name: str) -> Format:
    """Return the format with a name; raise InvalidInputError, which lists the known formats."""
    for each in FORMATS:
        if each.name == name:
            return each
    raise InvalidInputError(f"{name!r} is no format of sources; known are {_names()}")


def first_line(error: BaseException) -> str:
    """Return the first line of what a parser says of a file, with the class of the error."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def recognise_file(location: str, head: bytes) -> Format:
    """Return the format of a file; raise InvalidInputError if it is unknown or the file is empty."""
    if not head:
        raise InvalidInputError(f"{location} is empty")
    for each in FORMATS:
        if each.recognises(head):
            return each
    return _recognise_ending(location, f"it starts with {head[:8]!r}")


def recognise_folder(location: str, metadata: Mapping[str, Any] | None) -> Format:
    """Return the format of a folder, by its `.zmetadata` if there is one.

    Kerchunk references in Parquet store the number of references per file there.
    """
    if metadata is not None and "record_size" in metadata:
        return KERCHUNK_PARQUET
    if metadata is not None:
        return ZARR
    return _recognise_ending(location, "it is a folder without metadata of Zarr")


def _recognise_ending(location: str, found: str) -> Format:
    path = location.rstrip("/").lower()
    for each in FORMATS:
        if path.endswith(each.endings):
            return each
    raise InvalidInputError(
        f"{location} has an unknown format: {found}, and so is its ending; "
        f"known are {_names()}, one of which can be named with format="
    )


def _names() -> str:
    return ", ".join(f"{each.name} ({' '.join(each.endings)})" for each in FORMATS)


@contextmanager
def without_codec_warnings() -> Iterator[None]:
    """Suppress Zarr's warnings about codecs and data types outside its specification.

    HDF5 filters and strings are such, and users who open a file can't change that.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(zarr|numcodecs|virtualizarr)\b.*")
        yield


# Coordinates of dimensions are needed for planning, up to this size.
_LARGEST_INDEX_BYTES = 64 << 20
# Estimated size of a value of variable length.
_GUESSED_ITEM_BYTES = 16


def is_loaded(header: ArrayHeader, loading: Loading) -> bool:
    """Return whether the values of an array are read with its header."""
    if header.obstacle is not None:
        return False
    size = _count_bytes(header)
    return (
        header.name in loading.names
        or size <= loading.small_bytes
        or (header.is_index and size <= _LARGEST_INDEX_BYTES)
    )


def find_unread_bounds(headers: Mapping[str, ArrayHeader]) -> list[str]:
    """Return the bounds of times whose values are not loaded yet.

    They are needed with the header, because times with different reference dates are converted.
    """
    return [
        name
        for name in find_bounds(headers)
        if (header := headers[name]).values is None
        and header.obstacle is None
        and _count_bytes(header) <= _LARGEST_INDEX_BYTES
    ]


def load_values(store: Any, name: str) -> NDArray[Any]:
    """Return all values of an array in a Zarr store, as stored."""
    with without_codec_warnings():
        array = zarr.open_array(store, path=name, mode="r", zarr_format=3)
        return np.asarray(array[...])


def _count_bytes(header: ArrayHeader) -> int:
    return prod(header.shape) * _item_bytes(header.metadata["data_type"])


def _item_bytes(data_type: Any) -> int:
    match data_type:
        case str():
            try:
                return np.dtype(data_type).itemsize
            except TypeError:
                return _GUESSED_ITEM_BYTES
        case {"configuration": {"length_bytes": int(length)}}:
            return length
    return _GUESSED_ITEM_BYTES


Credentials = Mapping[str, AnyCredential | None]
"""Credentials by URL prefix, as repositories accept them."""

# Default store configuration by scheme, for locations without a container.
_PLAIN_CONFIGS: Mapping[str, AnyObjectStoreConfig] = {
    "s3": ObjectStoreConfig.S3(S3Options()),
    "gs": ObjectStoreConfig.Gcs({}),
    "gcs": ObjectStoreConfig.Gcs({}),
    "http": ObjectStoreConfig.Http({}),
    "https": ObjectStoreConfig.Http({}),
}


class SourceStores:
    """Stores by URL, opened on first use; VirtualiZarr accepts it as a registry."""

    def __init__(
        self,
        containers: Iterable[VirtualChunkContainer] = (),
        credentials: Credentials | None = None,
    ) -> None:
        self._containers = index_containers({each.url_prefix: each for each in containers})
        self._credentials = dict(credentials or {})
        self._opened: dict[tuple[str, str, str], Callable[[], ObjectStore]] = {}
        self._connections: dict[tuple[str, str, str], Connection] = {}

    def resolve(self, url: str) -> tuple[ObjectStore, str]:
        """Return the store of a URL, and the key in it."""
        address = _split(url)
        prefix, config = self._find_config(url, address)
        name = (prefix, address.scheme, address.host)
        if name not in self._opened:
            self._opened[name] = keep_open(
                self._credentials.get(prefix), lambda own: self._open(name, config, address, own)
            )
        return self._opened[name](), address.key

    def find_secrets(self) -> tuple[str, ...]:
        """Return the secrets of all connections, to be kept out of messages."""
        return tuple(s for each in self._connections.values() for s in each.find_secrets())

    def _find_config(self, url: str, address: Address) -> tuple[str, AnyObjectStoreConfig]:
        escaped = escape_url(url)
        if self._containers.has_container(escaped):
            container = self._containers.find_container(escaped)
            return container.url_prefix, container.store
        if address.scheme == "file":
            return "file://", ObjectStoreConfig.LocalFileSystem("/")
        if address.scheme not in _PLAIN_CONFIGS:
            raise InvalidInputError(
                f"there is no container for {url}: give one with containers=",
                kind="no-container-for-virtual-chunk",
            )
        return self._find_prefix(escaped), _PLAIN_CONFIGS[address.scheme]

    def _find_prefix(self, url: str) -> str:
        fitting = [prefix for prefix in self._credentials if url.startswith(prefix)]
        return max(fitting, key=len, default="")

    def _open(
        self,
        name: tuple[str, str, str],
        config: AnyObjectStoreConfig,
        address: Address,
        credential: AnyCredential | None,
    ) -> ObjectStore:
        if isinstance(config, ObjectStoreConfig.LocalFileSystem):
            return LocalStore()
        if isinstance(config, ObjectStoreConfig.Http):
            base_url = f"{address.scheme}://{address.host}"
            connection = connect_server(config, base_url, credential)
        else:
            bucket = address.host.partition("@")[0]
            connection = connect_bucket(config, bucket, credential)
        self._connections[name] = connection
        plan = plan_client(
            resolve_settings(StorageSettings()),
            Purpose.READ,
            SIZE_CLASSES[0],
            connection.headers,
            connection.silence_seconds,
            "",
        )
        return connection.open(plan)


def key_url(location: str) -> str:
    """Return the URL of a location with its key unescaped, as VirtualiZarr expects it."""
    address = parse_address(normalize_location(location))
    return f"{address.scheme}://{address.host}/{address.key}"


def escape_url(url: str) -> str:
    """Return the location of a URL with an unescaped key."""
    address = _split(url)
    if address.scheme == "file":
        return normalize_location("file:///" + quote(address.key, errors="surrogateescape"))
    return f"{address.scheme}://{address.host}/{quote(address.key, safe=_KEPT)}"


# Locations in object stores keep their characters, except those that end a path.
_KEPT = "/:@!$&'()*+,;=|^[]~{}`\\\"<> "


def _split(url: str) -> Address:
    scheme, _, rest = url.partition("://")
    host, _, key = rest.partition("/")
    return Address(scheme, host, key)


_CONCURRENT_REQUESTS = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Metadata files that identify a folder as a Zarr hierarchy.
_FOLDER_METADATA = (".zmetadata", "zarr.json", ".zgroup", ".zarray")


@contextmanager
def reading(stores: SourceStores, url: str) -> Iterator[None]:
    """Convert failures of a store in the block to errors that name the file."""
    try:
        yield
        return
    except (BaseError, OSError) as error:
        failed = diagnose(error, stores.find_secrets()).to_error("read", url)
    # Not chained to its cause, whose message may contain a signed URL.
    raise failed


THROTTLED_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Waits for a host that refuses more requests: those of a client last a second or two together."""
T = TypeVar("T")


def patiently(read: Callable[[], T]) -> T:
    """Return what a function reads, and call it again if a host refuses more requests for a while."""
    for seconds in THROTTLED_SECONDS:
        try:
            return read()
        except ThrottledError:
            # Not all at once: whoever else was refused waits as well.
            time.sleep(random.uniform(seconds / 2, seconds))
    return read()


def observe(stores: SourceStores, url: str) -> FileVersion:
    """Return the version of a file; raise ObjectNotFoundError if it does not exist."""
    store, key = stores.resolve(url)
    with reading(stores, url):
        if isinstance(store, LocalStore):
            return _observe_local(Path("/", key))
        found = obstore.head(store, key)
    modified_at = found["last_modified"].astimezone(UTC)
    # obstore invents ETags for local files, which other readers don't know.
    e_tag = None if url.startswith("file:") else found["e_tag"]
    return FileVersion(e_tag, modified_at, found["size"])


def _observe_local(path: Path) -> FileVersion:
    """Return the version as obstore would, without its threads, which cost more than the call."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise FileNotFoundError(f"{path} is not a file")
    modified_at = _EPOCH + timedelta(microseconds=found.st_mtime_ns // 1000)
    return FileVersion(None, modified_at, found.st_size)


def observe_all(stores: SourceStores, urls: Iterable[str]) -> dict[str, FileVersion]:
    """Return the versions of many files, requested concurrently."""
    wanted = list(urls)
    with ThreadPoolExecutor(_CONCURRENT_REQUESTS) as pool:
        return dict(zip(wanted, pool.map(lambda url: observe(stores, url), wanted), strict=True))


def observe_below(stores: SourceStores, url: str) -> dict[str, FileVersion]:
    """Return the versions of all files in a folder, by URL."""
    store, key = stores.resolve(url)
    base = url[: len(url) - len(key)]
    found: dict[str, FileVersion] = {}
    with reading(stores, url):
        for batch in obstore.list(store, prefix=key):
            for each in batch:
                e_tag = None if url.startswith("file:") else each["e_tag"]
                moment = each["last_modified"].astimezone(UTC)
                found[base + each["path"]] = FileVersion(e_tag, moment, each["size"])
    return found


def read_head(stores: SourceStores, url: str, size_bytes: int) -> bytes:
    """Return the first bytes of a file; more of a remote file, for the reader to continue with."""
    if size_bytes == 0:
        return b""
    store, key = stores.resolve(url)
    with reading(stores, url):
        if isinstance(store, LocalStore):
            with Path("/", key).open("rb", buffering=0) as file:
                return file.read(HEAD_BYTES)
        end = min(FAR_HEAD_BYTES, size_bytes)
        return bytes(obstore.get_range(store, key, start=0, end=end))


def read_folder_metadata(stores: SourceStores, url: str) -> Mapping[str, Any] | None:
    """Return the metadata at the top of a folder, or None."""
    for name in _FOLDER_METADATA:
        store, key = stores.resolve(f"{url.rstrip('/')}/{name}")
        try:
            with reading(stores, url):
                data = bytes(obstore.get(store, key).bytes())
        except ObjectNotFoundError:
            continue
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        # Invalid metadata still marks a hierarchy; its reader reports the error.
        return found if isinstance(found, dict) else {}
    return None


def observe_folder(stores: SourceStores, url: str) -> FileVersion:
    """Return the version of a folder: the last modification and total size of its files."""
    inside = observe_below(stores, url).values()
    if not inside:
        raise ObjectNotFoundError(f"object not found: there is no file at {url}")
    last = max(inside, key=lambda each: each.modified_at)
    return replace(last, e_tag=None, size_bytes=sum(each.size_bytes for each in inside))


def observe_any(stores: SourceStores, url: str) -> FileVersion:
    """Return the version of a file or of a folder; raise ObjectNotFoundError if there is neither."""
    try:
        return observe(stores, url)
    except ObjectNotFoundError:
        return observe_folder(stores, url)


UNCERTAIN = timedelta(seconds=2)
"""Time after a modification in which another one may get the same time: clocks of stores are coarse."""
_AHEAD = timedelta(minutes=1)
_MOST_DIGESTED = 64 << 20
_MOST_COMPARED = 16 << 20
DIGEST = "blake2b:"
"""Start of a digest, to tell it from an ETag."""


def find_uncertain(stores: SourceStores, location: str, version: FileVersion | None) -> str | None:
    """Return a digest of a file that was modified so lately that its version doesn't identify it.

    The rule is that of Git's index: if a file could be modified again without another time, its content
    is compared. A large file is waited for instead. `version` is that of the file, if it is known.

    Parameters
    ----------
    stores
        Stores that the location is resolved in.
    location
        Location of the file or Zarr hierarchy.
    version
        Version of the file, or None where asking for it costs no request.
    """
    url = key_url(location)
    if version is None:
        if not url.startswith("file:"):
            return None
        try:
            version = observe(stores, url)
        except ObjectNotFoundError:
            return None
    # ETags of web servers are made of times, and those of buckets of the content.
    is_identified = version.e_tag is not None and not url.startswith("http")
    age = datetime.now(UTC) - version.modified_at
    if is_identified or not -_AHEAD < age < UNCERTAIN:
        return None
    if version.size_bytes > _MOST_DIGESTED:
        time.sleep(max(UNCERTAIN - age, timedelta()).total_seconds() if age > -UNCERTAIN else 0.0)
        return None
    return digest(stores, url)


def digest(stores: SourceStores, url: str) -> str:
    """Return a digest of the content of a file, or of all files in a folder."""
    found = blake2b(digest_size=16)
    try:
        observe(stores, url)
        urls = [url]
    except ObjectNotFoundError:
        urls = sorted(observe_below(stores, url))
    for each in urls:
        found.update(f"{each.removeprefix(url)}\0".encode())
        store, key = stores.resolve(each)
        with reading(stores, each):
            for part in obstore.get(store, key).stream():
                found.update(part)
    return DIGEST + found.hexdigest()


def have_equal_content(stores: SourceStores, one: str, other: str) -> bool:
    """Return whether two files or folders are equal; a difference near their start is found soon."""
    mine, theirs = (_list_sizes(stores, url) for url in (one, other))
    return mine == theirs and all(
        _are_equal_files(stores, one + name, other + name, size) for name, size in mine.items()
    )


def _list_sizes(stores: SourceStores, url: str) -> dict[str, int]:
    """Return the sizes of a file, or of all files in a folder by their paths in it."""
    try:
        return {"": observe(stores, url).size_bytes}
    except ObjectNotFoundError:
        inside = observe_below(stores, url)
        return {path.removeprefix(url): inside[path].size_bytes for path in sorted(inside)}


def _are_equal_files(stores: SourceStores, one: str, other: str, size: int) -> bool:
    start, length = 0, HEAD_BYTES
    while start < size:
        length = min(2 * length, _MOST_COMPARED, size - start)
        parts = []
        for url in (one, other):
            store, key = stores.resolve(url)
            with reading(stores, url):
                parts.append(bytes(obstore.get_range(store, key, start=start, length=length)))
        if parts[0] != parts[1]:
            return False
        start += length
    return True


def refuse_change(url: str, before: FileVersion, after: FileVersion) -> None:
    """Raise StorageError if a file changed while it was read."""
    if before != after:
        raise StorageError(
            f"{url} was changed while it was read: it was of {_show(before.modified_at)}, "
            f"{before.size_bytes} bytes, and is of {_show(after.modified_at)}, "
            f"{after.size_bytes} bytes"
        )


def _show(moment: datetime) -> str:
    return moment.isoformat()


class RefusedError(Exception):
    """Dataset that Zarr can't represent; the message gives the reason."""


class NotReadable(Exception):  # noqa: N818 - no mistake of anybody, but work for another reader
    """Feature that this reader does not support."""
