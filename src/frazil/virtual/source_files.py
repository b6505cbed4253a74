"""Open source files: recognise the format, parse it, and load small arrays."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from importlib import import_module
from os import PathLike
from pathlib import Path

import obstore

from frazil.display import list_known
from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.virtual import source_formats
from frazil.virtual.containers import VirtualChunkContainer, normalize_location
from frazil.virtual.grib import read_grib
from frazil.virtual.hdf5 import read_hdf5
from frazil.virtual.new_dimensions import georeference
from frazil.virtual.source import FileVersion, ReferenceColumns, Source, SourceHeader
from frazil.virtual.source_formats import (
    GRIB,
    HDF5,
    TIFF,
    ZARR,
    Credentials,
    Format,
    FoundGroup,
    Loading,
    NotReadable,
    SourceStores,
    escape_url,
    get_format,
    key_url,
    recognise_file,
    recognise_folder,
)

ForeignReader = Callable[[SourceStores, str, int, Format, str, Loading], FoundGroup]


def load_foreign_reader() -> ForeignReader:
    """Return the reader of VirtualiZarr; raise InvalidInputError if it is not installed."""
    try:
        found: ForeignReader = import_module("frazil.virtual.virtualizarr").read_group
    except ImportError as error:
        raise InvalidInputError(
            f"this file is parsed by VirtualiZarr, which can't be imported ({error}): "
            "pip install 'frazil[virtual]' on Python 3.12 or newer"
        ) from error
    return found


_MOST_GROUPS = 50
SMALL_BYTES = 1024
"""Default maximum size of arrays that are loaded with the header."""


def open(
    uri: str | PathLike[str],
    *,
    group: str = "",
    format: str | None = None,
    load: Collection[str] = (),
    small_bytes: int = SMALL_BYTES,
    containers: Iterable[VirtualChunkContainer] = (),
    credentials: Credentials | None = None,
) -> Source:
    """Open one group of a source file, with references to all its chunks.

    Parameters
    ----------
    uri
        Path, or URL as in virtual references.
    group
        Group inside the file.
    format
        Name of the format; recognised by default.
    load
        Arrays whose values are read, in addition to the coordinates of dimensions.
    small_bytes
        Maximum size of arrays whose values are always read.
    containers
        Store configuration by URL prefix; stores without one are configured from the environment.
    credentials
        Credentials by URL prefix, as for a repository.

    Returns
    -------
    Source
        Header and references.

    Raises
    ------
    InvalidInputError
        If the format is unknown or the file can't be parsed.
    StorageError
        If the file can't be read, or changes while it is read.
    """
    return open_from(
        SourceStores(containers, credentials),
        uri,
        group=group,
        format=format,
        loading=Loading(frozenset(load), small_bytes),
    )


def open_from(
    stores: SourceStores,
    uri: str | PathLike[str],
    *,
    group: str = "",
    format: str | None = None,
    loading: Loading,
) -> Source:
    """Open a source as `open` does, with stores that are shared by many files."""
    location = normalize_location(_to_url(uri))
    url = key_url(location)
    start = _recognise(stores, url, format)
    inner = group.strip("/")
    with source_formats.reading(stores, url):
        try:
            found = _read(stores, url, start, inner, loading)
        except InvalidInputError:
            _refuse_missing_group(stores, url, start, inner)
            raise
    source_formats.refuse_change(url, start.version, _observe(stores, url, start.format))
    header = SourceHeader(
        location=location,
        format=start.format.name,
        group=inner,
        version=start.version,
        attributes=found.attributes,
        arrays=found.arrays,
        groups=found.groups,
    )
    versions = _observe_targets(stores, url, start, found.references)
    sizes = {each: version.size_bytes for each, version in versions.items()}
    for name, columns in found.references.items():
        columns.refuse_truncated(name, sizes)
    references = {
        name: replace(columns, versions=tuple(versions[each] for each in columns.locations))
        for name, columns in found.references.items()
    }
    return Source(header, references)


def find_groups(stores: SourceStores, uri: str, group: str = "") -> list[str]:
    """Return the groups of a source that have arrays, at and below a group.

    Only a limited number of groups is opened.
    """
    found: list[str] = []
    waiting = [group.strip("/")]
    for _ in range(_MOST_GROUPS):
        if not waiting:
            break
        path = waiting.pop(0)
        source = open_from(stores, uri, group=path, loading=Loading(frozenset(), 0))
        found += [path or "/"] if source.arrays else []
        waiting += [f"{path}/{each}".strip("/") for each in source.groups]
    return found


def _refuse_missing_group(stores: SourceStores, url: str, start: "_Start", group: str) -> None:
    """Raise InvalidInputError, which lists the existing groups, if a source has no such group."""
    path = ""
    for part in group.split("/") if group else ():
        try:
            found = _read(stores, url, start, path, Loading(frozenset(), 0))
        except InvalidInputError:
            return
        if part not in found.groups:
            where = f"group {path!r}" if path else "root group"
            raise InvalidInputError(
                f"{escape_url(url)} has no group {group!r}: its {where} has "
                f"{list_known(part, found.groups, 'groups')}",
                kind="node-not-found",
            )
        path = f"{path}/{part}".strip("/")


@dataclass(frozen=True, slots=True)
class _Start:
    """Version, format and first bytes of a source, known before it is parsed."""

    version: FileVersion
    format: Format
    head: bytes = b""


def _read(
    stores: SourceStores, url: str, start: _Start, group: str, loading: Loading
) -> FoundGroup:
    """Read one group of a source; features that our reader lacks are left to VirtualiZarr."""
    size_bytes = start.version.size_bytes
    if start.format == HDF5:
        with suppress(NotReadable):
            return read_hdf5(stores, url, size_bytes, start.head, group, loading)
    if start.format == GRIB:
        return read_grib(stores, url, size_bytes, start.head, group, loading)
    found = load_foreign_reader()(stores, url, size_bytes, start.format, group, loading)
    return georeference(found) if start.format == TIFF else found


def _to_url(uri: str | PathLike[str]) -> str:
    text = str(uri)
    return text if "://" in text or text.startswith("file:") else Path(text).absolute().as_uri()


def _recognise(stores: SourceStores, url: str, name: str | None) -> _Start:
    try:
        version = source_formats.observe(stores, url)
    except ObjectNotFoundError:
        version = source_formats.observe_folder(stores, url)
        metadata = source_formats.read_folder_metadata(stores, url)
        return _Start(version, get_format(name) if name else recognise_folder(url, metadata))
    head = source_formats.read_head(stores, url, version.size_bytes)
    return _Start(version, get_format(name) if name else recognise_file(url, head), head)


def _observe(stores: SourceStores, url: str, format: Format) -> FileVersion:
    if format.is_folder:
        return source_formats.observe_folder(stores, url)
    return source_formats.observe(stores, url)


def _observe_targets(
    stores: SourceStores,
    url: str,
    start: _Start,
    references: Mapping[str, ReferenceColumns],
) -> dict[str, FileVersion]:
    """Return the versions of all files that references point to, by location."""
    own = escape_url(url)
    wanted = {text for columns in references.values() for text in columns.locations} - {own}
    if start.format == ZARR:
        inside = source_formats.observe_below(stores, url)
        found = {escape_url(each): version for each, version in inside.items()}
        return {text: found[text] for text in wanted}
    others = source_formats.observe_all(stores, [key_url(text) for text in wanted])
    return {own: start.version, **{escape_url(each): seen for each, seen in others.items()}}


_SAMPLE_BYTES = 16 << 10


def add_digests(source: Source, dims: Collection[str], stores: SourceStores) -> Source:
    """Return a source with digests of large arrays that lack one of the dimensions.

    Such arrays are taken from one file, so others must not differ. Lengths of compressed chunks tell
    values apart, and otherwise a sample of the bytes does.
    """
    arrays = dict(source.arrays)
    for name, array in arrays.items():
        columns = source.references.get(name)
        is_small = array.values is not None and array.values.nbytes <= SMALL_BYTES
        if is_small or array.is_index or set(dims) <= {*array.dims}:
            continue
        if columns is None or not len(columns) or "codecs" not in array.metadata:
            continue
        found = blake2b(columns.coordinates.tobytes() + columns.lengths.tobytes(), digest_size=16)
        if len(array.metadata["codecs"]) == 1:
            row = len(columns) // 2
            length = int(columns.lengths[row])
            start = int(columns.offsets[row]) + max(0, length - _SAMPLE_BYTES) // 2
            url = key_url(columns.locations[int(columns.location_codes[row])])
            store, key = stores.resolve(url)
            with source_formats.reading(stores, url):
                length = min(length, _SAMPLE_BYTES)
                found.update(bytes(obstore.get_range(store, key, start=start, length=length)))
        arrays[name] = replace(array, digest=found.hexdigest())
    return replace(source, header=replace(source.header, arrays=arrays))


__all__ = ["open"]
