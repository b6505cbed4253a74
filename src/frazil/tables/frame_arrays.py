"""Arrays that rows are written to: create, resize and replace them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zarr
from numpy.typing import NDArray

from frazil.errors import InvalidInputError
from frazil.lazy import lazy_modules
from frazil.repository.session import Session
from frazil.tables.columns import (
    TIMESTAMP,
    UNSIGNED_64,
    Grid,
    GroupArrays,
    Region,
    Values,
    find_type,
    group_path,
    make_values,
    to_arrow,
)
from frazil.tables.predicates import (
    EVERYTHING,
    Condition,
    Leaf,
    Truth,
    columns_of,
    evaluate,
    find_unknown,
    find_zone,
    truth_of_values,
)
from frazil.tables.table_options import WriteOptions
from frazil.tables.xarray_values import (
    Stored,
    cast_column,
    encode,
    null_of,
    show,
    to_values,
)
from frazil.virtual.source_formats import without_codec_warnings

if TYPE_CHECKING:
    from xarray import Dataset

    from frazil.tables import sql_predicates
else:
    # Only `replace_where` needs the SQL parser.
    (sql_predicates,) = lazy_modules("frazil.tables.sql_predicates")


@dataclass(frozen=True, slots=True, eq=False)
class WriteAxis:
    """Dimension and its coordinates."""

    dim: str
    type: pa.DataType
    size: int
    values: pa.Array | None
    """None if the dimension has no coordinate; then positions are integers from zero."""

    def find(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the positions of coordinates; -1 for unknown ones."""
        if self.values is None:
            numbers = column.fill_null(-1).to_numpy()
            return np.where((numbers >= 0) & (numbers < self.size), numbers, np.int64(-1))
        places = pc.index_in(column, value_set=self.values, skip_nulls=True)
        found: NDArray[np.int64] = np.asarray(places.fill_null(-1), np.int64)
        return found

    def locate(self, column: pa.Array) -> NDArray[np.int64]:
        """Return the positions of coordinates; raises InvalidInputError that names unknown ones."""
        places = self.find(column)
        if (places < 0).any():
            unknown = pc.unique(column.filter(pa.array(places < 0)))
            unknown = unknown.take(pc.sort_indices(unknown))
            raise InvalidInputError(
                f"{self.dim} has no coordinate {show(unknown)}: write to existing "
                "coordinates, or append "
                f'new ones with append_dim="{self.dim}"'
            )
        return places

    def is_same(self, other: "WriteAxis") -> bool:
        """Return True if both axes have the same coordinates at the same positions."""
        if self.values is None or other.values is None:
            return self.values is other.values and self.size == other.size
        return bool(self.values.equals(other.values))


def check_coordinates(name: str, column: pa.Array | pa.ChunkedArray, type: pa.DataType) -> pa.Array:
    """Cast the coordinates of rows; raises InvalidInputError if one is null."""
    cast = cast_column(name, column, type)
    if cast.null_count:
        raise InvalidInputError(
            f"{cast.null_count} rows have no {name}, and so no cell: leave them out, as in "
            f'`.where("{name} IS NOT NULL")`'
        )
    return cast


def refuse_repeated(axis: WriteAxis) -> None:
    """Raise InvalidInputError if a coordinate occurs more than once."""
    if axis.values is None or len(pc.unique(axis.values)) == len(axis.values):
        return
    counts = axis.values.value_counts()
    twice = counts.field(0).filter(pc.greater(counts.field(1), 1))
    raise InvalidInputError(
        f"{axis.dim} has the coordinate {show(twice)} more than once: rows can be "
        "written only to arrays "
        "with distinct coordinates"
    )


