"""How a function becomes a command: with `--json` and `--debug`, and errors told in one sentence."""

import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from frazil.cli.bars import open_bars
from frazil.cli.cluster import Cluster, Master, Progress
from frazil.cli.failing import INTERRUPTED, explain
from frazil.cli.output import Output
from frazil.watching import watched_by

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Debug = Annotated[
    bool, typer.Option("--debug", help="Show where an error came from, and the log of Spark.")
]


def _option(name: str, annotation: Any, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


_OF_ALL = (_option("is_json", _Json, False), _option("is_debug", _Debug, False))
_OF_JOBS = (_option("master", Master, None), _option("progress", Progress, True))


def add_command(
    app: typer.Typer, name: str, function: Callable[..., None], panel: str | None = None
) -> None:
    """Make a function a command; its parameter `output` is where the answer goes.

    One with a parameter `cluster` runs a job, and has the options that say where and how.
    What its docstring says after a line `Examples:` is shown as it is, below the options.
    """
    text, _, examples = (inspect.getdoc(function) or "").partition("\nExamples:\n")
    epilog = "Examples:\n\n" + "\n\n".join(examples.strip().splitlines()) if examples else None
    add = app.command(name, help=text.strip(), epilog=epilog, rich_help_panel=panel)
    add(_wrap(function))


def _wrap(function: Callable[..., None]) -> Callable[..., None]:
    parameters = inspect.signature(function).parameters
    runs_job = "cluster" in parameters
    own = [each for name, each in parameters.items() if name not in ("output", "cluster")]
    given = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
    options = [*given, *(_OF_JOBS if runs_job else ()), *_OF_ALL]

    @functools.wraps(function)
    def run(*, is_json: bool, is_debug: bool, **arguments: Any) -> None:
        shows_bars = not is_json and arguments.get("progress", True)
        output = Output(is_json, open_bars(is_wanted=shows_bars))
        if runs_job:
            master, progress = arguments.pop("master"), arguments.pop("progress")
            arguments["cluster"] = Cluster(master, progress and not is_json, is_debug)
        try:
            with watched_by(output.bars):
                function(**arguments, output=output)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            output.note("stopped; nothing was committed")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of our output has gone, as `head` does: not an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except Exception as error:
            if is_debug:
                raise
            failure = explain(error)
            output.fail(failure)
            raise typer.Exit(failure.code) from None
        finally:
            output.bars.close()

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in options}
    return run
