"""Metadata of snapshots and repositories: JSON values by name, kept encoded until somebody asks.

A repo info of ten thousand snapshots is read and rewritten at every commit; values that nobody looks
at pass through as the bytes they came in.
"""

from collections.abc import Iterator, Mapping
from enum import Enum

import msgpack

from frazil.errors import FormatError, InvalidInputError, InvalidTypeError
from frazil.format.flexbuffers import decode_flexbuffers, encode_flexbuffers
from frazil.format.json_values import JsonValue, unpack_messagepack


class Encoding(Enum):
    """How a value is written: it goes with the specification version of the file it is in."""

    MESSAGEPACK = 1
    FLEXBUFFERS = 2


class Value:
    """A JSON value, decoded when asked for; equal if the JSON values are."""

    __slots__ = ("_data", "_encoding", "_value")

    def __init__(
        self, value: JsonValue, *, encoding: Encoding | None = None, data: bytes = b""
    ) -> None:
        self._value = value
        self._encoding = encoding
        self._data = data

    @classmethod
    def encoded(cls, encoding: Encoding, data: bytes) -> "Value":
        """A value in the form in which a file has it."""
        return cls(_UNREAD, encoding=encoding, data=data)

    def get(self) -> JsonValue:
        """The value; raises FormatError where its bytes are damaged."""
        if self._value is _UNREAD and self._encoding is not None:
            self._value = _DECODERS[self._encoding](self._data)
        return self._value

    def encode(self, encoding: Encoding) -> bytes:
        """The value's bytes; those it came in, if the encoding is the same."""
        if encoding is self._encoding:
            return self._data
        data = _ENCODERS[encoding](self.get())
        if self._encoding is None:
            # Every commit writes the values of all commits before it again.
            self._data, self._encoding = data, encoding
        return data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.get() == other.get()

    def __hash__(self) -> int:
        return hash(repr(self.get()))

    def __repr__(self) -> str:
        return f"Value({self.get()!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Value, (self.get(),))


_UNREAD = object()


class Metadata(Mapping[str, JsonValue]):
    """An immutable mapping from names to JSON values."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, JsonValue | Value] | None = None) -> None:
        self._values = {
            name: value if isinstance(value, Value) else Value(value)
            for name, value in (values or {}).items()
        }

    def __getitem__(self, name: str) -> JsonValue:
        return self._values[name].get()

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values))

    def __repr__(self) -> str:
        return f"Metadata({dict(self)!r})"

    def encode(self, encoding: Encoding) -> list[tuple[str, bytes]]:
        """Names with encoded values, in the order of the names' bytes."""
        names = sorted(self._values, key=str.encode)
        return [(name, self._values[name].encode(encoding)) for name in names]


NO_METADATA = Metadata()


def decode_messagepack(data: bytes) -> JsonValue:
    """Decode MessagePack that holds a JSON value."""
    try:
        return unpack_messagepack(data)
    except ValueError as error:
        raise FormatError(f"MessagePack value: {error}") from error


def encode_messagepack(value: JsonValue) -> bytes:
    """Encode a JSON value as MessagePack."""
    try:
        return bytes(msgpack.packb(value, strict_types=True))
    except TypeError as error:
        message = f"metadata value can't be stored: {error}"
        raise InvalidTypeError(message, kind="bad-metadata") from error
    except (ValueError, OverflowError, RecursionError) as error:
        message = f"metadata value can't be stored: {error}"
        raise InvalidInputError(message, kind="bad-metadata") from error


_DECODERS = {
    Encoding.MESSAGEPACK: decode_messagepack,
    Encoding.FLEXBUFFERS: decode_flexbuffers,
}
_ENCODERS = {
    Encoding.MESSAGEPACK: encode_messagepack,
    Encoding.FLEXBUFFERS: encode_flexbuffers,
}
