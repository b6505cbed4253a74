"""Output on the terminal: tables, JSON, progress bars, errors and exit codes."""

import errno
import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

import click
from click.exceptions import Exit

from frazil import errors
from frazil.display import to_plain
from frazil.errors import ErrorKind
from frazil.lazy import lazy_modules
from frazil.progress import Display, OnTerminal, Silent, Step

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import table as rich_table
    from rich import text as rich_text
else:
    # Help needs none of them.
    rich_console, rich_table, rich_text = lazy_modules("rich.console", "rich.table", "rich.text")

_QUIET_SECONDS = 1.0
_BETWEEN_SECONDS = 0.1


class Bars:
    """A line for each step, while somebody looks; to be closed before anything else is written."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._began = self._shown = self._since = monotonic()
        self._what = ""

    def show(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Take note of how far a step is."""
        now = monotonic()
        if what != self._what:
            self._what, self._since = what, now
        is_soon = now - self._shown < _BETWEEN_SECONDS and done != total
        if is_soon or now - self._began < _QUIET_SECONDS:
            return
        self._shown = now
        self._display.show(Step(what, done, total, now - self._since, unit=unit))

    def close(self) -> None:
        """End the last line."""
        self._display.close()


def open_bars(*, is_wanted: bool) -> Bars:
    """On standard error, if it is a terminal."""
    return Bars(OnTerminal(sys.stderr) if is_wanted and sys.stderr.isatty() else Silent())


INTERRUPTED = 130
"""Exit code that shells expect after Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as people and scripts get to know it."""

    code: int
    message: str
    advice: str | None = None
    error: str = "Error"
    kind: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {
            "error": self.error,
            "kind": self.kind,
            "message": self.message,
            "advice": self.advice,
            "exit_code": self.code,
        }


_DAMAGE_ADVICE = "`frazil check` reports damage and possible repairs"
_ADVICE: tuple[tuple[type[BaseException], int, str | None], ...] = (
    (errors.JobCancelledError, INTERRUPTED, None),
    (errors.RepositoryNotFoundError, 3, "check the location, or create one with `frazil create`"),
    (errors.RefNotFoundError, 3, "`frazil branch list` and `frazil tag list` show the existing ones"),
    (errors.SnapshotNotFoundError, 3, "`frazil log` lists snapshots"),
    (errors.NodeNotFoundError, 3, "`frazil tree` lists nodes"),
    (errors.NotFoundError, 3, None),
    (errors.AlreadyExistsError, 4, "choose another name"),
    (
        errors.DivergedError, 5,
        "nothing was changed: `frazil log --all` shows both sides; `frazil cherry-pick` brings single"
        " commits over, and `frazil branch move` gives up those of a branch",
    ),
    (
        errors.RebaseFailedError, 5,
        "nothing was changed: both sides changed the same nodes or chunks, which `frazil diff` shows",
    ),
    (errors.ConflictError, 5, "nothing was changed: see `frazil log`, then run it again"),
    (
        errors.PermissionDeniedError, 6,
        "check that the environment has credentials for this location",
    ),
    (errors.ThrottledError, 7, "the storage is overloaded: try again later"),
    (errors.StorageUnreachableError, 7, "check the address and the network"),
    (errors.IncompleteResponseError, 7, "the connection was interrupted: run the command again"),
    (errors.StorageError, 7, None),
    (errors.FormatError, 8, _DAMAGE_ADVICE),
    (errors.SetupError, 9, None),
    (errors.JobError, 10, "nothing was committed; --debug shows Spark's log"),
    (errors.ReadOnlyError, 11, None),
    (errors.SessionStateError, 2, None),
    (errors.InvalidInputError, 2, None),
)  # fmt: skip
"""Exit codes and advice, the narrower class before the wider."""

