"""MessagePack as the alpha releases wrote it, to and from trees of tuples, dicts and plain values.

Rust's serialiser wrote structs as arrays, integers in their shortest form and floats in the size of
their type.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgpack

from frazil.errors import FormatError, InvalidInputError
from frazil.format.json_values import unpack_messagepack


class Single(float):
    """A float that is stored in 32 bits."""

    __slots__ = ()


def is_messagepack_payload(payload: bytes) -> bool:
    """Whether a payload can be a struct in MessagePack; one in FlatBuffers can't."""
    return bool(payload) and 0x92 <= payload[0] <= 0x9B and payload[4:8] != b"Ichk"


def unpack(payload: bytes) -> Any:
    """Decode a whole payload; arrays become tuples, so that they can be keys of maps."""
    try:
        return unpack_messagepack(payload, use_list=False, strict_map_key=False)
    except ValueError as error:
        raise FormatError(f"not MessagePack: {error}") from error


def pack(tree: object) -> bytes:
    """Encode a tree that has no `Single` in it."""
    with _translated_errors():
        return bytes(msgpack.packb(tree))


def pack_with_singles(tree: object) -> bytes:
    """Encode a tree that has a `Single` in its tuples and dicts; inside lists there can be none."""
    with _translated_errors():
        return b"".join(_pack_parts(tree, msgpack.Packer(), msgpack.Packer(use_single_float=True)))


def _pack_parts(value: object, double: Any, single: Any) -> Iterator[bytes]:
    if type(value) is tuple:
        yield double.pack_array_header(len(value))
        for item in value:
            yield from _pack_parts(item, double, single)
    elif type(value) is dict:
        yield double.pack_map_header(len(value))
        for key, item in value.items():
            yield double.pack(key)
            yield from _pack_parts(item, double, single)
    elif type(value) is Single:
        yield single.pack(float(value))
    else:
        yield double.pack(value)


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"MessagePack can't hold it: {error}") from error
