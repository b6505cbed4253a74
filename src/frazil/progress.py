"""Progress of long work: callbacks, and lines on a terminal or in a notebook."""

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import Any, Protocol, TextIO, TypeVar

from frazil.display import show_bytes

T = TypeVar("T")


class ProgressCallback(Protocol):
    """Is told of every step."""

    def show(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Take note of how far a step is; nobody may know how much there is in total."""


_watcher: ContextVar[ProgressCallback | None] = ContextVar("frazil_watcher", default=None)


@contextmanager
def on_progress(watcher: ProgressCallback | None) -> Iterator[None]:
    """Let somebody watch what is done meanwhile, or nobody."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


class Count:
    """How many are done of a step."""

    def __init__(
        self, watcher: ProgressCallback | None, what: str, unit: str, total: int | None
    ) -> None:
        self._watcher = watcher
        self._what, self._unit, self._total = what, unit, total
        self._done = 0

    def add(self, more: int) -> None:
        """Tell that more are done."""
        if self._watcher is not None:
            self._done += more
            self._watcher.show(self._what, self._done, self._total, self._unit)


def count(what: str, unit: str, total: int | None = None) -> Count:
    """A count of what is done, which whoever watches now is told of."""
    return Count(_watcher.get(), what, unit, total)


def find_length(items: Iterable[object]) -> int | None:
    """How many there are, if that can be known before."""
    return len(items) if isinstance(items, Sized) else None


def watch(items: Iterable[T], what: str, unit: str, *, total: int | None = None) -> Iterator[T]:
    """The items, each of which is told of when it is there."""
    done = count(what, unit, total)
    for each in items:
        done.add(1)
        yield each


_BAR_CELLS = 20
_RATE_SECONDS = 1.0
"""A rate over a shorter time would be one of nothing, such as terabytes a second."""
_MOST_DONE = 0.75
"""When so many tasks are done, the others are waited for."""
_LONGER = 1.5
"""A task that takes so many times as long as others is a straggler."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far a step is."""

    what: str
    done: int
    total: int | None
    """None if nobody knows."""
    seconds: float
    """Since it began."""
    amounts: Mapping[str, int] = field(default_factory=dict)
    """What all its tasks come to: files, chunks, bytes."""
    retries: int = 0
    stragglers: int = 0
    unit: str = "tasks"
    """What is counted."""


def render_step(step: Step) -> str:
    """A step as one line: a bar, what is done, how fast, how long it takes, and what goes wrong."""
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
    """Of what is done; nothing, if nobody knows."""
    if step.total is None:
        return 0.0
    return step.done / step.total if step.total else 1.0


def _render_rate(done: int, step: Step, show: Callable[[float], str] = "{:,.0f}".format) -> str:
    """How much is done a second, with a space before; nothing before that can be told."""
    if step.seconds < _RATE_SECONDS:
        return ""
    return f" {show(done / step.seconds)}/s"


def _render_amount(name: str, amount: int, share: float, step: Step) -> str:
    """About how much is done of something, and how much of it a second."""
    done = int(amount * share)
    if name == "bytes":
        return f"{show_bytes(done)}/{show_bytes(amount)}{_render_rate(done, step, show_bytes)}"
    return f"{done:,}/{amount:,} {name}{_render_rate(done, step)}"


def render_time(seconds: float) -> str:
    """A time as minutes and seconds, with hours where there are some."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def count_stragglers(
    done: int, total: int, running: int, seconds: float, quiet_seconds: float, slots: int
) -> int:
    """How many of the tasks that run take far longer than others did.

    `quiet_seconds` is how long none has ended, `slots` how many ran at once.
    """
    if not done or done < _MOST_DONE * total:
        return 0
    usual = (seconds - quiet_seconds) * max(1, slots) / done
    return running if quiet_seconds > _LONGER * usual else 0


class Display(Protocol):
    """Shows steps, one after the other."""

    def show(self, step: Step) -> None:
        """Say how far a step is; it is a new step if its name is."""

    def close(self) -> None:
        """Leave what was shown where it is."""


class Silent:
    """Shows nothing."""

    def show(self, step: Step) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class OnTerminal:
    """A line for each step, the last of which moves; elsewhere than on a terminal, lines at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_live = stream.isatty()
        self._last: Step | None = None

    def show(self, step: Step) -> None:
        """Write the line of a step anew."""
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
    """The lines of all steps below the cell that runs."""

    def __init__(self, display: Callable[..., Any], make_html: Callable[[str], Any]) -> None:
        self._make_html = make_html
        self._lines: dict[str, str] = {}
        self._handle = display(make_html(""), display_id=True)

    def show(self, step: Step) -> None:
        """Write the line of a step anew."""
        self._lines[step.what] = render_step(step)
        text = escape("\n".join(self._lines.values()))
        self._handle.update(self._make_html(f"<pre>{text}</pre>"))

    def close(self) -> None:
        """Leave them there."""


def open_display(wanted: bool | None) -> Display:
    """Lines, or nothing; unless it is said which, lines where somebody looks."""
    is_notebook = "ipykernel" in sys.modules
    if wanted is False or (wanted is None and not (is_notebook or sys.stderr.isatty())):
        return Silent()
    if is_notebook:
        shown = import_module("IPython.display")
        return InNotebook(shown.display, shown.HTML)
    return OnTerminal(sys.stderr)
