"""JSON values in FlexBuffers, the self-describing sibling of FlatBuffers.

Encoding is the `flatbuffers` package's. Decoding is written here, because that package trusts its
input: this decoder checks every position, and bounds the work by the size of the buffer, so that
shared or cyclic vectors can't expand without end.
"""

import struct
from collections.abc import Callable
from typing import Any

from flatbuffers import flexbuffers

from frazil.errors import FormatError, InvalidInputError, InvalidTypeError
from frazil.format.json_values import JsonValue

_MAX_DEPTH = 64
_HONEST_SHARES = 16  # writers may share texts
_LARGEST_SINGLE = float.fromhex("0x1.fffffep+127")

_NULL, _INT, _UINT, _FLOAT, _KEY, _STRING = range(6)
_INDIRECT = {6: _INT, 7: _UINT, 8: _FLOAT}
_MAP, _VECTOR = 9, 10
_TYPED_VECTORS = {11: _INT, 12: _UINT, 13: _FLOAT, 14: _KEY, 15: _STRING}
_FIXED_VECTORS = {
    16 + 3 * (size - 2) + kind: (kind + 1, size) for size in (2, 3, 4) for kind in range(3)
}
_BOOL, _VECTOR_BOOL = 26, 36

_NUMBERS = {
    (kind, width): struct.Struct("<" + letter)
    for kind, letters in ((_INT, "bhiq"), (_UINT, "BHIQ"), (_FLOAT, " efd"))
    for width, letter in zip((1, 2, 4, 8), letters, strict=True)
    if letter != " "
}


def encode_flexbuffers(value: JsonValue) -> bytes:
    """Encode a JSON value."""
    problem = _find_problem(value, 0)
    if problem:
        message = f"metadata value can't be stored: {problem}"
        raise InvalidInputError(message, kind="bad-metadata")
    builder = flexbuffers.Builder()
    _add(builder, value)
    return bytes(builder.Finish())


def _add(builder: Any, value: JsonValue) -> None:
    """The builder's own `Add` takes no unsigned integers, large floats or keys beyond ASCII."""
    if isinstance(value, dict):
        with builder.Map():
            for key, item in value.items():
                builder.Key(key.encode())
                _add(builder, item)
    elif isinstance(value, list):
        with builder.Vector():
            for item in value:
                _add(builder, item)
    elif isinstance(value, int) and value >= 2**63:
        builder.UInt(value)
    elif isinstance(value, float) and abs(value) > _LARGEST_SINGLE:
        builder.Float(value, 8)
    else:
        builder.Add(value)


def decode_flexbuffers(data: bytes) -> JsonValue:
    """Decode a buffer that holds a JSON value."""
    return _Decoder(data).root()


