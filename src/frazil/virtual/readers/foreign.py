"""A group as VirtualiZarr's parsers find it, for formats and files that Frazil has no reader for."""

from dataclasses import replace
from typing import Any

import numpy as np

from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.readers.formats import Format
from frazil.virtual.readers.found import FoundGroup, Loading
from frazil.virtual.readers.loading import choose_loaded, find_unread_bounds, load_values
from frazil.virtual.readers.manifests import columns_of, metadata_of
from frazil.virtual.readers.parsing import ParsedGroup, parse_group
from frazil.virtual.readers.phony_dims import name_phony_dims
from frazil.virtual.readers.stores import SourceStores, escape_url
from frazil.virtual.sources import ArrayHeader, ReferenceColumns
from frazil.virtual.sources.columns import no_references


def read_group(
    stores: SourceStores, url: str, format: Format, group: str, loading: Loading
) -> FoundGroup:
    """One group of a source; raises InvalidInputError where the file can't be parsed."""
    with without_codec_warnings():
        return _describe(parse_group(stores, url, format, group), loading)


def _describe(parsed: ParsedGroup, loading: Loading) -> FoundGroup:
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
        elif choose_loaded(header, loading):
            header = replace(header, values=load_values(parsed.store, name))
        headers[name], references[name] = header, columns
    for name in find_unread_bounds(headers):
        headers[name] = replace(headers[name], values=load_values(parsed.store, name))
    for name, shape in parsed.shapes.items():
        headers[name] = ArrayHeader(name, {"shape": shape}, None, parsed.obstacles[name])
        references[name] = no_references(len(shape))
    attributes = dict(parsed.store._group.metadata.attributes)
    return FoundGroup(attributes, headers, references, parsed.groups)


def _inline_whole(columns: ReferenceColumns, values: Any) -> ReferenceColumns:
    """Columns of an array that is one chunk, without filters, and here."""
    return replace(
        columns,
        inline_coordinates=np.zeros((1, columns.axes), np.int64),
        inline_chunks=(np.ascontiguousarray(values).tobytes(),),
    )
