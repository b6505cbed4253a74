"""Random queries about random arrays, beside plain Spark over the same cells.

`python -m tests.spark.tables.random_sql --count 5000` tries that many with a fresh seed, and prints
every difference with the command that makes it again.
"""

import argparse
import logging
import math
import random
import secrets
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xarray as xr
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession

import frazil
import frazil.spark
from frazil.errors import IcechunkError
from frazil.spark.tables import sql as views
from frazil.spark.tables.read import make_frame, make_result
from frazil.tables.table_options import Options
from frazil.tables.table_source import Table, open_source, open_table
from frazil.xarray import to_icechunk
from tests.spark.conftest import FAST_START

FAST_QUERIES = {
    # Small tables are asked once: compiling a query takes longer than evaluating it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.ui.retainedExecutions": "1",
}
QUERIES_EACH = 40
"""Queries about one dataset."""
ZONES = ("UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "+05:30", "PST", "CET")
LOOKUP = "lookup"
"""A view of the session, which is none of the repository's tables."""

# Datasets

_DTYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "f8", "bool")
_TEXTS = ("a", "b", "B", "", "10", "-3", "true", "2020-01-02", "zürich", "a b", "x_y", "nan")
_STARTS = ("2020-01-01", "2020-03-28T20", "2020-10-24T22", "1969-12-31", "1900-01-01", "2038-01-01")
_CALENDARS = ("noleap", "360_day", "julian")


def make_dataset(chance: random.Random) -> tuple[xr.Dataset, dict[str, dict[str, Any]]]:
    """Arrays that go together, and their encoding."""
    dims = chance.sample(("time", "lat", "lon", "k"), chance.choice((1, 2, 2, 3, 3)))
    sizes = {dim: chance.choice((1, 2, 3, 4, 5)) for dim in dims}
    coordinates: dict[str, Any] = {}
    encoding: dict[str, dict[str, Any]] = {}
    for dim in dims:
        kind = chance.choice(("none", "number", "number", "text", "time", "time"))
        if dim == "time":
            kind = chance.choice(("time", "time", "time", "calendar"))
        if kind != "none":
            coordinates[dim] = (dim, _coordinate(chance, kind, sizes[dim]))
    if chance.random() < 0.4:
        dim = chance.choice(dims)
        coordinates["Zone"] = (dim, _coordinate(chance, "text", sizes[dim]))
    if chance.random() < 0.2:
        coordinates["run"] = ((), _coordinate(chance, chance.choice(("text", "number")), 1)[0])
    if len(dims) > 1 and chance.random() < 0.2:
        pair = tuple(chance.sample(dims, 2))
        coordinates["height"] = (pair, _numbers(chance, "f8", [sizes[dim] for dim in pair]))
    variables: dict[str, Any] = {}
    for number, name in enumerate(chance.sample(("t", "V", "n", "my var", "value"), 3)):
        own = chance.sample(dims, len(dims) if number == 0 else chance.randint(1, len(dims)))
        shape = [sizes[dim] for dim in own]
        values, how = _variable(chance, shape)
        chunks = tuple(chance.randint(1, size) for size in shape)
        variables[name] = (own, values)
        encoding[name] = {"chunks": chunks, **how}
        if chance.random() < 0.3:
            break
    return xr.Dataset(variables, coordinates), encoding


def _coordinate(chance: random.Random, kind: str, size: int) -> Any:
    if kind == "text":
        return np.array([chance.choice(_TEXTS) for _ in range(size)], object)
    if kind == "calendar":
        calendar = chance.choice(_CALENDARS)
        return xr.date_range("2000-02-28", periods=size, calendar=calendar, use_cftime=True).values
    if kind == "time":
        step = np.timedelta64(chance.choice((1, 6, 12, 24, 24)), "h")
        found: Any = np.datetime64(chance.choice(_STARTS), "ns") + np.arange(size) * step
    else:
        dtype = chance.choice(("f8", "f8", "f4", "i4", "i8", "u1", "u8"))
        found = (np.arange(size) * 2 - (0 if dtype[0] == "u" else 3)).astype(dtype)
        found = found / dtype_one(dtype, 2) if dtype[0] == "f" else found
    match chance.choice(("up", "up", "down", "shuffled", "repeated")):
        case "down":
            found = found[::-1].copy()
        case "shuffled":
            found = found[chance.sample(range(size), size)]
        case "repeated":
            found = found[[chance.randrange(size) for _ in range(size)]]
    if found.dtype.kind == "f" and chance.random() < 0.2:
        found[chance.randrange(size)] = np.nan
    return found


def dtype_one(dtype: str, value: float) -> Any:
    """A number of a type."""
    return np.dtype(dtype).type(value)


def _numbers(chance: random.Random, dtype: str, shape: Sequence[int]) -> Any:
    """Halves where they fit, so that sums are exact in any order."""
    rng = np.random.default_rng(chance.getrandbits(32))
    low = 0 if dtype[0] == "u" else -9
    found: Any = rng.integers(low, 10, shape)
    if dtype == "bool":
        return found > 0
    if dtype[0] == "f":
        found = found / 2
        found[rng.random(shape) < 0.25] = np.nan
        if chance.random() < 0.15:
            found[rng.random(shape) < 0.1] = chance.choice((np.inf, -np.inf))
        return found.astype(dtype)
    found = found.astype(dtype)
    if chance.random() < 0.25 and found.size:
        limits = np.iinfo(dtype)
        found.flat[0] = chance.choice((limits.min, limits.max))
    return found


