"""Run one cycle of a dataset: discover, ingest, validate, publish, derive, maintain."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import lcm, prod
from pathlib import Path
from threading import Event
from typing import Any, Literal

import numpy as np
import zarr

from frazil.datasets.dataset_file import load
from frazil.datasets.declaration import Declaration
from frazil.datasets.guards import (
    Version,
    Violation,
    count_covered,
    find_drift,
    find_due,
    find_violations,
    read_version,
    show_moment,
)
from frazil.datasets.opened_dataset import Opened, list_patterns
from frazil.datasets.publication import auditing, new_run_id, notify, publish
from frazil.datasets.steps import in_utc
from frazil.display import Item, Listed, Table
from frazil.errors import (
    ConflictError,
    FailedChecksError,
    IcechunkError,
    InvalidInputError,
    InvalidSourcesError,
    SetupError,
)
from frazil.ops import UpdateType
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.spark.arrays.derive import DeriveReport, derive
from frazil.spark.ingestion.discovery import SourceFile, tabulate
from frazil.spark.ingestion.ingest_report import IngestReport
from frazil.spark.ingestion.ledger import subtract, write_ledger
from frazil.spark.ingestion.source_data import BadFile
from frazil.spark.job import Job
from frazil.spark.maintenance.gc_review import MaintenanceReport
from frazil.spark.maintenance.spark_gc import MaintenancePolicy, maintain
from frazil.storage.constructors import storage_from_url
from frazil.telemetry import observe
from frazil.urls import parse_location
from frazil.virtual.combine_plan import join

log = logging.getLogger("frazil.datasets")

Outcome = Literal["published", "unchanged", "incomplete", "refused", "stale", "failed"]
EXIT_CODES: Mapping[Outcome, int] = {
    "published": 0, "unchanged": 0, "incomplete": 12, "refused": 13, "stale": 14, "failed": 1,
}  # fmt: skip
"""Exit codes of `frazil run`, by outcome."""
_ROUNDS = 10
"""Maximum rounds of leaving files out."""
_REASON = 200
"""Maximum characters of the reason for which a file is left out."""


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class RunReport(Listed):
    """Result of one cycle.

    Attributes
    ----------
    outcome
        `published`, `unchanged`, `incomplete` (published or not, but files were left out), `refused`
        (by a guard or a check that no single file is the reason for), `stale` (the deadline passed).
    run
        Id of the run, also in the metadata of its commit.
    snapshot_id
        Published snapshot; None if nothing was published.
    files
        Files that were published.
    waiting
        Files that wait for others of their step, with the reason.
    left_out
        Files that can't be read, fail checks or break a guard, with the reason.
    problems
        Reasons for which nothing was published.
    newest, newest_complete
        Newest published step, and newest complete one.
    dropped
        Number of steps that retention dropped.
    derived, maintenance, notified
        What followed.
    ran_on
        `driver` or `spark`.
    chunks
        Number of chunks and references written.
    seconds
        Duration.
    """

    outcome: Outcome
    run: str
    snapshot_id: str | None = None
    files: tuple[str, ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    newest: str | None = None
    newest_complete: str | None = None
    dropped: int = 0
    derived: tuple[Any, ...] = ()
    maintenance: Any = None
    notified: tuple[str, ...] = ()
    ran_on: str = "driver"
    chunks: int = 0
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """Exit code of the command."""
        return EXIT_CODES[self.outcome]

    def shown_items(self) -> Iterator[Item]:
        """Yield the items with a value."""
        yield Item("outcome", self.outcome)
        for name in ("snapshot_id", "newest", "newest_complete", "dropped", "ran_on", "seconds"):
            if (value := getattr(self, name)) not in (None, 0):
                yield Item(name.replace("_", " "), value)
        if self.files:
            yield Item("files", len(self.files))
        for name in ("waiting", "left_out"):
            if rows := tuple(getattr(self, name).items()):
                title = name.replace("_", " ")
                yield Item(title, Table((title, "why"), rows))
        for each in self.problems:
            yield Item("problem", each)
        for each in self.derived:
            yield Item("derived", f"{each.output}, {each.elements} elements")
        for each in self.notified:
            yield Item("notified", each)


def shorten(reason: str) -> str:
    """Return the first sentence of a reason, which may list every problem of all files."""
    first = reason.partition("\n")[0]
    return first if len(first) <= _REASON else first[:_REASON].rpartition(" ")[0] + " …"


class RefusedError(IcechunkError):
    """A version that guards or checks don't let through; `problems` lists why."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(slots=True)
