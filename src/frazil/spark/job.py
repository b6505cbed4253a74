"""One run of the pipeline: its name, its progress, and how to stop it."""

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from frazil.errors import JobCancelledError
from frazil.spark.progress import Display, open_display


@dataclass(slots=True)
class Tally:
    """What the tasks of a job came to so far."""

    tasks: int = 0
    retries: int = 0
    task_seconds: float = 0.0
    """Of all tasks together."""


class Job:
    """Hand one to a function of this package to watch it, or to stop it from another thread.

    A job that is cancelled raises JobCancelledError where it was started, and commits nothing.
    """

    def __init__(self, *, progress: bool | None = None) -> None:
        self.id = uuid.uuid4().hex
        self.tally = Tally()
        self._progress = progress
        self._display: Display | None = None
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._stop: Callable[[], None] | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked for the end."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Stop the tasks that run, and let none begin."""
        with self._lock:
            self._is_cancelled = True
            stop = self._stop
        if stop is not None:
            stop()

    def refuse_if_cancelled(self) -> None:
        """Raise JobCancelledError if somebody asked for the end."""
        if self._is_cancelled:
            raise JobCancelledError(f"the job {self.id} was cancelled; nothing was committed")

    def show(self, what: str, done: int, total: int) -> None:
        """Tell how far a step is."""
        if self._display is None:
            self._display = open_display(self._progress)
        self._display.show(what, done, total)

    def end(self) -> None:
        """Take the display away."""
        if self._display is not None:
            self._display.close()
            self._display = None

    def let_stop(self, stop: Callable[[], None] | None) -> None:
        """Say how what runs now is stopped; None when it has ended."""
        with self._lock:
            self._stop = stop
            is_late = self._is_cancelled and stop is not None
        if is_late and stop is not None:
            stop()
