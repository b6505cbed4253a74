"""Attach repositories to a Spark session: their tables as temporary views for plain `spark.sql`."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from frazil.arguments import verb
from frazil.errors import InvalidInputError
from frazil.spark.runtime import make_rows
from frazil.spark.tables.data_source import session
from frazil.spark.tables.read import make_frame, make_options, reads_plainly
from frazil.tables.sql_queries import select_table
from frazil.tables.table_options import DEFAULT_TARGET_BYTES, read_catalog
from frazil.tables.table_source import (
    ABOUT_REPOSITORY,
    CELLS,
    AnyRepository,
    Table,
    open_source,
    open_table,
)
from frazil.virtual.access import Authorize

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