class Cycle:
    """One run from its start to its report."""

    opened: Opened
    run: str
    now: Callable[[], datetime]
    spark: Any = None
    progress: bool | None = False
    waiting: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    dropped: int = 0

    def publish_files(self, files: Sequence[SourceFile]) -> tuple[IngestReport | None, str | None]:
        """Ingest files on an audit branch, and publish it; return the report and the snapshot."""
        opened, declaration = self.opened, self.opened.declaration
        with auditing(opened.repository, declaration.branch, self.run) as audit:
            for _ in range(_ROUNDS):
                base = read_version(opened.repository.readonly_session(audit), declaration)
                report = self.ingest_files(audit, files, base)
                self.complete(audit)
                tip = opened.repository.lookup_branch(audit)
                if tip == base.snapshot_id:
                    return report, None
                try:
                    snapshot = publish(
                        opened.repository, declaration, audit, base, self.accept_merged
                    )
                except ConflictError:
                    # Others moved what is there: start again from what they published.
                    tip = opened.repository.lookup_branch(declaration.branch)
                    opened.repository.reset_branch(audit, tip)
                    continue
                return report, snapshot
        raise ConflictError(message=f"others published {_ROUNDS} times meanwhile: run it again")

    def complete(self, audit: str) -> None:
        """Set declared attributes, and drop the steps that retention does not keep."""
        repository, declaration = self.opened.repository, self.opened.declaration
        attributes = [
            declaration.attributes,
            *(e.attributes for e in declaration.variables.values()),
        ]
        if not any(attributes) and declaration.retention.steps is None:
            return
        session = repository.writable_session(audit)
        version = read_version(session, declaration)
        if version.is_empty:
            return
        set_attributes(session, declaration, version)
        if session.has_uncommitted_changes:
            session.commit(f"run {self.run}: set attributes")
            session = repository.writable_session(audit)
        count = count_dropped(declaration, version)
        if not count:
            return
        drop_steps(session, declaration, version, count)
        session.commit(f"run {self.run}: drop {count} steps")
        after = read_version(repository.readonly_session(audit), declaration)
        violations = find_violations(declaration, version, after, self.now(), dropped=count)
        lost = [each.message for each in violations if not each.is_waiting]
        if lost:
            raise RefusedError(lost)
        self.dropped = count

    def ingest_files(
        self, audit: str, files: Sequence[SourceFile], base: Version
    ) -> IngestReport | None:
        """Ingest all files that guards let through; None if there are none."""
        repository, declaration = self.opened.repository, self.opened.declaration
        for _ in range(_ROUNDS):
            kept = [
                each for each in files if each.location not in {**self.waiting, **self.left_out}
            ]
            if not subtract(tabulate(kept), base.ledger, declaration.group).files:
                return None
            message = f"run {self.run} (declaration {declaration.digest})"
            try:
                report = self.opened.ingest(
                    kept, base, audit, message, spark=self.spark, progress=self.progress
                )
            except FailedChecksError:
                raise
            except InvalidSourcesError as error:
                # None of the files can be placed, which is no reason to stop.
                blamed = {each.location for each in kept} & set(error.files)
                if declaration.guards.bad_files == "fail" or not blamed:
                    raise
                self.left_out |= {each: shorten(error.explain(each)) for each in blamed}
                continue
            self.left_out |= {each.location: shorten(each.reason) for each in report.bad}
            if self._leave_out_rivals(kept, base, report.bad):
                repository.reset_branch(audit, base.snapshot_id)
                continue
            self.left_out |= {
                each.source: "; ".join(finding.message for finding in each.findings)
                for each in report.quarantined
            }
            if report.snapshot_id is None:
                return None
            after = read_version(repository.readonly_session(audit), declaration)
            violations = find_violations(declaration, base, after, self.now())
            hopeless = [each.message for each in violations if not each.files]
            if hopeless:
                raise RefusedError(hopeless)
            if not violations:
                return report
            self._leave_out(violations)
            repository.reset_branch(audit, base.snapshot_id)
        raise RefusedError(["guards left out files in each of too many rounds"])

    def _leave_out_rivals(
        self, files: Sequence[SourceFile], base: Version, bad: Iterable[BadFile]
    ) -> bool:
        """Leave out both of two new files for one place that differ: either may be the right one.

        Of copies, and of a file that was published before and one that was not, the first was taken.
        """
        if self.opened.declaration.guards.duplicates == "replace":
            return False
        known, found = {each.location: each for each in files}, False
        for each in bad:
            rival = each.rival
            if rival is None or rival not in known or base.ledger.find(base.group, [rival])[0] >= 0:
                continue
            if not self.opened.are_copies(known[each.location], known[rival]):
                found = True
                for one, other in ((each.location, rival), (rival, each.location)):
                    self.left_out[one] = (
                        f"it differs from {other}, which is for the same place: remove one of them, "
                        "or declare duplicates = 'replace' to take the newest"
                    )
        return found

    def _leave_out(self, violations: Sequence[Violation]) -> None:
        for each in violations:
            target = self.waiting if each.is_waiting else self.left_out
            for file in each.files:
                target.setdefault(file, each.message)

    def accept_merged(self, published: Version, merged: Version) -> None:
        violations = find_violations(self.opened.declaration, published, merged, self.now())
        hopeless = [each.message for each in violations if not each.is_waiting]
        if hopeless:
            raise RefusedError(hopeless)


