"""Write VirtualiZarr's virtual datasets to a session, and read them from one."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import xarray as xr
import zarr
from virtualizarr.manifests import ManifestArray, ManifestGroup, ManifestStore
from xarray.backends.zarr import encode_zarr_attr_value
from zarr.core.metadata import ArrayV3Metadata
from zarr.core.sync import sync

from frazil.errors import InvalidInputError
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
from frazil.virtual.source import ArrayHeader, ReferenceColumns
from frazil.virtual.source_formats import (
    Credentials,
    SourceStores,
    escape_url,
    key_url,
    observe_all,
    without_codec_warnings,
)
from frazil.virtual.virtualizarr import chunk_grid, columns_of, manifest_of, metadata_of

# The only chunk key encoding that a manifest store can list.
_ENCODING_OF_KEYS: dict[str, Any] = {"name": "default", "configuration": {"separator": "."}}


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
        metadata=ArrayV3Metadata.from_dict({**metadata, "chunk_key_encoding": _ENCODING_OF_KEYS}),
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
