"""Groups and arrays in the tree of a snapshot."""

from collections.abc import Mapping

from frazil.errors import FormatError, InvalidInputError
from frazil.format.checked import (
    as_list,
    as_map,
    as_path,
    as_text,
    as_variant,
    located,
    refused,
    show,
)
from frazil.format.json_values import JsonValue
from frazil.format.paths import segment_order
from frazil.format.snapshot import ArrayData, Dimension, Node
from frazil.format.trees.arrays import read_array_metadata, write_array_metadata
from frazil.format.trees.form import TreeForm
from frazil.format.zarr_metadata import (
    ArrayMetadata,
    GroupMetadata,
    check_attributes,
    decode_zarr_json,
    encode_zarr_json,
)

_FIELDS = ("id", "path", "user_attributes", "node_data")


def read_nodes(value: object, form: TreeForm) -> dict[str, Node]:
    """All nodes by path, in the order of the file."""
    nodes: dict[str, Node] = {}
    for key, item in as_map("nodes", value).items():
        path = as_path("nodes", key)
        with located(f"node {show(path)}"):
            nodes[path] = _read_node(path, item, form)
    return nodes


def write_nodes(nodes: Mapping[str, Node], form: TreeForm) -> dict[str, object]:
    """The reverse of `read_nodes`, in the order of the paths' segments."""
    for path, node in nodes.items():
        with refused(f"node {show(path)}"):
            if as_path("path", path) != node.path:
                raise InvalidInputError(f"it calls itself {show(node.path)}")
    return {path: _write_node(nodes[path], form) for path in sorted(nodes, key=segment_order)}


def sort_keys(value: JsonValue) -> JsonValue:
    """A JSON value with the keys of all objects in order, as the official library held them."""
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [sort_keys(item) for item in value]
    return value


def _read_node(path: str, value: object, form: TreeForm) -> Node:
    fields = form.read_struct("node", value, _FIELDS)
    if as_text("path", fields["path"]) != path:
        raise FormatError(f"it calls itself {show(fields['path'])}")
    attributes = _read_attributes(fields["user_attributes"])
    node_id = form.read_node_id(fields["id"])
    if fields["node_data"] == "Group":
        return Node(node_id, path, encode_zarr_json(GroupMetadata(attributes)))
    variant, content = as_variant("node_data", fields["node_data"])
    if variant != "Array":
        raise FormatError(f"node_data: {show(variant)} is neither Group nor Array")
    metadata_tree, manifests = as_list("node_data", content, 2)
    metadata = read_array_metadata(metadata_tree, attributes, form)
    array = ArrayData(
        shape=_dimensions(metadata),
        dimension_names=metadata.dimension_names,
        manifests=tuple(map(form.read_manifest_ref, as_list("manifests", manifests))),
    )
    return Node(node_id, path, encode_zarr_json(metadata), array)


def _write_node(node: Node, form: TreeForm) -> object:
    with refused(f"node {show(node.path)}"):
        if node.extra is not None:
            raise InvalidInputError("there is no place for extra bytes")
        metadata = decode_zarr_json(node.user_data)
        return form.write_struct(
            {
                "id": form.write_node_id(node.id),
                "path": node.path,
                "user_attributes": _write_attributes(metadata.attributes),
                "node_data": _write_data(node, metadata, form),
            }
        )


def _write_data(node: Node, metadata: GroupMetadata | ArrayMetadata, form: TreeForm) -> object:
    if isinstance(metadata, GroupMetadata):
        if node.array is not None:
            raise InvalidInputError("it has array data, but its zarr.json is a group's")
        return "Group"
    array = node.array
    if array is None:
        raise InvalidInputError("it has no array data, but its zarr.json is an array's")
    if array.shape != _dimensions(metadata) or array.dimension_names != metadata.dimension_names:
        raise InvalidInputError("its array data and its zarr.json differ")
    axes = len(metadata.shape)
    manifests = tuple(form.write_manifest_ref(ref, axes) for ref in array.manifests)
    return {"Array": (write_array_metadata(metadata, form), manifests)}


def _dimensions(metadata: ArrayMetadata) -> tuple[Dimension, ...]:
    return tuple(
        Dimension(length, -(-length // chunk) if chunk else 0, chunk)
        for length, chunk in zip(metadata.shape, metadata.chunk_shape, strict=True)
    )


def _read_attributes(value: object) -> dict[str, JsonValue] | None:
    if value is None:
        return None
    variant, content = as_variant("user_attributes", value)
    if variant != "Inline":
        # Files for attributes were planned and never defined.
        raise FormatError(f"user_attributes: {show(variant)} can't be read, only Inline can")
    return check_attributes(as_map("user_attributes", content))


def _write_attributes(attributes: dict[str, JsonValue] | None) -> object:
    return None if attributes is None else {"Inline": sort_keys(attributes)}