def extend(axis: WriteAxis, given: pa.Array) -> WriteAxis:
    """Append missing coordinates to an axis, keeping its order; raises InvalidInputError.

    Arrays grow only at their end, so new coordinates must come after the existing ones.
    """
    if axis.values is None:
        least = pc.min(given).as_py()
        if least is not None and least < 0:
            raise InvalidInputError(f"invalid position {least} of {axis.dim}: positions start at 0")
        return replace(axis, size=max(axis.size, (pc.max(given).as_py() or 0) + 1))
    new = pc.unique(given.filter(pa.array(axis.find(given) < 0)))
    if not len(new):
        return axis
    order = find_order(axis.values)
    new = new.take(pc.sort_indices(new, sort_keys=[("", _SORTS[order])]))
    if order and len(axis.values):
        last = axis.values[-1]
        compare = pc.greater if order > 0 else pc.less
        late = new.filter(pc.invert(compare(new, last)))
        if len(late):
            raise InvalidInputError(
                f"can't append {show(late)} to {axis.dim}, which ends with {last.as_py()}: append "
                "coordinates that come after it"
            )
    whole = pa.concat_arrays([axis.values, new])
    return replace(axis, values=whole, size=len(whole))


_SORTS = {1: "ascending", -1: "descending", 0: "ascending"}


def find_order(values: pa.Array) -> int:
    """Return 1 if values strictly increase, -1 if they strictly decrease, else 0."""
    if len(values) < 2 or pc.all(pc.less(values[:-1], values[1:])).as_py():
        return 1
    return -1 if pc.all(pc.greater(values[:-1], values[1:])).as_py() else 0


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Row count, coordinates and columns with nulls of some rows."""

    rows: int
    distinct: Mapping[str, pa.Array]
    """Distinct coordinates, by dimension."""
    with_nulls: frozenset[str]

    @property
    def is_dense(self) -> bool:
        """Return True if every combination of coordinates has a row, assuming no duplicates."""
        return self.rows == prod(len(each) for each in self.distinct.values())


def measure(table: pa.Table, dims: Sequence[str]) -> Facts:
    """Collect the facts about the rows of a table."""
    distinct = {dim: _flat(pc.unique(table[dim])) for dim in dims}
    nulls = {name for name in table.column_names if _has_nulls(table[name])}
    return Facts(table.num_rows, distinct, frozenset(nulls))


def join_facts(parts: Sequence[Facts], dims: Sequence[str]) -> Facts:
    """Merge the facts about several tables."""
    distinct = {
        dim: _flat(pc.unique(pa.chunked_array([part.distinct[dim] for part in parts])))
        for dim in dims
    }
    nulls = frozenset[str]().union(*(part.with_nulls for part in parts))
    return Facts(sum(part.rows for part in parts), distinct, nulls)


def _flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    return values


def _has_nulls(column: pa.ChunkedArray) -> bool:
    is_null = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    return bool(pc.any(is_null).as_py())


AnyArray = zarr.Array[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Arrays that the columns of rows are written to."""

    group: str
    axes: Mapping[str, WriteAxis]
    """By dimension, in the order of the array that has most."""
    variables: Mapping[str, Stored]
    """By column name, for all columns that are no dimension."""
    grids: Mapping[str, Grid]
    coordinates: Mapping[str, Stored]
    """Coordinate arrays of the dimensions that have one."""

    @property
    def dims(self) -> tuple[str, ...]:
        """Return all dimensions."""
        return tuple(self.axes)

    def is_whole(self, name: str) -> bool:
        """Return True if an array has all dimensions, so that each row is one of its cells."""
        return len(self.variables[name].dims) == len(self.axes)


def array_path(group: str, name: str) -> str:
    """Return the path of an array in a group, in Zarr's form."""
    return f"{group_path(group)}/{name}".strip("/")


def open_array(session: Session, group: str, name: str) -> AnyArray:
    """Open an array of a writable session."""
    return zarr.open_array(session.store, path=array_path(group, name), mode="r+")


