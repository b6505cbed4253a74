"""Room for rows: arrays that are not there are made, and arrays grow where new coordinates come."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zarr

from frazil.errors import InvalidInputError
from frazil.frames.types import TIMESTAMP, UNSIGNED_64
from frazil.frames.writing.axes import WriteAxis, check_coordinates, extend
from frazil.frames.writing.facts import Facts
from frazil.frames.writing.options import WriteOptions
from frazil.frames.writing.targets import (
    Target,
    array_path,
    find_arrays,
    find_dims,
    find_stored,
    find_target,
    open_array,
)
from frazil.frames.writing.values import encode
from frazil.session import Session
from frazil.virtual.quiet import without_codec_warnings

CHUNK_ITEMS = 1 << 17
"""How many cells a chunk has, about, where nobody says it: a MiB of doubles."""
_TIME = {"units": "microseconds since 1970-01-01", "calendar": "proleptic_gregorian"}
_MISSING_TIME = int(np.iinfo(np.int64).min)


def make_room(session: Session, options: WriteOptions, schema: pa.Schema, facts: Facts) -> Target:
    """The arrays that rows go to, with a place for each of their coordinates."""
    dims = find_dims(session, options, schema.names)
    known = set(find_arrays(session, options.group))
    if any(name not in known for name in schema.names if name not in dims or not known):
        if not facts.rows:
            raise InvalidInputError(
                f"{options.group} has no such arrays, and no rows say what they are"
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
    """Let all arrays of the group grow that have the dimension, and write its new coordinates."""
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


# Making arrays


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
    """Whether arrays have a dimension without a coordinate."""
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
    sizes: Mapping[str, int], wishes: Mapping[str, int], append_dim: str | None
) -> tuple[int, ...]:
    """Lengths of chunks by dimension: as wished, or about square, and long where arrays grow."""
    unknown = sorted(set(wishes) - set(sizes))
    if unknown:
        raise InvalidInputError(f"chunks has {', '.join(unknown)}, which is no dimension")
    lengths = {dim: wishes.get(dim, max(size, 1)) for dim, size in sizes.items()}
    free = [dim for dim in sizes if dim not in wishes]
    while prod(lengths.values()) > CHUNK_ITEMS and any(lengths[dim] > 1 for dim in free):
        longest = max(free, key=lambda dim: lengths[dim])
        lengths[longest] = -(-lengths[longest] // 2)
    if append_dim in free:
        others = prod(lengths[dim] for dim in sizes if dim != append_dim)
        lengths[append_dim] = max(CHUNK_ITEMS // max(others, 1), 1)
    return tuple(lengths.values())


def _describe_type(field: pa.Field, *, may_lack: bool) -> tuple[Any, dict[str, Any], Any]:
    """The type, attributes and fill value of an array for a column; raises InvalidInputError."""
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
        f"no array is made of the column {field.name}, which is {type}: cast it to a number, a text, a "
        "boolean or a timestamp"
    )
