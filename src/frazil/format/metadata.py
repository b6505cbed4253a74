"""Values of metadata files: JSON, MessagePack and FlexBuffers, node paths and timestamps, validated.

Timestamps are nanoseconds since 1970-01-01 UTC, without leap seconds. The FlatBuffers generations
store microseconds, the older ones RFC 3339 text with up to nine digits; nanoseconds represent both.
"""

import json
import math
import re
import reprlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgpack

from frazil.errors import FormatError, InvalidInputError, InvalidTypeError
from frazil.lazy import lazy_modules

if TYPE_CHECKING:
    from flatbuffers import flexbuffers
else:
    (flexbuffers,) = lazy_modules("flatbuffers.flexbuffers")  # for metadata that is written

JsonValue = Any
"""None, bool, int, float, str, list or dict with str keys; validated on input."""


def decode_json(data: bytes, what: str) -> JsonValue:
    """Parse strict JSON that can be encoded again: finite numbers, valid Unicode."""
    try:
        tree = json.loads(data, parse_constant=_refuse_constant)
        # Encoding the tree detects numbers like 1e999 and halves of surrogate pairs.
        encode_json(tree)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{what}: not JSON: {error}") from error
    return tree


def encode_json(value: JsonValue) -> bytes:
    """Encode as compact UTF-8 JSON, with keys in the given order."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def unpack_messagepack(data: bytes, **options: Any) -> Any:
    """Decode MessagePack with `msgpack.unpackb`'s options; raise ValueError for any damage.

    Claimed item counts are verified before anything is built: nested claims could otherwise allocate
    memory far beyond the size of the data.
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
    """Encode a JSON value as FlexBuffers."""
    problem = _find_problem(value, 0)
    if problem:
        message = f"metadata value can't be stored: {problem}"
        raise InvalidInputError(message, kind="bad-metadata")
    builder = flexbuffers.Builder()
    _add(builder, value)
    return bytes(builder.Finish())


def _add(builder: Any, value: JsonValue) -> None:
    """Add a value; the builder's `Add` lacks unsigned integers, large floats and non-ASCII keys."""
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
    """Decode FlexBuffers that hold a JSON value."""
    return _Decoder(data).root()


class _Decoder:
    __slots__ = ("_data", "_keys", "_left")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._keys: dict[int, str] = {}
        # Every element of a valid buffer takes at least one byte, and so does every character.
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

    def _number(self, at: int, width: int, kind: int) -> int:  # or float; callers know which
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
        return None if _is_encodable_value(value) else f"{value!r} is not text that UTF-8 can hold"
    if isinstance(value, int):
        fits = -(2**63) <= value < 2**64
        return None if fits else f"the integer {value} needs more than 64 bits"
    if isinstance(value, list):
        problems = (_find_problem(item, depth + 1) for item in value)
        return next(filter(None, problems), None)
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or "\0" in key or not _is_encodable_value(key):
                return f"{key!r} can't be a key"
            if problem := _find_problem(item, depth + 1):
                return problem
        return None
    raise InvalidTypeError(
        f"metadata value can't be stored: {type(value).__name__} is no JSON type",
        kind="bad-metadata",
    )


def _is_encodable_value(text: str) -> bool:
    # Python strings can contain halves of surrogate pairs.
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


class Encoding(Enum):
    """Encoding of a value, determined by the specification version of the file."""

    MESSAGEPACK = 1
    FLEXBUFFERS = 2


class Value:
    """JSON value, decoded on demand; equal if the JSON values are equal."""

    __slots__ = ("_data", "_encoding", "_value")

    def __init__(
        self, value: JsonValue, *, encoding: Encoding | None = None, data: bytes = b""
    ) -> None:
        self._value = value
        self._encoding = encoding
        self._data = data

    @classmethod
    def encoded(cls, encoding: Encoding, data: bytes) -> "Value":
        """Create a value from its encoded bytes."""
        return cls(_UNREAD, encoding=encoding, data=data)

    def get(self) -> JsonValue:
        """Return the value; raise FormatError if its bytes are damaged."""
        if self._value is _UNREAD and self._encoding is not None:
            self._value = _DECODERS[self._encoding](self._data)
        return self._value

    def encode(self, encoding: Encoding) -> bytes:
        """Return the encoded value; the original bytes if the encoding matches."""
        if encoding is self._encoding:
            return self._data
        data = _ENCODERS[encoding](self.get())
        if self._encoding is None:
            # Every commit writes the values of all earlier commits again.
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
    """Immutable mapping from names to JSON values."""

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
        """Return names with encoded values, in the byte order of the names."""
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