def set_attributes(session: Session, declaration: Declaration, version: Version) -> None:
    """Set the declared attributes of the group and its variables that differ."""
    path = declaration.group
    if any(version.attributes.get(name) != each for name, each in declaration.attributes.items()):
        zarr.open_group(session.store, path=path, mode="r+").attrs.update(declaration.attributes)
    for name, each in declaration.variables.items():
        about = version.arrays.get(name)
        if about is None:
            continue
        if any(about["attributes"].get(key) != value for key, value in each.attributes.items()):
            array = zarr.open_array(session.store, path=join(path, name), mode="r+")
            array.attrs.update(each.attributes)


def run(
    dataset: str | Path | Mapping[str, Any] | Declaration,
    *,
    until: datetime | None = None,
    files: Sequence[str] | None = None,
    spark: Any = None,
    progress: bool | None = False,
    now: Callable[[], datetime] | None = None,
) -> RunReport:
    """Run one cycle of a dataset: discover, ingest, validate, publish, derive, maintain.

    A cycle that is repeated, or killed and started again, changes nothing twice.

    Parameters
    ----------
    dataset
        Path of a declaration, a mapping of its fields, or a `Declaration`.
    until
        Deadline: repeat the cycle until the newest step that is due is complete, with growing pauses.
    files
        Files to look at instead of the declared ones, such as those that a queue announces.
    spark
        Session that runs large cycles. Default: the active one, or a new one if it is needed.
    progress
        Display progress.
    now
        Function that returns the time. Default: the clock.

    Returns
    -------
    RunReport
        The outcome, with the files of each kind.

    Raises
    ------
    DeclarationError
        If the declaration is invalid.
    IcechunkError
        If a step fails; hooks for failures are called first.

    Examples
    --------
    >>> report = run("dataset.toml")
    >>> print(report)
    """
    declaration = load(dataset)
    clock = now or (lambda: datetime.now(UTC))
    begun = clock()
    pause = 1.0
    while True:
        report = _run_once(declaration, files, spark, progress, clock)
        target = find_due(declaration, begun)
        if until is None or _is_reached(report, target):
            return report
        rest = (in_utc(until) - clock()).total_seconds()
        if rest <= 0:
            awaited = "no step" if target is None else f"step {show_moment(target)} is not complete"
            problems = (*report.problems, f"{awaited} by the deadline")
            return replace(report, outcome="stale", problems=problems)
        time.sleep(min(pause, rest))
        pause = min(pause * 1.5, 60.0)


