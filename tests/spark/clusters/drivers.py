"""Drivers from outside: one Java each, started, told what to call, ended or killed."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from tests.spark.clusters.processes import PATIENCE_SECONDS, QUICK_JAVA, kill_group

ROOT = Path(__file__).parents[3]

QUICK_START = {
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}


class Driver:
    """A process with a session of Spark."""

    def __init__(
        self, master: str, log: Path, environment: Mapping[str, str], config: Mapping[str, str]
    ) -> None:
        self.log = log
        self._session = master, dict(config)
        self._environment = {**os.environ, **environment}
        self._start()

    def _start(self) -> None:
        self._connection, theirs = Pipe()
        with self.log.open("ab") as out, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.clusters.driver", str(theirs.fileno())],
                cwd=ROOT,
                env=self._environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._connection.send(self._session)
        self._answer()

    def call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """What a function of this or another importable module gives for the session and these."""
        self.begin(function, *arguments)
        return self._answer()

    def begin(self, function: Callable[..., Any], *arguments: object) -> None:
        """Start a call; `end` waits for it. A driver that has died is started anew."""
        if self._process.poll() is not None:
            self._start()
        self._connection.send((function, arguments))

    def end(self) -> Any:
        """What the call gives that was begun; raises what it raises."""
        return self._answer()

    def wait_for_its_death(self) -> None:
        """Return when the driver has killed itself."""
        with contextlib.suppress(EOFError, ConnectionResetError):
            raise AssertionError(f"the driver lives, and says {self._answer()}")
        assert self._process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
        kill_group(self._process)

    def _answer(self) -> Any:
        if not self._connection.poll(PATIENCE_SECONDS):
            raise AssertionError(f"no answer: {self.log.read_text()[-4000:]}")
        is_value, value = self._connection.recv()
        if not is_value:
            raise value
        return value

    def stop(self) -> None:
        """End the session, or the process if it does not."""
        self._connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        kill_group(self._process)


@contextlib.contextmanager
def driver(
    master: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    config: Mapping[str, str] | None = None,
) -> Iterator[Driver]:
    """A driver that is gone at the end of the block."""
    own = {} if master.startswith("sc://") else QUICK_START
    running = Driver(master, folder / "driver.log", environment or {}, {**own, **(config or {})})
    try:
        yield running
    finally:
        running.stop()
