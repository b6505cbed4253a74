"""VirtualiZarr: read source formats with its parsers; write and read its virtual datasets."""

import importlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, Protocol

import h5py
import numpy as np
import obstore
import xarray as xr
import zarr
from numpy.typing import NDArray
from obspec_utils.readers import BlockStoreReader
from obstore.exceptions import BaseError
from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
from virtualizarr.manifests.manifest import INLINED_CHUNK_PATH
from xarray.backends.zarr import encode_zarr_attr_value
from zarr.core.buffer import default_buffer_prototype
from zarr.core.metadata import ArrayV3Metadata
from zarr.core.sync import sync
from zarr.storage import MemoryStore, ObjectStore

from frazil.errors import IcechunkError, InvalidInputError
from frazil.format.manifest import ChunkKind
from frazil.virtual.combine_axes import compare, compare_meaning, compare_storage
from frazil.virtual.combine_plan import (
    Problem,
    ProblemKind,
    Report,
    VirtualStore,
    as_zarr,
    create_array,
    create_group,
    join,
    set_references,
)
from frazil.virtual.containers import VirtualChunkContainer, normalize_location
from frazil.virtual.hdf5 import encode_fill_value, is_dimension_only
from frazil.virtual.source import (
    ArrayHeader,
    ReferenceColumns,
    name_phony_dims,
    no_references,
)
from frazil.virtual.source_formats import (
    HDF5,
    INTERRUPTIONS,
    TIFF,
    ZARR,
    Credentials,
    Format,
    FoundGroup,
    Loading,
    SourceStores,
    escape_url,
    find_unread_bounds,
    first_line,
    is_loaded,
    key_url,
    load_values,
    observe_all,
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
    read: Mapping[str, ArrayHeader] = field(default_factory=dict)
    """Arrays that the parser refused, with their values."""


def parse_group(stores: SourceStores, url: str, format: Format, group: str) -> ParsedGroup:
    """Parse the arrays of a group; raise InvalidInputError if the file or group can't be parsed."""
    try:
        module, _, name = format.parser.partition(":")
        make_parser = getattr(importlib.import_module(module), name)
        if format == HDF5:
            return _parse_hdf5(make_parser, stores, url, group)
        if format == TIFF and not group:
            return _parse_tiff(stores, url)
        if format.name == "fits" and not group:
            return _parse_fits(make_parser, stores, url)
        if format == ZARR:
            return _parse_zarr(make_parser, stores, url, group)
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
            f"{url} can't be parsed as {format.name}: {first_line(error)}"
        ) from error
    return ParsedGroup(store, tuple(store._group.groups))


_MOST_READ_BYTES = 16 << 20
"""Maximum size of an array of Zarr V2 that is read because the parser refuses it."""


def _parse_zarr(make_parser: Any, stores: SourceStores, url: str, group: str) -> ParsedGroup:
    """Parse a group of Zarr; of arrays that the parser refuses, as texts of V2, values are read."""
    options = {"group": group} if group else {}
    try:
        store = make_parser(**options)(url, stores)
        return ParsedGroup(store, tuple(store._group.groups))
    except _REFUSALS:
        root, key = stores.resolve(url.rstrip("/"))
        opened = zarr.open_group(
            ObjectStore(root, read_only=True), path=f"{key}/{group}".strip("/"), mode="r"
        )
        arrays: dict[str, zarr.Array[Any]] = dict(opened.arrays())
    refused: dict[str, str] = {}
    for name in arrays:
        try:
            make_parser(**options, skip_variables=arrays.keys() - {name})(url, stores)
        except _REFUSALS as error:
            refused[name] = f"VirtualiZarr can't represent it: {first_line(error)}"
    store = make_parser(**options, skip_variables=list(refused))(url, stores)
    read, shapes = {}, {}
    for name in refused:
        if arrays[name].nbytes <= _MOST_READ_BYTES:
            read[name] = _read_array(name, arrays[name])
        else:
            shapes[name] = arrays[name].shape
    obstacles = {name: text for name, text in refused.items() if name in shapes}
    return ParsedGroup(store, tuple(store._group.groups), obstacles, shapes=shapes, read=read)