def _is_reached(report: RunReport, target: datetime | None) -> bool:
    if target is None:
        return report.outcome == "published"
    complete = report.newest_complete
    return complete is not None and datetime.fromisoformat(complete) >= target


def _run_once(
    declaration: Declaration,
    files: Sequence[str] | None,
    spark: Any,
    progress: bool | None,
    clock: Callable[[], datetime],
) -> RunReport:
    id = new_run_id()
    try:
        with _observing(declaration):
            report = _run_cycle(declaration, id, files, spark, progress, clock)
    except Exception as error:
        log.error("run failed", extra={"run": id, "why": str(error)})
        failed = {"run": id, "error": type(error).__name__, "message": str(error)}
        list(notify(declaration, "failed", failed))
        raise
    notified = tuple(notify(declaration, report.outcome, report))
    log.info(
        report.outcome,
        extra={
            "run": id, "snapshot_id": report.snapshot_id, "files": len(report.files),
            "waiting": len(report.waiting), "left_out": len(report.left_out),
            "newest_complete": report.newest_complete, "seconds": report.seconds,
        },
    )  # fmt: skip
    return replace(report, notified=notified)


def _run_cycle(
    declaration: Declaration,
    id: str,
    files: Sequence[str] | None,
    spark: Any,
    progress: bool | None,
    clock: Callable[[], datetime],
) -> RunReport:
    begun = time.monotonic()
    opened = Opened.open(declaration, create=True)
    published = opened.read_published()
    patterns = list_patterns(declaration, published, clock()) if files is None else list(files)
    found = opened.discover(patterns, published)
    work = subtract(found, published.ledger, declaration.group)
    if declaration.retention.steps is not None:
        # Files of dropped steps have no place, and a new version of them is no work.
        work = work.without({file.location for file, entry in work.changed if not entry.place})
    log.info("discovered", extra={"run": id, "files": len(found), "new": len(work.files)})
    cycle = Cycle(opened, id, clock, spark, progress)
    report, snapshot = None, None
    problems = tuple(text for _, text in find_drift(declaration, published))
    if not problems and (work.files or count_dropped(declaration, published)):
        try:
            report, snapshot = cycle.publish_files(work.files)
        except RefusedError as error:
            problems = error.problems
        except FailedChecksError as error:
            problems = (error.message,)
    version = opened.read_published() if snapshot is not None else published
    derived, failures = ([], []) if version.is_empty else derive_all(opened, spark, progress)
    if snapshot is not None and declaration.observe.stac is not None:
        failures += describe_in_stac(opened, declaration.observe.stac)
    outcome: Outcome = "unchanged" if snapshot is None else "published"
    if problems:
        outcome = "refused"
    elif cycle.left_out or failures:
        outcome = "incomplete"
    newest, complete = find_newest(version, declaration)
    return RunReport(
        outcome=outcome,
        run=id,
        snapshot_id=snapshot,
        files=tuple(each.source for each in report.files) if report and snapshot else (),
        waiting=dict(sorted(cycle.waiting.items())),
        left_out=dict(sorted(cycle.left_out.items())),
        problems=(*problems, *failures),
        newest=newest,
        newest_complete=complete,
        dropped=cycle.dropped,
        derived=tuple(derived),
        maintenance=maintain_if_due(opened, clock()),
        ran_on=report.ran_on if report is not None else "driver",
        chunks=_count_chunks(report),
        seconds=round(time.monotonic() - begun, 3),
    )


