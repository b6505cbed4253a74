"""Derive datasets and keep them in step with their source: `frazil.spark.derive`."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from frazil.arguments import verb
from frazil.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    ObjectNotFoundError,
    RebaseFailedError,
)
from frazil.repository.conflicts import ConflictDetector
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.spark.arrays.derivation import (
    STATE,
    Derivation,
    LastRun,
    find_last_run,
    refuse_other_declaration,
)
from frazil.spark.arrays.derived_arrays import Deriving
from frazil.spark.arrays.reduction import PARTIALS
from frazil.spark.job import METRICS, CommitReport, Job, SparkSession
from frazil.spark.regions import path_of, save_rules
from frazil.spark.transaction import AnyRepository, CommitRun, committing, find_repository
from frazil.storage.memory import MemoryStorage
from frazil.tables.change_feed import CommitRange, find_changes
from frazil.virtual.access import Authorize

_TRIES = 5
"""Maximum plans, after runs of the same derivation that committed meanwhile."""
_KEEP_VALUES = frozenset({"analyze", "compact", "materialize", "rewrite_manifests"})
"""Jobs that may write to a derived group, because they change no values."""


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class DeriveReport(CommitReport):
    """Result of a derivation; a `CommitReport` with these fields.

    Attributes
    ----------
    output
        Group of the derived dataset.
    source_snapshot_id
        Snapshot of the source that the derived dataset is in step with.
    is_full
        True if everything was computed; `notes` say why.
    elements
        Number of elements computed.
    """

    output: str
    source_snapshot_id: str
    is_full: bool = False
    elements: int = 0


class _OvertakenError(Exception):
    """Another run of the same derivation committed first."""


@verb(job=Job)
def derive(
    repo: AnyRepository,
    what: Derivation,
    *,
    target: AnyRepository | None = None,
    branch: str = "main",
    source_branch: str | None = None,
    rebuild: bool = False,
    authorize: Authorize = (),
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> DeriveReport:
    """Derive a dataset from another, and after changes of the source only what they affect.

    The metadata of the commit names the snapshot of the source and the declaration. The next run
    compares that snapshot with the newest one, and computes the elements that depend on what differs.
    The result equals that of computing everything again; sums, means and standard deviations of
    floats over dimensions other than time up to rounding.

    Parameters
    ----------
    repo
        Repository of the source, or its location.
    what
        Declaration of the derived dataset.
    target
        Repository to write to. Default: that of the source.
    source_branch
        Branch of the source. Default: that of the same name.
    rebuild
        Compute everything, also for a declaration that has changed.

    Returns
    -------
    DeriveReport
        `snapshot_id` is None if the derived dataset was in step already.

    Raises
    ------
    AlreadyExistsError
        If the group exists, but was not derived; unless `rebuild`.
    ConflictError
        If others have written to the derived group since the last run; unless `rebuild`.
    InvalidInputError
        If the declaration does not fit the source, or has changed; the latter unless `rebuild`.

    Examples
    --------
    >>> derive(repo, Derivation(output="by-place", chunks={"time": 1000, "lat": 10, "lon": 10}))
    """
    source = find_repository(repo).authorize(authorize)
    with committing("derive", source if target is None else target, branch, job, spark) as run:
        run.job.inputs.append(f"{source.storage.place}@{source_branch or branch}")
        if isinstance(source.storage, MemoryStorage):
            # Tasks can't reach it.
            run.storage = source.storage
        for _ in range(_TRIES):
            try:
                return _attempt(
                    run, what, source, source_branch or branch, message, metadata,
                    is_same=target is None, full="rebuild" if rebuild else "",
                )  # fmt: skip
            except _OvertakenError:
                run.notes.append("planned again after another run of this derivation")
    raise ConflictError(f"other runs derived {path_of(what.output)} meanwhile {_TRIES} times")


def _attempt(
    run: CommitRun,
    what: Derivation,
    source: Repository,
    source_branch: str,
    message: str | None,
    metadata: Mapping[str, Any] | None,
    *,
    is_same: bool,
    full: str,
) -> DeriveReport:
    """Plan, write and commit once; `full` is the reason to compute everything, if there is one."""
    output, declaration = path_of(what.output), what.describe()
    session = run.open_session()
    is_here = is_same and source_branch == run.branch
    tip = session.snapshot_id if is_here else source.lookup_branch(source_branch)
    new = source.readonly_session(snapshot_id=tip)
    found = find_last_run(run.repository.ancestry(snapshot_id=session.snapshot_id), output)
    last = found if session.state.view.find_node(output) is not None else None
    old = None
    if not full and last is None:
        if session.state.view.find_node(output) is not None:
            raise AlreadyExistsError(
                f"{output} exists already and was not derived: choose another output, or replace it "
                "with rebuild=True"
            )
        full = "first run"
    if not full and last is not None:
        refuse_other_declaration(last, declaration)
        _refuse_edits(run.repository, last.commit, session, output)
        try:
            old = source.readonly_session(snapshot_id=last.source_snapshot)
        except (NotFoundError, ObjectNotFoundError):
            full = f"the source no longer has the snapshot {last.source_snapshot} of the last run"
    done = Deriving(run, what, session, new, old)
    try:
        if old is None or old.snapshot_id != new.snapshot_id:
            done.derive()
    except (NotFoundError, ObjectNotFoundError):
        if old is None:
            raise
        # Garbage collection may have taken some of its files.
        reason = f"the snapshot {old.snapshot_id} of the last run can't be read"
        return _attempt(
            run, what, source, source_branch, message, metadata, is_same=is_same, full=reason
        )
    if full:
        run.notes.append(f"computed everything: {full}")
    report = DeriveReport.of(
        run.report(session), output=output, source_snapshot_id=new.snapshot_id, is_full=old is None,
        elements=done.elements,
    )  # fmt: skip
    run.job.refuse_if_cancelled()
    if not session.has_uncommitted_changes:
        return report
    state = {
        "output": output, "source": source.storage.place, "source_branch": source_branch,
        "source_snapshot": new.snapshot_id, "declaration": declaration, "is_full": old is None,
    }  # fmt: skip
    save_rules(run.repository, session.state.context.config)
    entries = {**(metadata or {}), STATE: state, METRICS: {**report.metrics(), **run.figures}}
    return report.committed_as(
        _commit(run.repository, session, found, output, message or f"derive {output}", entries)
    )


def _commit(
    repository: Repository,
    session: Session,
    last: LastRun | None,
    output: str,
    message: str,
    entries: dict[str, Any],
) -> str:
    """Commit over what others committed; raise _OvertakenError if they wrote the derived group."""
    while True:
        try:
            return session.commit(message, entries)
        except ConflictError:
            base = session.snapshot_id
            try:
                session.rebase(ConflictDetector())
            except RebaseFailedError as error:
                raise _OvertakenError from error
            if find_last_run(repository.ancestry(snapshot_id=session.snapshot_id), output) != last:
                raise _OvertakenError from None
            # Edits of other chunks than ours don't conflict, but would stay unnoticed.
            _refuse_edits(repository, base, session, output)


def _refuse_edits(repository: Repository, since: str, session: Session, output: str) -> None:
    """Raise ConflictError if others changed values of the derived group after a snapshot."""
    own = (output, f"{PARTIALS}{output}")
    views = repository.readonly_session(snapshot_id=since).state.view, session.state.view
    before, after = ([*chain(*map(view.descendants, own))] for view in views)
    if before == after:
        return
    for commit in CommitRange(repository, since, session.snapshot_id).list():
        job = repository.lookup_snapshot(commit.id).metadata.get(METRICS)
        if isinstance(job, Mapping) and job.get("job") in _KEEP_VALUES:
            continue
        for change in find_changes(session.state.context.protocol, commit):
            if f"{change.path}/".startswith(tuple(f"{path}/" for path in own)):
                raise ConflictError(
                    message=f"{change.path} was changed by the commit {commit.id} ({commit.message!r})"
                    f", and not by derive: derive {output} again with rebuild=True"
                )
