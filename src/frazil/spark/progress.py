"""How far a job is, on a terminal or in a notebook."""

import sys
from typing import Protocol


class Display(Protocol):
    """Shows steps, one after the other."""

    def show(self, what: str, done: int, total: int) -> None:
        """Say how far a step is; it is a new step if its name is."""

    def close(self) -> None:
        """Leave what was shown where it is."""


class Silent:
    """Shows nothing."""

    def show(self, what: str, done: int, total: int) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Bars:
    """A bar for each step, with its rate and the time that is left."""

    def __init__(self) -> None:
        from rich import progress  # noqa: PLC0415 (an extra)

        self._bars = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
        )
        self._steps: dict[str, progress.TaskID] = {}
        self._bars.start()

    def show(self, what: str, done: int, total: int) -> None:
        """Move the bar of a step."""
        if what not in self._steps:
            self._steps[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._steps[what], completed=done, total=total)

    def close(self) -> None:
        """Stop moving."""
        self._bars.stop()


def open_display(wanted: bool | None) -> Display:
    """Bars, or nothing; unless it is said which, bars where somebody looks and `rich` is installed."""
    if wanted is False or (wanted is None and not _is_watched()):
        return Silent()
    try:
        return Bars()
    except ImportError:
        return Silent()


def _is_watched() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules
