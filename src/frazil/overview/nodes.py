"""Groups and arrays of a version, and their Zarr metadata."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frazil.format.metadata import validate_path
from frazil.format.snapshot import Node
from frazil.repository.session import Session


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """Group or array in a listing."""

    path: str
    kind: str
    """`group` or `array`."""
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    dims: tuple[str | None, ...] = ()


def list_nodes(session: Session, path: str = "/") -> list[NodeEntry]:
    """List a node and its descendants, sorted by path.

    Parameters
    ----------
    session
        Session at the version to list.
    path
        Path of the topmost node.

    Returns
    -------
    list of NodeEntry
        Empty for the root of a repository without commits.

    Raises
    ------
    NodeNotFoundError
        If there is no node at the path.
    """
    root = normalize(path)
    if root != "/":
        session.state.view.get_node(root)
    return [_describe(node) for node in session.state.view.descendants(root)]


def normalize(path: str) -> str:
    """Normalize a path given with or without slashes around it."""
    return validate_path("/" + path.strip("/"))


def read_metadata(node: Node) -> Mapping[str, Any]:
    """Return the Zarr metadata of a node, as stored."""
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


def read_attributes(node: Node) -> Mapping[str, Any]:
    """Return the attributes of a node."""
    found = read_metadata(node).get("attributes")
    return found if isinstance(found, dict) else {}
