"""JSON files that may be hostile, to and from trees."""

from frazil.errors import InvalidInputError
from frazil.format.json_values import JsonValue, decode_json, encode_json


def unpack(data: bytes) -> JsonValue:
    """Decode a whole file."""
    return decode_json(data, "file")


def pack(tree: JsonValue) -> bytes:
    """Encode a tree."""
    try:
        return encode_json(tree)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInputError(f"JSON can't hold it: {error}") from error
