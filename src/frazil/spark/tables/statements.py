"""Run SQL statements other than queries: those that describe, call procedures or change cells."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce
from inspect import Parameter, formatannotation, signature
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DateType, NumericType, TimestampNTZType, TimestampType

from frazil.display import suggest, to_plain
from frazil.errors import IcechunkError, InvalidInputError
from frazil.repository.locate import read_version
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.spark.arrays.analyze import analyze
from frazil.spark.maintenance.compact_chunks import compact
from frazil.spark.maintenance.rewrite_manifests import rewrite_manifests
from frazil.spark.maintenance.spark_gc import collect_garbage
from frazil.spark.tables.write_frame import write_rows
from frazil.tables.columns import TIMESTAMP
from frazil.tables.sql_queries import (
    METADATA_FOLDER,
    describe_history,
    describe_table,
    list_tables,
    select_table,
)
from frazil.tables.sql_statements import (
    Call,
    Change,
    Describe,
    DescribeHistory,
    Insert,
    Merge,
    ShowTables,
    TargetColumns,
    Unevaluated,
    Update,
    find_keys,
    quote,
    select_changed,
    select_merged,
)
from frazil.tables.table_options import make_write_options
from frazil.tables.table_source import ABOUT_REPOSITORY, Source, find_branch, list_of
from frazil.urls import NamedRef

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT = pa.string()
_TABLES = pa.schema({"namespace": _TEXT, "tableName": _TEXT, "kind": _TEXT})
_COLUMNS = pa.schema(
    {
        "col_name": _TEXT, "data_type": _TEXT, "comment": _TEXT, "kind": _TEXT,
        "dims": list_of(_TEXT), "shape": list_of(pa.int64()), "chunks": list_of(pa.int64()),
        "dtype": _TEXT, "fill_value": _TEXT, "attributes": _TEXT,
    }
)  # fmt: skip
_PROCEDURES: Mapping[str, Callable[..., Any]] = {
    "rollback_to": Repository.reset_branch,
    "create_branch": Repository.create_branch,
    "delete_branch": Repository.delete_branch,
    "create_tag": Repository.create_tag,
    "delete_tag": Repository.delete_tag,
    "fast_forward": Repository.fast_forward,
    "expire_snapshots": Repository.expire_snapshots,
    "collect_garbage": collect_garbage,
    "rewrite_manifests": rewrite_manifests,
    "compact": compact,
    "analyze": analyze,
}
"""Procedures and the verbs that they call, whose first argument is the repository."""
_TYPES = {"bool": bool, "int": int, "float": float, "str": str, "None": type(None)}
_NOT_OF_CALLS = ("job", "spark")
IRREVERSIBLE = frozenset(
    {"rollback_to", "delete_branch", "delete_tag", "expire_snapshots", "collect_garbage"}
)
"""Procedures after which data may be lost, which a terminal confirms."""


def describe(
    spark: SparkSession,
    source: Source | Mapping[str, Source],
    statement: ShowTables | Describe | DescribeHistory,
) -> DataFrame:
    """Return the rows that describe the tables, a table, or the history of a repository.

    In a catalog, the first part of a name is that of its repository.
    """
    match statement:
        case ShowTables(folder, pattern):
            if isinstance(source, Source):
                found = list_tables(source, statement)
            else:
                names = [*source] if folder is None else [_find_entry(source, folder)]
                found = [
                    {**row, "namespace": name}
                    for name in names
                    for row in list_tables(source[name], ShowTables(None, pattern))
                ]
            rows = pa.Table.from_pylist(found, _TABLES)
        case DescribeHistory(name, limit):
            own, rest = _find_source(source, name, 1)
            rows = describe_history(own, ".".join(rest) or None).slice(0, limit)
        case Describe(name):
            own, rest = _find_source(source, name, 2)
            columns = describe_table(own, rest)
            types = from_arrow_schema(pa.schema([field for field, _ in columns]))
            rows = pa.Table.from_pylist(
                [
                    {"col_name": type.name, "data_type": type.dataType.simpleString(), **facts}
                    for type, (_, facts) in zip(types.fields, columns, strict=True)
                ],
                _COLUMNS,
            )
    return spark.createDataFrame(rows, from_arrow_schema(rows.schema))


def _find_source(
    source: Source | Mapping[str, Source], name: Sequence[str], parts: int
) -> tuple[Source, Sequence[str]]:
    """Return the repository of a name, and the rest of the name."""
    if isinstance(source, Source):
        return source, name
    if len(name) < parts:
        raise InvalidInputError(
            f"{'.'.join(name) or 'this'} names no repository of the catalog: there are "
            f"{', '.join(source)}"
        )
    own, rest = source[_find_entry(source, name[0])], name[1:]
    is_metadata = (
        len(rest) == 1 and rest[0] not in own.arrays.metadata and rest[0] in ABOUT_REPOSITORY
    )
    return own, (METADATA_FOLDER, *rest) if is_metadata else rest


def _find_entry(catalog: Mapping[str, Source], name: str) -> str:
    if name not in catalog:
        raise InvalidInputError(f"the catalog has no {name!r}: {suggest(name, catalog)}")
    return name


def evaluate_arguments(spark: SparkSession, statement: Call, values: Mapping[str, Any]) -> Call:
    """Return a call whose arguments are values; Spark evaluates those that are expressions."""

    def read(value: Any) -> Any:
        if not isinstance(value, Unevaluated):
            return value
        try:
            frame = spark.sql(f"SELECT {value.text} AS value", args=dict(values) or None)
            if isinstance(frame.schema[0].dataType, DateType | TimestampNTZType):
                frame = frame.select(f.col("value").cast("timestamp"))
            column = frame.toArrow().column(0)
        except PySparkException as error:
            raise InvalidInputError(
                f"can't evaluate the argument {value.text}: {str(error).strip().partition(chr(10))[0]}"
            ) from error
        if pa.types.is_timestamp(column.type):
            column = column.cast(TIMESTAMP)
        found = column[0].as_py()
        return float(found) if isinstance(found, Decimal) else found

    positional = tuple(map(read, statement.positional))
    named = {name: read(value) for name, value in statement.named.items()}
    return Call(statement.procedure, positional, named)


def call(spark: SparkSession, source: Source, statement: Call) -> DataFrame:
    """Call a procedure, whose arguments are values; return its report as one row."""
    name = statement.procedure.lower()
    if name not in _PROCEDURES:
        raise InvalidInputError(
            f"unknown procedure system.{statement.procedure}: {suggest(name, _PROCEDURES)}"
        )
    verb = _PROCEDURES[name]
    (_, *own), given = signature(verb).parameters.values(), {}
    known = {each.name: each for each in own if each.name not in _NOT_OF_CALLS}
    if len(statement.positional) > len(known):
        raise InvalidInputError(
            f"system.{name} has only {len(known)} arguments: {', '.join(known)}"
        )
    named = [*zip(known, statement.positional, strict=False), *statement.named.items()]
    for argument, value in named:
        if argument not in known:
            raise InvalidInputError(
                f"system.{name} has no argument {argument!r}: {suggest(argument, known)}"
            )
        if argument in given:
            raise InvalidInputError(
                f"system.{name} has the argument {argument} twice: give it once"
            )
        given[argument] = _convert(source, argument, value, known[argument])
    given = {**_find_defaults(source, known, given), **given}
    if name.startswith("create_"):
        given.setdefault("snapshot_id", source.session.snapshot_id)
    for each in known.values():
        if each.default is Parameter.empty and each.name not in given:
            raise InvalidInputError(
                f"system.{name} needs the argument {each.name}: write {each.name} => …"
            )
    session = {"spark": spark} if "spark" in signature(verb).parameters else {}
    return _make_row(spark, _report(verb(source.repository, **given, **session), given))


def _find_defaults(
    source: Source, known: Mapping[str, Parameter], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return arguments that are not given, from the version and the options of the statement."""
    options = source.options
    found: dict[str, Any] = {"group": options.group, "authorize": options.authorize}
    found = {name: value for name, value in found.items() if name in known}
    if (
        "branch" in known
        and known["branch"].default is not Parameter.empty
        and "branch" not in given
    ):
        found["branch"] = find_branch(source, "this procedure")
    return found