def _variable(chance: random.Random, shape: Sequence[int]) -> tuple[Any, dict[str, Any]]:
    match chance.choice(("plain",) * 5 + ("packed", "packed", "fill", "text", "time", "span")):
        case "packed":
            how = {
                "dtype": chance.choice(("i2", "u1", "i4")),
                "scale_factor": chance.choice((0.5, 0.25, 2.0)),
                "add_offset": chance.choice((0.0, 3.0)),
                "_FillValue": 77,
            }
            found = np.abs(_numbers(chance, "f8", shape)) + 3
            found[np.isinf(found)] = np.nan  # no integer stands for it, as Xarray warns
            return found, how
        case "fill":
            dtype = chance.choice(("i2", "i4", "f4", "f8"))
            return _numbers(chance, dtype, shape), {"_FillValue": dtype_one(dtype, 3)}
        case "text":
            size = math.prod(shape)
            return np.array(_coordinate(chance, "text", size), object).reshape(shape), {}
        case "time":
            size = math.prod(shape)
            found = _coordinate(chance, "time", size).reshape(shape)
            if chance.random() < 0.5:
                found.flat[0] = np.datetime64("NaT", "ns")
            return found, {}
        case "span":
            hours = _numbers(chance, "i1", shape)
            return hours.astype("timedelta64[h]").astype("timedelta64[ns]"), {}
    return _numbers(chance, chance.choice(_DTYPES), shape), {}


