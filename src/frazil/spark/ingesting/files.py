"""Source files, opened for the library that reads their format."""

import io
from typing import Any

import obstore

from frazil.storage.blocks import BlockFile
from frazil.virtual.locations import parse_address
from frazil.virtual.readers.stores import SourceStores, key_url


def open_file(
    stores: SourceStores, location: str, size_bytes: int, *, is_whole: bool = False
) -> Any:
    """A path on a disk, or something to read a file in a bucket with: fetched at once, or by parts."""
    address = parse_address(location)
    if address.scheme == "file":
        return f"/{address.key}"
    store, key = stores.resolve(key_url(location))
    if is_whole:
        return io.BytesIO(bytes(obstore.get(store, key).bytes()))

    def read_range(start: int, end: int) -> bytes:
        return bytes(obstore.get_range(store, key, start=start, end=end))

    return BlockFile(read_range, size_bytes)