def find_arrays(session: Session, group: str) -> list[str]:
    """Return the names of a group's arrays; empty if there is no group."""
    node = session.state.view.find_node(group_path(group))
    return [] if node is None else list(GroupArrays(session, group).metadata)


def find_dims(session: Session, options: WriteOptions, names: Sequence[str]) -> tuple[str, ...]:
    """Return the dimensions of rows with these columns; raises InvalidInputError."""
    known = find_arrays(session, options.group)
    own = [name for name in names if name in known]
    shown = GroupArrays(session, options.group).open(own).variables.values() if own else ()
    dims = _order_dims([tuple(map(str, each.dims)) for each in shown])
    made = [name for name in names if name not in known and name not in dims]
    if options.dims is not None:
        dims = (*options.dims, *(dim for dim in dims if dim not in options.dims))
    elif made:
        raise InvalidInputError(
            f"{options.group} has no array {', '.join(made)}: name the dimensions of "
            "the new array with "
            "the option dims, or leave the column out"
        )
    absent = [dim for dim in dims if dim not in names]
    if absent:
        raise InvalidInputError(
            f"the rows have no column {', '.join(absent)}: add it, because it is a "
            "dimension of the arrays"
        )
    if options.append_dim is not None and options.append_dim not in dims:
        raise InvalidInputError(
            f"invalid append_dim {options.append_dim!r}: the arrays have dimensions {', '.join(dims)}"
        )
    return dims


