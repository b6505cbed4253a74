"""A session as a virtual dataset: its references as VirtualiZarr's manifests."""

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any, Protocol

import numpy as np
import xarray as xr
import zarr
from virtualizarr.manifests import ManifestArray, ManifestGroup, ManifestStore
from zarr.core.metadata import ArrayV3Metadata
from zarr.core.sync import sync

from frazil.errors import InvalidInputError
from frazil.format.references import ChunkKind
from frazil.virtual.containers import VirtualChunkContainer
from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.readers.manifests import chunk_grid, manifest_of
from frazil.virtual.readers.stores import Credentials, SourceStores, key_url
from frazil.virtual.sources import ReferenceColumns
from frazil.virtual.writing import as_zarr, join

# The one spelling of chunk keys that a store of manifests can list.
_ENCODING_OF_KEYS: dict[str, Any] = {"name": "default", "configuration": {"separator": "."}}


class ListingStore(Protocol):
    """What is asked of a store of Zarr that tells its references, besides being one."""

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
    """A group of a session as a dataset of `ManifestArray`s, as VirtualiZarr would open it.

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
    """A group of a session, with all below it, as VirtualiZarr's store of manifests.

    Chunks that are in the repository itself come with it, in memory.
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