# The tables of a dataset


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, with some of its values as constants are made of them."""

    name: str
    kind: str
    """int, float, text, time, bool, or other."""
    is_coordinate: bool
    samples: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class World:
    """A repository, and the same cells as tables of plain Spark."""

    repo: frazil.Repository
    tables: dict[str, tuple[Column, ...]]
    cells: dict[str, pa.Table]


def make_world(chance: random.Random, path: Path) -> World:
    """A repository with one random dataset, and its cells by another way."""
    dataset, encoding = make_dataset(chance)
    config = frazil.RepositoryConfig(inline_chunk_threshold_bytes=chance.choice((0, 512)))
    repo = frazil.Repository.create(frazil.local_filesystem_storage(str(path)), config)
    session = repo.writable_session("main")
    to_icechunk(dataset, session, mode="w", encoding=encoding)
    session.commit("random")
    if chance.random() < 0.3:
        frazil.analyze(repo)
    store: Any = repo.readonly_session("main").store
    opened = xr.open_dataset(store, engine="zarr", consolidated=False, chunks=None)
    names = {name: [name] for name in map(str, opened.data_vars)}
    # All of them are one table if one of them has all dimensions: the first.
    names["cells"] = list(names)
    tables, cells = {}, {}
    for table, variables in names.items():
        options = Options(variables=None if table == "cells" else tuple(variables))
        promised = open_table(open_source(options, repo)).schema.names
        cells[table] = _expected_cells(opened, variables, promised)
        tables[table] = tuple(_columns(opened, cells[table]))
    return World(repo, tables, cells)


def _expected_cells(
    dataset: xr.Dataset, variables: Sequence[str], names: Sequence[str]
) -> pa.Table:
    """The cells of arrays, as Xarray has them, in the types that are promised."""
    dims = max((dataset[name].dims for name in variables), key=len)
    shape = tuple(dataset.sizes[dim] for dim in dims)
    columns, fields = [], []
    for name in names:
        array = (
            dataset[name]
            if name in dataset.variables
            else xr.DataArray(np.arange(dataset.sizes[name]), dims=[name])
        )
        spread = (
            array.reset_coords(drop=True)
            .expand_dims({dim: dataset.sizes[dim] for dim in dims if dim not in array.dims})
            .transpose(*dims)
        )
        assert spread.shape == shape
        type = _arrow_type(spread.dtype)
        values = [_to_python(each) for each in spread.values.reshape(-1)]
        columns.append(pa.array(values, type))
        fields.append(pa.field(name, type))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


_ARROW = {
    "b1": pa.bool_(), "i1": pa.int8(), "i2": pa.int16(), "i4": pa.int32(), "i8": pa.int64(),
    "u1": pa.int16(), "u2": pa.int32(), "u4": pa.int64(), "u8": pa.decimal128(20, 0),
    "f2": pa.float32(), "f4": pa.float32(), "f8": pa.float64(),
}  # fmt: skip


def _arrow_type(dtype: np.dtype[Any]) -> pa.DataType:
    if dtype.kind in "Mm":
        return pa.timestamp("us", "UTC") if dtype.kind == "M" else pa.duration("us")
    return _ARROW.get(f"{dtype.kind}{dtype.itemsize}", pa.string())


def _to_python(value: Any) -> Any:
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None if np.isnat(value) else value.astype(f"{value.dtype.str[1:3]}[us]").item()
    if isinstance(value, np.unsignedinteger) and value.dtype.itemsize == 8:
        return Decimal(int(value))
    found = value.item() if isinstance(value, np.generic) else value
    if isinstance(found, float) and math.isnan(found):
        return None
    return found.isoformat() if hasattr(found, "isoformat") else found


def _columns(dataset: xr.Dataset, cells: pa.Table) -> Iterator[Column]:
    for field_ in cells.schema:
        values = tuple({each for each in cells[field_.name].to_pylist() if each is not None})
        yield Column(
            field_.name,
            _kind(field_.type),
            field_.name not in dataset.data_vars,
            tuple(sorted(values)),
        )


def _kind(type: pa.DataType) -> str:
    if pa.types.is_timestamp(type):
        return "time"
    if pa.types.is_boolean(type):
        return "bool"
    if pa.types.is_floating(type):
        return "float"
    if pa.types.is_integer(type) or pa.types.is_decimal(type):
        return "int"
    return "text" if pa.types.is_string(type) else "other"


# Queries

_ODD_NUMBERS = (
    "16777217", "9223372036854775807", "18446744073709551615", "1e30", "1e400", "0.1", "1e-3",
    "99999999999999999999999", "0.00000000000000000001", "-128", "9223372036854775808L", "300",
    "DOUBLE('inf')", "CAST('nan' AS DOUBLE)",
)  # fmt: skip


@dataclass(slots=True)
class Writer:
    """Writes random queries about the tables of a world."""

    chance: random.Random
    tables: dict[str, tuple[Column, ...]]
    is_simple: bool = False
    """Whether conditions are mostly such as chunks are pruned by."""
    aliases: int = field(default=0)

    def one_of(self, *ways: Any) -> Any:
        """Any of them."""
        return self.chance.choice(ways)

    def maybe(self, part: float) -> bool:
        """True so often."""
        return self.chance.random() < part

    def query(self) -> str:
        """Any query."""
        ways = (
            (self.plain, 4), (self.sums, 6), (self.groups, 3), (self.join, 3), (self.subquery, 3),
            (self.cte, 3), (self.union, 1), (self.window, 1), (self.grids, 2),
        )  # fmt: skip
        (way,) = self.chance.choices([way for way, _ in ways], [weight for _, weight in ways])
        text: str = way()
        return text

    # Names and constants

    def table(self) -> tuple[str, str, "Scope"]:
        """What stands after FROM, the name of it, and its columns."""
        name = self.chance.choice(list(self.tables))
        spelled = f"`{name}`" if " " in name or self.maybe(0.1) else name
        if " " not in name and self.maybe(0.1):
            spelled = spelled.swapcase()
        alias = name
        if self.maybe(0.4):
            self.aliases += 1
            alias = f"x{self.aliases}"
            spelled += self.one_of(" ", " AS ") + alias
        return spelled, alias, Scope(alias, self.tables[name])

    def ref(self, scope: "Scope", column: Column) -> str:
        """A column by its name."""
        name = column.name
        if " " in name or self.maybe(0.1):
            name = f"`{name}`"
        elif self.maybe(0.1):
            name = name.swapcase()
        if scope.needs_qualifier or (self.maybe(0.2) and scope.alias):
            qualifier = f"`{scope.alias}`" if " " in scope.alias else scope.alias
            name = f"{qualifier}.{name}"
        return name

    def pick(self, scope: "Scope", *kinds: str) -> Column | None:
        """A column of some kinds, if there is one."""
        found = [each for each in scope.columns if not kinds or each.kind in kinds]
        return self.chance.choice(found) if found else None

    def constant(self, column: Column) -> str:
        """What a column may be compared with."""
        chance = self.chance
        sample = chance.choice(column.samples) if column.samples else None
        if self.maybe(0.03):
            return "NULL"
        match column.kind:
            case "int" | "float":
                return self.number(sample)
            case "bool":
                return str(self.one_of("true", "false", "TRUE", "'true'", "1"))
            case "text":
                return self.text(sample)
            case "time":
                return self.time(sample)
        return str(self.one_of("INTERVAL '3' HOUR", "INTERVAL '0 02:00:00' DAY TO SECOND"))

    def number(self, sample: Any) -> str:
        """A number near a value."""
        if sample is None or (isinstance(sample, float) and not math.isfinite(sample)):
            sample = 1
        if self.maybe(0.04):
            return str(self.one_of(*_ODD_NUMBERS))
        near = sample + type(sample)(self.one_of(0, 0, 0, 1, -1))
        whole = int(near)
        match self.chance.randrange(5, 14) if self.is_simple else self.chance.randrange(14):
            case 0:
                return f"{whole}L"
            case 1:
                return f"{float(near)}D"
            case 2:
                return f"{float(near)}e0"
            case 3:
                return f"'{near}'"
            case 4:
                return f"CAST({whole} AS {self.one_of('BIGINT', 'INT', 'DOUBLE', 'DECIMAL(5,1)')})"
            case 5:
                return f"({float(near)})"
            case 6:
                return f"{whole}.5"
            case 7 if not self.is_simple:
                return f"{whole} + 1"
            case 8 if not self.is_simple:
                return f"CAST('{whole}' AS {self.one_of('INT', 'DOUBLE', 'FLOAT')})"
            case 9 | 10:
                return str(float(near))
        return str(whole)

    def text(self, sample: Any) -> str:
        """A text near a value."""
        sample = sample or "a"
        match 9 if self.is_simple else self.chance.randrange(12):
            case 0:
                return f'"{sample}"'
            case 1:
                return f"'{sample}''s'"
            case 2:
                return f"'{sample}\\\\t'"
            case 3:
                return f"r'{sample}'"
            case 4:
                return f"concat('{sample}', '')"
            case 5:
                return str(self.one_of("5", "true", "DATE '2020-01-02'", "'x\\_y'", "'\\u0061'"))
        return f"'{sample}'"

    def time(self, sample: Any) -> str:
        """A time near a value, in one of the many ways to write it."""
        moment = sample or datetime(2020, 1, 1, tzinfo=UTC)
        moment += timedelta(hours=self.one_of(0, 0, 0, -1, 1, 6, 18, -24))
        day, clock = moment.strftime("%Y-%m-%d"), moment.strftime("%H:%M:%S")
        spelled = self.one_of(
            day, day, f"{day} {clock}", f"{day} {clock}", f"{day}T{clock}", f"{day} {clock[:5]}",
            f"{day}T{clock}Z", f"{day} {clock}+01:00", f"{day} {clock} UTC", f"{day} {clock}.000",
            f" {day} ", f"{moment.year}", f"{moment.year}-{moment.month}", f"{day} {clock}.5",
            f"{moment.year}-{moment.month}-{moment.day}", f"{day} {moment.hour}:0:0",
            f"{day} {clock} Europe/Berlin", f"{day} {clock}-3", f"{day} 18:00:00",
        )  # fmt: skip
        if self.maybe(0.03):
            spelled = self.one_of(
                "yesterday", "2020-13-01", "2020-02-30", "", f"{day} x", f"{day} 25:00"
            )
        match self.chance.randrange(14):
            case 0 | 1:
                return f"TIMESTAMP '{spelled}'"
            case 2 | 3:
                return f"DATE '{spelled}'"
            case 4:
                return f"CAST('{spelled}' AS DATE)"
            case 5:
                return f"CAST('{spelled}' AS TIMESTAMP)"
            case 6:
                return f"{self.one_of('TIMESTAMP_NTZ', 'TIMESTAMP_LTZ')} '{spelled}'"
            case 7:
                return f"{self.one_of('to_timestamp', 'date', 'to_date', 'timestamp')}('{spelled}')"
            case 8:
                return f"'{spelled}'::{self.one_of('DATE', 'TIMESTAMP')}"
            case 9:
                return f"try_cast('{spelled}' AS {self.one_of('DATE', 'TIMESTAMP')})"
        return f"'{spelled}'"

    # Conditions

    def condition(self, scope: "Scope", depth: int = 2) -> str:
        """What may stand after WHERE."""
        if depth and self.maybe(0.45):
            left, right = (self.condition(scope, depth - 1) for _ in range(2))
            match self.chance.randrange(5):
                case 0:
                    return f"NOT ({left})"
                case 1 | 2:
                    return f"({left}) {self.one_of('OR', 'or')} ({right})"
                case 3:
                    return f"{left} AND {right}"
            return f"{left} AND ({right})"
        return self.leaf(scope)

    def leaf(self, scope: "Scope") -> str:
        """A condition about one column, mostly."""
        column = self.pick(scope)
        assert column is not None
        name, constant = self.ref(scope, column), self.constant(column)
        operator = self.one_of("=", "<>", "!=", "<", "<=", ">", ">=", "<=>", "==")
        match self.chance.randrange(10) if self.is_simple else self.chance.randrange(16):
            case 0 | 1 | 2 | 3:
                return f"{name} {operator} {constant}"
            case 4:
                return f"{constant} {operator} {name}"
            case 5 | 6:
                values = [self.constant(column) for _ in range(self.chance.randint(1, 3))]
                return f"{name} {self.one_of('', 'NOT ')}IN ({', '.join(values)})"
            case 7 | 8:
                not_ = self.one_of("", "", "NOT ")
                return f"{name} {not_}BETWEEN {constant} AND {self.constant(column)}"
            case 9:
                return f"{name} IS {self.one_of('', 'NOT ')}NULL"
            case 10:
                return f"{self.one_of('NOT ', '!')} {name} {operator} {constant}"
            case 11:
                return f"{self.value(scope, column)} {operator} {constant}"
            case 12:
                other = self.pick(scope, column.kind)
                assert other is not None
                return f"{name} {operator} {self.ref(scope, other)}"
            case 13 if column.kind == "bool":
                return str(self.one_of(name, f"{name} IS TRUE", f"NOT {name}"))
            case 13 if column.kind == "text":
                pattern = self.one_of("a%", "_", "x_y", ".*")
                return f"{name} {self.one_of('LIKE', 'RLIKE', 'ILIKE')} '{pattern}'"
            case 14:
                return f"CASE WHEN {name} {operator} {constant} THEN true ELSE {name} IS NULL END"
        return f"{name} {operator} {constant}"

    def value(self, scope: "Scope", column: Column) -> str:
        """An expression of one column."""
        name = self.ref(scope, column)
        match column.kind:
            case "int" | "float":
                return str(
                    self.one_of(
                        name, f"{name} + 1", f"-{name}", f"{name} * 2", f"abs({name})",
                        f"CAST({name} AS DOUBLE)", f"coalesce({name}, 0)", f"10 / {name}",
                        f"CAST({name} AS INT)", f"CAST({name} AS STRING)", f"{name} % 3",
                        f"try_divide(1, {name})", f"CAST({name} AS TINYINT)", f"round({name})",
                    )
                )  # fmt: skip
            case "text":
                return str(
                    self.one_of(
                        name, f"upper({name})", f"length({name})", f"{name} || 'x'",
                        f"coalesce({name}, 'none')", f"CAST({name} AS INT)",
                        f"try_cast({name} AS INT)", f"CAST({name} AS DATE)", f"lower({name})",
                    )
                )  # fmt: skip
            case "time":
                return str(
                    self.one_of(
                        name, f"year({name})", f"hour({name})", f"CAST({name} AS DATE)",
                        f"date_trunc('DAY', {name})", f"CAST({name} AS STRING)",
                        f"{name} + INTERVAL '1' DAY", f"unix_timestamp({name})", f"day({name})",
                        f"date_format({name}, 'yyyy-MM-dd HH')", f"to_date({name})",
                        f"CAST({name} AS TIMESTAMP_NTZ)",
                    )
                )  # fmt: skip
            case "bool":
                return str(self.one_of(name, f"NOT {name}", f"CAST({name} AS INT)"))
        return name

    def where(self, scope: "Scope", part: float = 0.8) -> str:
        """A WHERE, or nothing."""
        return f" WHERE {self.condition(scope)}" if self.maybe(part) else ""

    def outputs(self, scope: "Scope", most: int = 3) -> list[str]:
        """Expressions of some columns."""
        found = []
        for number in range(self.chance.randint(1, most)):
            column = self.pick(scope)
            assert column is not None
            value = self.ref(scope, column) if self.maybe(0.6) else self.value(scope, column)
            found.append(f"{value} AS o{number}" if self.maybe(0.6) else value)
        if self.maybe(0.15):
            inner = self.pick(scope)
            assert inner is not None
            found.append(f"CASE WHEN {self.condition(scope, 1)} THEN 'yes' ELSE 'no' END AS c")
        return found

    def ordered(self, text: str, count: int) -> str:
        """A query with a total order, and perhaps a limit."""
        if self.maybe(0.4):
            return text
        ways = ("", " ASC", " DESC", " DESC NULLS FIRST", " NULLS LAST")
        order = ", ".join(f"{n + 1}{self.one_of(*ways)}" for n in range(count))
        text += f" ORDER BY {order}"
        if self.maybe(0.6):
            text += f" LIMIT {self.chance.randint(0, 6)}"
            text += f" OFFSET {self.chance.randint(0, 3)}" if self.maybe(0.2) else ""
        return text

    # Kinds of queries

    def plain(self) -> str:
        """Cells."""
        table, alias, scope = self.table()
        if self.maybe(0.1):
            names = [f"c{n}" for n in range(len(scope.columns))]
            columns = [
                Column(name, each.kind, each.is_coordinate, each.samples)
                for name, each in zip(names, scope.columns, strict=True)
            ]
            if alias in table.split():
                table = table.split()[0] if "`" not in table else f"`{table.split('`')[1]}`"
            table, scope = f"{table} AS r({', '.join(names)})", Scope("r", tuple(columns))
        if self.maybe(0.15):
            star = self.one_of("*", "*", f"{'r' if scope.alias == 'r' else self._quoted(scope)}.*")
            return self.ordered(
                f"SELECT {star} FROM {table}{self.where(scope)}", len(scope.columns)
            )
        found = self.outputs(scope)
        distinct = "DISTINCT " if self.maybe(0.15) else ""
        text = f"SELECT {distinct}{', '.join(found)} FROM {table}{self.where(scope)}"
        return self.ordered(text, len(found))

    @staticmethod
    def _quoted(scope: "Scope") -> str:
        return f"`{scope.alias}`"

    def aggregate(self, scope: "Scope") -> str:
        """A function of many cells."""
        if self.maybe(0.3):
            return str(self.one_of("count(*)", "count(1)", "COUNT(*)", "count(2)", "count(NULL)"))
        column = self.pick(scope)
        numeric = self.pick(scope, "int", "float")
        assert column is not None
        if numeric is None or self.maybe(0.4):
            function = self.one_of("count", "min", "max", "MAX", "COUNT")
            return f"{function}({self.ref(scope, column)})"
        value = self.ref(scope, numeric)
        if self.maybe(0.35):
            other = self.pick(scope, "int", "float")
            assert other is not None
            value = self.one_of(
                f"{value} * 2.5e0", f"{value} - 1.5", f"{value} + {self.ref(scope, other)}",
                f"{value} * cos(radians({self.ref(scope, other)}))", f"{value} / 4", f"-{value}",
                f"CASE WHEN {self.condition(scope, 1)} THEN {value} END", f"nullif({value}, 1)",
                f"if({value} > {self.ref(scope, other)}, 1, 0)", f"CAST({value} AS DOUBLE)",
                f"abs({value})", f"coalesce({value}, 0)",
            )  # fmt: skip
        match self.chance.randrange(9):
            case 0:
                return f"count_if({self.condition(scope, 1)})"
            case 8:
                counted = self.value(scope, column)
                where = f" FILTER (WHERE {self.condition(scope, 1)})" if self.maybe(0.3) else ""
                return f"count(DISTINCT {counted}){where}"
            case 1:
                # A value for each key, so that there is one answer.
                return f"{self.one_of('min_by', 'max_by')}({value}, {value})"
            case 2:
                return f"median({value})"
            case 3:
                return f"percentile({value}, {self.one_of('0.25', '0.9', 'array(0.1, 0.5)')})"
            case 4:
                where = self.condition(scope, 1)
                return f"{self.one_of('sum', 'count', 'max')}({value}) FILTER (WHERE {where})"
        function = self.one_of(
            "sum", "avg", "mean", "SUM", "Avg", "stddev", "VARIANCE", "stddev_pop", "var_samp", "std",
        )  # fmt: skip
        return f"{function}({value})"

    def sums(self) -> str:
        """Such as partial sums may answer."""
        table, _, scope = self.table()
        coordinates = [each for each in scope.columns if each.is_coordinate]
        keys = self.chance.sample(coordinates, self.chance.randint(0, min(2, len(coordinates))))
        names = [
            self.value(scope, each) if self.maybe(0.3) else self.ref(scope, each) for each in keys
        ]
        found = [
            f"{name} AS {self.one_of('k', 'g', keys[0].name.lower().replace(' ', '_'))}{n or ''}"
            if self.maybe(0.2)
            else name
            for n, name in enumerate(names)
        ]
        named = []
        for number in range(self.chance.randint(0 if names else 1, 3)):
            text = self.aggregate(scope)
            if self.maybe(0.25):
                more = self.one_of("+ 1", "* 2.5", f"- {self.aggregate(scope)}", "/ 2", "/ 0")
                text = f"{text} {more} AS a{number}"
            elif self.maybe(0.5):
                alias = f"a{number}" if self.maybe(0.8) else scope.columns[-1].name
                text = f"{text} AS `{alias}`"
                named.append(f"`{alias}`")
            found.append(text)
        text = f"SELECT {', '.join(found)} FROM {table}{self.where(scope)}"
        if names:
            text += f" GROUP BY {', '.join(names)}"
        if (names or self.maybe(0.2)) and self.maybe(0.3):
            having = self.one_of(self.aggregate(scope), *named, *names)
            text += (
                f" HAVING {having} {self.one_of('>', '<=', '=', '<>')} {self.one_of('1', '2.5')}"
            )
        return self.ordered(text, len(found))

    def groups(self) -> str:
        """Groups that need cells."""
        table, _, scope = self.table()
        key = self.pick(scope)
        assert key is not None
        value = self.value(scope, key)
        aggregates = [
            str(
                self.one_of(
                    f"count(DISTINCT {self.ref(scope, key)})",
                    f"{self.aggregate(scope)} FILTER (WHERE {self.condition(scope, 1)})",
                    f"sum(CASE WHEN {self.condition(scope, 1)} THEN 1 ELSE 0 END)",
                    self.aggregate(scope),
                    f"max({self.value(scope, key)})",
                )
            )
            for _ in range(self.chance.randint(1, 2))
        ]
        by = self.one_of("GROUP BY 1", "GROUP BY ALL", f"GROUP BY {value}", "GROUP BY k")
        by = f"GROUP BY ROLLUP ({value})" if self.maybe(0.1) else by
        text = f"SELECT {value} AS k, {', '.join(aggregates)} FROM {table}{self.where(scope)} {by}"
        if self.maybe(0.2):
            text += f" HAVING count(*) > {self.chance.randint(0, 3)}"
        return self.ordered(text, 1 + len(aggregates))

    def join(self) -> str:
        """Two tables, or one twice, or one beside a view of the session."""
        name, other = (self.chance.choice(list(self.tables)) for _ in range(2))
        left, right = Scope("l", self.tables[name], True), Scope("r", self.tables[other], True)
        if self.maybe(0.2):
            other, right = LOOKUP, Scope("r", LOOKUP_COLUMNS, True)
        shared = [
            each.name for each in left.columns
            if each.is_coordinate and any(each.name == one.name for one in right.columns)
        ]  # fmt: skip
        kind = self.one_of("JOIN", "JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN",
                           "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN", ",")  # fmt: skip
        joined = f"`{name}` l {kind} `{other}` {self.one_of('AS ', '')}r"
        if kind not in ("CROSS JOIN", ","):
            if shared and self.maybe(0.3):
                joined += f" USING ({', '.join(f'`{each}`' for each in shared[:2])})"
            elif shared:
                on = [f"l.`{each}` = r.`{each}`" for each in shared[:2]]
                if self.maybe(0.3):
                    on.append(self.condition(self.one_of(left, right), 1))
                joined += f" ON {' AND '.join(on)}"
            else:
                joined += f" ON {self.condition(left, 1)}"
        sides = [left] if "SEMI" in kind or "ANTI" in kind else [left, right]
        where = " AND ".join(f"({self.condition(side, 1)})" for side in sides if self.maybe(0.7))
        clause = f" WHERE {where}" if where else ""
        if self.maybe(0.4):
            side = self.chance.choice(sides)
            return f"SELECT count(*) AS n, {self.aggregate(side)} AS a FROM {joined}{clause}"
        found = [
            f"{self.ref(side, self.chance.choice(side.columns))} AS o{n}"
            for n, side in enumerate(self.chance.choices(sides, k=2))
        ]
        return self.ordered(f"SELECT {', '.join(found)} FROM {joined}{clause}", len(found))

    def grids(self) -> str:
        """Aggregates of two arrays of one grid, mostly, which are joined without rows."""
        name, other = (self.chance.choice(list(self.tables)) for _ in range(2))
        left, right = Scope("l", self.tables[name], True), Scope("r", self.tables[other], True)
        names = {each.name for each in right.columns if each.is_coordinate}
        shared = [each for each in left.columns if each.is_coordinate and each.name in names]
        pair = [self.pick(side, "int", "float") for side in (left, right)]
        if not shared or None in pair:
            return self.sums()
        one, two = (
            self.ref(side, each)
            for side, each in zip((left, right), pair, strict=True)
            if each is not None
        )
        if self.maybe(0.5):
            how = f"USING ({', '.join(f'`{each.name}`' for each in shared)})"
        else:
            how = "ON " + " AND ".join(f"l.`{each.name}` = r.`{each.name}`" for each in shared)
        function = self.one_of("avg", "sum", "max", "median", "stddev_pop")
        found = f"count(*) AS n, {function}({one} {self.one_of('-', '+', '*')} {two}) AS a"
        key = self.ref(left, self.chance.choice(shared))
        where = f" WHERE {self.condition(self.one_of(left, right), 1)}" if self.maybe(0.5) else ""
        text = f"FROM `{name}` l JOIN `{other}` r {how}{where}"
        return (
            f"SELECT {key} AS k, {found} {text} GROUP BY {key}"
            if self.maybe(0.5)
            else f"SELECT {found} {text}"
        )

    def subquery(self) -> str:
        """A query within a query."""
        table, _, scope = self.table()
        inner, _, own = self.table()
        column = self.pick(scope)
        assert column is not None
        same = [each for each in own.columns if each.kind == column.kind]
        other = self.chance.choice(same) if same else None
        found = self.outputs(scope, 2)
        start = f"SELECT {', '.join(found)} FROM {table}"
        match self.chance.randrange(5 if other is not None else 2):
            case 0:
                self.aliases += 1
                alias = f"s{self.aliases}"
                sub = Scope(alias, scope.columns)
                return (
                    f"SELECT {', '.join(self.outputs(sub, 2))} FROM (SELECT * FROM {table}"
                    f"{self.where(scope)}) {alias}{self.where(sub)}"
                )
            case 1:
                exists = f"EXISTS (SELECT 1 FROM {inner}{self.where(own)})"
                return f"{start} WHERE {self.condition(scope, 1)} AND {exists}"
            case 2:
                assert other is not None
                return (
                    f"{start} WHERE {self.ref(scope, column)} {self.one_of('', 'NOT ')}IN "
                    f"(SELECT {self.ref(own, other)} FROM {inner}{self.where(own)})"
                    + (f" AND {self.condition(scope, 1)}" if self.maybe(0.5) else "")
                )
            case 3:
                assert other is not None
                return (
                    f"{start} WHERE {self.ref(scope, column)} {self.one_of('=', '>=', '<')} "
                    f"(SELECT max({self.ref(own, other)}) FROM {inner}{self.where(own)})"
                )
        assert other is not None
        name = self.chance.choice(list(self.tables))
        outside = Scope("out", self.tables[name], True)
        inside = Scope("ins", own.columns, True)
        mine = self.pick(outside, other.kind)
        if mine is None:
            return start
        base = next(each for each, columns in self.tables.items() if columns is own.columns)
        return (
            f"SELECT {self.ref(outside, mine)} AS o FROM `{name}` out "
            f"WHERE {self.one_of('', 'NOT ')}EXISTS "
            f"(SELECT 1 FROM `{base}` ins WHERE {self.ref(inside, other)} = {self.ref(outside, mine)}"
            f" AND ({self.condition(self.one_of(inside, inside, outside), 1)}))"
        )

    def cte(self) -> str:
        """Names of a query's own, which may be those of tables."""
        table, _, scope = self.table()
        base = next(each for each, columns in self.tables.items() if columns is scope.columns)
        name = self.one_of("w", f"`{base}`", f"`{self.chance.choice(list(self.tables))}`")
        columns = tuple(self.chance.sample(scope.columns, min(2, len(scope.columns))))
        picked = ", ".join(f"`{each.name}`" for each in columns)
        first = f"{name} AS (SELECT {picked} FROM {table}{self.where(scope)})"
        outer = Scope("q", columns)
        match self.chance.randrange(4):
            case 0:
                second = f"v2 AS (SELECT * FROM {name} q{self.where(outer)})"
                return f"WITH {first}, {second} SELECT count(*) AS n FROM v2 q{self.where(outer)}"
            case 1:
                other, _, own = self.table()
                return (
                    f"SELECT count(*) AS n, (WITH {first} SELECT count(*) FROM {name}) AS m "
                    f"FROM {other}{self.where(own)}"
                )
            case 2:
                found = f"SELECT {picked} FROM {name} q{self.where(outer)}"
                return self.ordered(
                    f"WITH {first} {found} UNION ALL SELECT * FROM {name}", len(columns)
                )
        found = f"SELECT {picked} FROM {name} AS q{self.where(outer)}"
        return self.ordered(f"WITH {first} {found}", len(columns))

    def union(self) -> str:
        """Rows of two queries about the same columns."""
        table, _, scope = self.table()
        column = self.pick(scope)
        assert column is not None
        parts = [
            f"SELECT {self.ref(scope, column)} AS o FROM {table}{self.where(scope)}"
            for _ in range(2)
        ]
        kind = self.one_of("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL")
        return self.ordered(f" {kind} ".join(parts), 1)

    def window(self) -> str:
        """Numbers of rows and running values."""
        table, _, scope = self.table()
        names = [self.ref(scope, each) for each in scope.columns]
        key = self.chance.choice(names)
        over = f"OVER (PARTITION BY {key} ORDER BY {', '.join(names)})"
        function = self.one_of("row_number()", "rank()", "count(*)", f"lag({names[-1]})")
        return f"SELECT {key} AS k, {function} {over} AS w FROM {table}{self.where(scope)}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that a name stands for."""

    alias: str
    columns: tuple[Column, ...]
    needs_qualifier: bool = False


