"""Text files of the generations before V2: refs in JSON, one per branch or tag, and `config.yaml`.

A configuration is a tree of plain values, which V2 stores as FlexBuffers in the repo info. Where YAML
marks a choice with a tag (`store: !s3 {…}`), FlexBuffers has a map with one key. Here it is always
the map with one key. The layers above interpret the keys.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import yaml

from frazil.errors import FormatError, InvalidInputError
from frazil.format.ids import SnapshotId
from frazil.format.metadata import (
    JsonValue,
    Nanoseconds,
    decode_json,
    decode_rfc3339,
    encode_json,
    encode_rfc3339,
)
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


# Choices that YAML writes as tags; any other map with one key is a plain map.
_CHOICES = frozenset(
    ("or", "and", "path_matches", "name_matches", "num_refs", "Included", "Excluded", "Axis",
     "DimensionName", "local_file_system", "http", "s3", "s3_compatible", "tigris", "gcs", "azure",
     "S3", "S3Compatible", "LocalFileSystem", "GCS", "Azure", "Tigris")
)  # fmt: skip


def decode_config_yaml(data: bytes) -> dict[str, JsonValue]:
    """Decode a `config.yaml`."""
    if len(data) > _MOST_BYTES:
        raise FormatError(
            f"config.yaml: {len(data)} bytes are too many for a configuration, {_MOST_BYTES} are"
            " allowed: delete or replace the file",
            kind="config-deserialization",
        )
    try:
        _check_events(data)
        tree = yaml.load(data, _Loader)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise FormatError(f"config.yaml: {error}", kind="config-deserialization") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise FormatError(f"config.yaml: a {type(tree).__name__} where a map should be")
    return tree


def encode_config_yaml(config: Mapping[str, JsonValue]) -> bytes:
    """Encode a `config.yaml`; raise InvalidInputError if it could not be decoded again."""
    text: str = yaml.dump(
        dict(config), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_ENDLESS
    )
    data = text.encode()
    if len(data) > _MOST_BYTES:
        raise InvalidInputError(
            f"the configuration takes {len(data)} bytes in config.yaml, {_MOST_BYTES} are allowed:"
            " merge virtual chunk containers",
            kind="serialization",
        )
    return data


_MOST_BYTES = 1 << 20
"""Maximum size: enough for thousands of containers, and decoded in about a second."""
_DEEPEST = 100
_ENDLESS = 2**31
_CORE = "tag:yaml.org,2002:"

# Plain scalars of YAML 1.2, as the writers of these files use them, with their possible first
# characters. PyYAML follows YAML 1.1, where dates, `no`, `1:30` and `1_000` are not strings.
_PLAIN_SCALARS = {
    "null": (r"(~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    "bool": (r"(true|True|TRUE|false|False|FALSE)\Z", list("tTfF")),
    "int": (r"([-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+)\Z", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z",
        list("-+.0123456789"),
    ),
}


# The parser in C is ten times faster, but not in every build of PyYAML.
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _check_events(data: bytes) -> None:
    """Refuse aliases, which can expand exponentially, and excessive nesting."""
    depth = 0
    for event in yaml.parse(data, _BASE):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise yaml.YAMLError(f"it is nested deeper than {_DEEPEST} levels")


class _Loader(_BASE):  # type: ignore[misc]
    """Loader that converts tags to maps with one key."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, JsonValue]:
        tree: dict[Any, JsonValue] = super().construct_mapping(node, deep)
        for key in tree:
            if not isinstance(key, str):
                raise yaml.YAMLError(f"{key!r} can't be a key")
        return tree

    def construct_scalar(self, node: Any) -> str:
        text = str(super().construct_scalar(node))
        text.encode()  # an escape can encode half of a surrogate pair, which is invalid text
        return text

    def construct_choice(self, suffix: str, node: yaml.Node) -> dict[str, JsonValue]:
        if isinstance(node, yaml.MappingNode):
            return {suffix: self.construct_mapping(node, deep=True)}
        if isinstance(node, yaml.SequenceNode):
            return {suffix: self.construct_sequence(node, deep=True)}
        # The tag hides the type of the scalar: resolve it from the text.
        if isinstance(node, yaml.ScalarNode) and not node.style:
            tag = self.resolve(yaml.ScalarNode, node.value, (True, False))
            return {suffix: self.construct_object(yaml.ScalarNode(tag, node.value))}
        return {suffix: self.construct_scalar(node)}


def _construct_bool(loader: _Loader, node: yaml.Node) -> bool:
    text = loader.construct_scalar(node).lower()
    if text not in ("true", "false"):
        raise yaml.YAMLError(f"{text!r} is no boolean")
    return text == "true"


def _construct_int(loader: _Loader, node: yaml.Node) -> int:
    return int(loader.construct_scalar(node), 0)


def _construct_float(loader: _Loader, node: yaml.Node) -> float:
    number = float(loader.construct_scalar(node))
    if not math.isfinite(number):
        raise yaml.YAMLError(f"{number} is no JSON value")
    return number


_Loader.yaml_constructors = {
    f"{_CORE}null": lambda _loader, _node: None,
    f"{_CORE}bool": _construct_bool,
    f"{_CORE}int": _construct_int,
    f"{_CORE}float": _construct_float,
    **{f"{_CORE}{kind}": yaml.SafeLoader.yaml_constructors[f"{_CORE}{kind}"]
       for kind in ("str", "seq", "map")},
    None: yaml.SafeLoader.yaml_constructors[None],
}  # fmt: skip
_Loader.add_multi_constructor("!", _Loader.construct_choice)


class _Dumper(yaml.SafeDumper):
    """Dumper that converts the known maps with one key to tags."""

    event: Any  # of the emitter, which has no types

    def ignore_aliases(self, _: Any) -> bool:
        return True

    def choose_scalar_style(self) -> str:
        style: str = super().choose_scalar_style()
        # A number after a tag would be quoted, and become a string.
        is_choice = (self.event.tag or "").startswith("!")
        return "" if is_choice and self.event.style is None else style


_Loader.yaml_implicit_resolvers = {}
for _kind, (_pattern, _first) in _PLAIN_SCALARS.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"{_CORE}{_kind}", re.compile(_pattern), _first)


def _represent_map(dumper: _Dumper, tree: dict[str, JsonValue]) -> yaml.Node:
    if len(tree) == 1:
        ((name, value),) = tree.items()
        if name in _CHOICES:
            # A node has one tag: a choice can't contain another choice.
            is_map = isinstance(value, dict)
            node = dumper.represent_dict(value) if is_map else dumper.represent_data(value)
            node.tag = f"!{name}"
            if isinstance(value, str) and isinstance(node, yaml.ScalarNode):
                node.style = node.style or "'"
            return node
    return dumper.represent_dict(tree)


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    # Only double quotes preserve every character; the emitter breaks lines in the others.
    return dumper.represent_scalar(f"{_CORE}str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(dict, _represent_map)
_Dumper.add_representer(str, _represent_text)
