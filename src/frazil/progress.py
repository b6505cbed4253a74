"""Progress of long operations: callbacks, and output on a terminal or in a notebook."""

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from html import escape
from importlib import import_module
from typing import Any, Protocol, TextIO, TypeVar

from frazil.display import show_bytes
from frazil.lazy import dataclass

T = TypeVar("T")


class ProgressCallback(Protocol):
    """Receiver of progress reports."""

    def show(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Report the progress of a step; `total` is None if unknown."""


_callback: ContextVar[ProgressCallback | None] = ContextVar("frazil_progress", default=None)


@contextmanager
def on_progress(callback: ProgressCallback | None) -> Iterator[None]:
    """Send the progress of operations in this context to a callback, or to none."""
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)


class Count:
    """Counter of the completed items of a step."""

    def __init__(
        self, callback: ProgressCallback | None, what: str, unit: str, total: int | None
    ) -> None:
        self._callback = callback
        self._what, self._unit, self._total = what, unit, total
        self._done = 0

    def add(self, more: int) -> None:
        """Add completed items and report the progress."""
        if self._callback is not None:
            self._done += more
            self._callback.show(self._what, self._done, self._total, self._unit)


def count(what: str, unit: str, total: int | None = None) -> Count:
    """Return a counter that reports to the current callback."""
    return Count(_callback.get(), what, unit, total)


def find_length(items: Iterable[object]) -> int | None:
    """Return the number of items, or None if it is not known in advance."""
    return len(items) if isinstance(items, Sized) else None


def track(items: Iterable[T], what: str, unit: str, *, total: int | None = None) -> Iterator[T]:
    """Yield the items and report each one."""
    done = count(what, unit, total)
    for each in items:
        done.add(1)
        yield each


_BAR_CELLS = 20
_RATE_SECONDS = 1.0
"""Minimum duration for a meaningful rate."""
_MOST_DONE = 0.75
"""Fraction of completed tasks from which on stragglers are counted."""
_LONGER = 1.5
"""A running task is a straggler after this multiple of the usual duration."""


@dataclass(frozen=True, slots=True)
class Step:
    """Progress of a step."""

    what: str
    done: int
    total: int | None
    """None if unknown."""
    seconds: float
    """Elapsed time."""
    amounts: Mapping[str, int] = field(default_factory=dict)
    """Totals of all tasks: files, chunks, bytes."""
    retries: int = 0
    stragglers: int = 0
    unit: str = "tasks"
    """Unit of `done` and `total`."""


def render_step(step: Step) -> str:
    """Render a step as one line: bar, counts, rate, elapsed and remaining time, retries, stragglers."""
    parts = [*_render_count(step), render_time(step.seconds)]
    share = _find_share(step)
    if 0 < share < 1:
        parts.append(f"{render_time(step.seconds * (1 - share) / share)} left")
    if step.retries:
        parts.append(f"{step.retries} tried again")
    if step.stragglers:
        parts.append(f"{step.stragglers} slow")
    return "  ".join(parts)


def _render_count(step: Step) -> Iterator[str]:
    if step.total is None:
        yield f"{step.what}  {step.done:,} {step.unit}{_render_rate(step.done, step)}"
        return
    share = _find_share(step)
    cells = int(share * _BAR_CELLS)
    yield f"{step.what} {'━' * cells}{'─' * (_BAR_CELLS - cells)}"
    rate = "" if step.unit == "tasks" else _render_rate(step.done, step)
    yield f"{step.done:,}/{step.total:,} {step.unit}{rate}"
    for name, amount in step.amounts.items():
        yield _render_amount(name, amount, share, step)


def _find_share(step: Step) -> float:
    """Return the completed fraction; 0 if the total is unknown."""
    if step.total is None:
        return 0.0
    return step.done / step.total if step.total else 1.0


def _render_rate(done: int, step: Step, show: Callable[[float], str] = "{:,.0f}".format) -> str:
    """Render the rate per second with a leading space; empty during the first second."""
    if step.seconds < _RATE_SECONDS:
        return ""
    return f" {show(done / step.seconds)}/s"


def _render_amount(name: str, amount: int, share: float, step: Step) -> str:
    """Render the estimated completed amount and its rate."""
    done = int(amount * share)
    if name == "bytes":
        return f"{show_bytes(done)}/{show_bytes(amount)}{_render_rate(done, step, show_bytes)}"
    return f"{done:,}/{amount:,} {name}{_render_rate(done, step)}"


def render_time(seconds: float) -> str:
    """Format a duration as minutes and seconds, with hours if any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def count_stragglers(
    done: int, total: int, running: int, seconds: float, quiet_seconds: float, slots: int
) -> int:
    """Return the number of running tasks that take much longer than the completed ones did.

    `quiet_seconds` is the time since the last task ended, `slots` the number of concurrent tasks.
    """
    if not done or done < _MOST_DONE * total:
        return 0
    usual = (seconds - quiet_seconds) * max(1, slots) / done
    return running if quiet_seconds > _LONGER * usual else 0


class Display(Protocol):
    """Displays the progress of consecutive steps."""

    def show(self, step: Step) -> None:
        """Update the display; a new name starts a new step."""

    def close(self) -> None:
        """Finish the display, leaving its output in place."""


class Silent:
    """Display without output."""

    def show(self, step: Step) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class OnTerminal:
    """Display with one line per step, updated in place on a terminal, else written when a step ends."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_live = stream.isatty()
        self._last: Step | None = None

    def show(self, step: Step) -> None:
        """Rewrite the line of a step."""
        if self._last is not None and self._last.what != step.what:
            self._end()
        self._last = step
        if self._is_live:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[2K{render_step(step)[:width]}")
            self._stream.flush()

    def close(self) -> None:
        """End the last line."""
        self._end()

    def _end(self) -> None:
        if self._last is not None:
            self._stream.write("\n" if self._is_live else render_step(self._last) + "\n")
            self._stream.flush()
        self._last = None


class InNotebook:
    """Display below the running notebook cell, with one line per step."""

    def __init__(self, display: Callable[..., Any], make_html: Callable[[str], Any]) -> None:
        self._make_html = make_html
        self._lines: dict[str, str] = {}
        self._handle = display(make_html(""), display_id=True)

    def show(self, step: Step) -> None:
        """Rewrite the line of a step."""
        self._lines[step.what] = render_step(step)
        text = escape("\n".join(self._lines.values()))
        self._handle.update(self._make_html(f"<pre>{text}</pre>"))

    def close(self) -> None:
        """Do nothing: the output stays."""


def open_display(wanted: bool | None) -> Display:
    """Return the display for `wanted`; by default silent unless in a notebook or on a terminal."""
    is_notebook = _runs_in_kernel()
    if wanted is False or (wanted is None and not (is_notebook or sys.stderr.isatty())):
        return Silent()
    if is_notebook:
        shown = import_module("IPython.display")
        return InNotebook(shown.display, shown.HTML)
    return OnTerminal(sys.stderr)


def _runs_in_kernel() -> bool:
    """Return whether a kernel runs this program; other programs may have imported its package, too."""
    find_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return "ipykernel" in sys.modules and find_shell is not None and find_shell() is not None
