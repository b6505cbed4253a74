"""Write Xarray objects through a session."""

from collections.abc import Hashable, Mapping, MutableMapping
from dataclasses import field
from typing import Any, Literal

import zarr

from frazil.errors import explain_missing
from frazil.lazy import dataclass
from frazil.repository.session import ForkSession, Session
from frazil.repository.store import IcechunkStore

try:
    from xarray import DataArray, Dataset
    from xarray.backends import ZarrStore
    from xarray.backends.api import DATAARRAY_NAME, DATAARRAY_VARIABLE
    from xarray.backends.common import ArrayWriter
    from xarray.backends.writers import (
        _validate_dataset_names,
        dump_to_store,
        get_writable_zarr_store,
    )
    from xarray.namedarray.pycompat import is_chunked_array
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(explain_missing(error, "frazil.xarray"), name=error.name) from error

__all__ = ["LazyPart", "to_icechunk", "write_all_but_lazy"]

Region = Mapping[str, slice | Literal["auto"]] | Literal["auto"] | None
ZarrWriteModes = Literal["w", "w-", "a", "a-", "r+"]


class LazyArrayWriter(ArrayWriter):
    """Collects the arrays to write, with those in memory separate from Dask arrays."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.eager: list[tuple[Any, zarr.Array[Any], Any]] = []

    def add(self, source: Any, target: Any, region: Any = None) -> None:
        if is_chunked_array(source):
            super().add(source, target, region)  # type: ignore[no-untyped-call]
        else:
            self.eager.append((source, target, region))

    def write_eager(self) -> None:
        """Write the arrays that are in memory."""
        for source, target, region in self.eager:
            target[region or ...] = source
        self.eager = []


@dataclass()
class _XarrayDatasetWriter:
    """Writer of a dataset to a group: metadata first, then variables in memory, then Dask arrays."""

    dataset: Dataset = field(repr=False)
    store: IcechunkStore = field(kw_only=True)
    safe_chunks: bool = field(kw_only=True, default=True)
    align_chunks: bool = field(kw_only=True, default=False)
    xarray_store: ZarrStore = field(init=False, repr=False)
    writer: LazyArrayWriter | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.store, IcechunkStore):
            given = type(self.store).__name__
            raise ValueError(f"a writable session is needed, and {given} is no store of one")

    def _open_group(
        self,
        *,
        group: str | None,
        mode: ZarrWriteModes | None,
        append_dim: Hashable | None,
        region: Region,
    ) -> None:
        self.xarray_store = get_writable_zarr_store(
            self.store,
            mode=mode,
            group=group,
            consolidated=False,
            append_dim=append_dim,
            region=region,
            safe_chunks=self.safe_chunks,
            align_chunks=self.align_chunks,
            zarr_format=3,
        )
        self.dataset = self.xarray_store._validate_and_autodetect_region(self.dataset)

    def write_metadata(self, encoding: Mapping[Any, Any] | None = None) -> None:
        """Create missing arrays, resize those that grow, and write all attributes."""
        _validate_dataset_names(self.dataset)
        self.xarray_store._validate_encoding(encoding or {})
        self.writer = LazyArrayWriter()
        dump_to_store(  # type: ignore[no-untyped-call]
            self.dataset, self.xarray_store, self.writer, encoding=encoding or {}
        )

    def write_eager(self) -> None:
        """Write the variables that are in memory."""
        self._require_writer().write_eager()

    def write_lazy(
        self,
        chunkmanager_store_kwargs: MutableMapping[Any, Any] | None = None,
        split_every: int | None = None,
    ) -> ForkSession:
        """Compute and write the Dask variables, and return the fork with all changes."""
        writer = self._require_writer()
        if not writer.sources:
            raise TypeError("there are no Dask arrays to write")
        # Dask is an optional extra, needed only for Dask arrays.
        from frazil.dask import session_merge_reduction  # noqa: PLC0415

        # Each block of the result is the Zarr array that it was written to.
        given = {**(chunkmanager_store_kwargs or {}), "load_stored": False, "return_stored": True}
        stored = writer.sync(  # type: ignore[no-untyped-call]
            compute=False, chunkmanager_store_kwargs=given
        )
        return session_merge_reduction(stored, split_every=split_every)

    def _require_writer(self) -> LazyArrayWriter:
        if self.writer is None:
            raise ValueError("call write_metadata first")
        return self.writer


def to_icechunk(
    obj: DataArray | Dataset,
    session: Session,
    *,
    group: str | None = None,
    mode: ZarrWriteModes | None = None,
    safe_chunks: bool = True,
    align_chunks: bool = False,
    append_dim: Hashable | None = None,
    region: Region = None,
    encoding: Mapping[Any, Any] | None = None,
    chunkmanager_store_kwargs: MutableMapping[Any, Any] | None = None,
    split_every: int | None = None,
) -> None:
    """Write an Xarray object to a group of a writable session, like its `to_zarr`.

    Dask arrays are written through a fork by the active scheduler, also in other processes or on
    other machines. Nothing is committed.

    Parameters
    ----------
    obj
        The object to write.
    session
        A writable session.
    group, mode, safe_chunks, align_chunks, append_dim, region, encoding, chunkmanager_store_kwargs
        As in `to_zarr`.
    split_every
        Number of results of Dask tasks to merge at a time.

    Raises
    ------
    ValueError
        If the session is read-only.

    Examples
    --------
    >>> session = repo.writable_session("main")
    >>> to_icechunk(dataset, session, append_dim="time")
    >>> session.commit("append May")
    """
    writer = _XarrayDatasetWriter(
        _to_dataset(obj), store=session.store, safe_chunks=safe_chunks, align_chunks=align_chunks
    )
    writer._open_group(group=group, mode=mode, append_dim=append_dim, region=region)
    writer.write_metadata(encoding)
    writer.write_eager()
    lazy = writer._require_writer()
    if lazy.sources:
        fork = session.fork()
        lazy.targets = [
            zarr.open_array(fork.store, path=target.path, mode="r+") for target in lazy.targets
        ]
        session.merge(writer.write_lazy(chunkmanager_store_kwargs, split_every))


@dataclass(frozen=True, slots=True)
class LazyPart:
    """A Dask array, and the region of an array of a session to write it to.

    Attributes
    ----------
    source
        The Dask array.
    path
        Path of the array.
    box
        `(start, stop)` of each axis.
    """

    source: Any = field(repr=False)
    path: str
    box: tuple[tuple[int, int], ...]


def write_all_but_lazy(
    obj: DataArray | Dataset,
    session: Session,
    *,
    group: str | None = None,
    mode: ZarrWriteModes | None = None,
    append_dim: Hashable | None = None,
    region: Region = None,
    encoding: Mapping[Any, Any] | None = None,
) -> list[LazyPart]:
    """Write as `to_icechunk` does, except for the values of Dask arrays, and return those.

    The caller must write them, and must align the Dask chunks with the Zarr chunks, which is not
    checked here.

    Parameters
    ----------
    obj, session, group, mode, append_dim, region, encoding
        As in `to_icechunk`.

    Returns
    -------
    list of LazyPart
        The Dask arrays and where to write them.
    """
    writer = _XarrayDatasetWriter(_to_dataset(obj), store=session.store, safe_chunks=False)
    writer._open_group(group=group, mode=mode, append_dim=append_dim, region=region)
    writer.write_metadata(encoding)
    writer.write_eager()
    lazy = writer._require_writer()
    return [
        LazyPart(source, target.path, _box_of(target.shape, region))
        for source, target, region in zip(lazy.sources, lazy.targets, lazy.regions, strict=True)
    ]


def _box_of(
    shape: tuple[int, ...], region: tuple[slice, ...] | None
) -> tuple[tuple[int, int], ...]:
    slices = region or tuple(slice(None) for _ in shape)
    ends = [each.indices(size)[:2] for each, size in zip(slices, shape, strict=True)]
    return tuple(ends)


def _to_dataset(obj: DataArray | Dataset) -> Dataset:
    """Return the object as a dataset, with names from which Xarray restores a single array."""
    if isinstance(obj, Dataset):
        return obj
    if obj.name is not None and obj.name not in obj.coords and obj.name not in obj.dims:
        return obj.to_dataset()
    dataset = obj.to_dataset(name=DATAARRAY_VARIABLE)
    if obj.name is not None:
        dataset.attrs[DATAARRAY_NAME] = obj.name
    return dataset