def _convert(source: Source, name: str, value: Any, parameter: Parameter) -> Any:
    """Return an argument as the verb takes it: times with a zone, and ids of named snapshots."""
    if "datetime" in str(parameter.annotation):
        if isinstance(value, timedelta) and "timedelta" not in str(parameter.annotation):
            return datetime.now(UTC) - value
        return value if isinstance(value, timedelta) else _read_moment(name, value)
    if name.endswith("snapshot_id") and isinstance(value, str):
        return read_version(source.repository, NamedRef(value)).snapshot_id
    types = formatannotation(parameter.annotation).split(" | ")
    if types[0].endswith("Sequence[str]") and isinstance(value, str):
        return [value]
    # A text such as 'false' would be true.
    if all(each in _TYPES for each in types) and type(value) not in [_TYPES[t] for t in types]:
        if "float" in types and type(value) is int:
            return value
        expected = " or ".join(each for each in types if each != "None")
        raise InvalidInputError(f"invalid {name} {value!r}: expected {expected}")
    return value


def _read_moment(name: str, value: Any) -> datetime:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"invalid {name} {value!r}: give a time such as '2026-01-31T12:00Z', or INTERVAL 7 DAYS"
        ) from error
    if moment.utcoffset() is None:
        raise InvalidInputError(
            f"invalid {name} {moment.isoformat()}: it has no time zone, write "
            f"'{moment.isoformat(timespec='minutes')}Z' for UTC"
        )
    return moment


