"""Groups and arrays, without looking into their chunks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.format.paths import validate_path
from frazil.format.snapshot import Node
from frazil.session import Session


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A group, or an array with its shape."""

    path: str
    kind: str
    """`group` or `array`."""
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    dims: tuple[str | None, ...] = ()


def list_nodes(session: Session, path: str = "/") -> list[NodeEntry]:
    """A node and all below it, in the order of their paths; raises NodeNotFoundError.

    Nothing for the root of a repository that nothing was written to.
    """
    root = normalize(path)
    if root != "/":
        session.state.view.get_node(root)
    return [_describe(node) for node in session.state.view.descendants(root)]


def normalize(path: str) -> str:
    """A path as people write it, with or without slashes around it."""
    return validate_path("/" + path.strip("/"))


def read_metadata(node: Node) -> Mapping[str, Any]:
    """The Zarr metadata of a node, as it is stored."""
    metadata: dict[str, Any] = json.loads(bytes(node.user_data) or b"{}")
    return metadata


def _describe(node: Node) -> NodeEntry:
    if node.array is None:
        return NodeEntry(node.path, "group")
    data_type = read_metadata(node).get("data_type")
    return NodeEntry(
        node.path,
        "array",
        tuple(each.array_length for each in node.array.shape),
        data_type if isinstance(data_type, str) else json.dumps(data_type),
        tuple(node.array.dimension_names or ()),
    )