def _read_array(name: str, array: zarr.Array[Any]) -> ArrayHeader:
    """Return an array with its values, as one of Zarr V3 without its filters."""
    attributes = dict(array.attrs)
    dims: Any = attributes.pop("_ARRAY_DIMENSIONS", None)
    made = zarr.create_array(
        MemoryStore(),
        shape=array.shape,
        chunks=tuple(max(1, each) for each in array.chunks),
        dtype=array.dtype,
        fill_value=array.fill_value,
        attributes=attributes,
        dimension_names=dims,
    )
    metadata = json.loads(json.dumps(made.metadata.to_dict()))
    return ArrayHeader(name, metadata, np.asarray(array[...]))


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


def _parse_tiff(stores: SourceStores, url: str) -> ParsedGroup:
    # Not the parser's own call: it knows nothing of images that it can't describe beside others.
    parser = importlib.import_module("virtual_tiff.parser")
    store, key = stores.resolve(url)
    tiff = sync(parser._open_tiff(store=store, path=key))
    endian = parser._ENDIANNESS_TO_STR[tiff.endianness]
    arrays: dict[str, Any] = {}
    obstacles: dict[str, str] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for number, image in enumerate(tiff.ifds):
        try:
            arrays[str(number)] = parser._construct_manifest_array(
                ifd=_check_image(image), url=url, endian=endian
            )
        except (NotImplementedError, ValueError) as error:
            if number == 0:
                raise
            obstacles[str(number)] = str(error).partition("\n")[0]
            shapes[str(number)] = (image.image_height, image.image_width)
    group = ManifestGroup(arrays=arrays, attributes={})
    parsed = ManifestStore(group=group, registry=stores)  # type: ignore[arg-type]
    return ParsedGroup(parsed, (), obstacles, shapes=shapes)


def _check_image(image: Any) -> Any:
    """Return an image that virtual-tiff describes correctly; raise ValueError for others."""
    if image.planar_configuration == 1 and image.samples_per_pixel > 1:
        raise ValueError(
            "it has several bands in each block, which virtual-tiff can't describe for this version "
            "of zarr: write it with blocks of one band (INTERLEAVE=BAND)"
        )
    odd = [bits for bits in image.bits_per_sample or () if bits % 8 or bits == 24]
    if odd:
        raise ValueError(
            f"its pixels have {odd[0]} bits, which no codec of Zarr unpacks: write whole bytes, as "
            "gdal_translate does with -co NBITS=8 or 16"
        )
    rows = image.rows_per_strip
    is_even = (
        image.tile_height or not rows or image.image_height % min(rows, image.image_height) == 0
    )
    return image if is_even else EvenStrips(image)


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
        found = _describe(parse_group(stores, url, format, group), loading, sizes)
    return _mask_filled(stores, f"{url.rstrip('/')}/{group}", found) if format == ZARR else found


def _mask_filled(stores: SourceStores, url: str, found: FoundGroup) -> FoundGroup:
    """Return arrays of Zarr V2 with fill values as attributes: in V3, Xarray masks only these."""
    arrays = dict(found.arrays)
    for name, array in found.arrays.items():
        store, key = stores.resolve(f"{url.rstrip('/')}/{name}/.zarray")
        try:
            stored = json.loads(bytes(obstore.get(store, key).bytes()))
        except FileNotFoundError:
            return found
        fill, kind = array.metadata.get("fill_value"), str(array.metadata.get("data_type"))
        is_number = isinstance(fill, int | float) and kind.startswith(("int", "uint", "float"))
        if stored.get("fill_value") is None or not is_number or array.is_index:
            continue
        attributes = {"_FillValue": encode_fill_value(fill, np.dtype(kind)), **array.attributes}
        arrays[name] = replace(array, metadata={**array.metadata, "attributes": attributes})
    return replace(found, arrays=arrays)


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
    for name, header in parsed.read.items():
        headers[name], references[name] = header, no_references(len(header.shape))
    attributes = dict(parsed.store._group.metadata.attributes)
    return FoundGroup(attributes, headers, references, parsed.groups)


