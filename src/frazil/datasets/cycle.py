"""Run one cycle of a dataset: discover, ingest, validate, publish, derive, maintain."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any, Literal

import pyarrow as pa
import xarray as xr
import zarr

from frazil.datasets.dataset_file import load
from frazil.datasets.declaration import Check, Declaration, find_function
from frazil.datasets.events import notify
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
from frazil.datasets.named_credentials import AwsProfile, TemporaryS3, find_credential
from frazil.datasets.publication import auditing, new_run_id, publish
from frazil.datasets.rolling import count_dropped, drop_steps
from frazil.datasets.steps import Values, expand, find_placeholders, in_utc
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
from frazil.spark.checks.audit import NewRegion
from frazil.spark.checks.quality_checks import as_checks, fill_share, values_between
from frazil.spark.ingestion.discovery import SourceFile, discover, tabulate
from frazil.spark.ingestion.ingest_job import ingest
from frazil.spark.ingestion.ingest_report import IngestReport
from frazil.spark.ingestion.ledger import subtract
from frazil.spark.ingestion.source_data import SourceOptions, find_by_prefix
from frazil.spark.job import Job, RunOn
from frazil.spark.maintenance.gc_review import MaintenanceReport
from frazil.spark.maintenance.spark_gc import MaintenancePolicy, maintain
from frazil.storage.constructors import storage_from_url
from frazil.urls import parse_location
from frazil.virtual.combine_plan import join
from frazil.virtual.source_formats import SourceStores

log = logging.getLogger("frazil.datasets")

Outcome = Literal["published", "unchanged", "incomplete", "refused", "stale", "failed"]
EXIT_CODES: Mapping[Outcome, int] = {
    "published": 0, "unchanged": 0, "incomplete": 12, "refused": 13, "stale": 14, "failed": 1,
}  # fmt: skip
"""Exit codes of `frazil run`, by outcome."""
_ROUNDS = 10
"""Maximum rounds of leaving files out."""
_LOOKBACK = timedelta(days=3)
_DRIVER_FILES, _DRIVER_BYTES = 500, 256 << 20
"""Most files and bytes that a cycle ingests without Spark."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A declaration with its repository and what opens its sources."""

    declaration: Declaration
    repository: Repository
    credentials: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, declaration: Declaration, *, create: bool = False) -> "Opened":
        """Open the repository of a declaration, or create it."""
        location = parse_location(declaration.resolve(declaration.repository))
        storage = storage_from_url(location, **_find_storage_options(declaration))
        credentials = dict(_find_credentials(declaration))
        if create and not Repository.exists(storage):
            log.info("creating the repository", extra={"repository": declaration.repository})
            return cls(declaration, Repository.create(storage), credentials)
        return cls(declaration, Repository.open(storage), credentials)

    @classmethod
    def open_in(cls, declaration: Declaration, repository: Repository) -> "Opened":
        """Use a repository in place of the declared one."""
        return cls(declaration, repository, dict(_find_credentials(declaration)))

    def readable(self) -> Repository:
        """Return the repository with access to the source files of virtual chunks."""
        found = self.repository.authorize("*")
        containers = self.repository.config.virtual_chunk_containers or {}
        own = {each: find_by_prefix(self.credentials, each) for each in containers}
        return found.authorize({each: value for each, value in own.items() if value is not None})

    def read_published(self) -> Version:
        """Return the published version."""
        session = self.repository.readonly_session(self.declaration.branch)
        return read_version(session, self.declaration)

    def discover(self, patterns: Sequence[str]) -> pa.Table:
        """Return the files that some patterns match, as columns."""
        stores = SourceStores((), self.credentials)
        return discover(patterns, stores, may_be_none=True)

    def ingest(
        self,
        files: Sequence[SourceFile],
        published: Version,
        branch: str,
        metadata: str,
        *,
        spark: Any = None,
        dry_run: bool = False,
        progress: bool | None = False,
    ) -> IngestReport:
        """Ingest files into a branch, as declared."""
        declaration, guards = self.declaration, self.declaration.guards
        late = guards.late or ("set_aside" if declaration.steps is not None else "insert")
        variables = declaration.variables
        return ingest(
            self.repository,
            files,
            append_dim=list(declaration.dimensions) or None,
            coords={
                dim: each.coordinate.to_function()
                for dim, each in declaration.dimensions.items()
                if each.coordinate is not None
            },
            expected=dict(list_expected(declaration, published)),
            group=declaration.group or "/",
            branch=branch,
            mode=declaration.mode,
            chunks={
                **declaration.chunks,
                **{name: each.chunks for name, each in variables.items() if each.chunks},
            },
            encoding={name: each.encoding for name, each in variables.items() if each.encoding},
            on_overlap=guards.duplicates,
            on_late=late,
            checks=list_checks(declaration),
            message=metadata,
            dry_run=dry_run,
            source_options=SourceOptions(
                source_group=declaration.sources.group,
                load=declaration.sources.load,
                skip=declaration.sources.skip,
                rename=dict(declaration.sources.rename),
                take=tuple(variables) if declaration.sources.take == "declared" else (),
                convert={
                    name: [step.to_function() for step in each.convert]
                    for name, each in variables.items()
                    if each.convert
                },
                credentials=self.credentials,
                on_bad_file=guards.bad_files,
                on_failed_check=guards.failed_checks,
            ),
            job=Job(run_on=self._choose_engine(files), progress=progress),
            spark=spark,
        )

    def _choose_engine(self, files: Sequence[SourceFile]) -> RunOn:
        """Return `driver` for little work: Spark takes longer to start than that."""
        size = sum(each.version.size_bytes for each in files)
        is_little = len(files) <= _DRIVER_FILES and size <= _DRIVER_BYTES
        return (
            "driver" if self.declaration.engine == "auto" and is_little else self.declaration.engine
        )


