"""How far a command is, on the terminal: nothing of what is done within a second."""

import sys
from time import monotonic

from frazil.rendering.progress import Display, OnTerminal, Silent, Step

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