def _inline_whole(columns: ReferenceColumns, values: Any) -> ReferenceColumns:
    """Return the columns of an array that is one inline chunk without filters."""
    return replace(
        columns,
        inline_coordinates=np.zeros((1, columns.axes), np.int64),
        inline_chunks=(np.ascontiguousarray(values).tobytes(),),
    )


# The only chunk key encoding that a manifest store can list.
_DOTTED_KEYS: dict[str, Any] = {"name": "default", "configuration": {"separator": "."}}


class ListingStore(Protocol):
    """Zarr store that can list its chunk references."""

    def array_chunk_iterator(
        self, array_path: str, batch_size: int = 100_000
    ) -> AsyncIterator[tuple[Any, Any, list[str], Any, Any, dict[int, bytes]]]: ...

    def get_sync(self, key: str) -> Any: ...


def read_dataset(
    store: ListingStore,
    *,
    group: str = "",
    loadable_variables: Iterable[str] | None = None,
    containers: Iterable[VirtualChunkContainer] = (),
    credentials: Credentials | None = None,
) -> xr.Dataset:
    """Open a group of a session as a dataset of `ManifestArray`s, as VirtualiZarr would.

    Values of `loadable_variables` are read, by default those of all coordinates of dimensions.
    """
    opened = manifest_store(store, group=group, containers=containers, credentials=credentials)
    with without_codec_warnings():
        return opened.to_virtual_dataset(
            loadable_variables=None if loadable_variables is None else list(loadable_variables)
        )


def manifest_store(
    store: ListingStore,
    *,
    group: str = "",
    containers: Iterable[VirtualChunkContainer] = (),
    credentials: Credentials | None = None,
) -> ManifestStore:
    """Return a group of a session, with its subgroups, as VirtualiZarr's `ManifestStore`.

    Native and inline chunks are included, in memory.
    """
    registry: Any = SourceStores(containers, credentials)
    with without_codec_warnings():
        root = zarr.open_group(as_zarr(store), path=group.strip("/"), mode="r", zarr_format=3)
        return ManifestStore(_to_manifests(store, root), registry=registry)


def _to_manifests(store: ListingStore, group: zarr.Group) -> ManifestGroup:
    return ManifestGroup(
        arrays={
            name.rpartition("/")[2]: _to_manifest(store, each) for name, each in group.arrays()
        },
        groups={
            name.rpartition("/")[2]: _to_manifests(store, each) for name, each in group.groups()
        },
        attributes=dict(group.attrs),
    )


def _to_manifest(store: ListingStore, array: zarr.Array[Any]) -> ManifestArray:
    metadata = json.loads(json.dumps(array.metadata.to_dict()))
    if metadata["chunk_grid"]["name"] != "regular":
        raise InvalidInputError(
            f"the chunks of {array.path!r} are not of one shape, which VirtualiZarr has no manifest for"
        )
    columns = _read_columns(store, array.path, len(array.shape))
    return ManifestArray(
        metadata=ArrayV3Metadata.from_dict({**metadata, "chunk_key_encoding": _DOTTED_KEYS}),
        chunkmanifest=manifest_of(columns, chunk_grid(metadata)),
    )


