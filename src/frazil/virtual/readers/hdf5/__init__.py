"""HDF5 and NetCDF4, read through h5py's low-level calls straight into headers and columns."""

from obstore.exceptions import BaseError

from frazil.errors import IcechunkError, InvalidInputError
from frazil.virtual.readers.found import INTERRUPTIONS, FoundGroup, Loading
from frazil.virtual.readers.hdf5.datasets import Surroundings
from frazil.virtual.readers.hdf5.files import open_file
from frazil.virtual.readers.hdf5.reading import read_group
from frazil.virtual.readers.hdf5.refusals import NotReadable
from frazil.virtual.readers.stores import SourceStores, escape_url

__all__ = ["NotReadable", "read_hdf5"]


def read_hdf5(
    stores: SourceStores, url: str, size_bytes: int, start: bytes, group: str, loading: Loading
) -> FoundGroup:
    """One group of a file; `start` are its first bytes.

    Raises NotReadable for what another reader has to do, and InvalidInputError for a damaged file or
    a group that is not there.
    """
    try:
        with open_file(stores, url, size_bytes, start) as file:
            return read_group(file, Surroundings(escape_url(url), group, loading))
    except (NotReadable, IcechunkError, BaseError, *INTERRUPTIONS):
        raise
    except BaseException as error:
        # HDF5 has all kinds of errors for a file that is damaged.
        raise InvalidInputError(
            f"{url} can't be parsed as hdf5: {type(error).__name__}: {error}"
        ) from error
