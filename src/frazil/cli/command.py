"""Turn functions into commands, with the options that several of them share."""

from __future__ import annotations

import functools
import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

import frazil
from frazil.cli.terminal import INTERRUPTED, Output, explain, open_bars
from frazil.errors import IcechunkError, InvalidInputError, RepositoryNotFoundError, SetupError
from frazil.lazy import lazy_modules
from frazil.progress import on_progress
from frazil.urls import RepositoryUrl, SnapshotRef, parse_location

if TYPE_CHECKING:
    from frazil.repository import locate
    from frazil.repository.repository import Repository
    from frazil.repository.session import Session
else:
    (locate,) = lazy_modules(
        "frazil.repository.locate",
    )

_STANDARD_ERROR = 2

Master = Annotated[
    str | None, typer.Option("--master", help="Spark master; by default this machine.")
]
Progress = Annotated[bool, typer.Option(help="Show the progress.")]
Spark = Annotated[bool, typer.Option("--spark", help="Run on Spark, not in this process.")]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Spark, which is an extra and is loaded when it is needed."""

    master: str | None = None
    shows_progress: bool = False
    is_debug: bool = False

    def session(self) -> Any:
        """Return the running Spark session, or start one; show its log only to debug."""
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
        """Run a job of `frazil.spark` on Spark and return its report."""
        session = self.session()
        with on_progress(None):  # a job has a display of its own
            return getattr(load_spark(), name)(*arguments, job=self.job(), spark=session, **options)

    def run_here(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Run a job of `frazil` in this process and return its report."""
        with on_progress(None):
            return getattr(frazil, name)(*arguments, job=self.job(), **options)

    def is_wanted(self, spark: bool) -> bool:
        """Return whether Spark is wanted: by its option, or by a master."""
        return spark or self.master is not None

    def job(self) -> Any:
        """Return the job that reports progress and can be stopped."""
        return frazil.spark.Job(progress=self.shows_progress)


