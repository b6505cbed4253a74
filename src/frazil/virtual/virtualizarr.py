"""Read source formats with VirtualiZarr's parsers."""

import importlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from obspec_utils.readers import BlockStoreReader
from obstore.exceptions import BaseError
from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
from virtualizarr.manifests.manifest import INLINED_CHUNK_PATH
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from frazil.errors import IcechunkError, InvalidInputError
from frazil.virtual.hdf5 import is_dimension_only, name_phony_dims
from frazil.virtual.source import ArrayHeader, ReferenceColumns, no_references
from frazil.virtual.source_formats import (
    HDF5,
    INTERRUPTIONS,
    TIFF,
    Format,
    FoundGroup,
    Loading,
    SourceStores,
    escape_url,
    find_unread_bounds,
    is_loaded,
    load_values,
    without_codec_warnings,
)

_ENCODING_OF_KEYS = {"name": "default", "configuration": {"separator": "/"}}


def metadata_of(array: ManifestArray) -> dict[str, Any]:
    """Return the `zarr.json` of an array, with Icechunk's chunk key encoding."""
    encoded = array.metadata.to_buffer_dict(default_buffer_prototype())["zarr.json"]
    found: dict[str, Any] = json.loads(encoded.to_bytes())
    return {**found, "chunk_key_encoding": _ENCODING_OF_KEYS}


def columns_of(
    manifest: ChunkManifest, axes: int, spell: Callable[[str], str] = str
) -> ReferenceColumns:
    """Return the references of a manifest; `spell` is called once per distinct location."""
    grid = manifest._paths.shape if axes else ()
    paths = manifest._paths.reshape(-1)
    rows = np.flatnonzero((paths != "") & (paths != INLINED_CHUNK_PATH))
    texts, codes = _encode_texts(paths[rows])
    inlined = manifest._inlined
    return ReferenceColumns(
        coordinates=_unravel(rows, grid),
        location_codes=codes,
        locations=tuple(map(spell, texts)),
        offsets=manifest._offsets.reshape(-1)[rows],
        lengths=manifest._lengths.reshape(-1)[rows],
        inline_coordinates=np.array(list(inlined), np.int64).reshape(len(inlined), axes),
        inline_chunks=tuple(map(bytes, inlined.values())),
    )


def manifest_of(columns: ReferenceColumns, grid: Sequence[int]) -> ChunkManifest:
    """Convert columns to a manifest over the whole chunk grid."""
    cells = int(np.prod(grid, dtype=np.int64))
    paths = np.full(cells, "", np.dtypes.StringDType())
    offsets, lengths = np.zeros(cells, np.uint64), np.zeros(cells, np.uint64)
    rows = _ravel(columns.coordinates, grid)
    if len(rows):
        texts = np.array(columns.locations, np.dtypes.StringDType())
        paths[rows] = texts[columns.location_codes]
        offsets[rows], lengths[rows] = columns.offsets, columns.lengths
    inline_rows = _ravel(columns.inline_coordinates, grid)
    paths[inline_rows] = INLINED_CHUNK_PATH
    lengths[inline_rows] = [len(each) for each in columns.inline_chunks]
    places = map(tuple, columns.inline_coordinates.tolist())
    shape = tuple(grid)
    return ChunkManifest.from_arrays(
        paths=paths.reshape(shape),
        offsets=offsets.reshape(shape),
        lengths=lengths.reshape(shape),
        validate_paths=False,
        inlined=dict(zip(places, columns.inline_chunks, strict=True)),
    )


def _encode_texts(texts: Any) -> tuple[list[str], Any]:
    if not len(texts):
        return [], np.empty(0, np.int32)
    if np.all(texts == texts[0]):  # the common case: all chunks are in one file
        return [str(texts[0])], np.zeros(len(texts), np.int32)
    distinct, codes = np.unique(texts, return_inverse=True)
    return [str(each) for each in distinct], codes.astype(np.int32)


def _unravel(rows: Any, grid: Sequence[int]) -> Any:
    if not grid:
        return np.empty((len(rows), 0), np.int64)
    return np.stack(np.unravel_index(rows, tuple(grid)), axis=1).astype(np.int64)


def _ravel(coordinates: Any, grid: Sequence[int]) -> Any:
    if not len(grid):
        return np.zeros(len(coordinates), np.int64)
    return np.ravel_multi_index(tuple(coordinates.T), tuple(grid))