def _find_credentials(declaration: Declaration) -> Iterator[tuple[str, Any]]:
    """Yield the credentials of the sources, by the beginning of their URLs."""
    name = declaration.sources.credentials
    if name is None:
        return
    credential = find_credential(declaration.credentials[name])
    for each in declaration.sources.files:
        scheme, found, rest = each.partition("://")
        if found and scheme != "file":
            yield f"{scheme}://{rest.partition('/')[0]}/", credential


def _find_storage_options(declaration: Declaration) -> dict[str, Any]:
    """Return the credentials of the repository, as arguments of its storage."""
    if declaration.storage_credentials is None:
        return {}
    declared = declaration.credentials[declaration.storage_credentials]
    match declared.kind:
        case "environment":
            return {"from_env": True}
        case "anonymous":
            return {"anonymous": True}
        case "aws_profile":
            return {"get_credentials": AwsProfile(declared.profile)}
        case "earthdata":
            return {"get_credentials": TemporaryS3(declared)}
        case "function":
            return {"get_credentials": find_function(str(declared.function))}
    raise InvalidInputError(
        "storage_credentials can't be a bearer token: web servers are read-only"
    )


def list_expected(declaration: Declaration, published: Version) -> Iterator[tuple[str, Any]]:
    """Yield the axis of each dimension that has declared steps or values."""
    for dim, each in declaration.dimensions.items():
        steps, values = each.steps, each.list_values()
        if steps is not None:
            axis = published.axes.get(dim)
            if axis is not None and axis.moments and declaration.retention.steps is not None:
                # A rolling archive begins with the first step that it keeps.
                steps = replace(steps, start=max(steps.start, axis.moments[0]))
            yield dim, steps
        elif values is not None:
            yield dim, Values(tuple(values))


