"""The command line, run in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from frazil.cli.app import make_app


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
