"""Requests at a rate that others can bear."""

import threading
import time


class Pace:
    """Lets the threads of a process through one after the other, evenly."""

    def __init__(self, per_second: float | None) -> None:
        self._seconds = 0.0 if per_second is None else 1 / per_second
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Come back when it is one's turn; at once where no rate was given."""
        if self._seconds:
            time.sleep(self.take_turn(time.monotonic()))

    def take_turn(self, now: float) -> float:
        """How many seconds it is until one's turn."""
        with self._lock:
            turn = max(now, self._next)
            self._next = turn + self._seconds
        return turn - now
