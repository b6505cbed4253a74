"""Turn functions into commands, with the options that several of them share."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from textwrap import indent
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import click
from click.exceptions import Abort, Exit

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


@dataclass(frozen=True, slots=True)
class About:
    """Description of an argument or option, in the annotation of a parameter."""

    help: str
    names: tuple[str, ...] = ()
    """Names of an option; by default that of the parameter."""
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    envvar: str | None = None
    is_argument: bool = False
    is_hidden: bool = False


def argument(*, metavar: str, help: str) -> About:
    """Describe an argument."""
    return About(help, metavar=metavar, is_argument=True)


def option(*names: str, help: str, **options: Any) -> About:
    """Describe an option: `metavar`, `min`, `max`, `envvar`, `is_hidden`."""
    return About(help, names, **options)


Master = Annotated[str | None, option("--master", help="Spark master; by default this machine.")]
Progress = Annotated[bool, option(help="Show the progress.")]
Spark = Annotated[bool, option("--spark", help="Run on Spark if the work is large.")]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Spark, which is an extra and is started when a job needs it."""

    output: Output
    master: str | None = None
    shows_progress: bool = False
    is_debug: bool = False

    def session(self) -> Any:
        """Return the running Spark session, or start one; show its log only to debug."""
        jobs = load_spark()
        if import_module("pyspark.sql").SparkSession.getActiveSession() is not None:
            return jobs.session(master=self.master)
        self.output.note(f"starting Spark on {self.master or 'this machine'}")
        if self.is_debug:
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
        """Run a job, on Spark if it is large or a master is given, and return its report."""
        # Where a master is given, the size of its cluster is part of the plan.
        session = self.session() if self.master is not None else None
        job = self.job()
        job.start_spark = self.session
        with on_progress(None):  # a job has a display of its own
            return getattr(frazil.spark, name)(*arguments, job=job, spark=session, **options)

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


_Json = Annotated[bool, option("--json", help="Print JSON.")]
_Debug = Annotated[bool, option("--debug", help="Show tracebacks and Spark's log.")]


def _option(name: str, annotation: Any, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


_OF_ALL = (_option("is_json", _Json, False), _option("is_debug", _Debug, False))
_OF_JOBS = (_option("master", Master, None), _option("progress", Progress, True))


def make_command(name: str, function: Callable[..., None]) -> click.Command:
    """Make a command of a function; its parameter `output` is where the answer goes.

    A function with a parameter `cluster` runs a job, and has the options that say where and how.
    The section `Examples` of its docstring is shown as it is, below the options.
    """
    parameters = inspect.signature(function, eval_str=True).parameters
    runs_job = "cluster" in parameters
    own = [each for name, each in parameters.items() if name not in ("output", "cluster")]
    options = [*own, *(_OF_JOBS if runs_job else ()), *_OF_ALL]
    text, _, examples = (inspect.getdoc(function) or "").partition("\nExamples\n--------\n")
    return click.Command(
        name,
        callback=_wrap(function, runs_job=runs_job),
        params=[_make_parameter(each) for each in options],
        help=text.strip() + _list_arguments(own),
        # After \b the lines are kept as they are.
        epilog=f"\b\nExamples:\n{indent(examples.strip(), '  ')}" if examples else None,
    )


def _list_arguments(parameters: Iterable[inspect.Parameter]) -> str:
    abouts = [get_args(each.annotation)[1] for each in parameters]
    rows = [(each.metavar, each.help) for each in abouts if each.is_argument]
    width = max((len(name) for name, _ in rows), default=0)
    lines = [f"  {name:<{width}}  {text}" for name, text in rows]
    return "\n".join(["\n\n\b\nArguments:", *lines]) if rows else ""


def _make_parameter(parameter: inspect.Parameter) -> click.Parameter:
    """Make an argument or an option of an annotated parameter."""
    name, default = parameter.name, parameter.default
    annotation, about = get_args(parameter.annotation)
    wanted = next((each for each in get_args(annotation) if each is not NoneType), annotation)
    kind = annotation if get_origin(annotation) in (list, Literal) else wanted
    is_required, is_many = default is inspect.Parameter.empty, get_origin(kind) is list
    type = _make_type(get_args(kind)[0] if is_many else kind, about)
    given: dict[str, Any] = {"required": is_required, "metavar": about.metavar, "type": type}
    if not is_required and default is not None:
        given["default"] = default
    if about.is_argument:
        return click.Argument([name], nargs=-1 if is_many else 1, **given)
    dashed = name.replace("_", "-")
    flag = f"--{dashed}/--no-{dashed}" if kind is bool else f"--{dashed}"
    return click.Option(
        [*(about.names or (flag,)), name],
        help=about.help,
        is_flag=kind is bool or None,
        multiple=is_many,
        envvar=about.envvar,
        hidden=about.is_hidden,
        show_default=kind is not bool and not is_required and default is not None,
        **given,
    )


def _make_type(kind: Any, about: About) -> Any:
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if about.min is not None and kind in (int, float):
        limits: dict[str, Any] = {"min": about.min, "max": about.max}
        return click.IntRange(**limits) if kind is int else click.FloatRange(**limits)
    return click.Path(path_type=Path) if kind is Path else kind


def _wrap(function: Callable[..., None], *, runs_job: bool) -> Callable[..., None]:
    def run(*, is_json: bool, is_debug: bool, **arguments: Any) -> None:
        shows_bars = not is_json and arguments.get("progress", True)
        output = Output(is_json, open_bars(is_wanted=shows_bars))
        if runs_job:
            master, progress = arguments.pop("master"), arguments.pop("progress")
            arguments["cluster"] = Cluster(output, master, progress and not is_json, is_debug)
        try:
            with on_progress(output.bars):
                function(**arguments, output=output)
        except (Exit, Abort):
            raise
        except KeyboardInterrupt:
            output.note("stopped; nothing was committed")
            raise Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of our output has gone, as `head` does: not an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except Exception as error:
            if is_debug:
                raise
            failure = explain(error)
            output.fail(failure)
            raise Exit(failure.code) from None
        finally:
            output.bars.close()

    return run


Place = Annotated[str, argument(metavar="URL", help="URL or path of the repository.")]
Version = Annotated[
    str,
    argument(metavar="URL[@REF]", help="URL or path of the repository, with an optional version."),
]
Branch = Annotated[str, option("--branch", "-b", help="The branch.")]
Message = Annotated[str | None, option("--message", "-m", help="Commit message.")]
Yes = Annotated[bool, option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, option("--dry-run", help="Only report what would be done.")]
Authorize = Annotated[
    list[str] | None,
    option(
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
    return repository.authorize(authorize or ())


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
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def parse_moment(text: str, now: datetime | None = None, *, takes_days: bool = False) -> datetime:
    """Parse an age, such as `7d` or `12h`, or a time, such as `2026-01-31T12:00Z`.

    Where nothing is deleted, a day begins at midnight UTC.
    """
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
    if takes_days and _DAY.fullmatch(text):
        return moment.replace(tzinfo=UTC)
    if moment.utcoffset() is None:
        raise InvalidInputError(
            f"{text!r} has no time zone: say {moment.isoformat(timespec='minutes')}Z for UTC"
        )
    return moment
