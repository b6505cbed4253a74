"""Ids and texts of many references as columns of Arrow, without an object for any of them."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.format.ids import ALPHABET
from frazil.format.strings import Strings

_DIGITS = np.frombuffer(ALPHABET.encode(), np.uint8)
_WEIGHTS = np.array([16, 8, 4, 2, 1], np.uint8)
_MOST_SHORT_BYTES = 2**31 - 1


def spell_ids(ids: NDArray[np.uint8], prefix: str = "") -> pa.Array:
    """Rows of bytes as base32, with something in front."""
    count, size = ids.shape
    length = (size * 8 + 4) // 5
    bits = np.zeros((count, length * 5), np.uint8)
    bits[:, : size * 8] = np.unpackbits(np.ascontiguousarray(ids), axis=1)
    head = np.frombuffer(prefix.encode(), np.uint8)
    letters = np.empty((count, head.size + length), np.uint8)
    letters[:, : head.size] = head
    letters[:, head.size :] = _DIGITS[bits.reshape(count, length, 5) @ _WEIGHTS]
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(letters.shape[1])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def to_texts(strings: Strings) -> pa.Array:
    """Texts by number."""
    is_long = strings.blob.size > _MOST_SHORT_BYTES
    offsets = strings.offsets.astype(np.int64 if is_long else np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(strings.blob))]
    type = pa.large_string() if is_long else pa.string()
    return pa.Array.from_buffers(type, len(strings), buffers)


def take_texts(texts: pa.Array, codes: NDArray[np.int32]) -> pa.Array:
    """The texts of these numbers; null for -1."""
    found: Any = texts.take(pa.array(codes, mask=codes < 0))
    return found.cast(pa.string())
