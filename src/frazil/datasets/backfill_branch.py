"""Fill a part of the axis on a branch of its own, beside live runs."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from frazil.datasets.cycle import Cycle
from frazil.datasets.dataset_file import load
from frazil.datasets.declaration import Declaration
from frazil.datasets.guards import Version, find_drift, read_version
from frazil.datasets.opened_dataset import Opened
from frazil.datasets.publication import BACKFILL, new_run_id, publish
from frazil.datasets.steps import expand, find_placeholders, in_utc
from frazil.display import Item, Listed, Table
from frazil.errors import ConflictError, InvalidInputError, RefNotFoundError
from frazil.spark.ingestion.discovery import SourceFile, list_files, tabulate
from frazil.spark.ingestion.ledger import subtract
from frazil.virtual.source import SourceHeader

log = logging.getLogger("frazil.datasets")


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class BackfillReport(Listed):
    """Result of a backfill.

    Attributes
    ----------
    branch
        Branch of the backfill.
    snapshot_id
        Published snapshot; None if it was not published.
    files, known
        Number of files that this call ingested, and that were there.
    commits
        Number of commits to the branch.
    waiting, left_out
        Files that were not ingested, with the reason.
    problems
        Reasons for which it was not published.
    seconds
        Duration.
    """

    branch: str
    snapshot_id: str | None = None
    files: int = 0
    known: int = 0
    commits: int = 0
    waiting: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 12 if files were left out, 13 if it was refused."""
        if self.problems:
            return 13
        return 12 if self.left_out else 0

    def shown_items(self) -> Iterator[Item]:
        """Yield the items with a value."""
        for name in ("branch", "snapshot_id", "files", "known", "commits", "seconds"):
            if (value := getattr(self, name)) is not None:
                yield Item(name.replace("_", " "), value)
        for name in ("waiting", "left_out"):
            if rows := tuple(getattr(self, name).items()):
                title = name.replace("_", " ")
                yield Item(title, Table((title, "why"), rows))
        for each in self.problems:
            yield Item("problem", each)


def backfill(
    dataset: str | Path | Mapping[str, Any] | Declaration,
    first: datetime,
    last: datetime,
    *,
    files_per_commit: int = 1000,
    publish_it: bool = True,
    spark: Any = None,
    progress: bool | None = False,
    now: Callable[[], datetime] | None = None,
) -> BackfillReport:
    """Fill a part of the axis on a branch of its own, then publish it.

    Live runs go on meanwhile. What both changed is merged: no file of either is lost, and a file that
    both ingested is as the live run ingested it. A backfill that is killed goes on where it was when
    it is called again.

    Parameters
    ----------
    dataset
        Path of a declaration, a mapping of its fields, or a `Declaration`.
    first, last
        First and last step to fill, inclusive.
    files_per_commit
        Maximum number of files of one commit to the branch.
    publish_it
        Whether to publish at the end; otherwise the branch is left to look at, and the next call
        publishes it.
    spark
        Session that runs large parts.
    progress
        Display progress.
    now
        Function that returns the time. Default: the clock.

    Returns
    -------
    BackfillReport
        Files, commits and the published snapshot.

    Raises
    ------
    InvalidInputError
        If the declaration has no regular steps, or files can't be told by step without opening them.

    Examples
    --------
    >>> backfill("dataset.toml", datetime(2020, 1, 1), datetime(2020, 12, 31))
    """
    begun, declaration = time.monotonic(), load(dataset)
    first, last = in_utc(first), in_utc(last)
    patterns, is_kept = find_files(declaration, first, last)
    opened = Opened.open(declaration, create=True)
    repository = opened.repository
    branch = f"{BACKFILL}{first:%Y%m%dT%H%M}-{last:%Y%m%dT%H%M}"
    if branch not in repository.list_branches():
        repository.create_branch(branch, repository.lookup_branch(declaration.branch))
    base = _find_base(opened, branch)
    clock = now or (lambda: datetime.now(UTC))
    cycle = Cycle(opened, new_run_id(), clock, spark, progress)
    problems = tuple(text for _, text in find_drift(declaration, base))
    published = opened.read_published()
    found = [e for e in list_files(opened.discover(patterns, published)) if is_kept(e)]
    version = read_version(repository.readonly_session(branch), declaration)
    # Live runs may have ingested some of the files since the branch was made.
    live = subtract(tabulate(found), published.ledger, declaration.group)
    work = subtract(tabulate(live.files), version.ledger, declaration.group)
    done = commits = 0
    held: list[SourceFile] = []
    for batch in _cut(work.files, files_per_commit) if not problems else ():
        # A step that is cut by the batches waits for the rest of its files.
        cycle.waiting.clear()
        files = [*held, *batch]
        report = cycle.ingest_files(branch, files, version)
        version = read_version(repository.readonly_session(branch), declaration)
        held = [each for each in files if each.location in cycle.waiting]
        if report is not None:
            commits += 1
            done += len(report.files)
            log.info("backfilled", extra={"branch": branch, "files": done, "of": len(work.files)})
    snapshot = None
    if publish_it and not problems:
        snapshot = _publish(opened, cycle, branch, base, found)
    return BackfillReport(
        branch=branch,
        snapshot_id=snapshot,
        files=done,
        known=len(found) - len(work.files),
        commits=commits,
        waiting=dict(sorted(cycle.waiting.items())),
        left_out=dict(sorted(cycle.left_out.items())),
        problems=problems,
        seconds=round(time.monotonic() - begun, 3),
    )


