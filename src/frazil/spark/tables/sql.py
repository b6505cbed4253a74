"""SQL on repositories: `frazil.spark.sql`, and tables attached as views for plain `spark.sql`."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from frazil.arguments import verb
from frazil.errors import InvalidInputError
from frazil.lazy import lazy_modules
from frazil.spark.arrays import points
from frazil.spark.runtime import is_connect, make_rows
from frazil.spark.tables.data_source import session
from frazil.spark.tables.read import (
    make_frame,
    make_options,
    make_result,
    make_row_frame,
    reads_plainly,
)
from frazil.spark.tables.statements import call, change, describe, evaluate_arguments
from frazil.tables.sql_aggregates import TableFunction, replace_table_functions
from frazil.tables.sql_queries import PlannedQuery, Query, parse_query, plan_query, select_table
from frazil.tables.sql_statements import (
    Call,
    Describe,
    DescribeHistory,
    Explain,
    ShowTables,
    name_parameters,
    parse_statement,
)
from frazil.tables.table_options import DEFAULT_TARGET_BYTES, read_catalog
from frazil.tables.table_source import (
    ABOUT_REPOSITORY,
    CELLS,
    AnyRepository,
    Source,
    Table,
    open_source,
    open_table,
)
from frazil.virtual.access import Authorize

if TYPE_CHECKING:
    from frazil.spark.arrays import zonal
else:
    # Needs a package that other queries don't.
    (zonal,) = lazy_modules("frazil.spark.arrays.zonal")

_UNKNOWN_COLUMN = "UNRESOLVED_COLUMN"
_LATERAL = "NON_DETERMINISTIC_LATERAL_SUBQUERIES"
"""Error for a correlated `LATERAL` subquery on cells in lists (see `make_frame`)."""


@verb()
def sql(
    repo: AnyRepository,
    query: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    group: str = "/",
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
    authorize: Authorize = (),
    target_size: int | str = DEFAULT_TARGET_BYTES,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Run a SQL statement on a repository, at one version.

    Each array of the group is a table with its name and its coordinates. `cells` has all arrays, and
    `repo.…` are the metadata tables. Other names are Spark's tables and views. Only the chunks that the
    `WHERE` clause leaves and the columns the query names are read. A table followed by
    `VERSION AS OF 'name'` or `TIMESTAMP AS OF 'time'` is read at that version. The table functions
    `points(TABLE places, 'array', option => value)` and `zonal(TABLE zones, 'array', …)` return what
    the functions of these names do.

    `SHOW TABLES`, `DESCRIBE table`, `DESCRIBE HISTORY [array]` and `EXPLAIN query` describe the
    repository. `CALL system.procedure(name => value)` maintains it and returns a report as one row.
    `INSERT`, `UPDATE`, `DELETE` and `MERGE` change cells of arrays, in one commit each.

    Parameters
    ----------
    repo
        Repository, or its URL; or the path of a catalog, a TOML file of repositories (see
        `attach_catalog`), whose tables are `name.table`.
    query
        One query or other statement in Spark SQL.
    args
        Values of the query's parameters: a mapping for `:name`, a sequence for `?`, as `spark.sql` has.
    group
        Path of the group whose arrays are tables.
    branch, tag, snapshot, as_of
        Version to read; by default the one in the URL, else the branch main.
    authorize
        Containers whose virtual chunks may be read: `"*"` for all, or URL prefixes.
    target_size
        Approximate size of a partition, in bytes or such as `128MB`.
    spark
        Spark session. Default: the active one, or a new one.

    Returns
    -------
    DataFrame
        Result of the statement.

    Raises
    ------
    InvalidInputError
        If the text is not one statement, or names an unknown table, procedure or argument.

    Examples
    --------
    >>> sql("s3://bucket/weather", "SELECT time, avg(t2m) FROM t2m WHERE lat > 60 GROUP BY time").show()
    """
    running = spark or SparkSession.getActiveSession() or session()
    text, values = name_parameters(query, args)
    statement = parse_statement(text, values)
    functions, inner = replace_table_functions(
        statement.query if isinstance(statement, Explain) else text
    )
    is_query = statement is None or isinstance(statement, Explain)
    parsed = (
        parse_query(inner, pushes_down=reads_plainly(running), args=values) if is_query else None
    )
    version = {"branch": branch, "tag": tag, "snapshot": snapshot, "as_of": as_of}
    if isinstance(repo, str | PathLike) and str(repo).endswith(".toml"):
        if group != "/" or authorize or any(each is not None for each in version.values()):
            raise InvalidInputError(
                f"give versions, groups and authorizations in the catalog {repo}"
            )
        catalog = _Catalog(running, read_catalog(Path(repo)))
        tables = _Tables(running, None, catalog)
        source = None
    else:
        options = make_options(running, version, group, authorize, target_size)
        source = open_source(options, repo)
        tables = _Tables(running, source)
    if statement is None or isinstance(statement, Explain):
        assert parsed is not None
        with _temporary_views(running) as views:
            for each in functions:
                views.append(each.view)
                tables.call(each, values).createOrReplaceTempView(each.view)
            if statement is None:
                return tables.ask(parsed, values)
            return tables.explain(parsed, values, statement.mode)
    match statement:
        case ShowTables() | Describe() | DescribeHistory():
            return describe(running, catalog if source is None else source, statement)
    if source is None:
        raise InvalidInputError(
            "can't change a catalog: name the repository instead of the catalog"
        )
    if isinstance(statement, Call):
        return call(running, source, evaluate_arguments(running, statement, values))

    def ask(own: Source, text: str, given: Mapping[str, Any]) -> DataFrame:
        part = parse_query(text, pushes_down=reads_plainly(running), args=given)
        return _Tables(running, own).ask(part, given)

    return change(running, source, statement, values, ask)


