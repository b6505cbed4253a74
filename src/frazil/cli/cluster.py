"""Where the job of a command runs, by its options `--master` and `--progress`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer

from frazil.errors import IcechunkError, SetupError
from frazil.watching import watched_by

_STANDARD_ERROR = 2

Master = Annotated[
    str | None, typer.Option("--master", help="Spark's master; without it, this machine.")
]
Progress = Annotated[bool, typer.Option(help="Show a bar while it runs.")]
Spark = Annotated[bool, typer.Option("--spark", help="Run on Spark, not in this process.")]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Spark, which is an extra and is loaded when it is needed."""

    master: str | None = None
    shows_progress: bool = False
    is_debug: bool = False

    def session(self) -> Any:
        """The session that runs, or a new one, whose log nobody sees unless to debug."""
        jobs = load_spark()
        sessions = import_module("pyspark.sql").SparkSession
        if self.is_debug or sessions.getActiveSession() is not None:
            return jobs.session(master=self.master)
        with TemporaryFile() as log:
            try:
                with redirected_errors(log.fileno()):
                    return jobs.session(master=self.master)
            except IcechunkError:
                raise
            except Exception as error:
                log.seek(0)
                raise SetupError(
                    explain_start(error, log.read().decode(errors="replace"))
                ) from error

    def run(self, name: str, *arguments: Any, **options: Any) -> Any:
        """The report of a job of `frazil.spark`, on Spark."""
        session = self.session()
        with watched_by(None):  # a job has a display of its own
            return getattr(load_spark(), name)(session, *arguments, job=self.job(), **options)

    def run_here(self, name: str, *arguments: Any, **options: Any) -> Any:
        """The same in this process."""
        job = getattr(load_spark(), name)
        with watched_by(None):
            return job(None, *arguments, job=self.job(), run_on="driver", **options)

    def is_wanted(self, spark: bool) -> bool:
        """Whether somebody asks for Spark, or for a master of it."""
        return spark or self.master is not None

    def job(self) -> Any:
        """How far it is, and how to stop it."""
        return load_spark().Job(progress=self.shows_progress)


@contextmanager
def redirected_errors(descriptor: int) -> Iterator[None]:
    """Let processes that are started meanwhile, as Java is, keep another standard error.

    Spark warns there of its own start, and Python workers tell of pipes that a query closes early.
    """
    sys.stderr.flush()
    own = os.dup(_STANDARD_ERROR)
    os.dup2(descriptor, _STANDARD_ERROR)
    try:
        yield
    finally:
        os.dup2(own, _STANDARD_ERROR)
        os.close(own)


def explain_start(error: Exception, log: str) -> str:
    """Say why Spark did not start: by what it raised, or else by the end of its log."""
    raised = [line.partition("Exception: ")[2] for line in str(error).splitlines()]
    logged = [line.strip() for line in log.splitlines() if line.strip()]
    reason = next(filter(None, raised), None) or (logged or [str(error)])[-1]
    return f"Spark did not start: {reason} (--debug shows all that it says)"


def load_spark() -> Any:
    """The jobs on Spark, which are an extra."""
    # Before all that it needs: by other packages that are missing another extra would be advised.
    import_module("pyspark")
    return import_module("frazil.spark")