def _report(result: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    match result:
        case None:
            return {name: value for name, value in given.items() if value is not None}
        case str():
            return {"branch": given["branch"], "snapshot_id": result}
        case set():
            return {"snapshots_expired": len(result), "snapshot_ids": sorted(result)}
    found: dict[str, Any] = to_plain(result)
    return found


Ask = Callable[[Source, str, Mapping[str, Any]], DataFrame]
"""Function that returns the DataFrame of a query, given the values of its parameters."""


def change(
    spark: SparkSession, source: Source, statement: Change, values: Mapping[str, Any], ask: Ask
) -> DataFrame:
    """Change cells in one commit; return the number of changed cells and the snapshot as one row."""
    branch = find_branch(source, statement.verb)
    deletes = isinstance(statement, Update) and statement.assignments is None
    if isinstance(statement, Merge):
        deletes = any(each.action == "delete" for each in statement.clauses)
    given: dict[str, Any] = {"message": f"{statement.verb} {statement.table}", **statement.options}
    options = make_write_options(
        group=source.options.group,
        branch=branch,
        time_zone=source.options.time_zone,
        fills_nulls=deletes,
        kept=_find_columns(source, statement).others if isinstance(statement, Insert) else (),
        **given,
    )
    repository = source.repository
    frames: list[DataFrame] = []

    def make(session: Session) -> DataFrame:
        at_base = repository.readonly_session(snapshot_id=session.snapshot_id)
        base = Source.of(repository, at_base, source.options)
        # It is computed twice, which must not give different rows.
        rows = _cast_days(base, statement, _select_rows(base, statement, values, ask))
        frames.append(rows.persist())
        return frames[-1]

    try:
        written = write_rows(statement.verb.lower(), repository, options, spark, make)
    finally:
        for frame in frames:
            frame.unpersist()
    report = written.report
    return _make_row(
        spark,
        {
            "num_affected_rows": written.rows,
            "branch": branch,
            "snapshot_id": report.snapshot_id,
            "chunks": report.chunks,
        },
    )


def _select_rows(
    source: Source, statement: Change, values: Mapping[str, Any], ask: Ask
) -> DataFrame:
    """Return the coordinates and the new values of the cells that a statement changes."""
    columns = _find_columns(source, statement)
    match statement:
        case Insert():
            rows = ask(source, statement.query, values)
            if statement.by_name:
                return rows.toDF(*columns.find_all(rows.columns))
            whole = (*columns.dims, *columns.others, *columns.variables)
            names = whole if statement.columns is None else columns.find_all(statement.columns)
            if len(rows.columns) != len(names):
                raise InvalidInputError(
                    f"INSERT has {len(rows.columns)} values for {len(names)} columns: give "
                    f"{', '.join(names)}, or name the columns"
                )
            return rows.toDF(*names)
        case Update():
            names, text = select_changed(statement, columns)
            return ask(source, text, values).toDF(*names)
    within, more = _find_bounds(source, statement, columns, values, ask)
    parts = [
        ask(source, text, {**values, **more}).toDF(*names)
        for names, text in select_merged(statement, columns, within)
    ]
    return reduce(DataFrame.unionByName, parts)


def _cast_days(source: Source, statement: Change, rows: DataFrame) -> DataFrame:
    """Cast days and times without a zone to times as Spark does, in the session's time zone."""
    types = source.arrays.columns(select_table(source, [statement.table]).options.variables).types
    days = [
        each.name
        for each in rows.schema
        if isinstance(each.dataType, DateType | TimestampNTZType)
        and types.get(each.name) == TIMESTAMP
    ]
    return rows.withColumns({name: rows[quote(name)].cast("timestamp") for name in days})


def _find_columns(source: Source, statement: Change) -> TargetColumns:
    selected = select_table(source, [statement.table])
    columns = source.arrays.columns(selected.options.variables)
    for name in set(columns.variables).intersection(columns.dims):
        raise InvalidInputError(
            f"can't {statement.verb} {name}: it is the coordinate of a dimension, which selects cells"
        )
    if not isinstance(statement, Insert):
        changed: Sequence[str] = columns.variables
        if isinstance(statement, Update) and statement.assignments is not None:
            assigned = {name.lower() for name, _ in statement.assignments}
            changed = [name for name in changed if name.lower() in assigned]
        for name in changed:
            lacking = [dim for dim in columns.dims if dim not in columns.get(name).dims]
            if lacking:
                raise InvalidInputError(
                    f"can't {statement.verb} {statement.table}: {name} has no dimension "
                    f"{', '.join(lacking)}, so that a cell belongs to several rows; name one array"
                )
    types = from_arrow_schema(pa.schema([(n, columns.types[n]) for n in columns.variables]))
    others = [each.name for each in columns.all if each.name not in columns.variables]
    return TargetColumns(
        columns.dims,
        tuple(name for name in others if name not in columns.dims),
        {each.name: each.dataType.simpleString() for each in types.fields},
    )


def _find_bounds(
    source: Source, statement: Merge, columns: TargetColumns, values: Mapping[str, Any], ask: Ask
) -> tuple[str, dict[str, Any]]:
    """Return a predicate on the range of the source's coordinates, and its parameters.

    It prunes chunks of the target that no row of the source matches.
    """
    keys = find_keys(statement, columns)
    if not keys:
        return "TRUE", {}
    variables = select_table(source, [statement.table]).options.variables
    types = source.arrays.columns(variables).types
    own = from_arrow_schema(pa.schema([(dim, types[dim]) for dim in keys])).fields
    listed = ", ".join(f"{text} AS frazil_{number}" for number, text in enumerate(keys.values()))
    given = ask(source, f"SELECT {listed} FROM {statement.source}", values)
    asked: dict[str, list[Any]] = {}
    for dim, field, key in zip(keys, own, given.schema.fields, strict=True):
        column = given[key.name]
        if isinstance(field.dataType, TimestampType) and isinstance(
            key.dataType, TimestampType | DateType
        ):
            time = column.cast("timestamp")
            asked[dim] = [f.unix_micros(f.min(time)), f.unix_micros(f.max(time))]
        # Other types are cast for the comparison, which may change their order.
        elif isinstance(field.dataType, NumericType) and isinstance(key.dataType, NumericType):
            asked[dim] = [f.min(column), f.max(column)]
    if not asked:
        return "TRUE", {}
    bounds = list(given.agg(*(each for pair in asked.values() for each in pair)).first() or ())
    terms: list[str] = []
    found: dict[str, Any] = {}
    for number, dim in enumerate(asked):
        ends = bounds[2 * number : 2 * number + 2]
        if None in ends:
            return "FALSE", {}
        if types[dim] == TIMESTAMP:
            ends = [_EPOCH + timedelta(microseconds=each) for each in ends]
        low, high = f"frazil_low_{number}", f"frazil_high_{number}"
        found |= dict(zip((low, high), ends, strict=True))
        terms.append(f"{quote(statement.alias)}.{quote(dim)} BETWEEN :{low} AND :{high}")
    return f"({' AND '.join(terms)})", found


def _make_row(spark: SparkSession, report: Mapping[str, Any]) -> DataFrame:
    """Return a report as one row; values within values as JSON."""
    row = {
        name: json.dumps(value) if isinstance(value, Mapping | list) else value
        for name, value in report.items()
    }
    schema = pa.schema([(name, _type_of(value)) for name, value in row.items()])
    table = pa.Table.from_pylist([row], schema)
    return spark.createDataFrame(table, from_arrow_schema(schema))


def _type_of(value: Any) -> pa.DataType:
    match value:
        case bool():
            return pa.bool_()
        case int():
            return pa.int64()
        case float():
            return pa.float64()
        case str() | None:
            return _TEXT
    raise IcechunkError(f"a report has a value of type {type(value).__name__}: report this")
