"""Commands that copy: a repository to another place, a version to plain Zarr, plain Zarr to a group."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from frazil.cli.arguments import Authorize, Branch, Message, Version, open_place, open_version
from frazil.cli.cluster import Cluster, Spark
from frazil.cli.output import Output, clean

_Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="Where it goes to: a URL or a path.")
]


def copy(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The repository.")],
    target: _Target,
    *,
    branch: Annotated[
        list[str] | None, typer.Option("--branch", "-b", help="A branch; without it, all of them.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag; without it, all of them.")] = None,
    tags: Annotated[bool, typer.Option(help="Tags, too, or none.")] = True,
    group: Annotated[
        str | None, typer.Option(help="A part of the hierarchy, as one snapshot a branch.")
    ] = None,
    last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The last snapshots of each branch.")
    ] = None,
    shallow: Annotated[bool, typer.Option("--shallow", help="Tips of branches only.")] = False,
    spark: Spark = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Copy a repository object by object, or bring an earlier copy up to date.

    Examples:
    frazil copy data/weather s3://bucket/weather
    frazil copy data/weather backup --branch main --last 10
    """
    report = _choose(cluster, spark)(
        "copy",
        open_place(source),
        target,
        branches=branch or None,
        tags=(tag or None) if tags else [],
        group=group,
        last=last,
        shallow=shallow,
    )
    output.answer(report, clean(str(report)))


def export(
    url: Version,
    target: _Target,
    *,
    group: Annotated[str, typer.Option(help="The group that becomes the root.")] = "/",
    consolidated: Annotated[
        bool, typer.Option("--consolidated", help="All metadata in that of the root, too.")
    ] = False,
    authorize: Authorize = None,
    spark: Spark = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Write a version as a plain Zarr V3 hierarchy; chunks are copied as they are.

    Examples:
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


def import_zarr(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A Zarr hierarchy of format 2 or 3.")
    ],
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the repository is.")],
    *,
    group: Annotated[str, typer.Option(help="The group that it goes to.")] = "/",
    branch: Branch = "main",
    message: Message = None,
    spark: Spark = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Bring a plain Zarr hierarchy into a group of a repository, in one commit.

    Examples:
    frazil import weather.zarr data/weather --group surface
    """
    report = _choose(cluster, spark)(
        "import_zarr",
        source,
        open_place(url),
        group=group,
        branch=branch,
        message=message,
    )
    output.answer(report, clean(str(report)))


def _choose(cluster: Cluster, spark: bool) -> Callable[..., Any]:
    """Where to run: on Spark, if that or its master is asked for."""
    return cluster.run if cluster.is_wanted(spark) else cluster.run_here