LOOKUP_COLUMNS = (
    Column("lat", "float", True, (0.5, 1.5)),
    Column("label", "text", False, ("a", "b")),
    Column("code", "int", False, (1, 2)),
)
LOOKUP_ROWS = [(0.5, "a", 1), (-1.5, "b", 2), (None, None, 3)]


# Comparing


@dataclass(frozen=True, slots=True)
class Answer:
    """The schema and rows of a query, or why there are none."""

    schema: str = ""
    rows: tuple[tuple[Any, ...], ...] = ()
    error: str | None = None
    is_raw: bool = False
    """Whether the error is one that no query should end in."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A query that has two answers."""

    query: str
    settings: str
    found: Answer
    expected: Answer

    def __str__(self) -> str:
        return (
            f"{self.query}\n  with {self.settings}\n  frazil: {_shorten(self.found)}\n"
            f"  spark:  {_shorten(self.expected)}"
        )


def _shorten(answer: Answer) -> str:
    if answer.error is not None:
        return f"fails: {answer.error}"
    return f"{answer.schema} {len(answer.rows)} rows {str(answer.rows)[:600]}"


def ask(make_frame: Any) -> Answer:
    """The answer of a query."""
    try:
        frame: DataFrame = make_frame()
        rows = tuple(map(tuple, frame.collect()))
    except PythonException as error:
        return Answer(error=str(error)[-600:], is_raw=True)
    except (PySparkException, IcechunkError) as error:
        condition = getattr(error, "getCondition", lambda: None)()
        return Answer(error=f"{condition or type(error).__name__}: {str(error)[:300]}")
    except Exception as error:
        return Answer(error="".join(traceback.format_exception(error))[-600:], is_raw=True)
    return Answer(frame.schema.simpleString() + str([e.nullable for e in frame.schema]), rows)


