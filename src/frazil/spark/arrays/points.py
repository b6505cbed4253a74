"""Values of arrays at the points of a DataFrame: `frazil.spark.points`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise, product
from math import prod
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from frazil.arguments import verb
from frazil.display import suggest
from frazil.errors import InvalidInputError
from frazil.spark.runtime import (
    count_slots,
    keep_error_kind,
    make_rows,
    make_rows_now,
    map_batches,
    suits_driver,
)
from frazil.spark.spark_session import find_session
from frazil.tables.columns import (
    DURATION,
    TIMESTAMP,
    UNSIGNED_64,
    Columns,
    Grid,
    GroupArrays,
    Values,
    byte_width,
    to_arrow,
)
from frazil.tables.table_options import Options
from frazil.tables.table_source import AnyRepository, open_source, read_ahead
from frazil.urls import make_ref
from frazil.virtual.access import Authorize, list_prefixes

Method = Literal["nearest", "linear"]
Tolerance = float | timedelta
Positions = NDArray[np.int64]

_CHUNK = "__frazil_chunk"
_ROWS_AT_ONCE = 1 << 18
_SENT_BYTES = 16 << 20
"""Size of points that are sent with the tasks; more are shuffled."""
_TASKS_PER_SLOT = 3
_TURN = 360.0
_EAST = {
    "degrees_east", "degree_east", "degree_e", "degrees_e", "degreee", "degreese",
}  # fmt: skip
_TIME_TYPES = ("timestamp", "timestamp_ntz", "date")
_NUMBER_TYPES = ("byte", "short", "integer", "long", "float", "double", "decimal")


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Labels of a dimension in ascending order, by which values are found in it."""

    dim: str
    column: str
    """Column of the points."""
    labels: NDArray[Any]
    """Numbers, microseconds for times, or objects, which only equal values match."""
    positions: Positions
    """Position of each label in the array."""
    turn: float | None = None
    """Period of the labels; None unless they are longitudes."""
    tolerance: float | None = None

    @property
    def is_exact(self) -> bool:
        """Return True if values match only equal labels."""
        return self.labels.dtype == object

    def numbers(self, rows: pa.Table) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the values of the points, comparable to the labels, and which of them are missing."""
        column = rows.column(self.column).combine_chunks()
        missing = column.is_null().to_numpy(zero_copy_only=False)
        if self.is_exact:
            return np.asarray(column.to_pylist(), object), missing
        if pa.types.is_temporal(column.type):
            if not pa.types.is_duration(column.type):
                column = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)))
            return column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), missing
        values = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
        if self.turn is not None and len(self.labels):
            first = self.labels[0]
            turned = first + np.mod(values - first, self.turn)
            inside = (values >= first) & (values <= first + self.turn)
            values = np.where(inside, values, turned)
        return values, missing | np.isnan(values)

    def place(self, rows: pa.Table, method: Method) -> "Places":
        """Return the positions of points, -1 for those outside."""
        values, missing = self.numbers(rows)
        if method == "linear" and not self.is_exact:
            return self.find_between(values, missing)
        find = self.find_equal if self.is_exact else self.find_nearest
        found = find(values, missing)
        return Places(found, found, np.zeros(len(found)))

    def find_equal(self, values: NDArray[Any], missing: NDArray[np.bool_]) -> Positions:
        """Return the position of each value, -1 where no label is equal."""
        places = dict(zip(self.labels.tolist(), self.positions.tolist(), strict=True))
        found = [-1 if gone else places.get(v, -1) for v, gone in zip(values, missing, strict=True)]
        return np.array(found, np.int64)

    def find_nearest(self, values: NDArray[Any], missing: NDArray[np.bool_]) -> Positions:
        """Return the position of the nearest label, the larger of two; -1 beyond the tolerance."""
        if not len(self.labels):
            return np.full(len(values), -1, np.int64)
        after = np.searchsorted(self.labels, values).clip(0, len(self.labels) - 1)
        before = (after - 1).clip(0)
        distances = [np.abs(self.labels[each] - values) for each in (before, after)]
        nearest = np.where(distances[0] < distances[1], before, after)
        if self.tolerance is not None:
            missing = missing | (np.minimum(*distances) > self.tolerance)
        return np.where(missing, -1, self.positions[nearest])

    def find_between(self, values: NDArray[Any], missing: NDArray[np.bool_]) -> "Places":
        """Return the labels before and after each value, -1 outside."""
        last = len(self.labels) - 1
        if last < 0:
            nowhere = np.full(len(values), -1, np.int64)
            return Places(nowhere, nowhere, np.zeros(len(values)))
        outside = missing | (values < self.labels[0]) | (values > self.labels[-1])
        before = np.searchsorted(self.labels, values, "right") - 1
        before = before.clip(0, max(last - 1, 0))
        after = (before + 1).clip(0, last)
        width = (self.labels[after] - self.labels[before]).astype(np.float64)
        width[width == 0] = 1
        weight = (values - self.labels[before]) / width
        first, second = self.positions[before], self.positions[after]
        return Places(np.where(outside, -1, first), np.where(outside, -1, second), weight)


def make_axis(
    dim: str,
    column: str,
    values: Values,
    attributes: Mapping[str, Any],
    method: Method,
    tolerance: float | None,
) -> Axis:
    """Return the axis of a dimension with a coordinate, or without one, by position."""
    positions = np.flatnonzero(np.broadcast_to(values.present, values.data.shape))
    labels = values.data[positions]
    if labels.dtype.kind not in "iuf":
        return Axis(dim, column, labels.astype(object), positions)
    if values.type not in (TIMESTAMP, DURATION):
        labels = labels.astype(np.float64)
    order = np.argsort(labels, kind="stable")
    labels, positions = labels[order], positions[order]
    turn = _TURN if is_longitude(attributes) and len(labels) else None
    if turn is not None and labels[-1] - labels[0] < turn:
        step = np.diff(labels).max(initial=0)
        # The first meridian follows the last one; a region leaves a gap, which only `nearest` spans.
        if method == "nearest" or labels[0] + turn - labels[-1] <= 1.5 * step:
            labels, positions = (
                np.append(labels, labels[0] + turn),
                np.append(positions, positions[0]),
            )
    return Axis(dim, column, labels, positions, turn, tolerance)


def is_longitude(attributes: Mapping[str, Any]) -> bool:
    """Return True if the attributes of a coordinate say that it is the longitude."""
    units = str(attributes.get("units", "")).lower()
    return attributes.get("standard_name") == "longitude" or units in _EAST


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Positions of points along one axis."""

    before: Positions
    after: Positions
    weight: NDArray[np.float64]
    """Weight of the value at `after`; the rest is that of the value at `before`."""

    def __getitem__(self, picked: Positions) -> "Places":
        return Places(self.before[picked], self.after[picked], self.weight[picked])

    def shift(self, start: int) -> "Places":
        """Return the positions in a part of the array."""
        return Places(self.before - start, self.after - start, self.weight)

    def side(self, number: int) -> tuple[Positions, NDArray[np.float64]]:
        """Return the positions on one side, 0 or 1, and their weights."""
        return (self.after, self.weight) if number else (self.before, 1 - self.weight)


