"""One run of the pipeline: its name, its progress, and how to stop it."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from frazil.errors import JobCancelledError
from frazil.maintenance.leases import Lease, leased
from frazil.rendering.progress import Display, Step, count_stragglers, open_display
from frazil.storage import Storage


@dataclass(slots=True)
class Tally:
    """What the tasks of a job came to so far."""

    tasks: int = 0
    retries: int = 0
    task_seconds: float = 0.0
    """Of all tasks together."""


@dataclass(slots=True)
class _Watched:
    """What is known of a step that runs."""

    started_at: float = field(default_factory=time.monotonic)
    done: int = 0
    moved_at: float = field(default_factory=time.monotonic)
    """When the last task ended."""
    running: int = 0
    slots: int = 1
    failed: int = 0

    def move(self, done: int) -> None:
        """Note how many tasks are done; fewer than before are those of another round."""
        now = time.monotonic()
        if done < self.done:
            self.started_at = now
        if done != self.done:
            self.done, self.moved_at = done, now


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
        self._lease: Lease | None = None
        self._steps: dict[str, _Watched] = {}
        self._amounts: dict[str, dict[str, int]] = {}

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
        """Raise JobCancelledError if somebody asked for the end, LeaseLostError without a lease."""
        if self._is_cancelled:
            raise JobCancelledError(f"the job {self.id} was cancelled; nothing was committed")
        if self._lease is not None:
            self._lease.refuse_if_lost()

    @contextmanager
    def leasing(self, storage: Storage, name: str) -> Iterator[None]:
        """Hold a lease on a storage, so that nobody takes what the job writes for garbage."""
        if self._lease is not None:
            yield
            return
        with leased(storage, self.id, name) as self._lease:
            try:
                yield
            finally:
                self._lease = None

    def expect(self, what: str, **amounts: int) -> None:
        """Say what the tasks of a step come to: files, chunks, bytes."""
        self._amounts[what] = amounts

    def note(self, what: str, running: int, failed: int) -> None:
        """Say how many tasks of a step run, and how many were in vain."""
        step = self._steps.setdefault(what, _Watched())
        step.running, step.failed = running, failed
        step.slots = max(step.slots, running)

    def show(self, what: str, done: int, total: int) -> None:
        """Tell how far a step is."""
        if self._display is None:
            self._display = open_display(self._progress)
        self._display.show(self._describe(what, done, total))

    def _describe(self, what: str, done: int, total: int) -> Step:
        step = self._steps.setdefault(what, _Watched())
        step.move(done)
        now = time.monotonic()
        seconds, quiet = now - step.started_at, now - step.moved_at
        slow = count_stragglers(done, total, step.running, seconds, quiet, step.slots)
        retries = self.tally.retries + step.failed
        amounts = self._amounts.get(what, {})
        return Step(what, done, total, seconds, amounts, retries, slow if done < total else 0)

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