UINT16_MAX = 2**16 - 1
UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1
INT64_MIN = -(2**63)

MOST_AXES = 1024
"""Maximum number of axes; a file that claims more is damaged."""

_SURROGATE = "[\ud800-\udfff]"
_DEEPEST_JSON = 128  # limit of serde_json, which wrote these values


@contextmanager
def located(place: str) -> Iterator[None]:
    """Prefix the message of a FormatError with a place."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{place}: {error}", kind=error.kind) from error


@contextmanager
def refused(place: str) -> Iterator[None]:
    """Convert errors about a caller's value to InvalidInputError that names the place."""
    try:
        yield
    except (FormatError, InvalidInputError) as error:
        raise InvalidInputError(f"{place}: {error}", kind="bad-metadata") from error


def show(value: object) -> str:
    """Return a shortened value, for messages."""
    return reprlib.repr(value)


def as_int(what: str, value: object, low: int, high: int) -> int:
    """Return an integer in `low..high`; raise FormatError otherwise, also for a boolean."""
    if type(value) is int and low <= value <= high:
        return value
    raise FormatError(f"{what}: {show(value)} is no integer in {low}..{high}")


def as_bool(what: str, value: object) -> bool:
    """Return a boolean, or raise FormatError."""
    if isinstance(value, bool):
        return value
    raise FormatError(f"{what}: {show(value)} is no boolean")


def as_float(what: str, value: object) -> float:
    """Return a number as a float, or raise FormatError."""
    if type(value) is float:
        return value
    if type(value) is int and INT64_MIN <= value <= UINT64_MAX:
        return float(value)
    raise FormatError(f"{what}: {show(value)} is no number")


def as_text(what: str, value: object) -> str:
    """Return text that UTF-8 can encode, or raise FormatError."""
    if isinstance(value, str) and _is_encodable_tree(value):
        return value
    raise FormatError(f"{what}: {show(value)} is no text")


def _is_encodable_tree(text: str) -> bool:
    # JSON escapes can encode half of a surrogate pair.
    return text.isascii() or re.search(_SURROGATE, text) is None


def as_bytes(what: str, value: object) -> bytes:
    """Return bytes, or raise FormatError."""
    if isinstance(value, bytes):
        return value
    raise FormatError(f"{what}: {show(value)} is not binary")


def as_byte_list(what: str, value: object) -> bytes:
    """Return bytes given as a list of integers, or raise FormatError."""
    items = as_list(what, value)
    if not {type(item) for item in items} <= {int}:
        raise FormatError(f"{what}: {show(value)} is no list of bytes")
    try:
        return bytes(items)
    except ValueError as error:
        raise FormatError(f"{what}: {show(value)} is no list of bytes") from error


def as_list(what: str, value: object, length: int | None = None) -> Sequence[Any]:
    """Return a list or tuple, of the given length if any, or raise FormatError."""
    if not isinstance(value, list | tuple):
        raise FormatError(f"{what}: {show(value)} is no list")
    if length is not None and len(value) != length:
        raise FormatError(f"{what}: a list of {len(value)}, {length} are needed")
    return value


def as_map(what: str, value: object) -> Mapping[Any, Any]:
    """Return a map with any keys, or raise FormatError."""
    if isinstance(value, dict):
        return value
    raise FormatError(f"{what}: {show(value)} is no map")


def as_variant(what: str, value: object) -> tuple[str, Any]:
    """Return name and content of a variant: a map with one entry."""
    entries = as_map(what, value)
    if len(entries) != 1:
        raise FormatError(f"{what}: {show(value)} is no single alternative")
    ((name, content),) = entries.items()
    return as_text(what, name), content


def as_coordinates(what: str, value: object) -> tuple[int, ...]:
    """Return the coordinates of one chunk, or raise FormatError."""
    items = as_list(what, value)
    if len(items) > MOST_AXES:
        raise FormatError(f"{what}: {len(items)} axes, {MOST_AXES} are the most")
    return tuple(as_int(what, item, 0, UINT32_MAX) for item in items)


def as_path(what: str, value: object) -> str:
    """Return a valid node path, or raise FormatError."""
    path = as_text(what, value)
    if problem := find_path_problem(path):
        raise FormatError(f"{what}: {show(path)} is no node path: {problem}")
    return path