_ADVICE_BY_KIND: dict[str, tuple[int, str | None]] = {
    ErrorKind.UNSUPPORTED_SPEC_VERSION: (
        2,
        "`frazil migrate` upgrades an older repository; a newer one needs a newer Frazil",
    ),
    ErrorKind.FEATURE_FLAG_DISABLED: (11, None),
    # Sources that are not there are wrong arguments for the library, and not found for people.
    ErrorKind.KEY_NOT_FOUND: (3, None),
    # By its kind: where a source file of virtual chunks is gone, the repository is not damaged.
    ErrorKind.OBJECT_NOT_FOUND: (8, _DAMAGE_ADVICE),
}
_MAY_USER = "check that this user may read and write there"
_SYSTEM_ADVICE: dict[int | None, tuple[int, str | None]] = {
    errno.ENOSPC: (
        7,
        "the disk is full: free space, then run the command again; nothing was committed",
    ),
    errno.EDQUOT: (7, "the disk quota is exceeded: free space, then run the command again"),
    errno.EACCES: (6, _MAY_USER),
    errno.EPERM: (6, _MAY_USER),
    errno.EROFS: (11, "the disk is read-only"),
    errno.EADDRINUSE: (7, "the port is in use: choose another with --port"),
}
"""Exit codes and advice by what the system said."""


def explain(error: BaseException) -> Failure:
    """Describe an exception as a failure of the command."""
    name = type(error).__name__
    full = _find_system_error(error)
    if full is not None and full.errno in _SYSTEM_ADVICE:
        code, advice = _SYSTEM_ADVICE[full.errno]
        return Failure(code, _sentence(error), advice, name)
    kind = str(getattr(error, "kind", None) or "") or None
    if kind == ErrorKind.UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER:
        what = cut_advice(_sentence(error))
        prefix = what.partition(" at ")[2].partition(" is not authorized")[0]
        advice = f"add --authorize {shlex.quote(prefix)}, or --authorize '*' for all containers"
        return Failure(6, what, advice if prefix else "add --authorize '*'", name, kind)
    if kind in _ADVICE_BY_KIND:
        code, advice = _ADVICE_BY_KIND[kind]
        return Failure(code, _sentence(error), advice, name, kind)
    for cls, code, advice in _ADVICE:
        if isinstance(error, cls):
            return Failure(code, _sentence(error), advice, name, kind)
    if isinstance(error, ModuleNotFoundError):
        missing = (error.name or "").partition(".")[0]
        return Failure(9, f"{missing} is not installed", errors.name_install(missing), name)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Failure(3, _sentence(error), None, name)
    if isinstance(error, OSError):
        return Failure(7, _sentence(error), None, name)
    return Failure(1, f"{name}: {_sentence(error)}", "--debug shows the traceback", name)


def _find_system_error(error: BaseException | None) -> OSError | None:
    for _ in range(10):
        if error is None or isinstance(error, OSError):
            return error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


def cut_advice(message: str) -> str:
    """Return an error about a container without what a Python program would add."""
    what, is_refusal, _ = message.partition(" is not authorized: ")
    return f"{what} is not authorized" if is_refusal else message


def _sentence(error: BaseException) -> str:
    return str(getattr(error, "message", None) or error)