class _Catalog(Mapping[str, Source]):
    """Repositories by name, each opened when it is needed."""

    def __init__(self, spark: SparkSession, entries: Mapping[str, Mapping[str, Any]]) -> None:
        self._spark = spark
        self._entries = entries
        self.opened: dict[str, Source] = {}

    def __getitem__(self, name: str) -> Source:
        if name not in self.opened:
            entry = self._entries[name]
            version = {each: entry.get(each) for each in ("branch", "tag", "snapshot", "as_of")}
            size = entry.get("target_size", DEFAULT_TARGET_BYTES)
            options = make_options(
                self._spark, version, entry.get("group", "/"), entry.get("authorize", ()), size
            )
            self.opened[name] = open_source(options, entry["repo"])
        return self.opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


_Make = Callable[[SparkSession, Table], DataFrame]
"""Function that makes the DataFrame of a table."""


@dataclass(frozen=True, slots=True)
class _Tables:
    """Tables that a query may use: of one repository, or of those in a catalog."""

    spark: SparkSession
    source: Source | None
    catalog: _Catalog | None = None

    def call(self, function: TableFunction, values: Mapping[str, Any]) -> DataFrame:
        """Return the rows of a table function."""
        if self.source is None:
            raise InvalidInputError(
                f"can't call {function.name} on a catalog: name the repository instead"
            )
        given = parse_statement(f"CALL system.{function.name}({function.arguments})", values)
        assert isinstance(given, Call)
        given = evaluate_arguments(self.spark, given, values)
        named = dict(given.named)
        variables = named.pop("variables", None) or [
            name
            for each in given.positional
            for name in (each if isinstance(each, list) else [each])
        ]
        rows: Any = function.path
        if function.query is not None:
            parsed = parse_query(function.query, pushes_down=reads_plainly(self.spark), args=values)
            rows = self.ask(parsed, values)
        if not all(isinstance(each, str) for each in variables) or not variables:
            raise InvalidInputError(
                f"{function.name} needs arrays: write {function.name}(TABLE name, 'array', …)"
            )
        compute = points.points if function.name == "points" else zonal.zonal
        return compute(
            self.source.repository,
            rows,
            variables,
            **named,
            group=self.source.options.group,
            snapshot=self.source.session.snapshot_id,
            spark=self.spark,
        )

    def ask(self, query: Query, values: Mapping[str, Any]) -> DataFrame:
        """Return the DataFrame of a query."""
        with _temporary_views(self.spark) as views:
            return self._ask(query, values, views, make_result)[1]

    def explain(self, query: Query, values: Mapping[str, Any], mode: str) -> DataFrame:
        """Return what Frazil reads for a query, and Spark's plan, as one row."""
        with _temporary_views(self.spark) as views:
            planned, _ = self._ask(query, values, views, make_frame)
            names = views[-len(planned.tables) :] if planned.tables else []
            text = f"EXPLAIN {mode} {planned.text(names)}"
            found = self.spark.sql(text, args=dict(values) or None).first()
        lines = ["== Frazil Scan Plan =="]
        opened = {} if self.catalog is None else self.catalog.opened
        for name, source in ({"": self.source} if self.source is not None else opened).items():
            version = "" if source.options.ref is None else f" ({source.options.ref})"
            lines += [
                f"Repository{f' {name}' if name else ''}: {source.repository.storage.place}",
                f"Snapshot: {source.session.snapshot_id}{version}",
            ]
        lines += [line for table in planned.tables for line in table.explain()]
        lines += ["", "" if found is None else found[0]]
        return self.spark.createDataFrame([("\n".join(lines),)], "plan string")

    def _ask(
        self, query: Query, values: Mapping[str, Any], views: list[str], make: _Make
    ) -> tuple[PlannedQuery, DataFrame]:
        """Run a query on temporary views created for it; their names are added to `views`."""
        evaluate_rows = partial(_evaluate, self.spark, values)
        rows = plan_query(self.source, query, self.catalog, evaluate_rows)
        planned = rows.push_down(evaluate_rows)
        try:
            if planned.has_aggregates:
                # Tables without rows are enough for the names and types of the results.
                expected = self._run(rows, values, views, _make_empty).schema
                found = self._try(planned, values, views, make, expected)
                if found is not None:
                    return planned, found
                planned = rows
            return planned, self._run(planned, values, views, make)
        except AnalysisException as error:
            condition = error.getCondition() or ""
            if _LATERAL in condition and make is not make_row_frame:
                return self._ask(query, values, views, make_row_frame)
            if query.uses_unnamed or _UNKNOWN_COLUMN not in condition:
                raise
            # Retry with all columns, so that Spark's error suggests from all of them.
            return self._ask(replace(query, uses_unnamed=True), values, views, make)

    def _try(
        self,
        planned: PlannedQuery,
        values: Mapping[str, Any],
        views: list[str],
        make: _Make,
        expected: StructType,
    ) -> DataFrame | None:
        """Return the DataFrame of a query with aggregates pushed down, if it has the expected types."""
        try:
            frame = self._run(planned, values, views, make)
        except AnalysisException:
            return None
        types = [each.dataType for each in frame.schema], [each.dataType for each in expected]
        if types[0] != types[1]:
            return None
        return frame if frame.columns == expected.names else frame.toDF(*expected.names)

    def _run(
        self,
        planned: PlannedQuery,
        values: Mapping[str, Any],
        views: list[str],
        make: _Make,
    ) -> DataFrame:
        names = [f"frazil_{uuid4().hex}" for _ in planned.tables]
        views += names
        for name, each in zip(names, planned.tables, strict=True):
            make(self.spark, each.table).createOrReplaceTempView(name)
        frame = self.spark.sql(planned.text(names), args=dict(values) or None)
        if is_connect(self.spark):
            _ = frame.schema  # classic Spark has analyzed it already
        return frame


