"""Warnings that say nothing to users of virtual data."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_codec_warnings() -> Iterator[None]:
    """Let Zarr say nothing of codecs and data types that its specification does not name.

    Filters of HDF5 and its texts are such, and nobody who opens a file can change that.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(zarr|numcodecs|virtualizarr)\b.*")
        yield
