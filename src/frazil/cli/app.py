"""All commands together."""

from collections.abc import Callable
from typing import Annotated

import typer

from frazil.cli import job_commands as copying
from frazil.cli import job_commands as jobs
from frazil.cli import maintenance_commands as upkeep
from frazil.cli import read_commands as demonstrating
from frazil.cli import read_commands as looking
from frazil.cli import read_commands as showing
from frazil.cli import ref_commands as editing
from frazil.cli import ref_commands as refs
from frazil.cli.command import add_command
from frazil.version import __version__

_HELP = """Versioned arrays on disks and object storage, in the Icechunk format.

A repository is named by a path or a URL, and a version of it by what follows an @:
data/weather, data/weather@v1, s3://bucket/weather@main?region=eu-central-1. Credentials come from the
environment and are never part of a URL.

Exit codes: 0 well, 1 not well, 2 wrong usage, 3 not found, 4 exists already, 5 conflict, 6 no
permission, 7 storage, 8 damaged, 9 something to install, 10 a job failed, 11 read-only, 130 stopped.
"""

_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Look": {
        "info": looking.info,
        "log": looking.log,
        "ops": looking.ops,
        "tree": looking.tree,
        "show": looking.show,
        "diff": looking.diff,
        "inspect": looking.inspect,
        "serve": showing.serve,
        "report": showing.report,
    },
    "Edit": {
        "create": editing.create,
        "squash": editing.squash,
        "cherry-pick": editing.cherry_pick,
        "fast-forward": editing.fast_forward,
    },
    "Build, on Spark": {
        "ingest": jobs.ingest,
        "rechunk": jobs.rechunk,
        "analyze": jobs.analyze,
        "sql": jobs.sql,
    },
    "Keep": {
        "stats": upkeep.stats,
        "check": upkeep.check,
        "gc": upkeep.gc,
        "expire": upkeep.expire,
        "migrate": upkeep.migrate,
        "copy": copying.copy,
        "export": copying.export,
        "import": copying.import_zarr,
        "doctor": upkeep.doctor,
        "demo": demonstrating.demo,
    },
}


def make_app() -> typer.Typer:
    """The command `frazil`."""
    app = typer.Typer(
        name="frazil", help=_HELP, no_args_is_help=True, pretty_exceptions_enable=False
    )
    app.callback()(_root)
    for panel, commands in _COMMANDS.items():
        for name, function in commands.items():
            add_command(app, name, function, panel)
    app.add_typer(refs.branch, name="branch", rich_help_panel="Edit")
    app.add_typer(refs.tag, name="tag", rich_help_panel="Edit")
    return app


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        print(__version__)
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Tell the version."),
    ] = False,
) -> None:
    del version


_root.__doc__ = _HELP


def main() -> None:
    """Run the command line."""
    make_app()()
