"""A storage in a folder of another."""

from frazil.storage.interface import Storage, validate_key
from frazil.storage.wrappers.forwarding import ForwardingStorage


class PrefixedStorage(ForwardingStorage):
    """The objects of another storage below a folder, by their keys from there on."""

    def __init__(self, inner: Storage, folder: str) -> None:
        super().__init__(inner, f"{validate_key(folder)}/")