def are_alike(found: Answer, expected: Answer, *, is_ordered: bool) -> bool:
    """Whether two answers are the same, but for the order in which floats were summed."""
    if found.error is not None or expected.error is not None:
        return None not in (found.error, expected.error) and not found.is_raw
    if found.schema != expected.schema or len(found.rows) != len(expected.rows):
        return False
    pairs = [found.rows, expected.rows]
    if not is_ordered:
        pairs = [tuple(sorted(rows, key=_key)) for rows in pairs]
    return all(
        _same(left, right)
        for ours, theirs in zip(*pairs, strict=True)
        for left, right in zip(ours, theirs, strict=True)
    )


def _key(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(f"{e + 0.0:.6g}" if isinstance(e, float) else repr(e) for e in row)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return type(left) is type(right) and bool(left == right)


@dataclass(slots=True)
class Tally:
    """What came of the queries."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: list[tuple[str, Difference]] = field(default_factory=list)


def read_on_driver(spark: SparkSession, table: Table) -> DataFrame:
    """A frame of a table that is read by this process: a task costs more than all of a small table."""
    batches = [batch for part in table.partitions() for batch in table.read(part)]
    return spark.createDataFrame(pa.Table.from_batches(batches, table.schema))


class Runner:
    """Asks Frazil and plain Spark, in sessions of their own.

    What is read is planned, pruned and summed up as always; with `on_driver` it is read without tasks.
    """

    def __init__(self, spark: SparkSession, folder: Path, *, on_driver: bool = False) -> None:
        self.on_driver = on_driver
        logging.getLogger("SQLQueryContextLogger").disabled = True
        self.spark = spark
        self.ours, self.plain = spark.newSession(), spark.newSession()
        self.folder = folder
        for each in (self.ours, self.plain):
            each.conf.set("spark.sql.shuffle.partitions", "1")
            each.createDataFrame(
                LOOKUP_ROWS, "lat double, label string, code int"
            ).createOrReplaceTempView(LOOKUP)

    def run(self, seed: str, count: int, first: int = 0) -> Tally:
        """Try some queries of a seed; a dataset has always the same ones."""
        tally = Tally()
        number = first
        while number < first + count:
            world_number, at = divmod(number, QUERIES_EACH)
            end = min(first + count, (world_number + 1) * QUERIES_EACH)
            self._run_world(seed, world_number, range(at, at + end - number), tally)
            number = end
        # Makes the session that others share the active one again.
        self.spark.createDataFrame([(0,)], "a int")
        return tally

    def _run_world(self, seed: str, world_number: int, queries: range, tally: Tally) -> None:
        for each in (self.ours, self.plain):
            each.conf.set("spark.sql.session.timeZone", "UTC")
            each.conf.set("spark.sql.ansi.enabled", "true")
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            chance = random.Random(f"{seed} {world_number}")
            world = make_world(chance, Path(folder) / "repo")
            for name, cells in world.cells.items():
                frame = self.plain.createDataFrame(cells)
                frame.createOrReplaceTempView(f"`{name}`")
                # A view of the same name with nothing in it: whoever reads it is found out.
                self.ours.createDataFrame([], frame.schema).createOrReplaceTempView(f"`{name}`")
            for at in queries:
                number = world_number * QUERIES_EACH + at
                one = random.Random(f"{seed} query {number}")
                found = self.try_one(one, world, tally.counts)
                if found is not None:
                    tally.differences.append((f"--seed {seed} --first {number} --count 1", found))
            for name in world.cells:
                for each in (self.ours, self.plain):
                    each.catalog.dropTempView(name)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        how = read_on_driver if self.on_driver else make_frame
        setattr(views, "make_result", how)  # noqa: B010 (it is no name of this module's own)
        try:
            yield
        finally:
            setattr(views, "make_result", make_result)  # noqa: B010

    def try_one(
        self, chance: random.Random, world: World, counts: Counter[str]
    ) -> Difference | None:
        """Ask both the same; the difference, if there is one."""
        zone, ansi = chance.choice(ZONES), chance.choice(("true", "true", "false"))
        text = Writer(chance, world.tables, is_simple=chance.random() < 0.5).query()
        for each in (self.ours, self.plain):
            each.conf.set("spark.sql.session.timeZone", zone)
            each.conf.set("spark.sql.ansi.enabled", ansi)
        expected = ask(lambda: self.plain.sql(text))
        with self._reading():
            found = ask(lambda: frazil.spark.sql(world.repo, text, spark=self.ours))
        counts["queries"] += 1
        counts["fail"] += expected.error is not None
        counts["rows"] += bool(expected.rows)
        is_ordered = "ORDER BY" in text and "OVER (" not in text
        if are_alike(found, expected, is_ordered=is_ordered):
            return None
        if ansi == "true" and found.error is None and expected.error is not None:
            # Pruned rows raise no errors; the rows of both must be the same where none raises any.
            self.plain.conf.set("spark.sql.ansi.enabled", "false")
            lenient = replace(ask(lambda: self.plain.sql(text)), schema=found.schema)
            if are_alike(found, lenient, is_ordered=is_ordered):
                counts["pruned errors"] += 1
                return None
        return Difference(text, f"ansi={ansi} timeZone={zone}", found, expected)


def main() -> int:
    """Run, print what came of it, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=5000, help="how many queries")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="a fresh one, unless given")
    parser.add_argument("--tasks", action="store_true", help="read by tasks, not on the driver")
    parser.add_argument("--first", type=int, default=0, help="the number of the first query")
    options = parser.parse_args()
    config = FAST_START if options.tasks else {**FAST_START, **FAST_QUERIES}
    spark = frazil.spark.session(master="local[2,4]", config=config)
    spark.sparkContext.setLogLevel("OFF")
    started, total = time.monotonic(), Tally()
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(spark, Path(folder), on_driver=not options.tasks)
        for first in range(options.first, options.first + options.count, QUERIES_EACH):
            count = min(QUERIES_EACH, options.first + options.count - first)
            tally = runner.run(options.seed, count, first)
            total.counts += tally.counts
            total.differences += tally.differences
            for how, difference in tally.differences:
                print(f"DIFFERENT {how}\n{difference}\n", flush=True)
            seconds = time.monotonic() - started
            print(
                f"{total.counts['queries']} queries, {seconds:.0f} s", file=sys.stderr, flush=True
            )
    counts, rate = total.counts, total.counts["queries"] / (time.monotonic() - started)
    print(
        f"seed {options.seed}: {counts['queries']} queries ({counts['rows']} with rows, "
        f"{counts['fail']} that fail, {counts['pruned errors']} of them on pruned rows only), "
        f"{rate:.1f} a second, {len(total.differences)} differences"
    )
    spark.stop()
    return 1 if total.differences else 0


if __name__ == "__main__":
    sys.exit(main())
