"""The data of a source file, read anew from the file and not through the repository."""

from dataclasses import dataclass
from importlib.util import find_spec
from io import RawIOBase
from pathlib import Path
from typing import Any

import obstore
import xarray as xr
from obstore.store import LocalStore

from frazil import virtual
from frazil.errors import ObjectNotFoundError
from frazil.repository import Repository
from frazil.session import Session
from frazil.spark.checks.samples import decode_climatologies
from frazil.spark.ingesting.configuring import add_to, configure
from frazil.spark.ingesting.containers import common_folders, plan_containers
from frazil.spark.ingesting.parsing import Reading, rename
from frazil.storage import in_memory_storage
from frazil.storage.blocks import BlockFile
from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.readers import observing
from frazil.virtual.readers.formats import HDF5, recognise_file
from frazil.virtual.readers.stores import SourceStores, key_url


@dataclass(frozen=True, slots=True)
class SourceData:
    """Opens source files as Xarray does.

    HDF5 is read by its own library, by which references are put to the proof; what else there is, by
    references that are made anew.
    """

    reading: Reading

    def __call__(self, location: str) -> xr.Dataset:
        stores = SourceStores(self.reading.containers, self.reading.credentials)
        with without_codec_warnings():
            file = _find_hdf5(stores, key_url(location)) if find_spec("h5netcdf") else None
            return self._open_references(location) if file is None else self._open_hdf5(file)

    def _open_hdf5(self, file: Path | RawIOBase) -> xr.Dataset:
        # Dimensions without a name get one, which nobody looks at.
        found: xr.Dataset = xr.open_dataset(
            file,  # type: ignore[arg-type]
            engine="h5netcdf",
            group=self.reading.group or None,
            phony_dims="access",
        )
        names = {old: new for old, new in self.reading.rename.items() if old in found.variables}
        return decode_climatologies(found).reset_coords().rename_vars(names)

    def _open_references(self, location: str) -> xr.Dataset:
        store: Any = refer_to(location, self.reading).store
        found: xr.Dataset = xr.open_zarr(store, consolidated=False, chunks=None)
        return found


def refer_to(location: str, reading: Reading) -> Session:
    """A source file through references to it, in a repository that nobody else knows."""
    source = rename(
        virtual.open(
            location,
            group=reading.group,
            containers=reading.containers,
            credentials=reading.credentials,
        ),
        reading.rename,
    )
    plan = virtual.combine([source.header])
    targets = {text for each in source.references.values() for text in each.locations}
    folders = common_folders([location, *targets])
    repository = Repository.create(in_memory_storage())
    known = {each.url_prefix: each for each in reading.containers}
    config = add_to(repository.config, reading.containers, ())
    config = add_to(config, plan_containers(folders, known, ()), ())
    session = configure(repository, config, folders, reading.credentials).writable_session("main")
    virtual.write(plan.without([each.name for each in plan.reencoded]), session.store, [source])
    return session


def _find_hdf5(stores: SourceStores, url: str) -> Path | RawIOBase | None:
    """The file at a URL to be read, if it is one of HDF5."""
    try:
        size = observing.observe(stores, url).size_bytes
    except ObjectNotFoundError:
        return None
    head = observing.read_head(stores, url, size)
    if recognise_file(url, head) != HDF5:
        return None
    store, key = stores.resolve(url)
    if isinstance(store, LocalStore):
        return Path("/", key)

    def read_range(start: int, end: int) -> bytes:
        return bytes(obstore.get_range(store, key, start=start, end=end))

    return BlockFile(read_range, size, head)