class _Decoder:
    __slots__ = ("_data", "_keys", "_left")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._keys: dict[int, str] = {}
        # Every element of an honest buffer takes at least a byte of it, and so does every letter.
        self._left = len(data)

    def root(self) -> JsonValue:
        data = self._data
        if len(data) < 3:
            raise _damaged("shorter than 3 bytes")
        width, packed = data[-1], data[-2]
        if width not in (1, 2, 4, 8) or len(data) < width + 2:
            raise _damaged(f"the root is {width} bytes wide")
        return self._value(len(data) - 2 - width, width, packed, 0)

    def _value(self, at: int, parent_width: int, packed: int, depth: int) -> JsonValue:
        self._spend(1)
        if depth > _MAX_DEPTH:
            raise _damaged("values are nested too deeply")
        kind, width = packed >> 2, 1 << (packed & 3)
        if kind == _NULL:
            return None
        if kind in (_INT, _UINT, _FLOAT):
            return self._number(at, parent_width, kind)
        if kind == _BOOL:
            return self._number(at, parent_width, _UINT) != 0
        target = self._follow(at, parent_width)
        if kind in _INDIRECT:
            return self._number(target, width, _INDIRECT[kind])
        if kind == _KEY:
            return self._key(target)
        if kind == _STRING:
            return self._string(target, width)
        if kind == _MAP:
            return self._map(target, width, depth)
        return self._vector(target, width, kind, depth)

    def _vector(self, target: int, width: int, kind: int, depth: int) -> list[JsonValue]:
        if kind in _FIXED_VECTORS:
            element, count = _FIXED_VECTORS[kind]
            return self._elements(target, width, count, lambda _: element << 2, depth)
        count = self._number(target - width, width, _UINT)
        self._check(target, count * width)
        if kind == _VECTOR:
            types = target + count * width
            self._check(types, count)
            return self._elements(target, width, count, lambda i: self._data[types + i], depth)
        element = _BOOL if kind == _VECTOR_BOOL else _TYPED_VECTORS.get(kind, -1)
        if element < 0:
            raise _damaged(f"unknown type {kind}")
        return self._elements(target, width, count, lambda _: element << 2, depth)

    def _elements(
        self, start: int, width: int, count: int, packed: Callable[[int], int], depth: int
    ) -> list[JsonValue]:
        return [
            self._value(start + index * width, width, packed(index), depth + 1)
            for index in range(count)
        ]

    def _map(self, target: int, width: int, depth: int) -> dict[str, JsonValue]:
        keys = self._follow(target - 3 * width, width)
        key_width = self._number(target - 2 * width, width, _UINT)
        if key_width not in (1, 2, 4, 8):
            raise _damaged(f"a key vector is {key_width} bytes wide")
        values = self._vector(target, width, _VECTOR, depth)
        if self._number(keys - key_width, key_width, _UINT) != len(values):
            raise _damaged("a map has more keys than values, or fewer")
        positions = (keys + index * key_width for index in range(len(values)))
        names = [self._key(self._follow(position, key_width)) for position in positions]
        return dict(zip(names, values, strict=True))

    def _key(self, start: int) -> str:
        key = self._keys.get(start)
        if key is None:
            end = self._data.find(b"\0", start)
            if end < 0:
                raise _damaged("a key has no end")
            self._spend(end - start)
            key = self._keys[start] = self._text(start, end)
        return key

    def _string(self, start: int, width: int) -> str:
        length = self._number(start - width, width, _UINT)
        self._check(start, length)
        self._spend(length // _HONEST_SHARES)
        return self._text(start, start + length)

    def _text(self, start: int, end: int) -> str:
        try:
            return self._data[start:end].decode()
        except UnicodeDecodeError as error:
            raise _damaged(str(error)) from error

    def _follow(self, at: int, width: int) -> int:
        target = at - self._number(at, width, _UINT)
        self._check(target, 0)
        return target

    def _number(self, at: int, width: int, kind: int) -> int:  # or float, which callers know
        self._check(at, width)
        number = _NUMBERS.get((kind, width))
        if number is None:
            raise _damaged(f"a float is {width} bytes wide")
        value: int = number.unpack_from(self._data, at)[0]
        return value

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _damaged("values refer to each other without end")

    def _check(self, start: int, size: int) -> None:
        if start < 0 or start + size > len(self._data):
            raise _damaged(f"bytes {start}..{start + size} of {len(self._data)} are referred to")


def _damaged(why: str) -> FormatError:
    return FormatError(f"FlexBuffers value: {why}")


def _find_problem(value: JsonValue, depth: int) -> str | None:
    if depth > _MAX_DEPTH:
        return "it is nested too deeply"
    if value is None or isinstance(value, (bool, float)):
        return None
    if isinstance(value, str):
        return None if _is_encodable(value) else f"{value!r} is not text that UTF-8 can hold"
    if isinstance(value, int):
        fits = -(2**63) <= value < 2**64
        return None if fits else f"the integer {value} needs more than 64 bits"
    if isinstance(value, list):
        problems = (_find_problem(item, depth + 1) for item in value)
        return next(filter(None, problems), None)
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or "\0" in key or not _is_encodable(key):
                return f"{key!r} can't be a key"
            if problem := _find_problem(item, depth + 1):
                return problem
        return None
    raise InvalidTypeError(
        f"metadata value can't be stored: {type(value).__name__} is no JSON type",
        kind="bad-metadata",
    )


def _is_encodable(text: str) -> bool:
    # Python's texts can hold halves of surrogate pairs.
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)
