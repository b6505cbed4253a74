"""Commands that run jobs: ingest, rechunk, analyze, sql, copy, export, import."""

import sys
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

import frazil
from frazil.cli.command import (
    Authorize,
    Branch,
    Cluster,
    DryRun,
    Message,
    Place,
    Spark,
    Version,
    Yes,
    argument,
    load_spark,
    open_place,
    open_version,
    option,
)
from frazil.cli.terminal import Output, clean, fit_table, render_json
from frazil.errors import InvalidInputError, NotFoundError

_SHOWN_ROWS = 20


def ingest(
    url: Place,
    sources: Annotated[
        list[str], argument(metavar="SOURCE...", help="Files, patterns, folders, prefixes.")
    ],
    *,
    create: Annotated[
        bool, option("--create", help="Create the repository if there is none.")
    ] = False,
    append_dim: Annotated[
        list[str] | None,
        option(metavar="DIM", help="Dimension to concatenate files along; repeat for several."),
    ] = None,
    coord: Annotated[
        list[str] | None,
        option(
            metavar="DIM=REGEX[::FORMAT]",
            help="Take a coordinate from the path of each file: time='A(\\d{7})::%Y%j'.",
        ),
    ] = None,
    group: Annotated[str, option(help="Target group.")] = "/",
    source_group: Annotated[
        str, option(metavar="GROUP", help="Group in the files; '*' takes all.")
    ] = "",
    mode: Annotated[
        Literal["auto", "virtual", "native"],
        option(help="Reference the files, or copy their values."),
    ] = "auto",
    on_overlap: Annotated[
        Literal["refuse", "replace"],
        option(help="Action for coordinates that exist already."),
    ] = "refuse",
    on_late: Annotated[
        Literal["insert", "set_aside", "refuse"],
        option(help="Action for files that belong before the end of the axis."),
    ] = "insert",
    eras: Annotated[
        Literal["merge", "groups"],
        option(help="Files with other types or encodings: merge them, or a group for each."),
    ] = "merge",
    on_bad_file: Annotated[
        Literal["fail", "skip"], option(help="Action for files that can't be read.")
    ] = "fail",
    skip: Annotated[list[str] | None, option(metavar="ARRAY", help="Arrays to leave out.")] = None,
    branch: Branch = "main",
    message: Message = None,
    dry_run: DryRun = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Bring files into a group of a repository in one commit, by reference where that is possible.

    Examples
    --------
    frazil ingest data/weather "archive/*.nc" --append-dim time --create
    frazil ingest s3://bucket/weather s3://bucket/archive/ --append-dim time --dry-run
    frazil ingest data/goes "goes/*.nc" --append-dim t --coord t=s([0-9]{11})::%Y%j%H%M
    """
    if create:
        storage = frazil.storage_from_url(url)
        if dry_run and not frazil.Repository.exists(storage):
            raise NotFoundError(f"there is no repository at {url}, and a dry run creates none")
        frazil.Repository.open_or_create(storage)
    report = cluster.run(
        "ingest",
        open_place(url),
        list(sources),
        branch=branch,
        group=group,
        append_dim=append_dim or None,
        coords=_parse_coords(coord or ()),
        mode=mode,
        on_overlap=on_overlap,
        on_late=on_late,
        message=message,
        dry_run=dry_run,
        source_options=frazil.spark.SourceOptions(
            on_bad_file=on_bad_file, skip=skip or (), source_group=source_group, eras=eras
        ),
    )
    output.answer(report, clean(str(report)))


def _parse_coords(given: Iterable[str]) -> dict[str, Any]:
    """Return coordinates that are taken from paths, by dimension."""
    found: dict[str, Any] = {}
    for text in given:
        dim, sign, rest = text.partition("=")
        pattern, _, format = rest.partition("::")
        if not (dim and sign and pattern):
            raise InvalidInputError(
                f"invalid --coord {text!r}: expected DIM=REGEX or DIM=REGEX::FORMAT"
            )
        found[dim] = frazil.virtual.from_path(pattern, format or None)
    return found


def rechunk(
    url: Place,
    array: Annotated[str, argument(metavar="ARRAY", help="The array.")],
    *,
    chunks: Annotated[
        str,
        option(metavar="DIM=N,...", help="New chunk lengths; -1 for the whole dimension."),
    ],
    to: Annotated[
        str | None,
        option("--to", metavar="ARRAY", help="Write to this path instead of replacing the array."),
    ] = None,
    max_memory: Annotated[str, option(help="Maximum memory of a task.")] = "512MB",
    authorize: Authorize = None,
    branch: Branch = "main",
    message: Message = None,
    cluster: Cluster,
    output: Output,
) -> None:
    """Give an array other chunks, in one commit and in bounded memory.

    Examples
    --------
    frazil rechunk data/weather t2m --chunks time=-1,lat=10,lon=10
    """
    report = cluster.run(
        "rechunk",
        open_place(url, authorize),
        array,
        parse_chunks(chunks),
        output=to,
        max_memory=max_memory,
        branch=branch,
        message=message,
    )
    output.answer(report, clean(str(report)))


def analyze(
    url: Place,
    *,
    array: Annotated[
        list[str] | None, option(metavar="ARRAY", help="Array to analyze; by default all.")
    ] = None,
    group: Annotated[str, option(help="Group of the arrays.")] = "/",
    authorize: Authorize = None,
    branch: Branch = "main",
    message: Message = None,
    cluster: Cluster,
    output: Output,
) -> None:
    """Measure the values of chunks, in one commit, so that queries skip those they need not read.

    Examples
    --------
    frazil analyze data/weather
    frazil analyze data/weather --array t2m --array rain
    """
    report = cluster.run(
        "analyze",
        url,
        array or None,
        group=group,
        authorize=authorize or (),
        branch=branch,
        message=message,
    )
    output.answer(report, clean(str(report)))


def sql(
    url: Version,
    query: Annotated[str, argument(metavar="QUERY", help="SELECT …, DESCRIBE …, CALL …")],
    *,
    group: Annotated[str, option(help="The group whose arrays are tables.")] = "/",
    limit: Annotated[
        int | None,
        option(min=1, help=f"Maximum number of rows; by default {_SHOWN_ROWS} in a table."),
    ] = None,
    format: Annotated[
        Literal["table", "csv", "json", "parquet", "arrow"] | None,
        option(help="Format of the rows; by default a table, or the suffix of FILE."),
    ] = None,
    to: Annotated[
        Path | None, option("--output", "-o", metavar="FILE", help="File to write all rows to.")
    ] = None,
    authorize: Authorize = None,
    yes: Yes = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Query a repository with SQL: arrays are tables of cells; repo.snapshots etc. are metadata.

    SHOW TABLES, DESCRIBE and EXPLAIN describe it, and CALL system.… maintains it.

    Examples
    --------
    frazil sql data/weather "SELECT lat, avg(t2m) FROM t2m WHERE time >= '2020-02-01' GROUP BY lat"
    frazil sql data/weather@v1 "SELECT * FROM repo.arrays" --json
    frazil sql data/weather "SELECT * FROM t2m WHERE lat > 80" -o north.parquet
    frazil sql data/weather "CALL system.create_tag('v2')"
    """
    form = _choose_format(format, to, output)
    if query.lstrip()[:4].upper() == "CALL":
        _confirm(query, output, is_agreed=yes)
    most = limit or (_SHOWN_ROWS if form == "table" else None)
    found = _ask(cluster, url, query, group, authorize or (), None if most is None else most + 1)
    rows = found if most is None else found.slice(0, most)
    if form in ("csv", "parquet", "arrow") or to is not None:
        _write_rows(rows, form, to)
        if to is not None:
            output.note(f"{rows.num_rows:,} rows in {to}")
    elif form == "json":
        output.as_json().answer(_list_rows(rows))
    elif rows.column_names == ["plan"]:
        output.answer(None, *(clean(row) for row in rows.column("plan").to_pylist()))
    else:
        table, hidden = fit_table(
            rows.column_names, [list(row.values()) for row in _list_rows(rows)]
        )
        output.answer(None, table)
        if hidden:
            output.note(f"{hidden} more columns do not fit: --format json or --output has them")
    if rows.num_rows < found.num_rows:
        output.note(f"there are more rows than these {rows.num_rows}: use --limit to show them")


def _choose_format(format: str | None, to: Path | None, output: Output) -> str:
    suffix = "" if to is None else to.suffix.lower()
    named = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".arrow": "arrow"}.get(suffix)
    if to is not None and format is None and named is None:
        raise InvalidInputError(
            f"{to} has no format in its name: add --format csv, parquet or arrow"
        )
    if output.is_json and format not in (None, "json"):
        raise InvalidInputError(
            f"--json and --format {format} contradict each other: leave out one"
        )
    found = format or ("json" if output.is_json else named or "table")
    if found in ("parquet", "arrow") and to is None and output.is_terminal:
        raise InvalidInputError(f"{found} is binary: name a file with --output")
    if found == "table" and to is not None:
        raise InvalidInputError("--format table is for terminals: use csv, json, parquet or arrow")
    return found