def _order_dims(all_dims: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    largest = sorted(all_dims, key=len, reverse=True)
    return tuple(dict.fromkeys(dim for dims in largest for dim in dims))


def find_target(session: Session, options: WriteOptions, names: Sequence[str]) -> Target:
    """Return the existing arrays that rows with these columns are written to."""
    dims = find_dims(session, options, names)
    known = find_arrays(session, options.group)
    stored = find_stored(session, options.group, [name for name in known if name in names])
    sizes = {dim: size for each in stored.values() for dim, size in zip(each.dims, each.shape)}  # noqa: B905
    arrays = GroupArrays(session, options.group)
    dataset = arrays.open([dim for dim in dims if dim in stored])
    axes = {dim: _open_axis(dataset, stored.get(dim), dim, sizes[dim]) for dim in dims}
    variables = {name: each for name, each in stored.items() if name not in dims}
    if not variables:
        raise InvalidInputError("the rows have no column besides coordinates: add one to write")
    grids = {name: arrays.grid(name, each.dims) for name, each in variables.items()}
    coordinates = {name: each for name, each in stored.items() if name in dims}
    return Target(options.group, axes, variables, grids, coordinates)


def find_stored(session: Session, group: str, names: Sequence[str]) -> dict[str, Stored]:
    """Describe how arrays of a group store their values."""
    dataset = GroupArrays(session, group).open(names)
    return {name: _describe(session, group, dataset, name) for name in names}


def _open_axis(dataset: "Dataset", stored: Stored | None, dim: str, size: int) -> WriteAxis:
    if stored is None:
        return WriteAxis(dim, pa.int64(), size, None)
    if stored.dims != (dim,):
        raise InvalidInputError(
            f"the array {dim} has dimensions {', '.join(stored.dims)}, but a coordinate of {dim} must "
            f"have only {dim}"
        )
    values = to_arrow(make_values(dataset.variables[dim].values, stored.type))
    axis = WriteAxis(dim, stored.type, size, values)
    refuse_repeated(axis)
    return axis


def _describe(session: Session, group: str, dataset: "Dataset", name: str) -> Stored:
    variable = dataset.variables[name]
    array = zarr.open_array(session.store, path=array_path(group, name), mode="r")
    is_bytes = variable.dtype.kind in "SV" or array.dtype.kind == "O"
    return Stored(
        name,
        tuple(map(str, variable.dims)),
        tuple(array.shape),
        find_type(name, variable.dtype, is_bytes=is_bytes and not _is_text(array)),
        np.dtype(variable.dtype),
        np.dtype(array.dtype),
        dict(variable.encoding),
        array.fill_value,
    )


def _is_text(array: AnyArray) -> bool:
    data_type = array.metadata.to_dict()["data_type"]
    return data_type == "string" or np.dtype(array.dtype).kind in "TU"


CHUNK_ITEMS = 1 << 17
"""Approximate number of cells of a chunk by default: one MiB of float64."""
_TIME = {"units": "microseconds since 1970-01-01", "calendar": "proleptic_gregorian"}
_MISSING_TIME = int(np.iinfo(np.int64).min)


def make_room(session: Session, options: WriteOptions, schema: pa.Schema, facts: Facts) -> Target:
    """Create and resize arrays so that every coordinate of the rows has a position."""
    dims = find_dims(session, options, schema.names)
    known = set(find_arrays(session, options.group))
    if any(name not in known for name in schema.names if name not in dims or not known):
        if not facts.rows:
            raise InvalidInputError(
                f"can't create the arrays of {options.group} from no rows: write at least one row"
            )
        with without_codec_warnings():
            _make_arrays(session, options, schema, facts, dims)
    target = find_target(session, options, schema.names)
    grown = {dim: _grow(options, axis, facts) for dim, axis in target.axes.items()}
    if all(grown[dim] is axis or grown[dim].size == axis.size for dim, axis in target.axes.items()):
        return target
    _resize(session, options, target, grown)
    return find_target(session, options, schema.names)


def _grow(options: WriteOptions, axis: WriteAxis, facts: Facts) -> WriteAxis:
    given = check_coordinates(axis.dim, facts.distinct[axis.dim], axis.type)
    if axis.dim == options.append_dim:
        return extend(axis, given)
    axis.locate(given)
    return axis


def _resize(
    session: Session, options: WriteOptions, target: Target, grown: Mapping[str, WriteAxis]
) -> None:
    """Resize all arrays of the group along `append_dim` and write its new coordinates."""
    dim = options.append_dim
    assert dim is not None
    axis, size = target.axes[dim], grown[dim].size
    for name in find_arrays(session, options.group):
        array = open_array(session, options.group, name)
        names = getattr(array.metadata, "dimension_names", None) or ()
        if dim in names:
            array.resize(
                tuple(size if n == dim else s for n, s in zip(names, array.shape, strict=True))
            )
    values = grown[dim].values
    if values is not None:
        raw = encode(target.coordinates[dim], values[axis.size :])
        open_array(session, options.group, dim)[axis.size :] = raw


# Array creation


def _make_arrays(
    session: Session, options: WriteOptions, schema: pa.Schema, facts: Facts, dims: tuple[str, ...]
) -> None:
    known = set(find_arrays(session, options.group))
    for dim in dims:
        if dim not in known and not _is_dimension(session, options.group, dim, known):
            _make_coordinate(session, options, schema.field(dim), facts)
    sizes = _sizes(session, options.group, dims)
    for field in schema:
        if field.name in known or field.name in dims:
            continue
        may_lack = field.name in facts.with_nulls or not facts.is_dense or bool(known)
        _make_variable(session, options, field, sizes, may_lack=may_lack)


def _is_dimension(session: Session, group: str, dim: str, known: set[str]) -> bool:
    """Return True if arrays have this dimension without a coordinate."""
    return any(
        dim in (getattr(open_array(session, group, name).metadata, "dimension_names", None) or ())
        for name in known
    )


def _sizes(session: Session, group: str, dims: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in find_arrays(session, group):
        array = open_array(session, group, name)
        names = getattr(array.metadata, "dimension_names", None) or ()
        found.update(zip(names, array.shape, strict=False))
    return {dim: found[dim] for dim in dims}


def _make_coordinate(
    session: Session, options: WriteOptions, field: pa.Field, facts: Facts
) -> None:
    name, given = field.name, facts.distinct[field.name]
    kind, attributes, _ = _describe_type(field, may_lack=False)
    cast = TIMESTAMP if attributes else field.type
    values = check_coordinates(name, given, cast)
    values = values.take(pc.sort_indices(values))
    length = options.chunks.get(name, 1) if name == options.append_dim else 1
    _create(session, options, name, kind, (len(values),), (max(len(values), length, 1024),), (name,),
            attributes, None)  # fmt: skip
    stored = find_stored(session, options.group, [name])[name]
    open_array(session, options.group, name)[...] = encode(stored, values)


def _make_variable(
    session: Session,
    options: WriteOptions,
    field: pa.Field,
    sizes: Mapping[str, int],
    *,
    may_lack: bool,
) -> None:
    kind, attributes, fill = _describe_type(field, may_lack=may_lack)
    chunks = choose_chunks(sizes, options.chunks, options.append_dim)
    _create(session, options, field.name, kind, tuple(sizes.values()), chunks, tuple(sizes), attributes,
            fill)  # fmt: skip


def _create(
    session: Session, options: WriteOptions, name: str, kind: Any, shape: tuple[int, ...],
    chunks: tuple[int, ...], dims: tuple[str, ...], attributes: Mapping[str, Any], fill: Any,
) -> None:  # fmt: skip
    zarr.create_array(
        session.store,
        name=array_path(options.group, name),
        shape=shape,
        chunks=chunks,
        dtype=kind,
        fill_value=fill,
        attributes=dict(attributes),
        dimension_names=dims,
    )


def choose_chunks(
    sizes: Mapping[str, int], requested: Mapping[str, int], append_dim: str | None
) -> tuple[int, ...]:
    """Return chunk lengths by dimension: as given, else about square, longer along `append_dim`."""
    unknown = sorted(set(requested) - set(sizes))
    if unknown:
        raise InvalidInputError(
            f"invalid chunks: {', '.join(unknown)} is not one of the dimensions {', '.join(sizes)}"
        )
    lengths = {dim: requested.get(dim, max(size, 1)) for dim, size in sizes.items()}
    free = [dim for dim in sizes if dim not in requested]
    while prod(lengths.values()) > CHUNK_ITEMS and any(lengths[dim] > 1 for dim in free):
        longest = max(free, key=lambda dim: lengths[dim])
        lengths[longest] = -(-lengths[longest] // 2)
    if append_dim in free:
        others = prod(lengths[dim] for dim in sizes if dim != append_dim)
        lengths[append_dim] = max(CHUNK_ITEMS // max(others, 1), 1)
    return tuple(lengths.values())


def _describe_type(field: pa.Field, *, may_lack: bool) -> tuple[Any, dict[str, Any], Any]:
    """Return the data type, attributes and fill value for a column; raises InvalidInputError."""
    type = field.type
    if pa.types.is_timestamp(type) or pa.types.is_date(type):
        missing = {"_FillValue": _MISSING_TIME} if may_lack else {}
        return "int64", {**_TIME, **missing}, _MISSING_TIME if may_lack else 0
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return str, {}, ""
    if pa.types.is_boolean(type):
        return "bool", {}, False
    if pa.types.is_floating(type):
        return np.dtype(type.to_pandas_dtype()).name, {}, float("nan")
    if pa.types.is_integer(type) or type == UNSIGNED_64:
        kind = np.dtype("u8" if type == UNSIGNED_64 else type.to_pandas_dtype())
        if not may_lack:
            return kind.name, {}, 0
        edge = np.iinfo(kind)
        missing_number = int(edge.max if kind.kind == "u" else edge.min)
        return kind.name, {"_FillValue": missing_number}, missing_number
    raise InvalidInputError(
        f"can't create an array for the column {field.name} of type {type}: cast it to a number, a "
        "string, a boolean or a timestamp"
    )


def read_condition(options: WriteOptions, target: Target) -> Condition:
    """Parse `replace_where`, a predicate on dimension coordinates; raises InvalidInputError."""
    if options.replace_where is None:
        return EVERYTHING
    types = {dim: axis.type for dim, axis in target.axes.items()}
    scope = sql_predicates.Scope(types, find_zone(options.time_zone))
    condition = sql_predicates.parse_predicate(options.replace_where, scope)
    unknown = find_unknown(condition)
    if unknown is not None:
        raise InvalidInputError(
            f"invalid replace_where {unknown!r}: compare the coordinates "
            f"{', '.join(types)} with constants"
        )
    return condition


def refuse_outside(options: WriteOptions, target: Target, table: pa.Table) -> None:
    """Raise InvalidInputError if a row is outside the cells to replace."""
    condition = read_condition(options, target)
    names = columns_of(condition)
    rows = {
        dim: to_values(check_coordinates(dim, table[dim], axis.type))
        for dim, axis in target.axes.items()
        if dim in names
    }
    is_inside = _evaluate(condition, rows)
    count = int(table.num_rows - np.broadcast_to(is_inside, (table.num_rows,)).sum())
    if count:
        raise InvalidInputError(
            f"{count} rows don't match replace_where {options.replace_where!r}: leave them out"
        )


def clear(session: Session, options: WriteOptions, target: Target) -> None:
    """Clear the cells to replace, in the arrays that rows have columns for."""
    condition = read_condition(options, target)
    columns = {
        dim: to_values(_coordinates(target, dim))
        for dim in target.dims
        if dim in columns_of(condition)
    }
    for stored in target.variables.values():
        if target.is_whole(stored.name):
            _clear_array(session, target, stored, condition, columns)


def _clear_array(
    session: Session,
    target: Target,
    stored: Stored,
    condition: Condition,
    columns: Mapping[str, Values],
) -> None:
    array = open_array(session, target.group, stored.name)
    grid, null = target.grids[stored.name], null_of(stored)
    chunks = np.argwhere(np.ones(grid.shape, np.bool_))
    if _is_same(null, stored.fill_value):
        # Unwritten chunks are empty already.
        node = session.state.view.get_node(f"/{array.path}")
        found = list(session.state.view.coordinates(node))
        chunks = np.concatenate([each.astype(np.int64) for each in found]) if found else chunks[:0]
    for chunk in chunks:
        region = grid.region(np.stack([chunk, chunk + 1], axis=1))
        _clear_chunk(array, region, null, _mask(stored, region, condition, columns))


def _is_same(one: Any, other: Any) -> bool:
    """Return True if two values are equal; NaN equals itself."""
    return bool(one == other or (one != one and other != other))


def _clear_chunk(array: AnyArray, region: Region, null: Any, mask: NDArray[np.bool_]) -> None:
    if mask.all():
        array[region] = null
    elif mask.any():
        block = np.array(array[region])
        block[mask] = null
        array[region] = block


def _mask(
    stored: Stored, region: Region, condition: Condition, columns: Mapping[str, Values]
) -> NDArray[np.bool_]:
    shape = tuple(each.stop - each.start for each in region)
    own = {}
    for axis, (dim, part) in enumerate(zip(stored.dims, region, strict=True)):
        if dim in columns:
            spread = [-1 if i == axis else 1 for i in range(len(shape))]
            own[dim] = columns[dim][part].reshape(tuple(spread))
    return np.broadcast_to(_evaluate(condition, own), shape)


def _evaluate(condition: Condition, columns: Mapping[str, Values]) -> NDArray[np.bool_]:
    def truth_of(leaf: Leaf) -> Truth:
        return truth_of_values(leaf, columns[leaf.column])

    return np.asarray(evaluate(condition, truth_of).can_be_true, np.bool_)


def _coordinates(target: Target, dim: str) -> pa.Array:
    axis = target.axes[dim]
    return pa.array(np.arange(axis.size)) if axis.values is None else axis.values
