"""Opening an HDF5 file: from a disk by HDF5 itself, from anywhere else block by block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import obstore
from h5py import h5f, h5fd, h5p
from obstore.store import LocalStore, ObjectStore

from frazil.storage.blocks import BlockFile
from frazil.virtual.readers.stores import SourceStores


@contextmanager
def open_file(stores: SourceStores, url: str, size_bytes: int, start: bytes) -> Iterator[Any]:
    """The file at a URL, whose first bytes are known; raises OSError for what is no HDF5."""
    store, key = stores.resolve(url)
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    name = b"/" + key.encode("utf-8", "surrogateescape")
    if isinstance(store, LocalStore):
        # Nobody is to be kept from writing: whether the file changes is asked for afterwards.
        access.set_file_locking(False, True)
        yield from _open(name, access)
        return
    blocks = BlockFile(lambda *range: _read_range(store, key, *range), size_bytes, start)
    access.set_fileobj_driver(h5fd.fileobj_driver, blocks)
    try:
        yield from _open(name, access)
    except Exception:
        if blocks.failure is not None:
            # HDF5 knows no more than that it could not read.
            raise blocks.failure from None
        raise


def _open(name: bytes, access: Any) -> Iterator[Any]:
    file = h5f.open(name, h5f.ACC_RDONLY, access)
    try:
        yield file
    finally:
        file.close()


def _read_range(store: ObjectStore, key: str, start: int, end: int) -> bytes:
    return bytes(obstore.get_range(store, key, start=start, end=end))
