"""Reading MessagePack that may be hostile.

Nothing is built before it is known that there are as many items as the headers claim: nested claims
could otherwise ask for memory far beyond the size of the data.
"""

from typing import Any

import msgpack


def unpack_messagepack(data: bytes, **options: Any) -> Any:
    """Decode one value with `msgpack.unpackb`'s options; raises ValueError for whatever is wrong."""
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
