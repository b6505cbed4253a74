"""Describe published datasets as a STAC collection and its items, with pystac."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import xarray
from xarray import DataArray, Dataset

from frazil.arguments import verb
from frazil.errors import InvalidInputError, SetupError
from frazil.repository.session import Session
from frazil.spark.regions import path_of
from frazil.spark.transaction import AnyRepository, find_repository

try:
    import pystac
except ImportError as error:
    raise SetupError(
        "frazil.stac needs pystac, which is not installed: pip install 'frazil[observe]'"
    ) from error

__all__ = ["describe"]

MEDIA_TYPE = "application/vnd.zarr+icechunk"
_CUBE = "https://stac-extensions.github.io/datacube/v2.2.0/schema.json"
_PROJECTION = "https://stac-extensions.github.io/projection/v2.0.0/schema.json"
_AXES = {"x": ("lon", "longitude", "x"), "y": ("lat", "latitude", "y")}
_STANDARD = {
    "x": ("longitude", "projection_x_coordinate"), "y": ("latitude", "projection_y_coordinate"),
}  # fmt: skip


@verb()
def describe(
    repo: AnyRepository,
    id: str,
    *,
    branch: str = "main",
    groups: Sequence[str] | None = None,
    href: str | None = None,
    title: str | None = None,
    description: str | None = None,
    license: str = "other",
    crs: str | None = None,
) -> "pystac.Collection":
    """Describe what a branch publishes: a collection with one item for each dataset.

    Only coordinates are read. An item has the extent of its dataset in time and space, its dimensions
    and variables (datacube extension), its coordinate reference system (projection extension), and an
    asset that links to the repository and names the snapshot.

    Parameters
    ----------
    repo
        Repository or its location.
    id
        Id of the collection.
    branch
        Branch that is published.
    groups
        Groups of the datasets. Default: all groups with variables.
    href
        Location of the repository for readers. Default: that of its storage.
    title, description
        Texts of the collection. Default: the attributes `title` and `summary` of the first dataset.
    license
        SPDX identifier of the licence, or `other`.
    crs
        Coordinate reference system such as `EPSG:32632`. Default: that of the `grid_mapping`, or
        `EPSG:4326` for latitudes and longitudes.

    Returns
    -------
    pystac.Collection

    Raises
    ------
    InvalidInputError
        If there is no dataset.
    NodeNotFoundError
        If there is no group of a name.

    Examples
    --------
    >>> collection = describe("s3://bucket/weather", "weather", license="CC-BY-4.0")
    >>> collection.normalize_and_save("stac", pystac.CatalogType.SELF_CONTAINED)
    """
    repository = find_repository(repo)
    session = repository.readonly_session(branch)
    place = repository.storage.place if href is None else href
    items = []
    first: Dataset | None = None
    for group in _find_groups(session) if groups is None else map(path_of, groups):
        session.state.view.get_node(group)
        dataset: Dataset = xarray.open_zarr(
            session.store, group=group, consolidated=False, chunks=None, decode_coords="all"
        )
        first = dataset if first is None else first
        items.append(_describe_group(repository, session, id, group, dataset, place, branch, crs))
    if first is None:
        raise InvalidInputError(f"there is no dataset on {branch}: no group has arrays")
    boxes = [item.bbox for item in items if item.bbox is not None]
    times = [
        time
        for item in items
        for time in (item.common_metadata.start_datetime, item.common_metadata.end_datetime)
        if time is not None
    ]
    collection = pystac.Collection(
        id,
        description or str(first.attrs.get("summary") or first.attrs.get("description") or id),
        pystac.Extent(
            pystac.SpatialExtent([_unite(boxes) if boxes else [-180.0, -90.0, 180.0, 90.0]]),
            pystac.TemporalExtent([_find_ends(times)]),
        ),
        title=title or first.attrs.get("title"),
        license=license,
    )
    collection.add_items(items)
    return collection


def _find_ends(times: Sequence[datetime]) -> list[datetime | None]:
    return [min(times), max(times)] if times else [None, None]


def _find_groups(session: Session) -> Iterator[str]:
    """Yield the groups that have arrays other than coordinates."""
    for node in session.state.view.nodes():
        if node.array is not None or node.path.startswith("/_frazil"):
            continue
        for each in session.state.view.children(node.path):
            if each.array is not None:
                names = json.loads(each.user_data).get("dimension_names")
                if names and names != [each.path.rpartition("/")[2]]:
                    yield node.path
                    break


def _describe_group(
    repository: Any,
    session: Session,
    id: str,
    group: str,
    dataset: Dataset,
    place: str,
    branch: str,
    crs: str | None,
) -> "pystac.Item":
    published = repository.lookup_snapshot(session.snapshot_id).written_at
    axes = {axis: found for axis in _AXES if (found := _find_axis(dataset, axis)) is not None}
    reference = crs or _find_crs(dataset, axes)
    box = _find_box(axes) if reference == "EPSG:4326" else None
    times = [
        each
        for each in dataset.coords.values()
        if each.dims == (each.name,) and each.size and hasattr(each.to_index(), "year")
    ]
    start, end = (_to_datetime(times[0].values[at]) for at in (0, -1)) if times else (None, None)
    properties: dict[str, Any] = {
        "cube:dimensions": {
            str(dim): _describe_dimension(dataset, str(dim), axes, reference)
            for dim in dataset.dims
        },
        "cube:variables": {
            str(name): _describe_variable(each) for name, each in dataset.data_vars.items()
        },
        "icechunk:snapshot_id": session.snapshot_id,
        "icechunk:branch": branch,
        "updated": _show(published),
    }
    extensions = [_CUBE]
    if reference is not None:
        properties["proj:code"] = reference if ":" in reference else None
        extensions.append(_PROJECTION)
    if reference is not None and box is None and axes.keys() == _AXES.keys():
        properties["proj:bbox"] = _find_box(axes)
    item = pystac.Item(
        f"{id}{group.rstrip('/').replace('/', '-')}",
        None if box is None else _polygon(box),
        box,
        None if start is not None else published,
        properties,
        start_datetime=start,
        end_datetime=end,
        stac_extensions=extensions,
    )
    item.add_asset(
        "data",
        pystac.Asset(
            place,
            title=str(dataset.attrs.get("title", group)),
            media_type=MEDIA_TYPE,
            roles=["data"],
            extra_fields={
                "icechunk:snapshot_id": session.snapshot_id,
                "icechunk:branch": branch,
                "icechunk:group": group,
            },
        ),
    )
    return item


def _find_axis(dataset: Dataset, axis: str) -> DataArray | None:
    """Return the coordinate of an axis of space, by its attributes or its name."""
    known = [each for each in dataset.coords.values() if each.size and each.dtype.kind in "iuf"]
    by_attributes = [
        each
        for each in known
        if each.attrs.get("standard_name") in _STANDARD[axis]
        or each.attrs.get("axis") == axis.upper()
    ]
    by_name = [each for each in known if str(each.name).lower() in _AXES[axis]]
    return next(iter([*by_attributes, *by_name]), None)


def _find_crs(dataset: Dataset, axes: Mapping[str, DataArray]) -> str | None:
    for each in (*dataset.coords.values(), *dataset.data_vars.values()):
        for name in ("crs_wkt", "spatial_ref", "epsg_code", "proj:code"):
            text = str(each.attrs.get(name, ""))
            if text.upper().startswith("EPSG:"):
                return text.upper()
            _, found, tail = text.rpartition('ID["EPSG",')
            if found and tail.rstrip("]").isdecimal():
                return f"EPSG:{tail.rstrip(']')}"
    names = {axis: (str(each.name).lower(), each.attrs) for axis, each in axes.items()}
    is_geographic = names.keys() == _AXES.keys() and all(
        name in _AXES[axis][:2] or str(attrs.get("units", "")).startswith("degree")
        for axis, (name, attrs) in names.items()
    )
    return "EPSG:4326" if is_geographic else None


def _find_box(axes: Mapping[str, DataArray]) -> list[float] | None:
    if axes.keys() != _AXES.keys():
        return None
    x, y = axes["x"].values.astype("f8"), axes["y"].values.astype("f8")
    west, east = float(np.nanmin(x)), float(np.nanmax(x))
    if str(axes["x"].name).lower() in _AXES["x"][:2] and east > 180:
        turned = np.where(x > 180, x - 360, x)
        # Half the globe or more has no other side to be on.
        wide = east - west > 180
        west, east = (
            (float(np.nanmin(turned)), float(np.nanmax(turned)))
            if wide
            else (west - 360, east - 360)
        )
    return [west, float(np.nanmin(y)), east, float(np.nanmax(y))]


def _unite(boxes: Sequence[Sequence[float]]) -> list[float]:
    lows, highs = [each[:2] for each in boxes], [each[2:] for each in boxes]
    return [*map(min, zip(*lows, strict=True)), *map(max, zip(*highs, strict=True))]


def _polygon(box: Sequence[float]) -> dict[str, Any]:
    west, south, east, north = box
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return {"type": "Polygon", "coordinates": [ring]}


def _describe_dimension(
    dataset: Dataset, dim: str, axes: Mapping[str, DataArray], crs: str | None
) -> dict[str, Any]:
    coordinate = dataset.coords.get(dim)
    axis = next((axis for axis, each in axes.items() if each.name == dim), None)
    if coordinate is None or not coordinate.size:
        return {"type": "count", "extent": [0, max(dataset.sizes[dim] - 1, 0)]}
    if hasattr(coordinate.to_index(), "year"):
        ends = [_show(_to_datetime(coordinate.values[at])) for at in (0, -1)]
        return {"type": "temporal", "extent": ends}
    values = coordinate.values
    if values.dtype.kind not in "iuf":
        return {"type": "nominal", "values": [str(each) for each in values.tolist()]}
    found: dict[str, Any] = {"extent": [float(np.nanmin(values)), float(np.nanmax(values))]}
    if axis is not None:
        known = {"reference_system": int(crs[5:])} if crs and crs[5:].isdecimal() else {}
        return {"type": "spatial", "axis": axis, **found, **known}
    return {"type": str(coordinate.attrs.get("standard_name", "ordinal")), **found}


def _describe_variable(variable: DataArray) -> dict[str, Any]:
    found = {"dimensions": list(map(str, variable.dims)), "type": "data"}
    for name, key in (("units", "unit"), ("long_name", "description")):
        if variable.attrs.get(name):
            found[key] = str(variable.attrs[name])
    return found


def _to_datetime(value: Any) -> datetime:
    """Return a time of numpy, or of another calendar, as a datetime in UTC."""
    if isinstance(value, np.datetime64):
        return datetime.fromtimestamp(int(value.astype("datetime64[s]").astype("i8")), UTC)
    # Calendars with 360 days have days that others lack.
    day = min(value.day, 28) if value.month == 2 else min(value.day, 30)
    return datetime(
        value.year, value.month, day, value.hour, value.minute, value.second, tzinfo=UTC
    )


def _show(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