def as_json(what: str, value: object, depth: int = _DEEPEST_JSON) -> JsonValue:
    """Return a JSON value; numbers must be finite and fit 64 bits."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return as_text(what, value)
    if isinstance(value, int):
        return as_int(what, value, INT64_MIN, UINT64_MAX)
    if isinstance(value, float) and math.isfinite(value):
        return value
    if depth == 0:
        raise FormatError(f"{what}: nested deeper than {_DEEPEST_JSON} levels")
    if isinstance(value, list | tuple):
        return [as_json(what, item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {as_text(what, key): as_json(what, value[key], depth - 1) for key in value}
    raise FormatError(f"{what}: {show(value)} is no JSON value")


def as_json_map(what: str, value: object) -> dict[str, JsonValue]:
    """Return a JSON object, or raise FormatError."""
    as_map(what, value)
    members: dict[str, JsonValue] = as_json(what, value)
    return members


ROOT = "/"


def find_path_problem(path: str) -> str | None:
    """Return why a node path is invalid, or None."""
    if not path.startswith("/"):
        return "it does not start with '/'"
    if path == ROOT:
        return None
    for segment in path[1:].split("/"):
        if segment in ("", ".", ".."):
            return f"it has the segment {segment!r}"
    if not path.isascii():
        try:
            path.encode()
        except UnicodeEncodeError:
            return "it has a lone surrogate, which is no text"
    return None


def validate_path(path: str) -> str:
    """Return the path; raise InvalidInputError if it is invalid."""
    if problem := find_path_problem(path):
        raise InvalidInputError(f"{path!r} is no node path: {problem}", kind="invalid-path")
    return path


# Snapshots list nodes in the byte order of their paths (`/a`, `/a-b`, `/a/b`). Readers rely on it for
# binary search, so a file in another order hides nodes. Moves in a transaction log are ordered segment
# by segment (`/a`, `/a/b`, `/a-b`). The specification's text gives the second order for both; files
# that the official library accepts follow this rule.


def byte_order(path: str) -> bytes:
    """Return the sort key of nodes in a snapshot."""
    return path.encode()


def segment_order(path: str) -> tuple[bytes, ...]:
    """Return the sort key of moves in a transaction log."""
    return () if path == ROOT else tuple(path[1:].encode().split(b"/"))


def parent_path(path: str) -> str:
    """Return the path of the parent group; the root is its own parent."""
    return path.rpartition("/")[0] or ROOT


def path_name(path: str) -> str:
    """Return the last segment; empty for the root."""
    return path.rpartition("/")[2]


Nanoseconds = int

MICROSECOND = 1000
"""Nanoseconds of a microsecond, the resolution of the FlatBuffers generations."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = r"(?a)(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)"


def decode_rfc3339(text: str) -> Nanoseconds:
    """Decode RFC 3339 text with up to nine fractional digits."""
    match = re.fullmatch(_RFC3339, text)
    if match is None:
        raise FormatError(f"{text!r} is not an RFC 3339 time")
    seconds, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(seconds + zone)
    except ValueError as error:
        raise FormatError(f"{text!r} is not an RFC 3339 time: {error}") from error
    return (moment - _EPOCH) // timedelta(seconds=1) * 10**9 + int((fraction or "").ljust(9, "0"))


def encode_rfc3339(time: Nanoseconds) -> str:
    """Encode as RFC 3339 text in UTC with 0, 3, 6 or 9 fractional digits, as needed."""
    seconds, nanoseconds = divmod(time, 10**9)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    text = text.rjust(19, "0")  # strftime does not pad years before 1000 on every platform
    if nanoseconds:
        digits = f"{nanoseconds:09}"
        while digits.endswith("000"):
            digits = digits[:-3]
        text += f".{digits}"
    return text + "Z"


def to_microseconds(time: Nanoseconds) -> int:
    """Return microseconds as the FlatBuffers generations store them, rounded down."""
    return time // 1000


def from_microseconds(time: int) -> Nanoseconds:
    """Convert microseconds to nanoseconds."""
    return time * 1000


def to_datetime(time: Nanoseconds) -> datetime:
    """Convert to a datetime in UTC, rounded down to microseconds."""
    return _EPOCH + timedelta(microseconds=time // 1000)


def require_zone(moment: object, name: str) -> datetime:
    """Return the datetime; raise InvalidTypeError unless it has a time zone.

    A naive time is ambiguous, and objects deleted by it can't be restored.
    """
    if not isinstance(moment, datetime):
        raise InvalidTypeError(f"invalid {name} {moment!r}: give a datetime with a time zone")
    if moment.utcoffset() is None:
        raise InvalidTypeError(
            f"invalid {name} {moment.isoformat()}: it has no time zone, give one such as tzinfo=UTC"
        )
    return moment


def from_datetime(moment: datetime) -> Nanoseconds:
    """Convert a datetime with a time zone to nanoseconds."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