def _read_columns(store: ListingStore, path: str, axes: int) -> ReferenceColumns:
    batches = sync(_collect(store, path))
    coordinates = np.concatenate(
        [np.empty((0, axes), np.int64), *(batch[0].astype(np.int64) for batch in batches)]
    )
    kinds = np.concatenate([np.empty(0, np.uint8), *(batch[1] for batch in batches)])
    places = np.array([place for batch in batches for place in batch[2]], object)
    is_virtual = kinds == ChunkKind.VIRTUAL
    texts, codes = np.unique(places[is_virtual].astype(str), return_inverse=True)
    here = coordinates[~is_virtual]
    return ReferenceColumns(
        coordinates=coordinates[is_virtual],
        location_codes=codes.astype(np.int32),
        locations=tuple(key_url(str(text)) for text in texts),
        offsets=np.concatenate([np.empty(0, np.uint64), *(b[3] for b in batches)])[is_virtual],
        lengths=np.concatenate([np.empty(0, np.uint64), *(b[4] for b in batches)])[is_virtual],
        inline_coordinates=here,
        inline_chunks=tuple(_read_chunk(store, path, place) for place in here.tolist()),
    )


async def _collect(store: ListingStore, path: str) -> list[Any]:
    return [batch async for batch in store.array_chunk_iterator(path)]


def _read_chunk(store: ListingStore, path: str, place: list[int]) -> bytes:
    key = "/".join(["c", *map(str, place)])
    return bytes(store.get_sync(join(path, key)).to_bytes())


# Attributes that Xarray may have moved to the encoding of a variable.
_ENCODING = ("_FillValue", "missing_value", "scale_factor", "add_offset")


def write_dataset(
    dataset: xr.Dataset,
    store: VirtualStore,
    *,
    group: str = "",
    append_dim: str | None = None,
    containers: Iterable[VirtualChunkContainer] = (),
    credentials: Credentials | None = None,
    validate_containers: bool = True,
) -> None:
    """Write a dataset of `ManifestArray`s and in-memory variables to a session, without a commit.

    Parameters
    ----------
    dataset
        Dataset to write.
    store
        Store of a writable session.
    group
        Group to write to.
    append_dim
        Dimension to append along. Its variables must exist and are extended; others are unchanged.
    containers, credentials
        Access to the source files, to read ETags and times, as for `open`.
    validate_containers
        Require a container for each location.

    Raises
    ------
    InvalidInputError
        If variables do not fit the existing ones; reports every problem.
    """
    path = group.strip("/")
    if append_dim is not None and append_dim not in dataset.dims:
        raise InvalidInputError(f"the dataset has no dimension {append_dim!r} to append along")
    virtual = {
        str(name): variable
        for name, variable in dataset.variables.items()
        if isinstance(variable.data, ManifestArray)
    }
    headers = {name: _header_of(name, variable) for name, variable in virtual.items()}
    columns = {
        name: columns_of(each.data.manifest, each.ndim, _spell) for name, each in virtual.items()
    }
    columns = _note_versions(columns, SourceStores(containers, credentials))
    with without_codec_warnings():
        places = _make_room(store, path, headers, append_dim)
        _write_loaded(dataset.drop_vars(list(virtual)), store, path, append_dim)
        if append_dim is None:
            create_group(store, path, _group_attributes(dataset))
    for name, place in places.items():
        set_references(
            store,
            join(path, name),
            columns[name].shift(place),
            validate_containers=validate_containers,
        )


def _header_of(name: str, variable: xr.Variable) -> ArrayHeader:
    kept = {key: variable.encoding[key] for key in _ENCODING if key in variable.encoding}
    attributes = {
        str(key): encode_zarr_attr_value(value)  # type: ignore[no-untyped-call]
        for key, value in {**kept, **variable.attrs}.items()
    }
    metadata = metadata_of(variable.data)
    dims = [str(each) for each in variable.dims]
    return ArrayHeader(name, {**metadata, "attributes": attributes, "dimension_names": dims})


def _spell(path: str) -> str:
    """Return the location of a path of VirtualiZarr, whose key may be escaped already."""
    return normalize_location(path) if "%" in path else escape_url(path)


