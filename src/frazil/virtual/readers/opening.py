"""Opening a source file: recognise it, parse it, load what is small, note what it was."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from frazil.errors import ObjectNotFoundError
from frazil.virtual.containers import VirtualChunkContainer
from frazil.virtual.locations import normalize_location
from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.readers import observing
from frazil.virtual.readers.formats import (
    ZARR,
    Format,
    get_format,
    recognise_file,
    recognise_folder,
)
from frazil.virtual.readers.loading import choose_loaded, load_values
from frazil.virtual.readers.manifests import columns_of, metadata_of
from frazil.virtual.readers.parsing import ParsedGroup, parse_group
from frazil.virtual.readers.phony_dims import name_phony_dims
from frazil.virtual.readers.stores import Credentials, SourceStores, escape_url, key_url
from frazil.virtual.sources import ArrayHeader, FileVersion, ReferenceColumns, Source, SourceHeader
from frazil.virtual.sources.columns import no_references

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
    location = normalize_location(_to_url(uri))
    url = key_url(location)
    stores = SourceStores(containers, credentials)
    version, recognised = _recognise(stores, url, format)
    inner = group.strip("/")
    with observing.reading(stores, url), without_codec_warnings():
        parsed = parse_group(stores, url, recognised, inner)
        headers, references = _describe(parsed, load, small_bytes)
    observing.refuse_change(url, version, _observe(stores, url, recognised))
    header = SourceHeader(
        location=location,
        format=recognised.name,
        group=inner,
        version=version,
        attributes=dict(parsed.store._group.metadata.attributes),
        arrays=headers,
        groups=parsed.groups,
    )
    versions = _observe_targets(stores, url, version, recognised, references)
    return Source(header, {n: _with_versions(each, versions) for n, each in references.items()})


def _to_url(uri: str | PathLike[str]) -> str:
    text = str(uri)
    return text if "://" in text or text.startswith("file:") else Path(text).absolute().as_uri()


def _recognise(stores: SourceStores, url: str, name: str | None) -> tuple[FileVersion, Format]:
    try:
        version = observing.observe(stores, url)
    except ObjectNotFoundError:
        version = observing.observe_folder(stores, url)
        metadata = observing.read_folder_metadata(stores, url)
        return version, get_format(name) if name else recognise_folder(url, metadata)
    if name:
        return version, get_format(name)
    return version, recognise_file(url, observing.read_head(stores, url, version.size_bytes))


def _observe(stores: SourceStores, url: str, format: Format) -> FileVersion:
    if format.is_folder:
        return observing.observe_folder(stores, url)
    return observing.observe(stores, url)


def _describe(
    parsed: ParsedGroup, load: Collection[str], small_bytes: int
) -> tuple[dict[str, ArrayHeader], dict[str, ReferenceColumns]]:
    headers: dict[str, ArrayHeader] = {}
    references: dict[str, ReferenceColumns] = {}
    arrays = parsed.store._group.arrays
    metadatas = name_phony_dims({name: metadata_of(array) for name, array in arrays.items()})
    for name, array in arrays.items():
        header = ArrayHeader(name, metadatas[name], None, parsed.obstacles.get(name))
        columns = columns_of(array.manifest, len(header.shape), escape_url)
        if name in parsed.compact:
            columns = _inline_whole(columns, parsed.compact[name])
            header = replace(header, values=parsed.compact[name])
        elif choose_loaded(header, load, small_bytes):
            header = replace(header, values=load_values(parsed.store, name))
        headers[name], references[name] = header, columns
    for name, shape in parsed.shapes.items():
        headers[name] = ArrayHeader(name, {"shape": shape}, None, parsed.obstacles[name])
        references[name] = no_references(len(shape))
    return headers, references


def _inline_whole(columns: ReferenceColumns, values: Any) -> ReferenceColumns:
    """Columns of an array that is one chunk, without filters, and here."""
    return replace(
        columns,
        inline_coordinates=np.zeros((1, columns.axes), np.int64),
        inline_chunks=(np.ascontiguousarray(values).tobytes(),),
    )


def _observe_targets(
    stores: SourceStores,
    url: str,
    version: FileVersion,
    format: Format,
    references: Mapping[str, ReferenceColumns],
) -> dict[str, FileVersion]:
    """The versions of all files that references lead to, by location."""
    own = escape_url(url)
    wanted = {text for columns in references.values() for text in columns.locations} - {own}
    if format == ZARR:
        inside = observing.observe_below(stores, url)
        found = {escape_url(each): version for each, version in inside.items()}
        return {text: found[text] for text in wanted}
    others = observing.observe_all(stores, [key_url(text) for text in wanted])
    return {own: version, **{escape_url(each): seen for each, seen in others.items()}}


def _with_versions(
    columns: ReferenceColumns, versions: Mapping[str, FileVersion]
) -> ReferenceColumns:
    return replace(columns, versions=tuple(versions[each] for each in columns.locations))