def _make_empty(spark: SparkSession, table: Table) -> DataFrame:
    return spark.createDataFrame(table.schema.empty_table(), from_arrow_schema(table.schema))


def _evaluate(
    spark: SparkSession, values: Mapping[str, Any], rows: pa.Table, texts: Sequence[str]
) -> pa.Table | None:
    """Evaluate expressions for each row; None if Spark can't."""
    name = f"frazil_{uuid4().hex}"
    spark.createDataFrame(rows, from_arrow_schema(rows.schema)).createOrReplaceTempView(name)
    listed = ", ".join(f"({text}) AS c{number}" for number, text in enumerate(texts))
    try:
        return spark.sql(f"SELECT {listed} FROM {name}", args=dict(values) or None).toArrow()
    except PySparkException:
        return None
    finally:
        spark.catalog.dropTempView(name)


@contextmanager
def _temporary_views(running: SparkSession) -> Iterator[list[str]]:
    """Yield a list of temporary views, which are dropped at the end."""
    views: list[str] = []
    # Spark would also log the error that is raised.
    log = PySparkLogger.getLogger("SQLQueryContextLogger")
    was_disabled, log.disabled = log.disabled, True
    try:
        yield views
    finally:
        log.disabled = was_disabled
        # Spark Connect resolves views on each run; otherwise the DataFrame is already resolved.
        for name in views if not is_connect(running) else ():
            running.catalog.dropTempView(name)


