"""Answers on the terminal: tables for people, JSON for programs.

Text that comes out of a repository is shown as it is, without markup and without signs that move a
cursor. Answers go to standard output; questions, progress and errors to standard error.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from frazil.cli.bars import Bars
from frazil.cli.failing import Failure
from frazil.rendering.plain import to_plain
from frazil.rendering.progress import Silent


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command puts its answer, and in which form."""

    is_json: bool = False
    bars: Bars = field(default_factory=lambda: Bars(Silent()))

    def answer(self, value: Any, *shown: Any) -> None:
        """Print a value: as JSON, or what is given to show it to people."""
        self.bars.close()
        if self.is_json:
            print(json.dumps(to_plain(value), indent=2, ensure_ascii=False, allow_nan=False))
            return
        console = Console(highlight=False, soft_wrap=True, width=_find_width())
        for each in shown or (value,):
            console.print(Text.from_ansi(each) if isinstance(each, str) else each, end="\n")

    def as_json(self) -> "Output":
        """The same for an answer that only JSON can hold."""
        return replace(self, is_json=True)

    def note(self, text: str) -> None:
        """Tell people something beside the answer."""
        self.bars.close()
        if not self.is_json:
            Console(stderr=True, highlight=False).print(clean(text), style="dim", markup=False)

    def warn(self, text: str) -> None:
        """Tell people, also those who read JSON, what they should not overlook."""
        self.bars.close()
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(Text.assemble(("warning: ", "bold yellow"), clean(text)))

    def confirm(self, question: str, *, is_agreed: bool) -> None:
        """Ask, unless it is agreed already; without anybody to ask, the answer is no."""
        if is_agreed:
            return
        self.bars.close()
        if self.is_json or not sys.stdin.isatty():
            self.note(f"{question} Nothing was done: --yes does it.")
            raise typer.Exit(1)
        typer.confirm(question, abort=True, err=True)

    def fail(self, failure: Failure) -> None:
        """Tell what went wrong."""
        self.bars.close()
        if self.is_json:
            print(json.dumps(failure.to_dict(), ensure_ascii=False), file=sys.stderr)
            return
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(Text.assemble(("error: ", "bold red"), clean(failure.message)))
        if failure.advice:
            console.print(Text.assemble(("  try: ", "bold"), failure.advice))


def make_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table; columns that begin with `>` are set to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        side: Literal["left", "right"] = "right" if name[0] == ">" else "left"
        table.add_column(name.lstrip(">"), justify=side, overflow="fold")
    for row in rows:
        table.add_row(*(Text(clean(str(cell))) for cell in row))
    return table


def make_card(pairs: Iterable[tuple[str, object]]) -> Table:
    """Names with what belongs to them, a line each; nothing for None."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            table.add_row(name, Text(clean(str(value))))
    return table


def _find_width() -> int | None:
    """Lines are folded on a terminal only: whoever reads them elsewhere wants them whole."""
    return None if sys.stdout.isatty() else 10_000


def clean(text: str) -> str:
    """Text without anything that moves a cursor or turns the direction of writing."""
    return "".join(each if each.isprintable() or each == "\n" else "�" for each in text)