def _publish(
    opened: Opened, cycle: Cycle, branch: str, base: Version, files: Sequence[SourceFile]
) -> str | None:
    """Publish the branch and delete it; None if there was nothing to publish."""
    repository, declaration = opened.repository, opened.declaration
    if repository.lookup_branch(branch) == base.snapshot_id:
        repository.delete_branch(branch)
        return None
    try:
        snapshot = publish(repository, declaration, branch, base, cycle.accept_merged)
    except ConflictError:
        # Positions moved meanwhile, as on an axis without regular steps: ingest on top of that.
        _, published = cycle.publish_files(files)
        snapshot = published or repository.lookup_branch(declaration.branch)
    repository.delete_branch(branch)
    return snapshot


def find_files(
    declaration: Declaration, first: datetime, last: datetime
) -> tuple[list[str], Callable[[SourceFile], bool]]:
    """Return the patterns of the files of some steps, and a condition that such a file meets."""
    growing, steps = declaration.growing, declaration.steps
    if growing is None or steps is None:
        raise InvalidInputError("a backfill needs a first dimension with start and step")
    if first > last:
        raise InvalidInputError(f"the first step {first} is after the last one {last}")
    moments = steps.between(first, last)
    if not moments:
        raise InvalidInputError(
            f"the axis has no step from {first.isoformat()} to {last.isoformat()}"
        )
    coordinate = declaration.dimensions[growing].coordinate
    is_by_path = coordinate is not None and coordinate.path is not None
    patterns = []
    for each in declaration.sources.files:
        if not find_placeholders(each) and not is_by_path:
            raise InvalidInputError(
                f"{each!r} does not tell which files belong to a step: name it in the pattern, as in "
                f"{{{growing}:%Y%m%d}}, or declare the coordinate from the path"
            )
        patterns += [declaration.resolve(name) for name in expand(each, growing, moments)]
    if not is_by_path:
        return patterns, lambda _: True
    assert coordinate is not None
    read = coordinate.to_function()

    def is_kept(file: SourceFile) -> bool:
        header = cast("SourceHeader", SimpleNamespace(location=file.location))
        try:
            value = read(header)
        except InvalidInputError:
            return False
        return isinstance(value, datetime) and first <= in_utc(value) <= last

    return patterns, is_kept


def _find_base(opened: Opened, branch: str) -> Version:
    """Return the published version that a branch begins at."""
    repository, declaration = opened.repository, opened.declaration
    published = {each.id for each in repository.ancestry(branch=declaration.branch)}
    for each in repository.ancestry(branch=branch):
        if each.id in published:
            session = repository.readonly_session(snapshot_id=each.id)
            return read_version(session, declaration)
    raise RefNotFoundError(
        f"branch {branch!r} has no common ancestor with {declaration.branch!r}: delete it"
    )


def _cut(files: Sequence[SourceFile], size: int) -> Iterator[Sequence[SourceFile]]:
    for at in range(0, len(files), size):
        yield files[at : at + size]
