"""Commands that run on Spark: ingest, rechunk, transform's relatives. Spark is loaded when they are."""

from typing import Annotated, Any, Literal

import typer

from frazil.cli.arguments import Branch, DryRun, Message, Place
from frazil.cli.output import Output, clean
from frazil.errors import InvalidInputError

Master = Annotated[
    str | None, typer.Option("--master", help="Spark's master; without it, this machine.")
]
Progress = Annotated[bool, typer.Option(help="Show a bar while it runs.")]


def ingest(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="Files, patterns, folders, prefixes.")
    ],
    *,
    into: Annotated[str, typer.Option("--into", metavar="URL", help="The repository.")],
    append_dim: Annotated[
        str | None, typer.Option(metavar="DIM", help="The dimension that files follow along.")
    ] = None,
    group: Annotated[str, typer.Option(help="The group that they go to.")] = "/",
    mode: Annotated[
        Literal["auto", "virtual", "native"], typer.Option(help="Refer to the files, or copy.")
    ] = "auto",
    on_overlap: Annotated[
        Literal["refuse", "replace"], typer.Option(help="Where coordinates are there already.")
    ] = "refuse",
    on_bad_file: Annotated[
        Literal["fail", "skip"], typer.Option(help="Where a file can't be read.")
    ] = "fail",
    skip: Annotated[
        list[str] | None, typer.Option(metavar="ARRAY", help="Arrays to leave out.")
    ] = None,
    branch: Branch = "main",
    message: Message = None,
    master: Master = None,
    progress: Progress = True,
    dry_run: DryRun = False,
    output: Output,
) -> None:
    """Bring files into a group of a repository in one commit, by reference where that is possible.

    Examples:
    frazil ingest "archive/*.nc" --into data/weather --append-dim time
    frazil ingest s3://bucket/archive/ --into s3://bucket/weather --append-dim time --dry-run
    """
    spark = _load_spark()
    report = spark.ingest(
        spark.session(master=master),
        sources,
        into,
        branch=branch,
        group=group,
        append_dim=append_dim,
        mode=mode,
        on_overlap=on_overlap,
        on_bad_file=on_bad_file,
        skip=skip or (),
        message=message,
        dry_run=dry_run,
        job=spark.Job(progress=progress and not output.is_json),
    )
    output.answer(report, clean(str(report)))


def rechunk(
    url: Place,
    array: Annotated[str, typer.Argument(metavar="ARRAY", help="The array.")],
    *,
    chunks: Annotated[
        str, typer.Option(metavar="DIM=N,...", help="The new chunks; -1 for all of a dimension.")
    ],
    to: Annotated[
        str | None, typer.Option("--to", metavar="ARRAY", help="Another array, not in place.")
    ] = None,
    max_memory: Annotated[str, typer.Option(help="Of a task.")] = "512MB",
    branch: Branch = "main",
    message: Message = None,
    master: Master = None,
    progress: Progress = True,
    output: Output,
) -> None:
    """Give an array other chunks, in one commit and in bounded memory.

    Examples:
    frazil rechunk data/weather t2m --chunks time=-1,lat=10,lon=10
    """
    spark = _load_spark()
    report = spark.rechunk(
        spark.session(master=master),
        url,
        array,
        parse_chunks(chunks),
        output=to,
        max_memory=max_memory,
        branch=branch,
        message=message,
        job=spark.Job(progress=progress and not output.is_json),
    )
    output.answer(report, clean(str(report)))


def parse_chunks(text: str) -> dict[str, int]:
    """Chunks as they are written on a command line, `time=24,lat=-1`."""
    found = {}
    for part in text.split(","):
        name, equals, size = part.partition("=")
        if not equals or not name.strip() or not size.strip().lstrip("-").isdigit():
            raise InvalidInputError(f"{part!r} is not a dimension with a size, such as time=24")
        found[name.strip()] = int(size)
    return found


def _load_spark() -> Any:
    import frazil.spark  # noqa: PLC0415 (an extra)

    return frazil.spark