def _list_rows(rows: Any) -> list[dict[str, Any]]:
    return [
        # JSON has only finite numbers.
        {k: str(v) if isinstance(v, float) and not isfinite(v) else v for k, v in row.items()}
        for row in rows.to_pylist()
    ]


def _write_rows(rows: Any, form: str, to: Path | None) -> None:
    """Write rows to a file or to standard output."""
    from pyarrow import csv, ipc, parquet  # noqa: PLC0415 (an extra)

    if form == "json":
        assert to is not None
        to.write_text(render_json(_list_rows(rows)) + "\n", "utf-8")
        return
    sink: Any = sys.stdout.buffer if to is None else str(to)
    if form == "csv":
        csv.write_csv(rows, sink)
    elif form == "parquet":
        parquet.write_table(rows, sink)
    else:
        with ipc.new_file(sink, rows.schema) as file:
            file.write_table(rows)


def _confirm(query: str, output: Output, *, is_agreed: bool) -> None:
    """Ask before a procedure that may lose data, unless it is a dry run."""
    load_spark()
    from frazil.spark.tables.statements import IRREVERSIBLE  # noqa: PLC0415 (an extra)
    from frazil.tables.sql_statements import Call, parse_statement  # noqa: PLC0415 (an extra)

    call = parse_statement(query)
    if isinstance(call, Call) and call.procedure.lower() in IRREVERSIBLE:
        output.confirm(
            f"Run {query.strip()}?", is_agreed=is_agreed or bool(call.named.get("dry_run"))
        )


