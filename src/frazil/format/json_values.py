"""JSON values as Python holds them, and reading them from bytes that may be hostile."""

import json
from typing import Any

import msgpack

from frazil.errors import FormatError

JsonValue = Any
"""None, bool, int, float, str, list or dict with str keys; checked where a value enters."""


def decode_json(data: bytes, what: str) -> JsonValue:
    """Parse strict JSON of which everything can be written again: finite numbers, whole texts."""
    try:
        tree = json.loads(data, parse_constant=_refuse_constant)
        # A number like 1e999 or half of a surrogate pair is found by writing the tree.
        encode_json(tree)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{what}: not JSON: {error}") from error
    return tree


def encode_json(value: JsonValue) -> bytes:
    """Compact UTF-8 JSON in the order of the keys as given."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def unpack_messagepack(data: bytes, **options: Any) -> Any:
    """Decode MessagePack with `msgpack.unpackb`'s options; ValueError for whatever is wrong.

    Nothing is built before it is known that there are as many items as the headers claim: nested
    claims could otherwise ask for memory far beyond the size of the data.
    """
    try:
        _check_claims(data)
        return msgpack.unpackb(data, ext_hook=_refuse_extension, **options)
    except (
        TypeError,  # a map as the key of a map
        RecursionError,
        MemoryError,
        msgpack.UnpackException,
    ) as error:
        raise ValueError(str(error) or type(error).__name__) from error


def _check_claims(data: bytes) -> None:
    unpacker = msgpack.Unpacker(None, max_buffer_size=max(len(data), 1))
    unpacker.feed(data)
    try:
        unpacker.skip()
    except msgpack.OutOfData as error:
        raise ValueError("the data is shorter than it claims") from error
    if unpacker.tell() != len(data):
        raise ValueError(f"{len(data) - unpacker.tell()} bytes are left over")


def _refuse_extension(code: int, _: bytes) -> None:
    raise ValueError(f"extension type {code} is not used here")
