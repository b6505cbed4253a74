"""How a function becomes a command: with `--json` and `--debug`, and errors told in one sentence."""

import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from frazil.cli.failing import INTERRUPTED, explain
from frazil.cli.output import Output

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]

_MORE = (
    inspect.Parameter("is_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Json),
    inspect.Parameter("is_debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Debug),
)


def add_command(
    app: typer.Typer, name: str, function: Callable[..., None], panel: str | None = None
) -> None:
    """Make a function a command; its parameter `output` is where the answer goes.

    What its docstring says after a line `Examples:` is shown as it is, below the options.
    """
    text, _, examples = (inspect.getdoc(function) or "").partition("\nExamples:\n")
    epilog = "Examples:\n\n" + "\n\n".join(examples.strip().splitlines()) if examples else None
    add = app.command(name, help=text.strip(), epilog=epilog, rich_help_panel=panel)
    add(_wrap(function))


def _wrap(function: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.name != "output"]
    given = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]

    @functools.wraps(function)
    def run(*, is_json: bool, is_debug: bool, **arguments: Any) -> None:
        output = Output(is_json)
        try:
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

    run.__signature__ = inspect.Signature([*given, *_MORE])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in (*given, *_MORE)}
    return run