def _note_versions(
    columns: Mapping[str, ReferenceColumns], stores: SourceStores
) -> dict[str, ReferenceColumns]:
    locations = {text for each in columns.values() for text in each.locations}
    urls = {text: key_url(text) for text in locations}
    found = observe_all(stores, set(urls.values()))
    return {
        name: replace(each, versions=tuple(found[urls[text]] for text in each.locations))
        for name, each in columns.items()
    }


def _make_room(
    store: VirtualStore, path: str, headers: Mapping[str, ArrayHeader], append_dim: str | None
) -> dict[str, list[int]]:
    """Create or extend arrays; return the chunk offset of each array that gets references."""
    if append_dim is None:
        create_group(store, path, {})
        for name, header in headers.items():
            create_array(store, join(path, name), header.metadata)
        return {name: [0] * len(header.shape) for name, header in headers.items()}
    growing = {name: each for name, each in headers.items() if append_dim in each.dims}
    there = {
        name: zarr.open_array(as_zarr(store), path=join(path, name), mode="r+", zarr_format=3)
        for name in growing
    }
    problems = [
        problem
        for name, header in growing.items()
        for problem in _find_misfits(
            ArrayHeader(name, json.loads(json.dumps(there[name].metadata.to_dict()))),
            header,
            append_dim,
        )
    ]
    if problems:
        raise InvalidInputError(f"the dataset can't be appended:\n{Report(tuple(problems))}")
    return {name: _grow(there[name], header, append_dim) for name, header in growing.items()}


def _find_misfits(there: ArrayHeader, new: ArrayHeader, append_dim: str) -> list[Problem]:
    both = [("the repository", there), ("the dataset", new)]

    def fixed(header: ArrayHeader) -> list[int]:
        pairs = zip(header.dims, header.shape, strict=True)
        return [extent for dim, extent in pairs if dim != append_dim]

    problems = [
        *compare(both, ProblemKind.DIMENSIONS, "dimensions", lambda each: each.dims),
        *compare(both, ProblemKind.LENGTH, "length of its other axes", fixed),
        *compare_meaning(both),
        *compare_storage(both),
    ]
    if not problems:
        axis = there.dims.index(append_dim)
        step = there.chunk_shape[axis]
        if there.shape[axis] % step:
            text = f"its chunks of {step} along {append_dim} don't end where the array does"
            problems.append(Problem(ProblemKind.RAGGED, there.name, text, ("the repository",)))
    return problems


def _grow(array: zarr.Array[Any], header: ArrayHeader, append_dim: str) -> list[int]:
    axis = header.dims.index(append_dim)
    place = [0] * len(header.shape)
    place[axis] = array.shape[axis] // header.chunk_shape[axis]
    shape = list(array.shape)
    shape[axis] += header.shape[axis]
    array.resize(tuple(shape))
    return place


def _write_loaded(
    loaded: xr.Dataset, store: VirtualStore, path: str, append_dim: str | None
) -> None:
    """Write the variables that are in memory, with Xarray."""
    if append_dim is None:
        loaded.to_zarr(as_zarr(store), group=path, mode="a", zarr_format=3, consolidated=False)
        return
    growing = [name for name, each in loaded.variables.items() if append_dim in each.dims]
    if growing:
        loaded[growing].to_zarr(
            as_zarr(store), group=path, append_dim=append_dim, zarr_format=3, consolidated=False
        )


def _group_attributes(dataset: xr.Dataset) -> dict[str, Any]:
    """Return the attributes of the dataset, with its non-dimension coordinates."""
    attributes = {
        str(key): encode_zarr_attr_value(value)  # type: ignore[no-untyped-call]
        for key, value in dataset.attrs.items()
    }
    named = [str(name) for name in dataset.coords if name not in dataset.dims]
    return {**attributes, **({"coordinates": " ".join(named)} if named else {})}


__all__ = ["manifest_store", "read_dataset", "write_dataset"]