Read = dict[str, tuple[Values, dict[str, int]]]
"""Values read of each variable, and where they start along the axes."""


@dataclass(frozen=True, slots=True, eq=False)
class Sampling:
    """Arrays, the axes along which points are found, and the dimensions that are kept whole."""

    arrays: GroupArrays
    columns: Columns
    axes: tuple[Axis, ...]
    grid: Grid
    """Chunks of the array that has all dimensions."""
    method: Method

    @property
    def kept(self) -> tuple[str, ...]:
        """Return the dimensions without a column of the points."""
        found = {axis.dim for axis in self.axes}
        return tuple(dim for dim in self.columns.dims if dim not in found)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns that are added to the points."""
        types = self.columns.types
        if self.method == "linear":
            types |= dict.fromkeys(self.columns.variables, pa.float64())
        return pa.schema([(name, types[name]) for name in (*self.kept, *self.columns.variables)])

    def number_chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Add the number of the chunk that each point is in."""
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            chunks = self.find_chunks(rows)
            yield from rows.append_column(_CHUNK, pa.array(chunks)).to_batches()

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Replace the numbers of chunks by the values at the points."""
        with keep_error_kind():
            for rows in _join(batches):
                yield from self._read_rows(rows.drop_columns(_CHUNK))

    def find_chunks(self, rows: pa.Table) -> Positions:
        """Return the number of the chunk of each point along the axes, -1 for points outside."""
        return self._number_chunks(self._place(rows), rows.num_rows)

    def split(self, rows: pa.Table, chunks: Positions, slots: int) -> list[pa.Table]:
        """Return the points of each task: whole chunks, and few tasks."""
        order = np.argsort(chunks, kind="stable")
        starts = np.flatnonzero(np.diff(chunks[order], prepend=-2))
        tasks = np.array_split(starts, min(max(slots, 1) * _TASKS_PER_SLOT, max(len(starts), 1)))
        ends = [*(int(each[0]) for each in tasks[1:]), rows.num_rows]
        firsts = [0, *ends[:-1]]
        return [rows.take(pa.array(order[a:b])) for a, b in zip(firsts, ends, strict=True) if a < b]

    def weigh(self, found: Positions) -> tuple[int, int, int]:
        """Return at most how many bytes and chunks are read for points, and the number of rows."""
        numbers = np.unique(found)
        sizes = zip(self.grid.dims, self.grid.shape, strict=True)
        chunks = int((numbers >= 0).sum()) * prod(n for dim, n in sizes if dim in self.kept)
        width = sum(byte_width(self.columns.get(name).type) for name in self.columns.variables)
        repeats = prod(self.columns.sizes[dim] for dim in self.kept)
        return chunks * self.grid.largest_chunk() * width, chunks, len(found) * repeats

    def sample(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the values at the points of a task."""
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            yield from self._read_rows(rows.slice(start, _ROWS_AT_ONCE))

    def _place(self, rows: pa.Table) -> dict[str, Places]:
        return {axis.dim: axis.place(rows, self.method) for axis in self.axes}

    def _number_chunks(self, places: Mapping[str, Places], count: int) -> Positions:
        number, outside = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        for dim, place in places.items():
            offsets = self._offsets(dim)
            number = (
                number * (len(offsets) - 1) + np.searchsorted(offsets, place.before, "right") - 1
            )
            outside |= place.before < 0
        return np.where(outside, -1, number)

    def _offsets(self, dim: str) -> NDArray[np.int64]:
        return self.grid.offsets[self.grid.dims.index(dim)]

    def _read_rows(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        places = self._place(rows)
        chunks = self._number_chunks(places, rows.num_rows)
        order = np.argsort(chunks, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(chunks[order])) + 1)
        kept = [[slice(*map(int, ends)) for ends in pairwise(self._offsets(d))] for d in self.kept]

        def read(item: tuple[Positions, tuple[slice, ...]]) -> tuple[Positions, Any, Read]:
            picked, block = item
            if chunks[picked[0]] < 0:
                return picked, block, {}
            return picked, block, self._read_block({d: p[picked] for d, p in places.items()}, block)

        for picked, block, values in read_ahead(product(groups, product(*kept)), read):
            step = max(1, _ROWS_AT_ONCE // prod(each.stop - each.start for each in block))
            for start in range(0, len(picked), step):
                some = picked[start : start + step]
                chosen = {dim: place[some] for dim, place in places.items()}
                yield from self._sample(rows, some, chosen, block, values)

    def _read_block(self, places: Mapping[str, Places], block: tuple[slice, ...]) -> Read:
        """Read what some points need, in a region of the kept dimensions."""
        whole = dict(zip(self.kept, block, strict=True))
        found: Read = {}
        for name in self.columns.variables:
            region, starts = [], {}
            for dim in self.columns.get(name).dims:
                if dim in places:
                    starts[dim] = int(min(places[dim].before.min(), places[dim].after.min()))
                    stop = int(max(places[dim].before.max(), places[dim].after.max())) + 1
                    region.append(slice(starts[dim], stop))
                else:
                    region.append(whole[dim])
            found[name] = self.arrays.read(self.columns, name, tuple(region)), starts
        return found

    def _sample(
        self,
        rows: pa.Table,
        picked: Positions,
        places: Mapping[str, Places],
        block: tuple[slice, ...],
        read: Read,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some points of one chunk, with the values that were read for them."""
        shape = (len(picked), *(each.stop - each.start for each in block))
        repeats = prod(shape[1:])
        found = rows.take(pa.array(np.repeat(picked, repeats)))
        for axis, (dim, part) in enumerate(zip(self.kept, block, strict=True), 1):
            labels = self.arrays.read_coordinate(self.columns, dim)[part]
            spread = labels.reshape(along(axis, len(shape))).spread(shape)
            found = found.append_column(self.schema.field(dim), to_arrow(spread))
        for name in self.columns.variables:
            field = self.schema.field(name)
            if name not in read:
                found = found.append_column(field, pa.nulls(found.num_rows, field.type))
                continue
            values, starts = read[name]
            dims = self.columns.get(name).dims
            shifted = {dim: places[dim].shift(start) for dim, start in starts.items()}
            sampled = self._interpolate(values, dims, shifted, shape)
            found = found.append_column(field, to_arrow(sampled))
        yield from found.combine_chunks().to_batches(max_chunksize=_ROWS_AT_ONCE)

    def _interpolate(
        self,
        values: Values,
        dims: Sequence[str],
        places: Mapping[str, Places],
        shape: Sequence[int],
    ) -> Values:
        """Return the values at points, each with all positions of the kept dimensions."""
        if self.method == "nearest":
            return self._gather(values, dims, {dim: p.before for dim, p in places.items()}, shape)
        total, missing = np.zeros(shape), np.zeros(shape, np.bool_)
        for corner in product((0, 1), repeat=len(places)):
            sides = {d: p.side(n) for (d, p), n in zip(places.items(), corner, strict=True)}
            weight = np.ones(shape[0])
            for _, each in sides.values():
                weight = weight * each
            # A missing value beside a point matters only if the point is not on a label.
            counts = (weight != 0).reshape(along(0, len(shape)))
            if counts.any():
                part = self._gather(
                    values, dims, {d: place for d, (place, _) in sides.items()}, shape
                )
                weights = weight.reshape(along(0, len(shape)))
                total += np.where(counts & part.present, part.data * weights, 0.0)
                missing |= counts & ~np.broadcast_to(part.present, shape)
        return Values(pa.float64(), total, missing)

    def _gather(
        self,
        values: Values,
        dims: Sequence[str],
        places: Mapping[str, Positions],
        shape: Sequence[int],
    ) -> Values:
        axes = {dim: axis for axis, dim in enumerate(self.kept, 1)}
        key = tuple(
            places[dim].reshape(along(0, len(shape)))
            if dim in places
            else np.arange(values.data.shape[own]).reshape(along(axes[dim], len(shape)))
            for own, dim in enumerate(dims)
        )
        return (values[key] if key else values).spread(tuple(shape))


def along(axis: int, count: int) -> tuple[int, ...]:
    """Return the shape of an array that broadcasts along one of several axes."""
    return tuple(-1 if each == axis else 1 for each in range(count))


def _join(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join small batches, so that a chunk with many points is read for many at once."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= _ROWS_AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if any(each.num_rows for each in waiting):
        yield pa.Table.from_batches(waiting)


@verb()
def points(
    repo: AnyRepository,
    frame: Any,
    variables: Sequence[str] | str,
    *,
    columns: Mapping[str, str] | None = None,
    method: Method = "nearest",
    tolerance: Tolerance | Mapping[str, Tolerance] | None = None,
    group: str = "/",
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
    authorize: Authorize = (),
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return the values of arrays at points, such as stations, tracks or observations.

    Only chunks with points are read, each by one task, or in a local session at once by threads.
    Longitudes match around the globe, whether they count from -180 or 0.

    Parameters
    ----------
    repo
        Repository, or its URL.
    frame
        Spark or pandas DataFrame, or Arrow table, with one row per point. Times without a time zone are
        in UTC.
    variables
        Arrays to read, with common dimensions.
    columns
        Column of the points for a dimension, such as `{"latitude": "lat"}`; by default that with
        its name. Dimensions without a column are kept: a point gets a row for each of their labels.
    method
        `nearest` label, or `linear` between labels. Texts and other labels without an order must be
        equal.
    tolerance
        Largest distance to the nearest label: a number, a `timedelta` for times, or one per dimension.
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
        The points with a column per kept dimension and variable, in any order. Values are NULL beyond
        the tolerance, and with `linear` outside of the labels.

    Raises
    ------
    InvalidInputError
        If a column does not exist, or its type does not match the labels.

    Examples
    --------
    >>> stations = pandas.DataFrame({"id": [1, 2], "lat": [52.1, 60.3], "lon": [5.2, -1.4]})
    >>> series = points("s3://bucket/weather", stations, "t2m", tolerance=0.25)
    """
    running = spark or SparkSession.getActiveSession() or find_session()
    ref = make_ref(branch=branch, tag=tag, snapshot=snapshot, as_of=as_of)
    source = open_source(Options(ref=ref, group=group, authorize=list_prefixes(authorize)), repo)
    names = [variables] if isinstance(variables, str) else list(variables)
    table = None if hasattr(frame, "mapInArrow") else _to_table(frame)
    schema = frame.schema if table is None else from_arrow_schema(table.schema, True)
    sampling = plan_sampling(source.arrays, names, schema, columns, method, tolerance)
    result = StructType([*schema, *from_arrow_schema(sampling.schema)])
    if table is not None and table.nbytes <= _SENT_BYTES:
        chunks = sampling.find_chunks(table)
        tasks = sampling.split(table, chunks, count_slots(running))
        if suits_driver(running, *sampling.weigh(chunks)):
            fields = pa.schema([*table.schema, *sampling.schema])
            return make_rows_now(running, sampling.sample, tasks, fields, result)
        return make_rows(running, sampling.sample, tasks, result)
    rows = frame if table is None else running.createDataFrame(table)
    numbered = StructType([*schema, *from_arrow_schema(pa.schema([(_CHUNK, pa.int64())]))])
    # Rows of one chunk come to one task, one after another.
    sorted_rows = (
        map_batches(rows, sampling.number_chunks, numbered)
        .repartition(sql.col(_CHUNK))
        .sortWithinPartitions(_CHUNK)
    )
    return map_batches(sorted_rows, sampling.read, result)


def _to_table(frame: Any) -> pa.Table:
    """Return points of this process, with times as Spark has them."""
    table = (
        frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    )
    fields = [
        field.with_type(pa.timestamp("us", field.type.tz))
        if pa.types.is_timestamp(field.type)
        else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields), safe=False)


def plan_sampling(
    arrays: GroupArrays,
    variables: Sequence[str],
    schema: StructType,
    given: Mapping[str, str] | None,
    method: Method,
    tolerance: Tolerance | Mapping[str, Tolerance] | None,
) -> Sampling:
    """Return how points with a schema are found; raises InvalidInputError if they can't be."""
    if method not in get_args(Method):
        raise InvalidInputError(f"invalid method {method!r}: {suggest(method, get_args(Method))}")
    found = arrays.columns(variables)
    wanted = _match_columns(found, schema, given or {})
    tolerances = _parse_tolerance(found, wanted, method, tolerance)
    axes = []
    for dim, column in wanted.items():
        values = arrays.read_coordinate(found, dim)
        _refuse_other_type(dim, column, schema[column].dataType.typeName(), values)
        attributes = arrays.metadata.get(dim, {}).get("attributes") or {}
        axes.append(make_axis(dim, column, values, attributes, method, tolerances.get(dim)))
    for name in found.variables:
        if method == "linear" and not is_number(found.get(name).type):
            raise InvalidInputError(f"{name} has no numbers to interpolate: use method='nearest'")
    largest = max(found.variables, key=lambda name: len(found.get(name).dims))
    sampling = Sampling(arrays, found, tuple(axes), arrays.grid(largest, found.dims), method)
    taken = next((each for each in sampling.schema.names if each in schema.names), None)
    if taken is not None:
        raise InvalidInputError(f"the points have a column {taken!r} already: rename or drop it")
    return sampling


def _match_columns(found: Columns, schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """Return the column of the points for each dimension that has one."""
    for dim, column in given.items():
        if dim not in found.dims:
            raise InvalidInputError(
                f"columns names the dimension {dim!r}: {suggest(dim, found.dims)}"
            )
        if column not in schema.names:
            raise InvalidInputError(
                f"the points have no column {column!r}: {suggest(column, schema.names)}"
            )
    matched = {dim: given.get(dim, dim) for dim in found.dims}
    matched = {dim: column for dim, column in matched.items() if column in schema.names}
    for each in found.all:
        is_plane = len(each.dims) > 1 and each.name not in found.variables
        if is_plane and each.name in schema.names and not set(each.dims) <= set(matched):
            raise InvalidInputError(
                f"{each.name} has the dimensions {', '.join(each.dims)}: points are found along "
                "coordinates of one dimension; give their positions, or rename the column"
            )
    if not matched:
        raise InvalidInputError(
            f"the points have no column of a dimension ({', '.join(found.dims)}): name them with "
            "columns={dimension: column}"
        )
    return matched


def _parse_tolerance(
    found: Columns,
    wanted: Mapping[str, str],
    method: Method,
    tolerance: Tolerance | Mapping[str, Tolerance] | None,
) -> dict[str, float]:
    """Return the tolerance of each dimension, in microseconds for times."""
    if tolerance is None:
        return {}
    if method == "linear":
        raise InvalidInputError("tolerance is for method='nearest': leave it out")
    times = [dim for dim in wanted if found.get(dim).type in (TIMESTAMP, DURATION)]
    if not isinstance(tolerance, Mapping):
        is_time = isinstance(tolerance, timedelta)
        tolerance = {dim: tolerance for dim in wanted if (dim in times) == is_time}
        if not tolerance:
            raise InvalidInputError("no dimension of the points has a tolerance of this type")
    parsed = {}
    for dim, each in tolerance.items():
        if dim not in wanted:
            raise InvalidInputError(
                f"tolerance names the dimension {dim!r}: {suggest(dim, list(wanted))}"
            )
        is_fit = isinstance(each, timedelta if dim in times else Real)
        if not is_fit or isinstance(each, bool):
            needed = "a timedelta" if dim in times else "a number"
            raise InvalidInputError(f"the tolerance of {dim} must be {needed}, not {each!r}")
        parsed[dim] = each / timedelta(microseconds=1) if isinstance(each, timedelta) else each
    return parsed


def _refuse_other_type(dim: str, column: str, type: str, values: Values) -> None:
    if values.type == TIMESTAMP:
        needed, fits = "a time", type in _TIME_TYPES
    elif values.type == DURATION:
        needed, fits = "an interval", "interval" in type
    elif is_number(values.type):
        needed, fits = "a number", type in _NUMBER_TYPES
    else:
        needed, fits = "a text", type == "string"
    if not fits:
        raise InvalidInputError(
            f"the column {column!r} of the points is a {type}, and {dim} needs {needed}: cast it"
        )


def is_number(type: pa.DataType) -> bool:
    """Return True if values of a type can be added."""
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or type == UNSIGNED_64)