class Lines(str):
    """Text whose lines are cut at the edge of a terminal."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Output:
    """Output of a command: as text for people, or as JSON."""

    is_json: bool = False
    bars: Bars = field(default_factory=lambda: Bars(Silent()))

    def answer(self, value: Any, *shown: Any) -> None:
        """Print a value: as JSON, or what is given to show it to people."""
        self.bars.close()
        if self.is_json:
            print(render_json(value))
            return
        # Fold and cut lines on a terminal only: programs that read them need them whole.
        width = None if self.is_terminal else 10_000
        console = rich_console.Console(highlight=False, width=width)
        for each in shown or (value,):
            if isinstance(each, str) and each.startswith("<frazil.") and len(shown) == 1:
                each = each.partition("\n")[2].rstrip()  # without the name of its class
            is_cut = self.is_terminal and isinstance(each, Lines)
            text = rich_text.Text.from_ansi(each) if isinstance(each, str) else each
            if is_cut:
                console.print(text, no_wrap=True, overflow="ellipsis", end="\n")
            else:
                console.print(text, soft_wrap=True, end="\n")

    @property
    def is_terminal(self) -> bool:
        """Return True if somebody looks at the answer."""
        return sys.stdout.isatty()

    def as_json(self) -> "Output":
        """Return an output that prints JSON."""
        return replace(self, is_json=True)

    def note(self, text: str) -> None:
        """Print a note for people beside the answer."""
        self.bars.close()
        if not self.is_json:
            console = rich_console.Console(stderr=True, highlight=False, soft_wrap=True)
            console.print(clean(text), style="dim", markup=False)

    def warn(self, text: str) -> None:
        """Print a warning, also for people who read JSON."""
        self.bars.close()
        console = rich_console.Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(rich_text.Text.assemble(("warning: ", "bold yellow"), clean(text)))

    def confirm(self, question: str, *, is_agreed: bool) -> None:
        """Ask, unless it is agreed already; without anybody to ask, the answer is no."""
        if is_agreed:
            return
        self.bars.close()
        if self.is_json or not sys.stdin.isatty():
            self.note(f"{question} Nothing was done: confirm with --yes.")
            raise Exit(1)
        click.confirm(question, abort=True, err=True)

    def fail(self, failure: Failure) -> None:
        """Print the error, and what to try."""
        self.bars.close()
        if self.is_json:
            print(json.dumps(failure.to_dict(), ensure_ascii=False), file=sys.stderr)
            return
        console = rich_console.Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(rich_text.Text.assemble(("error: ", "bold red"), clean(failure.message)))
        if failure.advice:
            console.print(rich_text.Text.assemble(("  try: ", "bold"), failure.advice))


def render_json(value: Any) -> str:
    """Return a value as JSON."""
    return json.dumps(to_plain(value), indent=2, ensure_ascii=False, allow_nan=False)


_WIDEST = 32
"""Cells are cut at this width before columns are left out."""
_NARROW = 60
"""Terminals with fewer columns than this have cards in place of wide tables."""


def fit_table(
    names: Sequence[str], rows: Sequence[Sequence[object]]
) -> tuple["rich_table.Table", int]:
    """Make a table of the columns that fit the terminal, and count the others.

    Without a terminal every column is there, and no cell is cut.
    """
    cells = [["" if each is None else clean(str(each)) for each in row] for row in rows]
    columns = list(zip(*[names, *cells], strict=True))
    widths = [max(map(len, column), default=0) for column in columns]
    room = rich_console.Console().width if sys.stdout.isatty() else sum(widths) + 2 * len(widths)
    shown = used = 0
    for width in widths:
        used += min(width, _WIDEST) + 2
        if shown and used - 2 > room:
            break
        shown += 1
    is_number = [all(isinstance(row[i], int | float | None) for row in rows) for i in range(shown)]
    table = rich_table.Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, width, is_right in zip(names[:shown], widths, is_number, strict=False):
        table.add_column(
            rich_text.Text(clean(name)),
            justify="right" if is_right else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=_WIDEST if used > room else width,
        )
    for row in cells:
        table.add_row(*map(rich_text.Text, row[:shown]))
    return table, len(names) - shown


def make_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> "rich_table.Table":
    """Make a table; columns that begin with `>` are aligned to the right.

    Where a narrow terminal would break its words, each row is a card.
    """
    names = [name.lstrip(">") for name in columns]
    cells = [[clean(str(cell)) for cell in row] for row in rows]
    widths = [
        max((len(word) for text in column for word in text.split()), default=0)
        for column in zip(names, *cells, strict=True)
    ]
    room = rich_console.Console().width if sys.stdout.isatty() else _NARROW
    if room < _NARROW and sum(widths) + 2 * len(widths) > room:
        cards = [[*zip(names, row, strict=True), ("", "")] for row in cells]
        return make_card(pair for card in cards for pair in card if pair[1] or not pair[0])
    table = rich_table.Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        side: Literal["left", "right"] = "right" if name[0] == ">" else "left"
        table.add_column(name.lstrip(">"), justify=side, overflow="fold")
    for row in cells:
        table.add_row(*map(rich_text.Text, row))
    return table


def make_card(pairs: Iterable[tuple[str, object]]) -> "rich_table.Table":
    """Names with what belongs to them, a line each; nothing for None."""
    table = rich_table.Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            table.add_row(name, rich_text.Text(clean(str(value))))
    return table


def clean(text: str) -> str:
    """Text without anything that moves a cursor or turns the direction of writing."""
    return "".join(each if each.isprintable() or each == "\n" else "�" for each in text)
