"""JSON values as Python holds them, and reading them from bytes that may be hostile."""

import json
from typing import Any

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
