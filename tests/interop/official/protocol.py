"""How the tests and the child process speak: one JSON value a line, each way.

A request is `{"call": name, "args": {…}}`, an answer `{"result": …}` or
`{"error": {"type": …, "kind": …, "message": …}}`. Bytes and times, which JSON does not know, are maps
of one reserved key.
"""

import base64
import json
from datetime import datetime
from typing import Any

_BYTES, _TIME = "$bytes", "$time"


def encode_line(value: Any) -> bytes:
    """A value as a line."""
    return json.dumps(value, default=_encode_other).encode() + b"\n"


def decode_line(line: bytes) -> Any:
    """The value of a line."""
    return json.loads(line, object_hook=_decode_other)


def _encode_other(value: Any) -> Any:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return {_TIME: value.isoformat()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no place in an answer")


def _decode_other(found: dict[str, Any]) -> Any:
    if found.keys() == {_BYTES}:
        return base64.b64decode(found[_BYTES])
    if found.keys() == {_TIME}:
        return datetime.fromisoformat(found[_TIME])
    return found