def _ask(
    cluster: Cluster, url: str, query: str, group: str, authorize: Sequence[str], most: int | None
) -> Any:
    """Return the first rows of a result as an Arrow table, with zoned times."""
    spark = load_spark()
    from pyspark.errors import AnalysisException  # noqa: PLC0415 (an extra)

    from frazil.spark.runtime import run_with_progress  # noqa: PLC0415 (an extra)

    session, job = cluster.session(), cluster.job()
    try:
        frame = spark.sql(url, query, spark=session, group=group, authorize=authorize)
    except AnalysisException as error:
        first_line = next(filter(str.strip, str(error).splitlines()), type(error).__name__)
        raise InvalidInputError(f"Spark can't read this query: {first_line}") from error
    frame = frame if most is None else frame.limit(most)
    try:
        return run_with_progress(session, job, "querying", 1, frame.toArrow)
    finally:
        job.end()


def parse_chunks(text: str) -> dict[str, int]:
    """Chunks as they are written on a command line, `time=24,lat=-1`."""
    found = {}
    for part in text.split(","):
        name, equals, size = part.partition("=")
        if not equals or not name.strip() or not size.strip().lstrip("-").isdigit():
            raise InvalidInputError(f"{part!r} is not a dimension with a size, such as time=24")
        found[name.strip()] = int(size)
    return found


