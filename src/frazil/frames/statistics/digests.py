"""A digest of all that the values of an array depend on besides its chunks: pure."""

import json
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from frazil.format.snapshot import Node

_DECODING = (
    "units", "calendar", "dtype", "scale_factor", "add_offset", "_FillValue", "missing_value",
)  # fmt: skip


def take_digest(node: Node, variable: Any, type: pa.DataType) -> str:
    """Of an array, and of how Xarray decodes it, which other arrays can have a say in.

    The array's shape is not in it: what it leaves of each chunk is part of the chunk's fingerprint.
    """
    document = json.loads(node.user_data)
    document.pop("shape", None)
    decoding = {name: repr(variable.encoding.get(name)) for name in _DECODING}
    parts = [str(node.id), document, str(variable.dtype), str(type), decoding]
    text = json.dumps(parts, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()
