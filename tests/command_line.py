"""The command line, run in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from click.testing import CliRunner

from frazil.cli.app import COMMANDS, load_command, make_app


@dataclass(frozen=True)
class Answer:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The answer as a value."""
        return json.loads(self.out)


Frazil = Callable[..., Answer]


def make_frazil() -> Frazil:
    """What runs a command line."""
    app, runner = make_app(), CliRunner()

    def call(*arguments: object) -> Answer:
        result = runner.invoke(app, [str(each) for each in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return call


def list_commands() -> list[tuple[str, ...]]:
    """The names of all commands, and of those below them."""
    found: list[tuple[str, ...]] = []
    for name, (module, summary) in [each for part in COMMANDS.values() for each in part.items()]:
        command = load_command(name, module, summary)
        below = list(command.commands) if isinstance(command, click.Group) else []
        found += [(name, verb) for verb in below] or [(name,)]
    return found
