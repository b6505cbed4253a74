"""All commands together."""

from collections.abc import Callable
from typing import Annotated

import typer

from frazil.cli import job_commands, maintenance_commands, read_commands, ref_commands
from frazil.cli.command import add_command
from frazil.version import __version__

_HELP = """Versioned arrays on disks and object storage, in the Icechunk format.

A repository is named by a path or a URL, and a version of it by what follows an @:
data/weather, data/weather@v1, s3://bucket/weather@main?region=eu-central-1. Credentials come from the
environment and are never part of a URL.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 not found, 4 exists already, 5 conflict, 6 no
permission, 7 storage, 8 damaged, 9 something to install, 10 a job failed, 11 read-only, 130 stopped.
"""

_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Look": {
        "info": read_commands.info,
        "log": read_commands.log,
        "ops": read_commands.ops,
        "tree": read_commands.tree,
        "show": read_commands.show,
        "diff": read_commands.diff,
        "inspect": read_commands.inspect,
        "serve": read_commands.serve,
        "report": read_commands.report,
    },
    "Edit": {
        "create": ref_commands.create,
        "squash": ref_commands.squash,
        "cherry-pick": ref_commands.cherry_pick,
        "fast-forward": ref_commands.fast_forward,
    },
    "Build, on Spark": {
        "ingest": job_commands.ingest,
        "rechunk": job_commands.rechunk,
        "analyze": job_commands.analyze,
        "sql": job_commands.sql,
    },
    "Keep": {
        "stats": maintenance_commands.stats,
        "check": maintenance_commands.check,
        "gc": maintenance_commands.gc,
        "expire": maintenance_commands.expire,
        "migrate": maintenance_commands.migrate,
        "copy": job_commands.copy,
        "export": job_commands.export,
        "import": job_commands.import_zarr,
        "doctor": maintenance_commands.doctor,
        "demo": read_commands.demo,
    },
}


def make_app() -> typer.Typer:
    """Make the command `frazil` of all its commands."""
    app = typer.Typer(
        name="frazil", help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False
    )
    app.callback()(_root)
    for panel, commands in _COMMANDS.items():
        for name, function in commands.items():
            add_command(app, name, function, panel)
    app.add_typer(ref_commands.branch, name="branch", rich_help_panel="Edit")
    app.add_typer(ref_commands.tag, name="tag", rich_help_panel="Edit")
    return app


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(__version__)
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    del version


_root.__doc__ = _HELP