def _observing(declaration: Declaration) -> AbstractContextManager[Any]:
    wanted = declaration.observe
    if not (wanted.prometheus or wanted.traces or wanted.metrics or wanted.lineage):
        return nullcontext()
    path = None if wanted.prometheus is None else declaration.resolve(wanted.prometheus)
    return observe(
        traces=wanted.traces,
        metrics=wanted.metrics,
        lineage=wanted.lineage,
        namespace=wanted.namespace,
        prometheus=path,
    )


def describe_in_stac(opened: Opened, folder: str) -> list[str]:
    """Write a STAC collection of what is published; return why not, if that fails."""
    declaration = opened.declaration
    name = declaration.repository.partition("?")[0].rstrip("/").rpartition("/")[2]
    try:
        from frazil import stac  # noqa: PLC0415 (pystac is optional)

        collection: Any = stac.describe(
            opened.repository, name, branch=declaration.branch, groups=[f"/{declaration.group}"]
        )
        collection.normalize_hrefs(declaration.resolve(folder))
        collection.save("SELF_CONTAINED")
    except (IcechunkError, ImportError, OSError) as error:
        return [f"stac: {shorten(str(error))}"]
    return []


def derive_all(
    opened: Opened, spark: Any, progress: bool | None
) -> tuple[list[DeriveReport], list[str]]:
    """Bring the derived datasets in step; return the reports of those that changed, and failures.

    What is published stays published if that fails; the next run tries it again.
    """
    declaration, reports, failures = opened.declaration, [], []
    for table in declaration.derive:
        what = declaration.make_derivation(table)
        place = table.get("repository")
        job = Job(run_on=declaration.engine, progress=progress)
        try:
            target = None
            if place is not None:
                location = parse_location(declaration.resolve(place))
                target = Repository.open_or_create(storage_from_url(location))
            report = derive(
                opened.readable(),
                what,
                target=target,
                branch=table.get("branch", declaration.branch),
                source_branch=declaration.branch,
                job=job,
                spark=spark,
            )
        except IcechunkError as error:
            log.error("derive failed", extra={"output": what.output, "why": error.message})
            failures.append(f"derive {what.output}: {shorten(error.message)}")
            continue
        if report.snapshot_id is not None:
            reports.append(report)
    return reports, failures


def maintain_if_due(opened: Opened, now: datetime) -> MaintenanceReport | None:
    """Expire versions and collect garbage, if that was not done for the declared time."""
    declaration, repository = opened.declaration, opened.repository
    if repository.spec_version < 2:
        return None
    since = declaration.maintenance.every.before(now)
    for each in repository.ops_log():
        if each.updated_at < since:
            break
        if isinstance(each.kind, UpdateType.GCRan | UpdateType.RepoInitialized):
            return None
    versions = declaration.retention.versions
    policy = MaintenancePolicy(
        expire_after=None if versions is None else now - versions.before(now),
        garbage_age=now - declaration.maintenance.garbage_age.before(now),
    )
    found: MaintenanceReport = maintain(
        repository, policy, job=Job(run_on="driver", progress=False)
    )
    return found


def follow(
    dataset: str | Path | Mapping[str, Any] | Declaration,
    *,
    every: timedelta = timedelta(minutes=1),
    stop: Event | None = None,
    spark: Any = None,
    on_report: Callable[[RunReport], None] | None = None,
    now: Callable[[], datetime] | None = None,
) -> int:
    """Stay resident and run a cycle again and again, until it is stopped.

    A cycle that fails is tried again after growing pauses of up to an hour; one that is invalid by
    itself, such as a wrong declaration, ends it.

    Parameters
    ----------
    dataset
        Path of a declaration, a mapping of its fields, or a `Declaration`.
    every
        Pause between two cycles.
    stop
        Event that ends it after the cycle that runs.
    spark
        Session that runs large cycles.
    on_report
        Function that gets each report.
    now
        Function that returns the time. Default: the clock.

    Returns
    -------
    int
        Number of cycles that were run.
    """
    declaration = load(dataset)
    over = stop or Event()
    cycles = failures = 0
    while not over.is_set():
        cycles += 1
        try:
            report = run(declaration, spark=spark, now=now)
            failures = 0
            if on_report is not None:
                on_report(report)
        except (InvalidInputError, SetupError):
            raise
        except (IcechunkError, OSError):
            failures += 1
        pause = every.total_seconds() * 2 ** min(failures, 6)
        over.wait(min(pause, max(3600.0, every.total_seconds())))
    return cycles


