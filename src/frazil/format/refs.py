"""Ref files of the generations before V2: one small JSON file per branch or tag."""

from collections.abc import Mapping
from dataclasses import field

from frazil.errors import FormatError, InvalidInputError
from frazil.format.ids import SnapshotId
from frazil.format.metadata import JsonValue, decode_json, encode_json
from frazil.format.timestamps import Nanoseconds, decode_rfc3339, encode_rfc3339
from frazil.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Ref:
    """Content of a ref file; only the draft generation has a time and properties."""

    snapshot_id: SnapshotId
    timestamp: Nanoseconds | None = None
    properties: Mapping[str, JsonValue] = field(default_factory=dict)


def decode_ref(data: bytes) -> Ref:
    """Decode a ref file of any generation."""
    tree = decode_json(data, "ref file")
    if not isinstance(tree, dict) or "snapshot" not in tree:
        raise FormatError("ref file: there is no 'snapshot' in it")
    timestamp, properties = tree.get("timestamp"), tree.get("properties", {})
    if not isinstance(properties, dict) or not isinstance(timestamp, str | None):
        raise FormatError("ref file: 'timestamp' or 'properties' is of the wrong type")
    return Ref(
        snapshot_id=_decode_id(tree["snapshot"]),
        timestamp=None if timestamp is None else _decode_time(timestamp),
        properties=properties,
    )


def encode_ref(ref: Ref) -> bytes:
    """Encode a ref file of the alpha and V1 generations, or of the draft if it has a time."""
    if ref.timestamp is None:
        return encode_json({"snapshot": str(ref.snapshot_id)})
    return encode_json(
        {
            "snapshot": list(ref.snapshot_id),
            "timestamp": encode_rfc3339(ref.timestamp),
            "properties": dict(ref.properties),
        }
    )


def _decode_time(text: str) -> Nanoseconds:
    try:
        return decode_rfc3339(text)
    except FormatError as error:
        raise FormatError(f"ref file: {error}") from error


def _decode_id(value: JsonValue) -> SnapshotId:
    try:
        if isinstance(value, str):
            return SnapshotId.parse(value)
        if isinstance(value, list) and all(type(item) is int for item in value):
            return SnapshotId(bytes(value))
    except (InvalidInputError, ValueError) as error:
        raise FormatError(f"ref file: {error}") from error
    raise FormatError(f"ref file: {value!r} is no snapshot id")
