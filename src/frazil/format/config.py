"""A repository's saved configuration as a tree of plain values.

V2 keeps it as FlexBuffers in the repo info, V1 and late alphas as `config.yaml`. The two say the same
tree: where YAML marks a choice with a tag (`store: !s3 {…}`), FlexBuffers has a map of one key. Here
it is always the map of one key. What the keys mean is for the layers above.
"""

from collections.abc import Mapping
from typing import Any

import yaml

from frazil.errors import FormatError
from frazil.format.json_values import JsonValue

# Choices that the YAML form writes as tags; everywhere else a map of one key is just a map.
_CHOICES = frozenset(
    ("or", "and", "path_matches", "name_matches", "num_refs", "Included", "Excluded", "Axis",
     "DimensionName", "local_file_system", "http", "s3", "s3_compatible", "tigris", "gcs", "azure",
     "S3", "S3Compatible", "LocalFileSystem", "GCS", "Azure", "Tigris")
)  # fmt: skip


def decode_config_yaml(data: bytes) -> dict[str, JsonValue]:
    """Read a `config.yaml`."""
    try:
        tree = yaml.load(data, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FormatError(f"config.yaml: {error}", kind="config-deserialization") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise FormatError(f"config.yaml: a {type(tree).__name__} where a map should be")
    return tree


def encode_config_yaml(config: Mapping[str, JsonValue]) -> bytes:
    """Write a `config.yaml`."""
    text: str = yaml.dump(dict(config), Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text.encode()


class _Loader(yaml.SafeLoader):
    """Turns tags into maps of one key, and refuses aliases, which can expand without end."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_choice(self, suffix: str, node: yaml.Node) -> dict[str, JsonValue]:
        if isinstance(node, yaml.MappingNode):
            return {suffix: self.construct_mapping(node, deep=True)}
        if isinstance(node, yaml.SequenceNode):
            return {suffix: self.construct_sequence(node, deep=True)}
        # The tag hides what an untagged scalar would be: find that out from the text.
        if isinstance(node, yaml.ScalarNode) and node.style is None:
            tag = self.resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]
            return {suffix: self.construct_object(yaml.ScalarNode(tag, node.value))}
        return {suffix: node.value}


_Loader.add_multi_constructor("!", _Loader.construct_choice)


class _Dumper(yaml.SafeDumper):
    """Turns the known maps of one key into tags."""

    event: Any  # of the emitter, which has no types

    def choose_scalar_style(self) -> str:
        style: str = super().choose_scalar_style()  # type: ignore[no-untyped-call]
        # A number behind a tag would be quoted, and so become a text.
        is_tagged_number = self.event.tag and self.event.style is None
        return "" if is_tagged_number and style == "'" else style


def _represent_map(dumper: _Dumper, tree: dict[str, JsonValue]) -> yaml.Node:
    if len(tree) == 1:
        ((name, value),) = tree.items()
        if name in _CHOICES:
            node = dumper.represent_data(value)
            node.tag = f"!{name}"
            if isinstance(value, str) and isinstance(node, yaml.ScalarNode):
                node.style = "'"
            return node
    return dumper.represent_dict(tree)


_Dumper.add_representer(dict, _represent_map)
