"""GRIB files of a few messages, written with eccodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import eccodes
import numpy as np
from numpy.typing import NDArray

POINTS = 496
"""Points of the grids of eccodes' samples: 31 rows of 16."""


@contextmanager
def opened(message: bytes) -> Iterator[Any]:
    """A message as eccodes' handle."""
    handle = eccodes.codes_new_from_message(message)
    try:
        yield handle
    finally:
        eccodes.codes_release(handle)


def make_message(
    values: Any = None, *, sample: Any = "regular_ll_pl_grib2", seed: Any = 0, **keys: Any
) -> bytes:
    """One message: keys in the order given, then values; random ones by default."""
    handle = eccodes.codes_grib_new_from_samples(sample)
    try:
        for key, value in keys.items():
            eccodes.codes_set(handle, key, value)
        size = eccodes.codes_get_size(handle, "values")
        if values is None:
            values = np.random.default_rng(seed).normal(280, 10, size)
        eccodes.codes_set_values(handle, values)
        return bytes(eccodes.codes_get_message(handle))
    finally:
        eccodes.codes_release(handle)


def decode(message: bytes) -> NDArray[np.float64]:
    """The values of a message by eccodes, NaN where they are missing."""
    with opened(message) as handle:
        eccodes.codes_set(handle, "missingValue", 1e30)
        values = eccodes.codes_get_values(handle)
    return np.where(values == 1e30, np.nan, values)


def save(path: Path, *messages: bytes) -> Path:
    """A file of messages."""
    path.write_bytes(b"".join(messages))
    return path


def join_fields(*messages: bytes) -> bytes:
    """One message with the fields of several that have one grid."""
    body, kept = b"", b""
    for row, message in enumerate(messages):
        place = 16
        while message[place : place + 4] != b"7777":
            size = int.from_bytes(message[place : place + 4])
            section = message[place : place + size]
            if row == 0 or section[4] >= 4:
                body += section
            place += size
        kept = kept or message[:8]
    body += b"7777"
    return kept + (16 + len(body)).to_bytes(8) + body
