"""Open source files: recognise the format, parse it, load what is small."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from os import PathLike
from pathlib import Path

from frazil.display import list_known
from frazil.errors import InvalidInputError, ObjectNotFoundError
from frazil.virtual import source_formats
from frazil.virtual.containers import VirtualChunkContainer, normalize_location
from frazil.virtual.hdf5 import read_hdf5
from frazil.virtual.source import FileVersion, ReferenceColumns, Source, SourceHeader
from frazil.virtual.source_formats import (
    HDF5,
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

ForeignReader = Callable[[SourceStores, str, Format, str, Loading], FoundGroup]


def load_foreign_reader() -> ForeignReader:
    """What reads a group with them; raises InvalidInputError where they are not installed."""
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
"""Arrays up to this size are loaded with the header, unless the caller says otherwise."""


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
    """What is in one group of a source file, with the place of every chunk.

    `uri` is a path, or a URL as virtual chunks have it. The format is found out unless it is named.
    Coordinates of dimensions, arrays named in `load` and those of no more than `small_bytes` have
    their values read. Stores are reached as `containers` say, and without one by what the
    environment knows; `credentials` are by URL prefix, as a repository takes them.

    Raises InvalidInputError for a format that nobody knows or a file that can't be parsed, and
    StorageError where it can't be read or changes meanwhile.
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
    """`open` with stores that serve many files."""
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
    references = {name: _with_versions(each, versions) for name, each in found.references.items()}
    return Source(header, references)


def find_groups(stores: SourceStores, uri: str, group: str = "") -> list[str]:
    """Return the groups of a source that have arrays, below one that may have none itself.

    Only a few are looked into.
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
    """Raise InvalidInputError, which lists the groups there are, if a source has no such group."""
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
    """What is known of a source before it is read."""

    version: FileVersion
    format: Format
    head: bytes = b""


def _read(
    stores: SourceStores, url: str, start: _Start, group: str, loading: Loading
) -> FoundGroup:
    """One group of a source; what our own reader has not learnt is for VirtualiZarr's parsers."""
    if start.format == HDF5:
        with suppress(NotReadable):
            return read_hdf5(stores, url, start.version.size_bytes, start.head, group, loading)
    return load_foreign_reader()(stores, url, start.format, group, loading)


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
    """The versions of all files that references lead to, by location."""
    own = escape_url(url)
    wanted = {text for columns in references.values() for text in columns.locations} - {own}
    if start.format == ZARR:
        inside = source_formats.observe_below(stores, url)
        found = {escape_url(each): version for each, version in inside.items()}
        return {text: found[text] for text in wanted}
    others = source_formats.observe_all(stores, [key_url(text) for text in wanted])
    return {own: start.version, **{escape_url(each): seen for each, seen in others.items()}}


def _with_versions(
    columns: ReferenceColumns, versions: Mapping[str, FileVersion]
) -> ReferenceColumns:
    return replace(columns, versions=tuple(versions[each] for each in columns.locations))


__all__ = ["open"]
