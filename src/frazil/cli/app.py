"""All commands together; the module of a command is imported when the command is used."""

from importlib import import_module
from keyword import iskeyword
from shutil import get_terminal_size
from typing import Any

import click

from frazil import __version__

_HELP = """Versioned arrays on disks and object storage, in the Icechunk format.

A repository is named by a path or a URL, and a version of it by what follows an @:
data/weather, data/weather@v1, s3://bucket/weather@main?region=eu-central-1. Credentials come from the
environment and are never part of a URL.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 not found, 4 exists already, 5 conflict, 6 no
permission, 7 storage, 8 damaged, 9 something to install, 10 a job failed, 11 read-only, 12 files left
out, 13 refused by guards or checks, 14 stale, 130 stopped.
"""

COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Look": {
        "info": ("read_commands", "Show generation, branches, tags, status, containers."),
        "log": ("read_commands", "Show the history, newest first."),
        "ops": ("read_commands", "List the operations on a repository, newest first."),
        "tree": ("read_commands", "Draw groups and arrays."),
        "show": ("read_commands", "Show a repository, a group or an array."),
        "diff": ("read_commands", "Show the changes between two versions."),
        "top": ("read_commands", "Watch running jobs and new commits."),
        "inspect": ("read_commands", "Decode one metadata file."),
        "serve": ("read_commands", "Serve web pages of a repository."),
        "report": ("read_commands", "Write these pages to one HTML file."),
    },
    "Edit": {
        "create": ("ref_commands", "Create a repository."),
        "branch": ("ref_commands", "List, create, move or delete branches."),
        "tag": ("ref_commands", "List, create or delete tags."),
        "squash": ("ref_commands", "Replace the commits after a version by one."),
        "cherry-pick": ("ref_commands", "Apply a commit to another branch."),
        "fast-forward": ("ref_commands", "Move a branch ahead to another."),
    },
    "Build": {
        "ingest": ("job_commands", "Ingest files in one commit."),
        "rechunk": ("job_commands", "Change the chunks of an array."),
        "analyze": ("job_commands", "Compute statistics of chunks for queries."),
        "sql": ("job_commands", "Query arrays and metadata with SQL."),
    },
    "Operate a dataset": {
        "new": ("dataset_commands", "Write a declaration from sample files."),
        "plan": ("dataset_commands", "Show what a run would do."),
        "run": ("dataset_commands", "Run one cycle: discover, ingest, publish."),
        "follow": ("dataset_commands", "Stay resident, and run cycle after cycle."),
        "backfill": ("dataset_commands", "Fill a part of the axis beside live runs."),
        "status": ("dataset_commands", "Show how fresh and complete a dataset is."),
        "validate": ("dataset_commands", "Check what is published, by sample."),
    },
    "Keep": {
        "stats": ("maintenance_commands", "Show the storage that all versions take."),
        "check": ("maintenance_commands", "Find, and repair, damage."),
        "gc": ("maintenance_commands", "Delete garbage."),
        "expire": ("maintenance_commands", "Remove old versions from the history."),
        "migrate": ("maintenance_commands", "Migrate an older repository to V2."),
        "copy": ("job_commands", "Copy a repository, or update a copy."),
        "export": ("job_commands", "Export a version as plain Zarr."),
        "import": ("job_commands", "Import plain Zarr into a group."),
        "completion": ("read_commands", "Print the completion script of a shell."),
        "doctor": ("maintenance_commands", "Check what is installed and reachable."),
        "demo": ("read_commands", "Run the whole pipeline on a small archive."),
    },
}
"""Commands by heading: the module of each, and its line in the list."""


class SuggestingGroup(click.Group):
    """Commands that suggest the nearest one for an unknown name."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command to run; raises UsageError."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 (only after a typo)

            near = get_close_matches(args[0], self.list_commands(ctx), 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


class CommandList(SuggestingGroup):
    """The commands of `frazil`, by heading."""

    _is_listing = False

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands."""
        return [name for commands in COMMANDS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load a command; while names are completed, only describe it."""
        for commands in COMMANDS.values():
            if cmd_name in commands:
                module, summary = commands[cmd_name]
                if self._is_listing:
                    return click.Command(cmd_name, help=summary)
                return load_command(cmd_name, module, summary)
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands."""
        for heading, commands in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> Any:
        """Return the names of commands that begin like this."""
        self._is_listing = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._is_listing = False


def load_command(name: str, module: str, summary: str) -> click.Command:
    """Import the module of a command and make the command, or the group of commands."""
    from frazil.cli.command import make_command  # noqa: PLC0415 (the list needs none of it)

    attribute = f"{name}_" if iskeyword(name) else name.replace("-", "_")
    found = getattr(import_module(f"frazil.cli.{module}"), attribute)
    if not isinstance(found, dict):
        return make_command(name, found)
    commands = [make_command(verb, function) for verb, function in found.items()]
    return SuggestingGroup(name, commands, help=summary, no_args_is_help=True)


def make_app() -> click.Group:
    """Make the command `frazil` of all its commands."""
    version = click.version_option(__version__, message="%(version)s", help="Show the version.")
    # Click's own width is 50 or more, which narrower terminals would break again.
    width = get_terminal_size().columns
    narrow = {"terminal_width": max(width - 1, 20)} if width < 52 else None
    named = CommandList("frazil", help=_HELP, no_args_is_help=True, context_settings=narrow)
    return version(named)