def chunk_grid(metadata: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the number of chunks along each axis."""
    chunk_shape = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    return tuple(
        -(-extent // step) for extent, step in zip(metadata["shape"], chunk_shape, strict=True)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Facts about a dataset that the parser does not report."""

    shape: tuple[int, ...]
    obstacle: str | None = None
    compact_values: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Members of a group."""

    datasets: Mapping[str, Dataset]
    groups: tuple[str, ...]
    dims: tuple[str, ...]
    """Datasets that only represent a dimension."""


def inspect_group(stores: SourceStores, url: str, group: str) -> Members:
    """Return the members of a group; raise InvalidInputError if there is no such group."""
    store, key = stores.resolve(url)
    with h5py.File(BlockStoreReader(store, key), "r") as file:
        found = file.get(group or "/")
        if not isinstance(found, h5py.Group):
            raise InvalidInputError(f"{url} has no group {group!r}")
        members = {name: found.get(name) for name in found}
        datasets = {name: each for name, each in members.items() if isinstance(each, h5py.Dataset)}
        dims = tuple(name for name, each in datasets.items() if is_dimension_only(each.id))
        return Members(
            {name: _inspect(each) for name, each in datasets.items() if name not in dims},
            tuple(name for name, each in members.items() if isinstance(each, h5py.Group)),
            dims,
        )


def _inspect(dataset: Any) -> Dataset:
    shape = tuple(dataset.shape or ())
    properties = dataset.id.get_create_plist()
    if properties.get_layout() == h5py.h5d.COMPACT and dataset.dtype.kind != "O":
        return Dataset(shape, compact_values=np.asarray(dataset[()]))
    return Dataset(shape, _find_obstacle(dataset, properties))


def _find_obstacle(dataset: Any, properties: Any) -> str | None:
    if dataset.shape is None:
        return "it is an HDF5 dataset without a shape"
    if properties.get_layout() == h5py.h5d.VIRTUAL:
        return "it is a virtual dataset of HDF5, whose values are in other files"
    if properties.get_external_count():
        return "its values are in external files of HDF5"
    if dataset.chunks is not None and properties.get_nfilters() and _skips_filters(dataset):
        return "some of its chunks were stored without the filters of the others"
    return None


def _skips_filters(dataset: Any) -> bool:
    return dataset.id.chunk_iter(lambda chunk: True if chunk.filter_mask else None) is not None


# Exceptions of parsers for features that Zarr can't represent.
_REFUSALS = (ValueError, TypeError, KeyError, NotImplementedError)


@dataclass(frozen=True, slots=True, eq=False)
class ParsedGroup:
    """Result of a parser, and the arrays it could not parse."""

    store: ManifestStore
    groups: tuple[str, ...]
    obstacles: Mapping[str, str] = field(default_factory=dict)
    """Reason why the bytes of an array can't be referenced, by name."""
    compact: Mapping[str, Any] = field(default_factory=dict)
    """Values stored in the file header."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Shapes of the arrays that the parser refused."""


def parse_group(stores: SourceStores, url: str, format: Format, group: str) -> ParsedGroup:
    """Parse the arrays of a group; raise InvalidInputError if the file or group can't be parsed."""
    try:
        module, _, name = format.parser.partition(":")
        make_parser = getattr(importlib.import_module(module), name)
        if format == HDF5:
            return _parse_hdf5(make_parser, stores, url, group)
        if format == TIFF and not group:
            return ParsedGroup(_parse_tiff(make_parser, stores, url), ())
        if format.name == "fits" and not group:
            return _parse_fits(make_parser, stores, url)
        store = make_parser(**({"group": group} if group else {}))(url, stores)
    except ImportError as error:
        raise InvalidInputError(
            f"files of the format {format.name} are parsed by {format.parser}, which can't be "
            f"imported ({str(error).partition(chr(10))[0]}): pip install {format.install}"
        ) from error
    except (IcechunkError, BaseError, *INTERRUPTIONS):
        raise  # not caused by the file
    except BaseException as error:
        # Parsers are third-party code and may raise anything for a file they don't support:
        # panics of a foreign runtime don't derive from Exception.
        raise InvalidInputError(
            f"{url} can't be parsed as {format.name}: {type(error).__name__}: {error}"
        ) from error
    return ParsedGroup(store, tuple(store._group.groups))


def _parse_fits(make_parser: Any, stores: SourceStores, url: str) -> ParsedGroup:
    """Parse the plain images of a FITS file; the parser takes compressed ones for plain ones."""
    fits = importlib.import_module("astropy.io.fits")
    names_of = importlib.import_module("virtualizarr.parsers.fits")._hdu_names
    store, key = stores.resolve(url)
    obstacles: dict[str, str] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    with fits.open(BlockStoreReader(store, key), do_not_scale_image_data=True) as units:
        for name, unit in zip(names_of(units), units, strict=True):
            obstacle = None
            if isinstance(unit, fits.CompImageHDU):
                obstacle = f"it is an image compressed with {unit.compression_type}"
            elif isinstance(unit, fits.BinTableHDU):
                obstacle = "it is a binary table"
            elif not unit.is_image and not isinstance(unit, fits.TableHDU):
                obstacle = f"it is neither image nor table, but {type(unit).__name__}"
            if obstacle is not None and unit.header.get("NAXIS", 0):
                count = unit.header["NAXIS"]
                shapes[name] = tuple(unit.header[f"NAXIS{axis}"] for axis in range(count, 0, -1))
                obstacles[name] = f"{obstacle}, which no codec of Zarr reads"
    parsed = make_parser(skip_variables=list(obstacles))(url, stores)
    return ParsedGroup(parsed, (), obstacles, shapes=shapes)


class EvenStrips:
    """Image of a TIFF whose last strip is shorter, with its strips cut into some of equal height."""

    def __init__(self, image: Any) -> None:
        height, rows = image.image_height, min(image.rows_per_strip, image.image_height)
        if image.compression != 1:
            raise ValueError(
                f"its strips of {rows} rows are compressed, and don't divide its height of {height}: "
                "rewrite it in tiles, as gdal_translate does with -co TILED=YES"
            )
        self._image = image
        self.rows_per_strip = gcd(rows, height)
        self.strip_offsets: list[int] = []
        self.strip_byte_counts: list[int] = []
        heights = [min(rows, height - at) for at in range(0, height, rows)]
        heights *= len(image.strip_offsets) // len(heights)
        strips = zip(image.strip_offsets, image.strip_byte_counts, heights, strict=True)
        for offset, size, count in strips:
            if size * heights[0] != image.strip_byte_counts[0] * count:
                raise ValueError(f"a strip of {count} rows has {size} bytes, unlike the first one")
            step = size // count * self.rows_per_strip
            self.strip_offsets += range(offset, offset + size, step)
            self.strip_byte_counts += [step] * (count // self.rows_per_strip)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._image, name)


def _parse_tiff(make_parser: Any, stores: SourceStores, url: str) -> ManifestStore:
    try:
        parsed: ManifestStore = make_parser()(url, stores)
    except ValueError as error:
        if "rows per strip" not in str(error):
            raise
        parser = importlib.import_module("virtual_tiff.parser")
        store, key = stores.resolve(url)
        tiff = sync(parser._open_tiff(store=store, path=key))
        endian = parser._ENDIANNESS_TO_STR[tiff.endianness]
        arrays = {
            str(number): parser._construct_manifest_array(
                ifd=image if image.tile_height else EvenStrips(image), url=url, endian=endian
            )
            for number, image in enumerate(tiff.ifds)
        }
        group = ManifestGroup(arrays=arrays, attributes={})
        parsed = ManifestStore(group=group, registry=stores)  # type: ignore[arg-type]
    return parsed


def _parse_hdf5(make_parser: Any, stores: SourceStores, url: str, group: str) -> ParsedGroup:
    members = inspect_group(stores, url, group)

    def parse(without: Iterable[str]) -> ManifestStore:
        dropped = [*members.groups, *members.dims, *without]
        parsed: ManifestStore = make_parser(group=group or None, drop_variables=dropped)(
            url, stores
        )
        return parsed

    refused: dict[str, str] = {}
    try:
        store = parse(())
    except _REFUSALS:
        # The error does not name the dataset, so each is tried alone.
        for name in members.datasets:
            try:
                parse(members.datasets.keys() - {name})
            except _REFUSALS as error:
                known = members.datasets[name].obstacle
                refused[name] = known or f"VirtualiZarr can't represent it: {error}"
        store = parse(refused)
    parsed = {name: each for name, each in members.datasets.items() if name not in refused}
    return ParsedGroup(
        store,
        members.groups,
        refused | {name: each.obstacle for name, each in parsed.items() if each.obstacle},
        {n: each.compact_values for n, each in parsed.items() if each.compact_values is not None},
        {name: members.datasets[name].shape for name in refused},
    )


def read_group(
    stores: SourceStores, url: str, size_bytes: int, format: Format, group: str, loading: Loading
) -> FoundGroup:
    """Read one group of a source; raise InvalidInputError if the file can't be parsed."""
    if any(sign in url for sign in "?#"):
        raise InvalidInputError(
            f"{escape_url(url)} can't be parsed: VirtualiZarr takes no '?' and no '#' in the name of a "
            "file",
            kind="invalid-virtual-ref",
        )
    sizes = {} if format.is_folder else {escape_url(url): size_bytes}
    with without_codec_warnings():
        return _describe(parse_group(stores, url, format, group), loading, sizes)


def _describe(parsed: ParsedGroup, loading: Loading, sizes: Mapping[str, int]) -> FoundGroup:
    headers: dict[str, ArrayHeader] = {}
    references: dict[str, ReferenceColumns] = {}
    arrays = parsed.store._group.arrays
    metadatas = name_phony_dims({name: metadata_of(array) for name, array in arrays.items()})
    for name, array in arrays.items():
        header = ArrayHeader(name, metadatas[name], None, parsed.obstacles.get(name))
        columns = columns_of(array.manifest, len(header.shape), escape_url)
        columns.refuse_truncated(name, sizes)
        if name in parsed.compact:
            columns = _inline_whole(columns, parsed.compact[name])
            header = replace(header, values=parsed.compact[name])
        elif is_loaded(header, loading):
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
    """Return the columns of an array that is one inline chunk without filters."""
    return replace(
        columns,
        inline_coordinates=np.zeros((1, columns.axes), np.int64),
        inline_chunks=(np.ascontiguousarray(values).tobytes(),),
    )
