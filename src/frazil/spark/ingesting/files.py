"""Source files, opened for the library that reads their format."""

import io
from typing import Any

import obstore
from obspec_utils.readers import BlockStoreReader

from frazil.virtual.locations import parse_address
from frazil.virtual.readers.stores import SourceStores, key_url

MOST_WHOLE_BYTES = 64 << 20
"""A file in a bucket up to this size is fetched at once."""


def open_file(stores: SourceStores, location: str, size_bytes: int) -> Any:
    """A path on a disk, or something to read a file in a bucket with."""
    address = parse_address(location)
    if address.scheme == "file":
        return f"/{address.key}"
    store, key = stores.resolve(key_url(location))
    if size_bytes <= MOST_WHOLE_BYTES:
        return io.BytesIO(bytes(obstore.get(store, key).bytes()))
    return BlockStoreReader(store, key)