@dataclass(frozen=True, slots=True)
class CheckAt:
    """Check of a part of each region, such as all lead times but the first."""

    check: Any
    at: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the check."""
        return str(self.check.name)

    @property
    def share_read(self) -> float:
        """Fraction of the data it reads."""
        return float(self.check.share_read)

    def check_region(self, region: NewRegion) -> Sequence[Any]:
        """Return the findings of the selected part."""
        dataset = self.select(region.dataset)
        if dataset is None:
            return []
        found: Sequence[Any] = self.check.check_region(replace(region, dataset=dataset))
        return found

    def select(self, dataset: xr.Dataset) -> xr.Dataset | None:
        """Return the part that is checked; None if it is empty."""
        for dim, wanted in self.at.items():
            if dim not in dataset.coords:
                raise KeyError(f"there is no coordinate {dim}")
            first, last = wanted if isinstance(wanted, list | tuple) else (wanted, wanted)
            values = dataset[dim].values
            if values.dtype.kind == "m":
                values = values.astype("m8[s]").astype(float) / 3600
            is_in = (values >= first) & (values <= last)
            if not is_in.any():
                return None
            dataset = dataset.isel({dim: is_in}) if dataset[dim].ndim else dataset
        return dataset


def list_checks(declaration: Declaration) -> list[Any]:
    """Return the declared checks, and those of variables."""
    found: list[Any] = []
    for name, each in declaration.variables.items():
        if each.between is not None:
            found.append(_optional(values_between(*each.between, variables=[name])))
        if each.missing_at_most is not None:
            found.append(_optional(fill_share(each.missing_at_most, variables=[name])))
    return [*found, *map(_make_check, declaration.checks)]


def _make_check(declared: Check) -> Any:
    (check,) = as_checks([declared.make()])
    if declared.variables and declared.kind in ("values_between", "fill_share"):
        check = _optional(check)
    return CheckAt(check, declared.at) if declared.at else check


@dataclass(frozen=True, slots=True)
class _OfBrought:
    """Check of variables, of those that a file has: files may bring some of them."""

    check: Any

    @property
    def name(self) -> str:
        return str(self.check.name)

    @property
    def share_read(self) -> float:
        return float(self.check.share_read)

    def check_region(self, region: NewRegion) -> Sequence[Any]:
        names = [each for each in self.check.variables if each in region.dataset.variables]
        if not names:
            return []
        found: Sequence[Any] = replace(self.check, variables=names).check_region(region)
        return found


def _optional(check: Any) -> Any:
    return _OfBrought(check)


def list_patterns(
    declaration: Declaration, published: Version, now: datetime, until: datetime | None = None
) -> list[str]:
    """Return the patterns of the files that a run looks at.

    Patterns that name a step are those of the steps from some time before the newest published one
    to now; the others are as declared.
    """
    growing, steps = declaration.growing, declaration.steps
    patterns = [*declaration.sources.files, *_read_listings(declaration)]
    if steps is None or growing is None:
        return [declaration.resolve(each) for each in patterns]
    axis = published.axes.get(growing)
    newest = axis.moments[-1] if axis is not None and axis.moments else None
    first = steps.start
    lookback = declaration.sources.lookback
    if lookback is not None:
        first = max(first, lookback.before(newest or now))
    elif newest is not None:
        first = max(first, newest - _LOOKBACK)
    moments = steps.between(first, until or now)
    return [
        declaration.resolve(name)
        for pattern in patterns
        for name in (expand(pattern, growing, moments) if find_placeholders(pattern) else [pattern])
    ]


def _read_listings(declaration: Declaration) -> Iterator[str]:
    for each in declaration.sources.listing:
        text = Path(declaration.resolve(each)).read_text(encoding="utf-8")
        yield from (line.strip() for line in text.splitlines() if line.strip())


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
                self.left_out |= dict.fromkeys(blamed, shorten(error.message))
                continue
            self.left_out |= {each.location: shorten(each.reason) for each in report.bad}
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
    found = opened.discover(patterns)
    work = subtract(found, published.ledger, declaration.group)
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
        except IcechunkError:
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