def _count_chunks(report: IngestReport | None) -> int:
    metrics = {} if report is None else report.metrics
    return sum(int(str(metrics.get(each, 0))) for each in ("references", "chunks_written"))


def find_newest(version: Version, declaration: Declaration) -> tuple[str | None, str | None]:
    """Return the newest step that has data, and the newest complete one."""
    growing = declaration.growing
    if growing is None or growing not in version.axes:
        return None, None
    parts, axis = count_covered(version, declaration), version.axes[growing]
    some = [at for at, part in enumerate(parts.tolist()) if part > 0]
    whole = [at for at in some if parts[at] >= 1]
    return (axis.show(some[-1]) if some else None, axis.show(whole[-1]) if whole else None)


_REWRITTEN_BYTES = 64 << 20
"""Arrays up to this size are rewritten if their chunks do not end where the dropped steps do."""


def count_dropped(declaration: Declaration, version: Version) -> int:
    """Return the number of steps that retention drops from the front of a version.

    Chunks of large arrays are dropped whole, so that nothing is rewritten.
    """
    keep, growing = declaration.retention.steps, declaration.growing
    axis = None if growing is None else version.axes.get(growing)
    if keep is None or axis is None or not axis.moments:
        return 0
    oldest = keep.before(axis.moments[-1])
    count = sum(each < oldest for each in axis.moments)
    unit = lcm(*(each for each, is_small in _list_chunks(version, str(growing)) if not is_small))
    return count // unit * unit


def _list_chunks(version: Version, growing: str) -> list[tuple[int, bool]]:
    """Return the chunk length along the dimension of each array that has it, and if it is small."""
    return [
        (
            about["chunks"][about["dims"].index(growing)],
            prod(about["shape"]) * np.dtype(about["dtype"]).itemsize <= _REWRITTEN_BYTES
            if np.dtype(about["dtype"]).kind not in "OTU" else True,
        )
        for name, about in version.arrays.items()
        if growing in about["dims"] and (name in version.axes or len(about["dims"]) > 0)
    ]  # fmt: skip


def drop_steps(session: Session, declaration: Declaration, version: Version, count: int) -> None:
    """Drop the first steps of all arrays of the group, in a session; the ledger moves along."""
    growing = str(declaration.growing)
    for name, about in version.arrays.items():
        if growing not in about["dims"]:
            continue
        axis = about["dims"].index(growing)
        path = "/" + join(declaration.group, name)
        array = zarr.open_array(session.store, path=path, mode="r+")
        shape = list(array.shape)
        shape[axis] -= count
        length = about["chunks"][axis]
        if count % length == 0:
            offset = [0] * len(shape)
            offset[axis] = -(count // length)
            session.shift_array(path, offset)
            array.resize(tuple(shape))
        else:
            place = tuple(
                slice(count, None) if at == axis else slice(None) for at in range(len(shape))
            )
            kept = array[place]
            array.resize(tuple(shape))
            array[...] = kept
    covered = version.covered
    at = covered.dims.index(growing)
    boxes = covered.boxes.copy()
    boxes[boxes[:, at, 0] >= 0, at] -= count
    gone = (boxes[:, at, 1] <= 0) & (covered.boxes[:, at, 0] >= 0)
    boxes[:, at, 0] = np.where(covered.boxes[:, at, 0] >= 0, np.maximum(boxes[:, at, 0], 0), -1)
    # Files of dropped steps stay known, so that no run ingests them again.
    dropped = [replace(covered.ledger.read(row), place={}) for row in covered.rows[gone].tolist()]
    moved = replace(covered, rows=covered.rows[~gone], boxes=boxes[~gone])
    write_ledger(session.store, version.ledger, dropped, [moved])