_VIEWS = "frazil.attached"
_GLOBAL = "global_temp"


@dataclass(frozen=True, slots=True)
class Attached:
    """Views of a repository in a Spark session.

    Attributes
    ----------
    name
        Prefix of the views.
    snapshot_id
        Snapshot that the views read.
    views
        Names of the views, as queries write them.
    skipped
        Tables without a view, each with the reason.
    """

    name: str
    snapshot_id: str
    views: tuple[str, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)


@verb()
def attach(
    repo: AnyRepository,
    name: str,
    *,
    group: str = "/",
    arrays: Sequence[str] | None = None,
    where: str | None = None,
    metadata: bool = True,
    is_global: bool = False,
    branch: str | None = None,
    tag: str | None = None,
    snapshot: str | None = None,
    as_of: datetime | str | None = None,
    authorize: Authorize = (),
    target_size: int | str = DEFAULT_TARGET_BYTES,
    spark: SparkSession | None = None,
) -> Attached:
    """Make the tables of a repository temporary views, named `name_table`.

    Plain `spark.sql`, clients of Spark Connect and BI tools can then query them. The views read one
    snapshot: attach again to read a newer one. A view has the cells of an array, of all arrays
    (`name_cells`), or a metadata table. Spark pushes no predicates down to views, so a query reads all
    cells of `where`: use `frazil.spark.sql` for large arrays.

    Parameters
    ----------
    repo
        Repository, or its URL.
    name
        Prefix of the views. Views attached with it before are replaced.
    group
        Path of the group whose arrays are attached.
    arrays
        Arrays to attach; by default all but coordinates of dimensions, which are columns of the others.
    where
        Predicate in SQL on the cells of the views. Chunks are pruned by it where possible. Arrays that
        lack one of its columns get no view.
    metadata
        Attach the metadata tables, too. An array keeps its name if a metadata table has the same.
    is_global
        Make global temporary views, `global_temp.name_table`, which all sessions of the Spark
        application see.
    branch, tag, snapshot, as_of
        Version to read; by default the one in the URL, else the branch main.
    authorize
        Containers whose virtual chunks may be read: `"*"` for all, or URL prefixes.
    target_size
        Approximate size of a partition, in bytes or such as `128MB`.
    spark
        Spark session. Default: the active one, or a new one.

    Returns
    -------
    Attached
        The views, and tables that can't be views.

    Raises
    ------
    InvalidInputError
        If the name is invalid, or there is another view of that name.

    Examples
    --------
    >>> attach("s3://bucket/weather", "weather")
    >>> spark.sql("SELECT avg(t2m) FROM weather_t2m").show()
    """
    running = spark or SparkSession.getActiveSession() or session()
    if not name.isidentifier():
        raise InvalidInputError(f"invalid name {name!r}: give letters, digits and underscores")
    version = {"branch": branch, "tag": tag, "snapshot": snapshot, "as_of": as_of}
    options = make_options(running, version, group, authorize, target_size)
    source = open_source(options, repo)
    known = source.arrays.metadata
    chosen = [n for n, each in known.items() if each.get("dimension_names") != [n]]
    tables: dict[str, tuple[str, ...]]
    tables = {each: (each,) for each in ([*chosen, CELLS] if arrays is None else arrays)}
    if metadata:
        tables = {**{each: ("repo", each) for each in ABOUT_REPOSITORY}, **tables}
    frames: dict[str, DataFrame] = {}
    skipped: dict[str, str] = {}
    for table, path in tables.items():
        try:
            selected = select_table(source, path)
            is_filtered = where is not None and len(path) == 1
            if is_filtered and "\\" not in str(where) and reads_plainly(running):
                selected = selected.with_options(where=where)
            opened = open_table(selected)
            frame = None if not is_filtered else make_frame(running, opened).where(str(where))
            if frame is not None:
                _ = frame.schema  # Spark Connect analyzes it now
        except (InvalidInputError, AnalysisException) as error:
            if arrays is not None and table in arrays:
                raise
            skipped[table] = str(error)
            continue
        if table == "storage" and len(path) > 1:
            # Planning its tasks reads all snapshots, which only a query should cost.
            schema = from_arrow_schema(opened.schema)
            frames[table] = make_rows(running, _read_all, [opened], schema)
        else:
            frames[table] = make_frame(running, opened) if frame is None else frame
    detach(name, spark=running)
    views = _create_views(running, name, frames, is_global=is_global)
    return Attached(name, source.session.snapshot_id, views, skipped)


