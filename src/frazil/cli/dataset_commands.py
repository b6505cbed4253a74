"""Commands that operate a declared dataset: new, plan, run, follow, backfill, status, validate."""

import signal
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

from click.exceptions import Exit

from frazil.cli.command import Cluster, argument, option, parse_moment
from frazil.cli.terminal import Output, clean, make_card
from frazil.display import render_plain
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.lazy import lazy_modules

if TYPE_CHECKING:
    from frazil.datasets import backfill_branch, cycle, publication, template, validation
else:
    backfill_branch, cycle, publication, template, validation = lazy_modules(
        "frazil.datasets.backfill_branch", "frazil.datasets.cycle", "frazil.datasets.publication",
        "frazil.datasets.template", "frazil.datasets.validation",
    )  # fmt: skip

Dataset = Annotated[Path, argument(metavar="DATASET", help="The declaration, dataset.toml.")]
_LogJson = Annotated[
    bool, option("--log-json", help="Write the log as JSON lines to standard error.")
]


def new(
    files: Annotated[list[str], argument(metavar="FILE...", help="A few sample files.")],
    *,
    repository: Annotated[str, option("--repository", metavar="URL", help="The repository.")],
    to: Annotated[Path, option("--to", help="File to write.")] = Path("dataset.toml"),
    group: Annotated[str, option(help="Group inside the files.")] = "",
    output: Output,
) -> None:
    """Write a declaration from a few sample files, to be read and changed.

    Examples
    --------
    frazil new archive/2026*.nc --repository s3://bucket/weather
    """
    if to.exists():
        raise AlreadyExistsError(f"{to} exists already")
    text = template.make_template(files, repository, group=group)
    to.write_text(text, encoding="utf-8")
    output.answer({"path": str(to), "text": text}, clean(text))
    output.note(f"written to {to}: look at it, then `frazil plan {to}`")


def plan(dataset: Dataset, *, output: Output) -> None:
    """Show what a run would do, and how the declaration differs from what is published.

    Exits with 13 if a run would be refused.

    Examples
    --------
    frazil plan dataset.toml
    """
    _answer(validation.plan(dataset), output)


def run(
    dataset: Dataset,
    *,
    until: Annotated[
        str | None,
        option(
            metavar="TIME",
            help="Deadline, such as 2h or 2026-01-31T12:00Z: repeat until the step that is due is"
            " complete.",
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        option(metavar="FILE", help="Look at these files, not at the declared ones."),
    ] = None,
    log_json: _LogJson = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Run one cycle: discover, ingest, validate, publish, derive, maintain.

    Exits with 0 if all is published, 12 if files were left out, 13 if guards or checks refused the
    version, 14 if the deadline passed.

    Examples
    --------
    frazil run dataset.toml
    frazil run dataset.toml --until 2h
    """
    _start_log(log_json)
    session = None if cluster.master is None else cluster.session()
    report = cycle.run(
        dataset,
        until=None if until is None else _parse_deadline(until),
        files=file or None,
        spark=session,
        progress=cluster.shows_progress,
    )
    _answer(report, output)


def follow(
    dataset: Dataset,
    *,
    every: Annotated[str, option(help="Pause between two cycles.")] = "1min",
    log_json: _LogJson = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Stay resident: run a cycle again and again, until it is stopped.

    Ctrl-C and a TERM signal end it after the cycle that runs.

    Examples
    --------
    frazil follow dataset.toml --every 30s --log-json
    """
    _start_log(log_json)
    session = None if cluster.master is None else cluster.session()
    stop = Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: stop.set())

    def show(report: Any) -> None:
        if report.outcome != "unchanged":
            output.answer(report, _lay_out(report))

    now = datetime.now(UTC)
    pause = now - parse_moment(every, now)
    cycle.follow(dataset, every=pause, stop=stop, spark=session, on_report=show)


def backfill(
    dataset: Dataset,
    *,
    first: Annotated[str, option("--from", metavar="TIME", help="First step.")],
    last: Annotated[str, option("--to", metavar="TIME", help="Last step, inclusive.")],
    files_per_commit: Annotated[
        int, option(min=1, metavar="N", help="Maximum files of one commit.")
    ] = 1000,
    publish: Annotated[bool, option(help="Publish at the end, or leave the branch.")] = True,
    log_json: _LogJson = False,
    cluster: Cluster,
    output: Output,
) -> None:
    """Fill a part of the axis on a branch of its own beside live runs, then publish it.

    A backfill that was stopped goes on where it was.

    Examples
    --------
    frazil backfill dataset.toml --from 2020-01-01 --to 2020-12-31
    """
    _start_log(log_json)
    report = backfill_branch.backfill(
        dataset,
        _parse_step(first),
        _parse_step(last),
        files_per_commit=files_per_commit,
        publish_it=publish,
        spark=None if cluster.master is None else cluster.session(),
        progress=cluster.shows_progress,
    )
    _answer(report, output)


def status(dataset: Dataset, *, output: Output) -> None:
    """Show how fresh and complete the published dataset is; no data is read.

    Exits with 14 if it is older than declared or empty, and with 13 if it differs from the declaration.

    Examples
    --------
    frazil status dataset.toml
    """
    _answer(validation.status(dataset), output)


def validate(
    dataset: Dataset,
    *,
    steps: Annotated[
        int | None, option(min=1, metavar="N", help="Number of steps whose values are read.")
    ] = None,
    replica: Annotated[
        str | None, option(metavar="URL", help="Repository that must be equal.")
    ] = None,
    output: Output,
) -> None:
    """Check what is published: structure, completeness, values of a sample, a replica.

    Exits with 13 if something is wrong.

    Examples
    --------
    frazil validate dataset.toml --steps 20
    """
    _answer(validation.validate(dataset, steps=steps, replica=replica), output)


def _answer(report: Any, output: Output) -> None:
    output.answer(report, _lay_out(report))
    if report.exit_code:
        raise Exit(report.exit_code)


def _lay_out(report: Any) -> Any:
    return make_card((item.name, render_plain(item.value)) for item in report.shown_items())


def _start_log(is_wanted: bool) -> None:
    if is_wanted:
        publication.log_as_json()


def _parse_deadline(text: str) -> datetime:
    """Parse a time from now, such as `2h`, or a time."""
    now = datetime.now(UTC)
    moment = parse_moment(text, now)
    is_age = moment < now and moment != _try_time(text)
    return now + (now - moment) if is_age else moment


def _try_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _parse_step(text: str) -> datetime:
    found = _try_time(text)
    if found is None:
        raise InvalidInputError(f"{text!r} is no time: write 2026-01-31 or 2026-01-31T12:00Z")
    return found
