"""Statistics of arrays within polygons: `frazil.spark.zonal`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise, product
from math import prod
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from frazil.arguments import verb
from frazil.display import suggest
from frazil.errors import InvalidInputError, SetupError, explain_missing
from frazil.spark.arrays.points import along, is_longitude, is_number
from frazil.spark.runtime import count_slots, make_rows, make_rows_now, suits_driver
from frazil.spark.spark_session import find_session
from frazil.tables.columns import Columns, Grid, GroupArrays, byte_width, to_arrow
from frazil.tables.table_options import Options
from frazil.tables.table_source import AnyRepository, open_source, read_ahead
from frazil.urls import make_ref
from frazil.virtual.access import Authorize, list_prefixes

try:
    import shapely
except ModuleNotFoundError as error:  # pragma: no cover
    raise SetupError(explain_missing(error, "frazil.spark.zonal")) from error

How = Literal["coverage", "center"]
Weights = Literal["area"]
Statistic = Literal["count", "sum", "mean", "min", "max", "std", "var"]
Floats = NDArray[np.float64]
Cells = tuple[NDArray[np.int64], NDArray[np.int64], Floats]
"""Positions of cells along y and x, and the weight of each."""

_LONGITUDE_AND_LATITUDE = "OGC:CRS84"
_TURN = 360.0
_EARTH_RADIUS = 6_371_008.8
"""Mean radius in metres."""
_NORTH = ("degrees_north", "degree_north", "degree_n", "degrees_n")
_VALUES_AT_ONCE = 1 << 22
_TASKS_PER_SLOT = 3


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """Polygons, and the columns that describe them."""

    rows: pa.Table
    shapes: NDArray[Any]
    crs: Any = None
    """Coordinate reference system; None if unknown."""


def read_zones(given: Any, geometry: str) -> Zones:
    """Return zones of a file, a frame, a mapping or a list of geometries."""
    if isinstance(given, str | Path):
        if str(given).endswith("parquet"):
            return _read_geoparquet(Path(given), geometry)
        return _read_geojson(json.loads(Path(given).read_text()))
    if isinstance(given, Mapping):
        if given.get("type") == "FeatureCollection":
            return _read_geojson(given)
        return Zones(pa.table({"zone": list(given)}), _parse_shapes(list(given.values())))
    if isinstance(given, Sequence):
        return _number_zones(pa.table({}), _parse_shapes(given), None)
    if not isinstance(given, pa.Table):
        if geometry not in given.columns:
            raise InvalidInputError(
                f"the zones have no column {geometry!r}: {suggest(geometry, list(given.columns))}"
            )
        if not hasattr(given, "toArrow"):
            rows = pa.Table.from_pandas(given.drop(columns=geometry), preserve_index=False)
            shapes = _parse_shapes(list(given[geometry]))
            return _number_zones(rows, shapes, getattr(given, "crs", None))
        given = given.toArrow()
    return _from_table(given, geometry, None)


def _from_table(table: pa.Table, geometry: str, crs: Any) -> Zones:
    if geometry not in table.column_names:
        raise InvalidInputError(
            f"the zones have no column {geometry!r}: {suggest(geometry, table.column_names)}"
        )
    shapes = _parse_shapes(table.column(geometry).to_pylist())
    return _number_zones(table.drop_columns(geometry).replace_schema_metadata(), shapes, crs)


def _number_zones(rows: pa.Table, shapes: NDArray[Any], crs: Any) -> Zones:
    """Return zones with their other columns, or with their numbers if there are none."""
    if not rows.column_names:
        rows = pa.table({"zone": np.arange(len(shapes))})
    return Zones(rows, shapes, crs)


def _read_geoparquet(path: Path, geometry: str) -> Zones:
    table = pq.read_table(path)
    about = json.loads((table.schema.metadata or {}).get(b"geo", b"{}"))
    column = about.get("primary_column", geometry)
    crs = about.get("columns", {}).get(column, {}).get("crs", _LONGITUDE_AND_LATITUDE)
    return _from_table(table, column, json.dumps(crs) if isinstance(crs, dict) else crs)


def _read_geojson(tree: Mapping[str, Any]) -> Zones:
    features = (
        tree["features"] if "features" in tree else [{"geometry": tree.get("geometry", tree)}]
    )
    shapes = _parse_shapes([each["geometry"] for each in features])
    properties = [each.get("properties") or {} for each in features]
    rows = pa.Table.from_pylist(properties) if any(properties) else pa.table({})
    return _number_zones(rows, shapes, _LONGITUDE_AND_LATITUDE)


def _parse_shapes(given: Sequence[Any]) -> NDArray[Any]:
    found = np.empty(len(given), object)
    found[:] = [_parse_shape(each) for each in given]
    kinds = shapely.get_type_id(found)
    odd = next((n for n, kind in enumerate(kinds) if kind not in (-1, 3, 6, 7)), None)
    if odd is not None:
        raise InvalidInputError(f"zone {odd} is a {found[odd].geom_type}: zones are polygons")
    return np.asarray(shapely.make_valid(found))


def _parse_shape(value: Any) -> Any:
    try:
        if isinstance(value, bytes | bytearray):
            return shapely.from_wkb(bytes(value))
        if isinstance(value, str):
            return shapely.from_wkt(value)
        if isinstance(value, Mapping):
            return shapely.from_geojson(json.dumps(value))
    except shapely.GEOSException as error:
        raise InvalidInputError(f"a zone has no valid geometry: {error}") from error
    if value is None or isinstance(value, shapely.Geometry):
        return value
    raise InvalidInputError(
        f"{value!r} is no geometry: give polygons of shapely, WKB, WKT or GeoJSON"
    )


def project(zones: Zones, crs: Any) -> Zones:
    """Return zones in the coordinate reference system of the arrays."""
    if zones.crs is None or crs is None or zones.crs == crs:
        return zones
    try:
        from pyproj import CRS, Transformer  # noqa: PLC0415 (an optional package)
    except ModuleNotFoundError as error:
        raise SetupError(
            f"zones in {zones.crs} on arrays in {crs} need pyproj: pip install 'frazil[geo]'"
        ) from error
    own, wanted = CRS.from_user_input(zones.crs), CRS.from_user_input(crs)
    if own.equals(wanted, ignore_axis_order=True):
        return zones
    transform = Transformer.from_crs(own, wanted, always_xy=True).transform
    moved = shapely.transform(zones.shapes, lambda xy: np.column_stack(transform(*xy.T)))
    return Zones(zones.rows, np.asarray(shapely.make_valid(moved)), crs)


@dataclass(frozen=True, slots=True, eq=False)
class CellEdges:
    """Ascending edges of cells along a dimension, halfway between their labels."""

    dim: str
    edges: Floats
    positions: NDArray[np.int64]
    """Position in the array of each cell."""

    def span(self, low: float, high: float) -> tuple[int, int]:
        """Return the first cell that a range touches and the end."""
        first = np.searchsorted(self.edges, low, "right") - 1
        end = np.searchsorted(self.edges, high, "left")
        last = len(self.positions)
        return int(np.clip(first, 0, last)), int(np.clip(end, 0, last))


def make_edges(dim: str, labels: Floats, limit: float | None = None) -> CellEdges:
    """Return the edges of the cells around labels, which don't leave -limit to limit."""
    if len(labels) < 2 or not np.isfinite(labels).all():
        raise InvalidInputError(
            f"{dim} needs two or more labels, none of them missing, to have cells"
        )
    positions = np.argsort(labels, kind="stable")
    centers = labels[positions]
    between = (centers[1:] + centers[:-1]) / 2
    if (np.diff(centers) <= 0).any():
        raise InvalidInputError(f"{dim} has a label twice, so that its cells are unknown")
    first, last = 2 * centers[0] - between[0], 2 * centers[-1] - between[-1]
    edges = np.concatenate([[first], between, [last]])
    return CellEdges(dim, edges if limit is None else edges.clip(-limit, limit), positions)


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """Grid of cells on which zones are laid."""

    y: CellEdges
    x: CellEdges
    how: How
    weights: Weights | None
    is_globe: bool
    """True if x and y are longitudes and latitudes."""

    def find_cells(self, shape: Any) -> Cells:
        """Return the cells of a zone, and the weight of each."""
        parts = [self._find_cells(each) for each in self._turn(shape)]
        y, x, weight = (np.concatenate(each) for each in zip(*parts, strict=True))
        if self.weights == "area":
            weight = weight * self._areas(y, x)
        return self.y.positions[y], self.x.positions[x], weight

    def _turn(self, shape: Any) -> Iterator[Any]:
        """Yield the zone, and if it is on the globe, also a turn to the east and to the west."""
        for turn in (0.0, -_TURN, _TURN) if self.is_globe else (0.0,):
            yield (
                shapely.transform(shape, lambda xy, by=turn: np.add(xy, (by, 0))) if turn else shape
            )

    def _areas(self, y: NDArray[np.int64], x: NDArray[np.int64]) -> Floats:
        heights, widths = self.y.edges, self.x.edges
        if self.is_globe:
            heights = np.sin(np.radians(heights)) * _EARTH_RADIUS
            widths = np.radians(widths) * _EARTH_RADIUS
        areas: Floats = np.diff(heights)[y] * np.diff(widths)[x]
        return areas

    def _find_cells(self, shape: Any) -> Cells:
        """Halve the box around a zone until a part is inside, outside, or one cell."""
        none = np.empty(0, np.int64)
        found: list[Cells] = [(none, none, np.empty(0))]
        if shape is None or shape.is_empty:
            return found[0]
        shapely.prepare(shape)
        west, south, east, north = shape.bounds
        boxes = np.array([(*self.y.span(south, north), *self.x.span(west, east))], np.int64)
        boxes = boxes[(boxes[:, 0] < boxes[:, 1]) & (boxes[:, 2] < boxes[:, 3])]
        while len(boxes):
            drawn = self._draw(boxes)
            touched = shapely.intersects(shape, drawn)
            boxes, drawn = boxes[touched], drawn[touched]
            inside = shapely.covers(shape, drawn)
            found.append(_fill(boxes[inside]))
            boxes, drawn = boxes[~inside], drawn[~inside]
            single = (boxes[:, 1] - boxes[:, 0] == 1) & (boxes[:, 3] - boxes[:, 2] == 1)
            found.append(self._weigh(shape, boxes[single], drawn[single]))
            boxes = _halve(boxes[~single])
        y, x, weight = (np.concatenate(each) for each in zip(*found, strict=True))
        kept = weight > 0
        return y[kept], x[kept], weight[kept]

    def _draw(self, boxes: NDArray[np.int64]) -> NDArray[Any]:
        y, x = self.y.edges, self.x.edges
        drawn: NDArray[Any] = shapely.box(
            x[boxes[:, 2]], y[boxes[:, 0]], x[boxes[:, 3]], y[boxes[:, 1]]
        )
        return drawn

    def _weigh(self, shape: Any, boxes: NDArray[np.int64], drawn: NDArray[Any]) -> Cells:
        """Return cells on the border of a zone with the part of them that is inside."""
        y, x = boxes[:, 0], boxes[:, 2]
        if self.how == "coverage":
            return y, x, shapely.area(shapely.intersection(shape, drawn)) / shapely.area(drawn)
        middle = [(each.edges[:-1] + each.edges[1:]) / 2 for each in (self.x, self.y)]
        return y, x, shapely.contains_xy(shape, middle[0][x], middle[1][y]).astype(np.float64)


