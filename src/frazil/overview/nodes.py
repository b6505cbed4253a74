"""Groups and arrays of a version, their Zarr metadata and axes: coordinates, units, directions."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
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


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis of an array, with the coordinate of its dimension."""

    number: int
    name: str
    """Name of the dimension; `axis 0` and so on without one."""
    length: int
    kind: str = "other"
    """`time`, `latitude`, `longitude`, `north`, `east` (of a projection) or `other`."""
    units: str | None = None
    coordinate: str | None = None
    """Path of the coordinate, a one-dimensional array named like the dimension."""

    @property
    def points_north(self) -> bool:
        """Return True if the coordinate increases towards north."""
        return self.kind in ("latitude", "north")

    @property
    def points_east(self) -> bool:
        """Return True if the coordinate increases towards east."""
        return self.kind in ("longitude", "east")


def find_axes(session: Session, node: Node) -> tuple[Axis, ...]:
    """Return the axes of an array, from metadata alone."""
    assert node.array is not None
    names = node.array.dimension_names or (None,) * len(node.array.shape)
    lengths = [each.array_length for each in node.array.shape]
    return tuple(
        _describe_axis(session, node, number, name, length)
        for number, (name, length) in enumerate(zip(names, lengths, strict=True))
    )


def _describe_axis(
    session: Session, node: Node, number: int, name: str | None, length: int
) -> Axis:
    if not name:
        return Axis(number, f"axis {number}", length)
    found = find_variable(session, node, name)
    if found is None or found.array is None:
        return Axis(number, name, length)
    attributes = read_attributes(found)
    units = attributes.get("units")
    is_own = (found.array.dimension_names or ()) == (name,) and _length(found) == length
    return Axis(
        number,
        name,
        length,
        find_kind(name, attributes) or "other",
        units if isinstance(units, str) and units else None,
        found.path if is_own else None,
    )


def _length(node: Node) -> int:
    assert node.array is not None
    return node.array.shape[0].array_length


def choose_axes(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Return the two axes of a map, rows first: north and east if known, else the last two."""
    rows = next((each for each in reversed(axes) if each.points_north), None)
    columns = next((each for each in reversed(axes) if each.points_east), None)
    if rows is not None and columns is not None:
        return rows, columns
    return axes[-2:]


def find_variable(session: Session, node: Node, name: str) -> Node | None:
    """Find a variable in the group of an array or an ancestor, as xarray's trees inherit them."""
    group = node.path
    while group not in ("", "/"):
        group = group.rpartition("/")[0]
        found = session.state.view.find_node(f"{group}/{name}")
        if found is not None:
            return found
    return None


def find_curved(session: Session, node: Node, rows: str, columns: str) -> Iterator[Node]:
    """Yield coordinates with two axes that point north, of grids without latitudes as an axis."""
    for name in _candidates(session, node):
        found = find_variable(session, node, name)
        if found is None or found.array is None:
            continue
        dims = found.array.dimension_names or ()
        if len(dims) >= 2 and set(dims[-2:]) == {rows, columns}:
            kind = find_kind(name, read_attributes(found))
            if kind in ("latitude", "north"):
                yield found


def _candidates(session: Session, node: Node) -> Iterable[str]:
    named = str(read_attributes(node).get("coordinates", "")).split()
    group = session.state.view.find_node(node.path.rpartition("/")[0] or "/")
    listed = str(read_attributes(group).get("coordinates", "")).split() if group is not None else []
    return dict.fromkeys((*named, *listed, "lat", "latitude"))


def describe_crs(session: Session, node: Node) -> str | None:
    """Return the name of the coordinate reference system, from CF's grid mapping, or None."""
    name = read_attributes(node).get("grid_mapping")
    if not isinstance(name, str) or not name:
        return None
    found = find_variable(session, node, name.split(":")[0].split()[0])
    attributes = {} if found is None else read_attributes(found)
    for key in ("projected_crs_name", "geographic_crs_name", "grid_mapping_name"):
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value.replace("_", " ")
    return name


def is_projected(session: Session, node: Node) -> bool:
    """Return True if a grid mapping other than plain longitudes and latitudes is declared."""
    name = read_attributes(node).get("grid_mapping")
    if not isinstance(name, str) or not name:
        return False
    found = find_variable(session, node, name.split(":")[0].split()[0])
    mapping = {} if found is None else read_attributes(found)
    return mapping.get("grid_mapping_name") not in (None, "latitude_longitude")


_STANDARD_NAMES = {
    "latitude": "latitude", "grid_latitude": "north", "projection_y_coordinate": "north",
    "longitude": "longitude", "grid_longitude": "east", "projection_x_coordinate": "east",
    "time": "time",
}  # fmt: skip
_UNITS = re.compile(r"degrees?_?(n|e)(?:orth|ast)?")
_NAMES = {
    "latitude": re.compile(r"(?:nav_)?lat(?:itude)?(?:_.*|\d*)"),
    "longitude": re.compile(r"(?:nav_)?lon(?:g|gitude)?(?:_.*|\d*)"),
    "north": re.compile(r"(?:x|r|g|grid_)lat(?:itude)?(?:_.*|\d*)|y[cg]?|northing.*"),
    "east": re.compile(r"(?:x|r|g|grid_)lon(?:g|gitude)?(?:_.*|\d*)|x[cg]?|easting.*"),
}  # fmt: skip


def find_kind(name: str, attributes: Mapping[str, Any]) -> str | None:
    """Return the kind of a coordinate from CF attributes or its name, or None."""
    units = str(attributes.get("units", ""))
    if " since " in units:
        return "time"
    standard = attributes.get("standard_name")
    if isinstance(standard, str):
        return _STANDARD_NAMES.get(standard.lower())
    found = _UNITS.fullmatch(units.lower())
    if found is not None:
        return "latitude" if found[1] == "n" else "longitude"
    axis = {"Y": "north", "X": "east", "T": "time"}.get(str(attributes.get("axis", "")).upper())
    plain = name.lower()
    by_name = next((kind for kind, names in _NAMES.items() if names.fullmatch(plain)), None)
    if axis is not None:
        is_same = {"north": "latitude", "east": "longitude"}.get(axis) == by_name
        return by_name if is_same else axis
    return by_name
