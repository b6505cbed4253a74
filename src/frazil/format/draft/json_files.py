"""JSON files that may be hostile, to and from trees."""

from frazil.errors import FormatError, InvalidInputError
from frazil.format.json_values import JsonValue, decode_json, encode_json


def unpack(data: bytes) -> JsonValue:
    """Decode a whole file, which must hold nothing that JSON can't say again."""
    tree = decode_json(data, "file")
    try:
        # A number like 1e999 or half of a surrogate pair is found by writing the tree.
        encode_json(tree)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON that can be written again: {error}") from error
    return tree


def pack(tree: JsonValue) -> bytes:
    """Encode a tree."""
    try:
        return encode_json(tree)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInputError(f"JSON can't hold it: {error}") from error
