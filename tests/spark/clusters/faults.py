"""Storages and jobs that do harm at a moment of their own choice."""

import os
import signal
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from pyspark import TaskContext

from frazil.spark import Job
from frazil.storage import Storage
from frazil.storage.wrappers import NO_FAULT, ForwardingStorage, Injection, Request, Verb

T = TypeVar("T")

WAIT_SECONDS = 120


class Moment(StrEnum):
    """When a driver dies."""

    BEFORE = "before the snapshot is written"
    BETWEEN = "between the snapshot and the branch"
    AFTER = "after the branch was moved"


def die() -> None:
    """End this process as the kernel ends those that take too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


class DiesAt(ForwardingStorage):
    """Kills the driver at a moment of its commit."""

    def __init__(self, inner: Storage, moment: Moment) -> None:
        super().__init__(inner)
        self._moment = moment
        self._driver = os.getpid()
        self._seen: set[str] = set()

    def _begin(self, request: Request) -> Injection:
        if not request.verb.is_write or os.getpid() != self._driver:
            return NO_FAULT
        kind = request.keys[0].split("/")[0]
        self._seen.add(kind)
        if kind == "snapshots" and self._moment == Moment.BEFORE:
            die()
        if (request.verb, kind) == (Verb.REPLACE, "repo") and "snapshots" in self._seen:
            if self._moment == Moment.BETWEEN:
                die()
            return Injection(finish=_die_with)
        return NO_FAULT


def _die_with(answer: T) -> T:
    die()
    return answer


class SlowAtFirst(ForwardingStorage):
    """Lets the first attempt of one task wait before it writes a manifest."""

    def __init__(self, inner: Storage, folder: Path) -> None:
        super().__init__(inner)
        self._folder = folder

    def _begin(self, request: Request) -> Injection:
        context = TaskContext.get()
        if context is None or not request.verb.is_write:
            return NO_FAULT
        if not request.keys[0].startswith("manifests/"):
            return NO_FAULT
        task, attempt = context.partitionId(), context.attemptNumber()
        (self._folder / f"{task}-{attempt}").touch()
        if attempt == 0 and _is_first(self._folder / "waits"):
            return Injection(delay_seconds=WAIT_SECONDS)
        return NO_FAULT


class FailsAtFirst(ForwardingStorage):
    """Fails to write manifests so many times."""

    def __init__(self, inner: Storage, folder: Path, times: int) -> None:
        super().__init__(inner)
        self._marks = [folder / f"failed-{number}" for number in range(times)]

    def _begin(self, request: Request) -> Injection:
        is_manifest = request.verb.is_write and request.keys[0].startswith("manifests/")
        if is_manifest and TaskContext.get() is not None and any(map(_is_first, self._marks)):
            raise OSError("not yet")
        return NO_FAULT


def _is_first(mark: Path) -> bool:
    """Whether nobody was here before."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Meanwhile(Job):
    """A job at whose step, when so many of its tasks are done, something else happens, once."""

    def __init__(
        self, step: str, happen: Callable[[], object], *, at_end: bool = False, **options: Any
    ) -> None:
        super().__init__(**options)
        self._step = step
        self._at_end = at_end
        self._happen: Callable[[], object] | None = happen

    def show(self, what: str, done: int, total: int) -> None:
        """Let it happen."""
        is_time = what == self._step and (done == total or not self._at_end)
        if is_time and self._happen is not None:
            happen, self._happen = self._happen, None
            happen()
        super().show(what, done, total)


def meet(folder: Path) -> None:
    """Tell that it is time, and wait until the other process says that it may go on."""
    (folder / "time").touch()
    wait_for(folder / "go")


def wait_for(mark: Path) -> None:
    """Return when there is a file."""
    end = time.monotonic() + WAIT_SECONDS
    while not mark.exists():
        assert time.monotonic() < end, f"{mark.name} did not come"
        time.sleep(0.05)
