"""Typed access to decoded trees (MessagePack, JSON) that may be hostile.

Each function returns its value narrowed to one type or raises FormatError; `what` names the field.
"""

import math
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from frazil.errors import FormatError, InvalidInputError
from frazil.format.json_values import JsonValue
from frazil.format.paths import find_path_problem

UINT16_MAX = 2**16 - 1
UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1
INT64_MIN = -(2**63)

MOST_AXES = 1024
"""No array has more; a file that claims it is damaged."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_DEEPEST_JSON = 128  # what serde_json, which wrote all these values, could parse


@contextmanager
def located(place: str) -> Iterator[None]:
    """Put the place before the message of a FormatError."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{place}: {error}", kind=error.kind) from error


@contextmanager
def refused(place: str) -> Iterator[None]:
    """Turn what is wrong with a caller's value into InvalidInputError that names the place."""
    try:
        yield
    except (FormatError, InvalidInputError) as error:
        raise InvalidInputError(f"{place}: {error}", kind="bad-metadata") from error


def show(value: object) -> str:
    """A value in a message, shortened."""
    return reprlib.repr(value)


def as_int(what: str, value: object, low: int, high: int) -> int:
    """An integer in `low..high`; a boolean is none."""
    if type(value) is int and low <= value <= high:
        return value
    raise FormatError(f"{what}: {show(value)} is no integer in {low}..{high}")


def as_bool(what: str, value: object) -> bool:
    """A boolean."""
    if isinstance(value, bool):
        return value
    raise FormatError(f"{what}: {show(value)} is no boolean")


def as_float(what: str, value: object) -> float:
    """A number, as a float."""
    if type(value) is float:
        return value
    if type(value) is int and INT64_MIN <= value <= UINT64_MAX:
        return float(value)
    raise FormatError(f"{what}: {show(value)} is no number")


def as_text(what: str, value: object) -> str:
    """Text that UTF-8 can hold."""
    if isinstance(value, str) and _is_encodable(value):
        return value
    raise FormatError(f"{what}: {show(value)} is no text")


def _is_encodable(text: str) -> bool:
    # JSON's escapes can spell half of a surrogate pair.
    return text.isascii() or _SURROGATE.search(text) is None


def as_bytes(what: str, value: object) -> bytes:
    """Bytes."""
    if isinstance(value, bytes):
        return value
    raise FormatError(f"{what}: {show(value)} is not binary")


def as_byte_list(what: str, value: object) -> bytes:
    """Bytes that are spelled as a list of integers."""
    items = as_list(what, value)
    if not {type(item) for item in items} <= {int}:
        raise FormatError(f"{what}: {show(value)} is no list of bytes")
    try:
        return bytes(items)
    except ValueError as error:
        raise FormatError(f"{what}: {show(value)} is no list of bytes") from error


def as_list(what: str, value: object, length: int | None = None) -> Sequence[Any]:
    """A list or a tuple, of one length if one is given."""
    if not isinstance(value, list | tuple):
        raise FormatError(f"{what}: {show(value)} is no list")
    if length is not None and len(value) != length:
        raise FormatError(f"{what}: a list of {len(value)}, {length} are needed")
    return value


def as_map(what: str, value: object) -> Mapping[Any, Any]:
    """A map with any keys."""
    if isinstance(value, dict):
        return value
    raise FormatError(f"{what}: {show(value)} is no map")


def as_variant(what: str, value: object) -> tuple[str, Any]:
    """An alternative with content: a map with one entry, from its name to what it holds."""
    entries = as_map(what, value)
    if len(entries) != 1:
        raise FormatError(f"{what}: {show(value)} is no single alternative")
    ((name, content),) = entries.items()
    return as_text(what, name), content


def as_coordinates(what: str, value: object) -> tuple[int, ...]:
    """One chunk's coordinates."""
    items = as_list(what, value)
    if len(items) > MOST_AXES:
        raise FormatError(f"{what}: {len(items)} axes, {MOST_AXES} are the most")
    return tuple(as_int(what, item, 0, UINT32_MAX) for item in items)


def as_path(what: str, value: object) -> str:
    """A valid node path."""
    path = as_text(what, value)
    if problem := find_path_problem(path):
        raise FormatError(f"{what}: {show(path)} is no node path: {problem}")
    return path


def as_json(what: str, value: object, depth: int = _DEEPEST_JSON) -> JsonValue:
    """A JSON value of which lists are lists; numbers are finite and fit 64 bits."""
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
    """A JSON object."""
    as_map(what, value)
    members: dict[str, JsonValue] = as_json(what, value)
    return members