@contextmanager
def redirected_errors(descriptor: int) -> Iterator[None]:
    """Let processes that are started meanwhile, as Java is, keep another standard error.

    Spark warns there of its own start, and Python workers report pipes that a query closes early.
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
    """Explain why Spark did not start: by its exception, or else by the end of its log."""
    raised = [line.partition("Exception: ")[2] for line in str(error).splitlines()]
    logged = [line.strip() for line in log.splitlines() if line.strip()]
    reason = next(filter(None, raised), None) or (logged or [str(error)])[-1]
    return f"Spark did not start: {reason} (--debug shows Spark's log)"


def load_spark() -> Any:
    """Import `frazil.spark`, which needs an extra."""
    # Before all that it needs: by other packages that are missing another extra would be advised.
    import_module("pyspark")
    return import_module("frazil.spark")


_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks and Spark's log.")]


def _option(name: str, annotation: Any, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


_OF_ALL = (_option("is_json", _Json, False), _option("is_debug", _Debug, False))
_OF_JOBS = (_option("master", Master, None), _option("progress", Progress, True))


def add_command(
    app: typer.Typer, name: str, function: Callable[..., None], panel: str | None = None
) -> None:
    """Make a function a command; its parameter `output` is where the answer goes.

    One with a parameter `cluster` runs a job, and has the options that say where and how.
    The section `Examples` of its docstring is shown as it is, below the options.
    """
    text, _, examples = (inspect.getdoc(function) or "").partition("\nExamples\n--------\n")
    epilog = "Examples:\n\n" + "\n\n".join(examples.strip().splitlines()) if examples else None
    add = app.command(name, help=text.strip(), epilog=epilog, rich_help_panel=panel)
    add(_wrap(function))


def _wrap(function: Callable[..., None]) -> Callable[..., None]:
    parameters = inspect.signature(function, eval_str=True).parameters
    runs_job = "cluster" in parameters
    own = [each for name, each in parameters.items() if name not in ("output", "cluster")]
    given = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
    options = [*given, *(_OF_JOBS if runs_job else ()), *_OF_ALL]

    @functools.wraps(function)
    def run(*, is_json: bool, is_debug: bool, **arguments: Any) -> None:
        shows_bars = not is_json and arguments.get("progress", True)
        output = Output(is_json, open_bars(is_wanted=shows_bars))
        if runs_job:
            master, progress = arguments.pop("master"), arguments.pop("progress")
            arguments["cluster"] = Cluster(master, progress and not is_json, is_debug)
        try:
            with on_progress(output.bars):
                function(**arguments, output=output)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            output.note("stopped; nothing was committed")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of our output has gone, as `head` does: not an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except Exception as error:
            if is_debug:
                raise
            failure = explain(error)
            output.fail(failure)
            raise typer.Exit(failure.code) from None
        finally:
            output.bars.close()

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in options}
    return run


Place = Annotated[str, typer.Argument(metavar="URL", help="URL or path of the repository.")]
Version = Annotated[
    str,
    typer.Argument(
        metavar="URL[@REF]", help="URL or path of the repository, with an optional version."
    ),
]
Branch = Annotated[str, typer.Option("--branch", "-b", help="The branch.")]
Message = Annotated[str | None, typer.Option("--message", "-m", help="Commit message.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be done.")]
Authorize = Annotated[
    list[str] | None,
    typer.Option(
        "--authorize",
        metavar="PREFIX",
        help="Authorize access to a virtual chunk container, with credentials from the environment;"
        " '*' for all that the repository declares.",
    ),
]

_MOST_OPTIONS = 3
"""A warning names no more containers."""


def open_place(url: str, authorize: Sequence[str] | None = None) -> Repository:
    """Open the repository at a URL that names no version."""
    try:
        repository = locate.open_repository(url)
    except RepositoryNotFoundError as error:
        raise RepositoryNotFoundError(f"there is no repository at {url}") from error
    return locate.authorize(repository, authorize or ())


def open_version(
    url: str, authorize: Sequence[str] | None = None
) -> tuple[Repository, Session, RepositoryUrl]:
    """Open a repository, and a session of the version that the URL names."""
    parsed = parse_location(url)
    place = RepositoryUrl(parsed.scheme, parsed.host, parsed.path, None, parsed.options)
    repository = open_place(str(place), authorize)
    return repository, locate.read_version(repository, parsed.ref), parsed


def warn_of_refusals(session: Session, output: Output) -> None:
    """Warn of containers that are not authorized, and name the options that authorize them."""
    refused = sorted(session.state.context.virtual.refused_prefixes)
    if not refused:
        return
    options = " ".join(f"--authorize {shlex.quote(each)}" for each in refused[:_MOST_OPTIONS])
    output.warn(
        "values of virtual chunks were not read, because their containers are not authorized:"
        f" run it again with {options}, or with --authorize '*' for all containers"
    )


def find_snapshot(repository: Repository, name: str) -> str:
    """Return the id of the snapshot that a branch, a tag or an id names."""
    found = parse_location(f"x@{name}").ref
    session = locate.read_version(repository, found or SnapshotRef(name))
    return str(session.snapshot_id)


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_moment(text: str, now: datetime | None = None) -> datetime:
    """Parse an age, such as `7d` or `12h`, or a time, such as `2026-01-31T12:00Z`."""
    found = _DURATION.fullmatch(text.strip())
    if found:
        age = timedelta(seconds=float(found[1]) * _SECONDS[found[2]])
        return (now or datetime.now(UTC)) - age
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(
            f"{text!r} is neither an age, such as 7d or 12h, nor a time, such as 2026-01-31T12:00Z"
        ) from error
    if moment.utcoffset() is None:
        raise InvalidInputError(
            f"{text!r} has no time zone: say {moment.isoformat(timespec='minutes')}Z for UTC"
        )
    return moment