def _fill(boxes: NDArray[np.int64]) -> Cells:
    """Return all cells of boxes, whole."""
    south, north, west, east = boxes.T
    widths = east - west
    sizes = (north - south) * widths
    box = np.repeat(np.arange(len(boxes)), sizes)
    number = np.arange(len(box)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return south[box] + number // widths[box], west[box] + number % widths[box], np.ones(len(box))


def _halve(boxes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cut boxes in two along both dimensions; a side of one cell stays."""
    south, north, west, east = boxes.T
    y, x = (south + north + 1) // 2, (west + east + 1) // 2
    parts = [(south, y, west, x), (south, y, x, east), (y, north, west, x), (y, north, x, east)]
    cut = np.concatenate([np.column_stack(part) for part in parts])
    return cut[(cut[:, 0] < cut[:, 1]) & (cut[:, 2] < cut[:, 3])]


class Totals:
    """Running totals of the values of zones, one row per zone and one column per kept position."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.weight, self.mean, self.deviation = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.least, self.most = np.full(shape, np.inf), np.full(shape, -np.inf)

    def add(self, zones: NDArray[np.int64], values: NDArray[Any], weights: Floats) -> None:
        """Add values of cells, one column per kept position, that are sorted by zone."""
        starts = np.flatnonzero(np.diff(zones, prepend=-1))
        step = max(1, _VALUES_AT_ONCE // len(zones))
        for first in range(0, values.shape[1], step):
            part = slice(first, first + step)
            self._add(zones, starts, values[:, part].astype(np.float64), weights, part)

    def _add(
        self,
        zones: NDArray[np.int64],
        starts: NDArray[np.int64],
        values: Floats,
        weights: Floats,
        part: slice,
    ) -> None:
        rows = (zones[starts], part)
        present = ~np.isnan(values)
        weighed = np.where(present, weights[:, None], 0.0)
        numbers = np.where(present, values, 0.0)
        weight = np.add.reduceat(weighed, starts)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(weight > 0, np.add.reduceat(weighed * numbers, starts) / weight, 0.0)
            spread = np.repeat(mean, np.diff(starts, append=len(zones)), axis=0)
            deviation = np.add.reduceat(weighed * (numbers - spread) ** 2, starts)
            # Two groups of values are combined without the loss of digits that sums of squares have.
            total = self.weight[rows] + weight
            share = np.where(total > 0, weight / total, 0.0)
        apart = mean - self.mean[rows]
        self.deviation[rows] += deviation + apart**2 * self.weight[rows] * share
        self.mean[rows] += apart * share
        self.weight[rows] = total
        least = np.minimum.reduceat(np.where(present, values, np.inf), starts)
        most = np.maximum.reduceat(np.where(present, values, -np.inf), starts)
        self.least[rows] = np.minimum(self.least[rows], least)
        self.most[rows] = np.maximum(self.most[rows], most)

    def finish(self, statistic: str) -> tuple[Floats, NDArray[np.bool_]]:
        """Return a statistic, and which zones have no value."""
        none = self.weight == 0
        variance = np.divide(self.deviation, self.weight, where=~none, out=np.zeros_like(self.mean))
        found = {
            "count": self.weight, "sum": self.mean * self.weight, "mean": self.mean,
            "min": self.least, "max": self.most, "var": variance, "std": np.sqrt(variance),
        }[statistic]  # fmt: skip
        return found, none & (statistic not in ("count", "sum"))


@dataclass(frozen=True, slots=True, eq=False)
class ZonalPlan:
    """Arrays, zones and statistics of a job; `read` is a task."""

    arrays: GroupArrays
    columns: Columns
    zones: Zones
    cover: Cover
    statistics: tuple[str, ...]
    grid: Grid

    @property
    def kept(self) -> tuple[str, ...]:
        """Return the dimensions that are not reduced."""
        return tuple(
            dim for dim in self.columns.dims if dim not in (self.cover.y.dim, self.cover.x.dim)
        )

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the zones, the kept dimensions and the statistics."""
        types = self.columns.types
        return pa.schema(
            [
                *self.zones.rows.schema,
                *((dim, types[dim]) for dim in self.kept),
                *(
                    (f"{v}_{s}", pa.float64())
                    for v in self.columns.variables
                    for s in self.statistics
                ),
            ]
        )

    def weigh(self) -> tuple[int, int, int]:
        """Return at most how many bytes and chunks are read, and the number of rows."""
        width = sum(byte_width(self.columns.get(name).type) for name in self.columns.variables)
        chunks = prod(self.grid.shape)
        rows = len(self.zones.shapes) * prod(self.columns.sizes[dim] for dim in self.kept)
        return chunks * self.grid.largest_chunk() * width, chunks, rows

    def tasks(self, slots: int) -> list[tuple[slice, tuple[slice, ...]]]:
        """Return the zones and blocks of the kept dimensions of each task."""
        wanted = max(slots, 1) * _TASKS_PER_SLOT
        blocks = self._blocks([self._offsets(dim) for dim in self.kept], wanted)
        count = len(self.zones.shapes)
        step = max(1, -(-count * len(blocks) // wanted)) if len(blocks) < wanted else max(count, 1)
        parts = [slice(start, min(start + step, count)) for start in range(0, count, step)]
        return list(product(parts, blocks))

    @staticmethod
    def _blocks(cuts: Sequence[NDArray[np.int64]], wanted: int) -> list[tuple[slice, ...]]:
        """Return blocks of whole chunks, about as many as wanted, cut along the first dimensions."""
        parts = []
        for offsets in cuts:
            chunks = len(offsets) - 1
            pieces = min(max(wanted, 1), max(chunks, 1))
            ends = offsets[np.linspace(0, chunks, pieces + 1).astype(np.int64)]
            parts.append([slice(int(a), int(b)) for a, b in pairwise(ends)])
            wanted = -(-wanted // pieces)
        return list(product(*parts))

    def _offsets(self, dim: str) -> NDArray[np.int64]:
        return self.grid.offsets[self.grid.dims.index(dim)]

    def read(self, task: tuple[slice, tuple[slice, ...]]) -> Iterator[pa.RecordBatch]:
        """Yield the statistics of some zones in a block of the kept dimensions."""
        yield from self.read_block(*task, self.sort_cells(task[0]))

    def read_block(
        self,
        zones: slice,
        block: tuple[slice, ...],
        cells: Sequence[tuple[NDArray[np.int64], Cells]],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the statistics of zones whose cells are known."""
        for part in product(
            *(self._cut(dim, each) for dim, each in zip(self.kept, block, strict=True))
        ):
            yield from self._read_part(zones, part, cells)

    def _cut(self, dim: str, part: slice) -> list[slice]:
        """Return the chunks of a kept dimension in a part of it."""
        offsets = self._offsets(dim)
        inside = offsets[(offsets >= part.start) & (offsets <= part.stop)]
        return [slice(int(a), int(b)) for a, b in pairwise(inside)]

    def sort_cells(self, zones: slice) -> list[tuple[NDArray[np.int64], Cells]]:
        """Return the cells of zones by chunk, with the number of the zone of each, in order."""
        found = [self.cover.find_cells(shape) for shape in self.zones.shapes[zones]]
        owner = np.repeat(np.arange(len(found)), [len(each[0]) for each in found])
        if not len(owner):
            return []
        y, x, weight = (np.concatenate(each) for each in zip(*found, strict=True))
        rows, columns = (self._offsets(each.dim) for each in (self.cover.y, self.cover.x))
        chunk = np.searchsorted(rows, y, "right") * len(columns) + np.searchsorted(
            columns, x, "right"
        )
        order = np.argsort(chunk, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(chunk[order])) + 1)
        return [(owner[each], (y[each], x[each], weight[each])) for each in groups]

    def _read_part(
        self,
        zones: slice,
        part: tuple[slice, ...],
        cells: Sequence[tuple[NDArray[np.int64], Cells]],
    ) -> Iterator[pa.RecordBatch]:
        shape = (zones.stop - zones.start, *(each.stop - each.start for each in part))
        totals = {v: Totals((shape[0], prod(shape[1:]))) for v in self.columns.variables}

        def read(item: tuple[str, Any]) -> tuple[str, Any, NDArray[Any]]:
            name, (_, (y, x, _)) = item
            return *item, self._read_values(name, part, y, x)

        for name, (owner, (_, _, weight)), values in read_ahead(product(totals, cells), read):
            totals[name].add(owner, values, weight)
        numbers = np.repeat(np.arange(zones.start, zones.stop), prod(shape[1:]))
        rows = self.zones.rows.take(pa.array(numbers))
        for axis, (dim, each) in enumerate(zip(self.kept, part, strict=True), 1):
            labels = self.arrays.read_coordinate(self.columns, dim)[each]
            spread = labels.reshape(along(axis, len(shape))).spread(shape)
            rows = rows.append_column(dim, to_arrow(spread))
        for name, statistic in product(totals, self.statistics):
            found, none = totals[name].finish(statistic)
            column = pa.array(found.ravel(), mask=none.ravel())
            rows = rows.append_column(f"{name}_{statistic}", column)
        yield from rows.cast(self.schema).combine_chunks().to_batches()

    def _read_values(
        self, name: str, part: tuple[slice, ...], y: NDArray[np.int64], x: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Return the values of cells in one chunk, one column per position of the kept dimensions."""
        dims = self.columns.get(name).dims
        places = {self.cover.y.dim: y, self.cover.x.dim: x}
        region = dict(zip(self.kept, part, strict=True))
        region |= {dim: slice(int(p.min()), int(p.max()) + 1) for dim, p in places.items()}
        values = self.arrays.read(self.columns, name, tuple(region[dim] for dim in dims))
        kept = [dim for dim in self.kept if dim in dims]
        order = [dims.index(dim) for dim in (*places, *kept)]
        data = values.data.transpose(order)[y - y.min(), x - x.min()]
        if values.missing is not None:
            data = data if data.dtype.kind == "f" else data.astype(np.float64)
            data[values.missing.transpose(order)[y - y.min(), x - x.min()]] = np.nan
        # An array without one of the kept dimensions has the same value all along it.
        own = [len(y), *(data.shape[1 + kept.index(d)] if d in kept else 1 for d in self.kept)]
        whole = (len(y), *(each.stop - each.start for each in part))
        return np.broadcast_to(data.reshape(own), whole).reshape(len(y), -1)


@verb()
def zonal(
    repo: AnyRepository,
    zones: Any,
    variables: Sequence[str] | str,
    *,
    stats: Sequence[Statistic] = ("mean",),
    how: How = "coverage",
    weights: Weights | None = None,
    dims: tuple[str, str] | None = None,
    geometry: str = "geometry",
    crs: Any = None,
    group: str = "/",
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
    authorize: Authorize = (),
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return statistics of arrays within polygons, such as countries, catchments or fields.

    Only chunks that a polygon touches are read. Polygons match around the globe, whether longitudes
    count from -180 or 0.

    Parameters
    ----------
    repo
        Repository, or its URL.
    zones
        Polygons: the path of a GeoJSON or GeoParquet file; a DataFrame of GeoPandas, pandas or
        Spark, or an Arrow table, with a column of WKB or WKT; or geometries, in a list or by name.
    variables
        Arrays to read, with common dimensions.
    stats
        Of `count`, `sum`, `mean`, `min`, `max`, `std` and `var`, of the population.
    how
        `coverage` weighs each cell by the part of it that is inside; `center` takes cells whose
        center is inside.
    weights
        `area` also weighs cells by their area, in square metres on the globe.
    dims
        Dimensions along y and x; by default those that are latitude and longitude, or y and x.
    geometry
        Column of the polygons.
    crs
        Coordinate reference system of the polygons; by default the one they state, else that of the
        arrays.
    group
        Path of the group of the arrays.
    branch, tag, snapshot, as_of
        Version to read; by default the one in the URL, else the branch main.
    authorize
        Containers whose virtual chunks may be read: `"*"` for all, or URL prefixes.
    spark
        Spark session. Default: the active one, or a new one.

    Returns
    -------
    DataFrame
        A row per polygon and label of the other dimensions: the other columns of the polygons (`zone`
        is the number or name where there are none), these dimensions, and `<array>_<statistic>`.
        Missing values don't count; statistics of nothing are NULL.

    Raises
    ------
    InvalidInputError
        If the polygons can't be read, or the arrays are not on a grid of x and y.

    Examples
    --------
    >>> monthly = zonal("s3://bucket/weather", "catchments.parquet", "tp", stats=["mean", "max"])
    """
    running = spark or SparkSession.getActiveSession() or find_session()
    ref = make_ref(branch=branch, tag=tag, snapshot=snapshot, as_of=as_of)
    source = open_source(Options(ref=ref, group=group, authorize=list_prefixes(authorize)), repo)
    names = [variables] if isinstance(variables, str) else list(variables)
    read = read_zones(zones, geometry)
    if crs is not None:
        read = Zones(read.rows, read.shapes, crs)
    plan = plan_zonal(source.arrays, names, read, stats, how, weights, dims)
    tasks = plan.tasks(count_slots(running))
    result = from_arrow_schema(plan.schema)
    if suits_driver(running, *plan.weigh()):
        # Not in threads: GEOS prepares a polygon in place.
        cells = {
            first: plan.sort_cells(slice(first, end))
            for first, end in {(z.start, z.stop) for z, _ in tasks}
        }

        def read_known(task: tuple[slice, tuple[slice, ...]]) -> Iterator[pa.RecordBatch]:
            return plan.read_block(*task, cells[task[0].start])

        return make_rows_now(running, read_known, tasks, plan.schema, result)
    return make_rows(running, plan.read, tasks, result)


def plan_zonal(
    arrays: GroupArrays,
    variables: Sequence[str],
    zones: Zones,
    stats: Sequence[str],
    how: How = "coverage",
    weights: Weights | None = None,
    dims: tuple[str, str] | None = None,
) -> ZonalPlan:
    """Return how statistics of zones are computed; raises InvalidInputError if they can't be."""
    for given, known in ((stats, Statistic), ((how,), How), ((weights or "area",), Weights)):
        for each in given:
            if each not in get_args(known):
                raise InvalidInputError(f"unknown {each!r}: {suggest(each, get_args(known))}")
    found = arrays.columns(variables)
    y, x = _find_plane(arrays, found, dims)
    for name in found.variables:
        column = found.get(name)
        if not is_number(column.type) or not {y, x} <= set(column.dims):
            raise InvalidInputError(f"{name} has no numbers along {y} and {x}")
    for dim in (y, x):
        plane = [each.name for each in found.all if len(each.dims) > 1 and dim in each.dims]
        others = [name for name in plane if name not in found.variables]
        if found.get(dim).kind == "index" and others:
            raise InvalidInputError(
                f"{dim} has no coordinate, and {', '.join(others)} have several dimensions: zones need "
                "coordinates of one dimension"
            )
    about = {dim: arrays.metadata.get(dim, {}).get("attributes") or {} for dim in (y, x)}
    is_globe = is_longitude(about[x]) or x in ("lon", "longitude")
    labels = {dim: arrays.read_coordinate(found, dim).data.astype(np.float64) for dim in (y, x)}
    cover = Cover(
        make_edges(y, labels[y], 90.0 if is_globe else None),
        make_edges(x, labels[x]),
        how,
        weights,
        is_globe,
    )
    known_crs = _find_crs(arrays, found.variables[0])
    zones = project(zones, known_crs or (_LONGITUDE_AND_LATITUDE if is_globe else None))
    grid = arrays.grid(max(found.variables, key=lambda name: len(found.get(name).dims)), found.dims)
    plan = ZonalPlan(arrays, found, zones, cover, tuple(stats), grid)
    twice = [name for name in zones.rows.column_names if plan.schema.names.count(name) > 1]
    if twice:
        raise InvalidInputError(f"the zones have a column {twice[0]!r} already: rename or drop it")
    return plan


_PLANES = (("lat", "lon"), ("latitude", "longitude"), ("y", "x"))


def _find_plane(
    arrays: GroupArrays, found: Columns, given: tuple[str, str] | None
) -> tuple[str, str]:
    """Return the dimensions along y and x."""
    if given is not None:
        for dim in given:
            if dim not in found.dims:
                raise InvalidInputError(f"no dimension {dim!r}: {suggest(dim, found.dims)}")
        return given
    about = {dim: arrays.metadata.get(dim, {}).get("attributes") or {} for dim in found.dims}
    north = [dim for dim, each in about.items() if _is_north(each)]
    east = [dim for dim, each in about.items() if is_longitude(each) or each.get("axis") == "X"]
    if len(north) == len(east) == 1:
        return north[0], east[0]
    for pair in _PLANES:
        if set(pair) <= set(found.dims):
            return pair
    raise InvalidInputError(
        f"none of the dimensions {', '.join(found.dims)} are known to be y and x: name them with dims="
    )


def _is_north(attributes: Mapping[str, Any]) -> bool:
    units = str(attributes.get("units", "")).lower()
    is_latitude = attributes.get("standard_name") == "latitude" or units in _NORTH
    return is_latitude or attributes.get("axis") == "Y"


def _find_crs(arrays: GroupArrays, name: str) -> Any:
    """Return the coordinate reference system that an array's grid mapping states, or None."""
    mapping = str((arrays.metadata[name].get("attributes") or {}).get("grid_mapping", ""))
    about = arrays.metadata.get(mapping, {}).get("attributes") or {}
    return about.get("crs_wkt") or about.get("spatial_ref")
