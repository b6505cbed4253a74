"""GRIB files of a few messages, written with eccodes."""

import struct
import zlib
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


def pack_as_png(
    message: bytes, depth: int, *, reference: float, binary: int, decimal: int
) -> bytes:
    """A message of one field with random values in PNG, which eccodes does not write everywhere."""
    rows, columns = 31, POINTS // 31
    numbers = np.random.default_rng(depth).integers(0, 2**depth, (rows, columns))
    lines = numbers.astype(f">u{depth // 8}")
    header = struct.pack(">IIBBBBB", columns, rows, depth, 0, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + line.tobytes() for line in lines))
    parts = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    image = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(each)) + kind + each + struct.pack(">I", zlib.crc32(kind + each))
        for kind, each in parts
    )
    packing = struct.pack(
        ">IBIHfHHBB", 21, 5, POINTS, 41, reference, binary, decimal, depth, 0
    )  # fmt: skip
    body = b"".join(each for each in _split(message) if each[4] < 5) + packing
    body += b"\0\0\0\6\6\xff" + struct.pack(">IB", 5 + len(image), 7) + image + b"7777"
    return message[:8] + (16 + len(body)).to_bytes(8) + body


def _split(message: bytes) -> list[bytes]:
    """The sections of a message."""
    place, found = 16, []
    while message[place : place + 4] != b"7777":
        size = int.from_bytes(message[place : place + 4])
        found.append(message[place : place + size])
        place += size
    return found


def join_fields(*messages: bytes) -> bytes:
    """One message with the fields of several that have one grid."""
    body = b"".join(
        section
        for row, message in enumerate(messages)
        for section in _split(message)
        if row == 0 or section[4] >= 4
    )
    body += b"7777"
    return messages[0][:8] + (16 + len(body)).to_bytes(8) + body
