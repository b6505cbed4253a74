"""The way to VirtualiZarr's parsers, which come with an extra and not for every Python."""

from collections.abc import Callable
from importlib import import_module

from frazil.errors import InvalidInputError
from frazil.virtual.readers.formats import Format
from frazil.virtual.readers.found import FoundGroup, Loading
from frazil.virtual.readers.stores import SourceStores

ForeignReader = Callable[[SourceStores, str, Format, str, Loading], FoundGroup]


def load_foreign_reader() -> ForeignReader:
    """What reads a group with them; raises InvalidInputError where they are not installed."""
    try:
        found: ForeignReader = import_module("frazil.virtual.readers.foreign").read_group
    except ImportError as error:
        raise InvalidInputError(
            f"this file is parsed by VirtualiZarr, which can't be imported ({error}): "
            "pip install 'frazil[virtual]' on Python 3.12 or newer"
        ) from error
    return found