_Target = Annotated[str, argument(metavar="TARGET", help="URL or path of the target.")]


def copy(
    source: Annotated[str, argument(metavar="SOURCE", help="The repository.")],
    target: _Target,
    *,
    branch: Annotated[
        list[str] | None, option("--branch", "-b", help="Branch to copy; by default all.")
    ] = None,
    tag: Annotated[list[str] | None, option(help="Tag to copy; by default all.")] = None,
    tags: Annotated[bool, option(help="Copy tags, or none.")] = True,
    group: Annotated[
        str | None, option(help="Copy only this group, as one snapshot per branch.")
    ] = None,
    last: Annotated[
        int | None,
        option(min=1, metavar="N", help="Number of snapshots to keep of each branch."),
    ] = None,
    shallow: Annotated[bool, option("--shallow", help="Copy only the tips of branches.")] = False,
    spark: Spark = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Copy a repository object by object, or bring an earlier copy up to date.

    Examples
    --------
    frazil copy data/weather s3://bucket/weather
    frazil copy data/weather backup --branch main --last 10
    """
    repository = open_place(source)
    report = _choose(cluster, spark)(
        "copy",
        repository,
        target,
        branches=branch or None,
        tags=(tag or None) if tags else [],
        group=group,
        last=last,
        shallow=shallow,
    )
    output.answer(report, clean(str(report)))
    local = [
        each
        for each in repository.config.virtual_chunk_containers or {}
        if each.startswith("file://")
    ]
    if local:
        output.warn(
            f"source files are on this machine, in {', '.join(local[:3])}: other machines can't read"
            " virtual chunks there; frazil.materialize copies such chunks into the repository"
        )


def export(
    url: Version,
    target: _Target,
    *,
    group: Annotated[str, option(help="Group to export.")] = "/",
    consolidated: Annotated[
        bool, option("--consolidated", help="Write consolidated metadata.")
    ] = False,
    authorize: Authorize = None,
    spark: Spark = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Write a version as a plain Zarr V3 hierarchy; chunks are copied as they are.

    Examples
    --------
    frazil export data/weather@v1 weather.zarr
    frazil export data/weather s3://bucket/t2m.zarr --group surface --consolidated
    """
    repository, session, _ = open_version(url, authorize)
    report = _choose(cluster, spark)(
        "export_zarr",
        repository,
        target,
        snapshot=str(session.snapshot_id),
        group=group,
        consolidated=consolidated,
    )
    output.answer(report, clean(str(report)))


def import_(
    source: Annotated[
        str, argument(metavar="SOURCE", help="Location of a Zarr V2 or V3 hierarchy.")
    ],
    url: Annotated[str, argument(metavar="URL", help="URL or path of the repository.")],
    *,
    group: Annotated[str, option(help="Target group.")] = "/",
    branch: Branch = "main",
    message: Message = None,
    spark: Spark = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Bring a plain Zarr hierarchy into a group of a repository, in one commit.

    Examples
    --------
    frazil import weather.zarr data/weather --group surface
    """
    report = _choose(cluster, spark)(
        "import_zarr",
        open_place(url),
        source,
        group=group,
        branch=branch,
        message=message,
    )
    output.answer(report, clean(str(report)))


def _choose(cluster: Cluster, spark: bool) -> Callable[..., Any]:
    """Return where to run: on Spark, if --spark or a master is given."""
    return cluster.run if cluster.is_wanted(spark) else cluster.run_here