@verb()
def attach_catalog(
    path: str | Path, *, is_global: bool = False, spark: SparkSession | None = None
) -> dict[str, Attached]:
    """Attach all repositories that a catalog file names.

    Parameters
    ----------
    path
        TOML file. Each of its tables names a repository by `repo`, and may have the options `group`,
        `arrays`, `where`, `metadata`, `branch`, `tag`, `snapshot`, `as_of`, `authorize` and
        `target_size`.
        Relative paths are relative to the file.
    is_global
        Make global temporary views.
    spark
        Spark session. Default: the active one, or a new one.

    Returns
    -------
    dict
        The views of each repository, by its name.

    Raises
    ------
    InvalidInputError
        If the file is no catalog, or has an unknown option.
    """
    return {
        name: attach(name=name, is_global=is_global, spark=spark, **options)
        for name, options in read_catalog(path).items()
    }


@verb()
def detach(name: str, *, spark: SparkSession | None = None) -> tuple[str, ...]:
    """Drop the views of an attached repository.

    Parameters
    ----------
    name
        Name that the repository was attached with.
    spark
        Spark session. Default: the active one, or a new one.

    Returns
    -------
    tuple of str
        Names of the dropped views.
    """
    running = spark or SparkSession.getActiveSession() or session()
    dropped: list[str] = json.loads(running.conf.get(f"{_VIEWS}.{name}", None) or "[]")
    _drop(running, dropped)
    running.conf.unset(f"{_VIEWS}.{name}")
    return tuple(dropped)


def _read_all(table: Table) -> Iterator[pa.RecordBatch]:
    for partition in table.partitions():
        yield from table.read(partition)


def _drop(spark: SparkSession, views: Iterable[str]) -> None:
    for view in views:
        if view.startswith(f"{_GLOBAL}."):
            spark.catalog.dropGlobalTempView(view.removeprefix(f"{_GLOBAL}."))
        else:
            spark.catalog.dropTempView(view)


def _create_views(
    spark: SparkSession, name: str, frames: Mapping[str, DataFrame], *, is_global: bool
) -> tuple[str, ...]:
    """Create views, and note their names in the settings of the session; all of them or none."""
    created: list[str] = []
    prefix = f"{_GLOBAL}." if is_global else ""
    for table, frame in frames.items():
        view = f"{name}_{table}"
        quoted = f"`{view.replace('`', '``')}`"
        try:
            if is_global:
                frame.createGlobalTempView(quoted)
            else:
                frame.createTempView(quoted)
        except AnalysisException as error:
            _drop(spark, created)
            raise InvalidInputError(
                f"can't attach {table} as {prefix}{view}, because there is such a view: drop it, or "
                "attach with another name"
            ) from error
        created.append(f"{prefix}{view}")
    spark.conf.set(f"{_VIEWS}.{name}", json.dumps(created))
    return tuple(created)
