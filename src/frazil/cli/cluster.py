"""Where the job of a command runs, by its options `--master` and `--progress`."""

from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer

from frazil.watching import watched_by

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

    def run(self, name: str, *arguments: Any, **options: Any) -> Any:
        """The report of a job of `frazil.spark`, on Spark."""
        jobs = load_spark()
        session = jobs.session(master=self.master)
        with watched_by(None):  # a job has a display of its own
            return getattr(jobs, name)(session, *arguments, job=self.job(), **options)

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


def load_spark() -> Any:
    """The jobs on Spark, which are an extra."""
    # Before all that it needs: by other packages that are missing another extra would be advised.
    import_module("pyspark")
    return import_module("frazil.spark")
