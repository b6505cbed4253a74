"""Ingest files into a repository, in one commit or none."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any, Protocol

from frazil.arguments import verb
from frazil.conflicts import ConflictDetector
from frazil.display import list_known
from frazil.errors import ConflictError, FailedChecksError, InvalidInputError, InvalidSourcesError
from frazil.format.metadata import JsonValue
from frazil.protocols.assets import Assets
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.spark.arrays.analyze import measure_chunks, plan_analyses
from frazil.spark.checks.audit import AnyCheck, Finding
from frazil.spark.checks.value_checks import Function, SamplesEqualSource, as_checks
from frazil.spark.ingestion.discovery import SourceFile, SourceName, discover, find_tops
from frazil.spark.ingestion.ingest_options import (
    Chunks,
    Encoding,
    EncodingOptions,
    Mode,
    OnLate,
    OnOverlap,
    Options,
    RegionOption,
    refuse_mistyped,
    refuse_unknown,
    refuse_unnamed,
)
from frazil.spark.ingestion.ingest_plan import (
    Choice,
    Covered,
    IngestPlan,
    Target,
    Written,
    find_converted,
    find_late,
    find_unread,
    loaded_everywhere,
    plan_expected,
    plan_ingest,
    read_existing,
    spread_differing,
)
from frazil.spark.ingestion.ingest_plan import refuse as refuse_problems
from frazil.spark.ingestion.ingest_report import (
    IngestReport,
    describe,
    finish,
    with_quarantined,
)
from frazil.spark.ingestion.ingest_tasks import parse_here, parse_sources
from frazil.spark.ingestion.ledger import (
    UNNAMED,
    Entry,
    Ledger,
    Place,
    Work,
    read_ledger,
    subtract,
    write_ledger,
)
from frazil.spark.ingestion.native_write import find_native, write_natives
from frazil.spark.ingestion.region_plan import plan_filling
from frazil.spark.ingestion.source_data import (
    BadFile,
    Outcome,
    ParsedSource,
    Reading,
    SourceOptions,
    add_to,
    bad_files,
    configure,
    current_config,
    group_files,
    plan_containers,
    save,
)
from frazil.spark.ingestion.target_arrays import (
    PlacedManifest,
    Placement,
    adopt,
    make_room,
    plan_placement,
    plan_rules,
)
from frazil.spark.ingestion.write_audit_publish import check_session, refuse
from frazil.spark.job import DataFrame, Job, SparkSession
from frazil.spark.regions import LEAST_TASK_BYTES, configured_rules
from frazil.spark.runtime import Runner
from frazil.spark.transaction import (
    AnyRepository,
    Run,
    find_repository,
    running,
)
from frazil.tables.statistics import find_analysable
from frazil.virtual.combine_axes import suggest_coordinate
from frazil.virtual.combine_plan import Treatment, join
from frazil.virtual.new_dimensions import Coordinate
from frazil.virtual.source import SourceHeader
from frazil.virtual.time_units import count_alike, find_times

METRICS = "frazil_job"
"""Key of the job metrics in the commit metadata."""


class OpenedSources(Protocol):
    """Opened sources and their references, wherever these are kept."""

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Return the outcome of each file."""

    @property
    def runner(self) -> Runner:
        """Return the runner of the ingest's tasks."""

    def write_manifests(self, placement: Placement, assets: Assets) -> list[PlacedManifest]:
        """Collect references by split region, and write one manifest per region."""


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """State shared by all attempts of an ingest; the files are opened once."""

    job_run: Run
    repository: Repository
    files: tuple[SourceFile, ...]
    parsed: OpenedSources
    options: Options
    reading: Reading
    findings: tuple[Finding, ...] = ()
    """Findings because of which files were left out."""

    def run(self) -> IngestReport:
        """Plan, write and commit; raise ConflictError after a concurrent commit."""
        session = self.repository.writable_session(self.options.branch)
        sources = {e.location: e for e in self.parsed.outcomes if isinstance(e, ParsedSource)}
        bad = bad_files(self.parsed.outcomes)
        ledger = read_ledger(session.store)
        unusable = {each.location for each in bad}
        usable = [file for file in self.files if file.location not in unusable]
        work = subtract(usable, ledger, self.options.group)
        if not work.files:
            return describe(self.job_run.describe(), work, bad)
        found, work, left_out = self._place(session, ledger, work, sources)
        if found is None:
            return describe(self.job_run.describe(), work, (*bad, *left_out))
        report = describe(self.job_run.describe(), work, (*bad, *left_out), found)
        if self.options.dry_run:
            return report
        chosen = [sources[file.location] for file in work.files]
        return self._write(session, found, chosen, report)

    def leave_out(self, failed: FailedChecksError) -> "Attempt":
        """Return the attempt without the files that findings blame; raise if that can't help."""
        findings = (
            *self.findings,
            *(each for each in failed.findings if isinstance(each, Finding)),
        )
        blamed = {file for each in findings for file in each.files}
        names_files = all(each.files for each in findings)
        if self.reading.on_failed_check == "fail" or not names_files:
            raise refuse(findings) from None
        files = tuple(file for file in self.files if file.location not in blamed)
        return replace(self, files=files, findings=findings)

    def _place(
        self, session: Session, ledger: Ledger, work: Work, sources: Mapping[str, ParsedSource]
    ) -> tuple[IngestPlan | None, Work, list[BadFile]]:
        """Plan the files that can be placed, and leave out the others if that was asked for."""
        left_out: list[BadFile] = []
        while work.files:
            locations = {sources[each.location].header.name: each.location for each in work.files}
            try:
                found = self._plan(session, ledger, work, sources)
            except InvalidSourcesError as error:
                blamed = {locations[each]: str(error) for each in error.files if each in locations}
                is_all = len(blamed) == len(locations)
                if self.reading.on_bad_file == "fail" or not blamed or is_all:
                    raise
            else:
                blamed = {}
                if self.options.on_late == "set_aside":
                    late = find_late(found)
                    blamed = {locations[name]: f"set aside: {each.text}" for name, each in late}
                if not blamed:
                    return found, work, left_out
            left_out += [BadFile(location, text) for location, text in blamed.items()]
            work = work.without(blamed.keys())
        return None, work, left_out

    def _plan(
        self,
        session: Session,
        ledger: Ledger,
        work: Work,
        sources: Mapping[str, ParsedSource],
    ) -> IngestPlan:
        headers = [sources[file.location].header for file in work.files]
        existing, headers = self._count_times(session, headers)
        choice = self._choose(session, existing, headers)
        dims = self.options.dims
        if self.options.region is not None:
            dim = dims[0] if dims else None
            return plan_filling(headers, existing, dim, self.options.region, choice)
        names = {sources[file.location].location: sources[file.location].header.name
                 for file in work.files}  # fmt: skip
        changed = {names[entry.source]: _named(entry.place, dims) for _, entry in work.changed}
        covered = [
            Covered(each.source, _named(each.place, dims), each.variables)
            for each in ledger.entries
            if each.group == self.options.group and each.source not in names and each.place
        ]
        return plan_ingest(
            spread_differing(headers, existing, dims),
            Target(existing, covered, changed),
            dims,
            choice,
            on_overlap=self.options.on_overlap,
            on_late=self.options.on_late,
            expected=plan_expected(self.options.expected, existing, headers),
        )

    def _count_times(
        self, session: Session, headers: Sequence[SourceHeader]
    ) -> tuple[SourceHeader | None, list[SourceHeader]]:
        """Convert times of the group and the sources to equal units, those of the group if they fit."""
        group, dims = self.options.group, self.options.dims
        fresh = loaded_everywhere(headers)
        existing = read_existing(session.store, group, fresh, dims)
        if existing is None:
            counted, problems = count_alike(headers)
            refuse_problems(problems, Choice(self.options.mode))
            return None, counted
        times = find_times([existing, *headers]) & existing.arrays.keys()
        # Values of virtual times can't be read without access to their source files.
        native = find_native(session.state, group, times)
        existing = read_existing(session.store, group, fresh, dims, native) or existing
        (there, *counted), problems = count_alike([existing, *headers])
        problems += find_unread(existing, there, times - native)
        if self.options.region is not None:
            problems += find_converted(headers, counted)
        refuse_problems(problems, Choice(self.options.mode))
        return there, counted

    def _choose(
        self, session: Session, existing: SourceHeader | None, headers: Sequence[SourceHeader]
    ) -> Choice:
        mode, encoding_options = self.options.mode, self.options.encoding_options
        if mode != "auto" or existing is None:
            return Choice(mode, encoding_options)
        named = {name for each in headers for name in each.arrays} & existing.arrays.keys()
        return Choice(mode, encoding_options, find_native(session.state, self.options.group, named))

    def _write(
        self,
        session: Session,
        found: IngestPlan,
        sources: Sequence[ParsedSource],
        report: IngestReport,
    ) -> IngestReport:
        options, config = self.options, current_config(self.repository)
        folders = needed_folders(found, sources)
        missing = plan_containers(
            folders,
            config.virtual_chunk_containers or {},
            self.reading.containers,
            options.tops,
        )
        rules = plan_rules(found, options.group, configured_rules(config))
        config = add_to(config, missing, rules)
        # Completing a chunk requires reading its existing values, and so does measuring it.
        is_read = found.existing and (found.natives or found.shifts or options.statistics)
        read = config.virtual_chunk_containers or {} if is_read else {}
        configured = configure(self.repository, config, [*folders, *read], self.reading.credentials)
        session = _open_again(configured, session)

        make_room(found, session, options.group)
        headers = [each.header for each in sources]
        written = write_natives(
            self.parsed.runner, session, found, headers, self.reading, options.group
        )
        versions = {each.header.name: each.header.version for each in sources}
        placement = plan_placement(
            found, versions, session.state, options.group, self.job_run.slots
        )
        placed = self.parsed.write_manifests(placement, session.state.assets)
        adopt(found, session.state, options.group, placed)
        self._note(session, found, sources)
        if options.statistics:
            self._take_statistics(session, found)

        check_session(
            self.parsed.runner,
            session,
            options.checks,
            found,
            sources,
            self.reading,
            options.group,
        )
        job = self.job_run.describe()
        metrics = job | self._measure(sources, placed, written)
        self.job_run.job.refuse_if_cancelled()
        if missing or rules:
            save(self.repository, missing, rules)
        snapshot_id = session.commit(
            options.message or f"ingest {len(sources)} files",
            {METRICS: metrics},
            rebase_with=ConflictDetector(),
        )
        return finish(report, job, snapshot_id, placed, written, metrics)

    def _take_statistics(self, session: Session, found: IngestPlan) -> None:
        """Measure the new chunks of data arrays, not of coordinates."""
        runner, group = self.parsed.runner, self.options.group
        named = {f"/{join(group, name)}" for name in (*found.natives, *found.plan.variables)}
        paths = [path for path in find_analysable(session, f"/{group}") if path in named]
        analyses = plan_analyses(session, paths, is_strict=False)
        measure_chunks(runner, session, analyses, self.job_run.task_bytes(analyses.bytes))

    def _note(self, session: Session, found: IngestPlan, sources: Sequence[ParsedSource]) -> None:
        """Write ledger entries for the ingested sources."""
        entries = [
            Entry(
                each.location,
                self.options.group,
                each.header.version,
                found.places[each.header.name],
                self.job_run.job.id,
                frozenset(each.header.arrays),
            )
            for each in sources
        ]
        before = read_ledger(session.store)
        if found.shifts:
            new = {each.source for each in entries}
            entries += [
                replace(each, place=found.move(_named(each.place, found.dims)))
                for each in before.entries
                if each.group == self.options.group and each.source not in new and each.place
            ]
        write_ledger(session.store, before, entries)

    def _measure(
        self,
        sources: Sequence[ParsedSource],
        placed: Sequence[PlacedManifest],
        written: Mapping[str, Written],
    ) -> dict[str, JsonValue]:
        return {
            "files": len(sources),
            "references": sum(each.references for each in placed),
            "bytes": sum(each.bytes for each in placed),
            "chunks_written": sum(each.chunks for each in written.values()),
            "bytes_written": sum(each.bytes for each in written.values()),
            "checks": [each.name for each in self.options.checks],
            "quarantined": len({file for each in self.findings for file in each.files}),
        }


def _named(place: Place, dims: Sequence[str]) -> Place:
    """Return a place of the ledger with the name of its dimension."""
    if UNNAMED in place and dims:
        return {dims[0]: place[UNNAMED]}
    return place


def needed_folders(found: IngestPlan, sources: Sequence[ParsedSource]) -> list[str]:
    """Return the folders that virtual references point to."""
    treatments = {each.treatment for each in found.plan.variables.values()}
    if Treatment.VIRTUAL not in treatments:
        return []
    return sorted({folder for each in sources for folder in each.folders})


def _open_again(configured: Repository, session: Session) -> Session:
    """Open a session with the new configuration; raise ConflictError if the branch has moved."""
    assert session.branch is not None
    opened = configured.writable_session(session.branch)
    if opened.snapshot_id != session.snapshot_id:
        raise ConflictError(
            message=f"somebody else committed to {session.branch} meanwhile",
            expected_parent=session.snapshot_id,
            actual_parent=opened.snapshot_id,
        )
    return opened


Sources = SourceName | Iterable[SourceName] | DataFrame

_TRIES = 5
"""Maximum attempts after concurrent commits."""
_ROUNDS = 10
"""Maximum attempts after leaving files out."""
_SHOWN_FILES = 20
_URI_COLUMNS = ("source", "uri", "url", "path")


@verb(job=Job, source_options=SourceOptions)
def ingest(
    repo: AnyRepository,
    sources: Sources,
    *,
    append_dim: str | Sequence[str] | None = None,
    coords: Mapping[str, Coordinate] | None = None,
    expected: Mapping[str, Any] | None = None,
    group: str = "/",
    branch: str = "main",
    mode: Mode = "auto",
    chunks: Chunks | None = None,
    encoding: Encoding | None = None,
    region: RegionOption | None = None,
    on_overlap: OnOverlap = "refuse",
    on_late: OnLate = "insert",
    checks: Iterable[AnyCheck | Function] = (),
    message: str | None = None,
    dry_run: bool = False,
    statistics: bool = False,
    source_options: SourceOptions | None = None,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> IngestReport:
    """Ingest files into a group of a repository, in one commit.

    Files that were ingested before are skipped unless they have changed, so a second call does
    nothing. If an ingest fails, the branch is unchanged.

    Parameters
    ----------
    repo
        Repository, or its location.
    sources
        Paths and URLs of files, patterns, prefixes, or a DataFrame with a column of them.
    append_dim
        Dimension along which files are ordered, by the values of its coordinate, or several ones. A
        dimension that the files lack is made from a scalar coordinate of its name.
    coords
        Coordinates that the files don't have as variables, by dimension: `from_path`,
        `from_attribute`, or a function of the header of a file.
    expected
        Values that a dimension has even where no file brings them, by dimension.
    group
        Group to ingest into.
    branch
        Branch to commit to.
    mode
        `"virtual"` writes references, `"native"` decodes and writes values, `"auto"` decides per
        variable.
    chunks, encoding
        Chunk lengths by dimension, or by variable and dimension, and encoding by variable, of arrays
        that are written.
    region
        Fill a region of existing arrays: a slice by dimension, or `"auto"` for the region given by the
        values of coordinates.
    on_overlap
        `"replace"` lets a file replace existing data at its place.
    on_late
        `"insert"` moves existing data to make room for a file that belongs in front of or between it,
        `"set_aside"` leaves such files out, `"refuse"` raises.
    checks
        Checks of `frazil.spark.checks`, or functions, that run on the new version before the branch
        moves.
    message
        Commit message.
    dry_run
        Plan without writing.
    statistics
        Measure the new chunks in the same commit, as `analyze` does. This reads virtual variables.
    source_options
        How source files are read, and what is done with bad ones.
    job
        Handle to follow or cancel the job, with the options of its tasks.
    spark
        Session that runs the tasks. Default: the active one, or a new one for work that is not small.

    Returns
    -------
    IngestReport
        Ingested, skipped and quarantined files, variables, and where the ingest ran.

    Raises
    ------
    InvalidSourcesError
        If sources don't fit each other or the group; reports every problem.
    FailedChecksError
        If checks fail; has all findings.
    ConflictError
        If concurrent commits conflict repeatedly.
    JobError, JobCancelledError
        If the job fails or is cancelled.

    Examples
    --------
    >>> report = ingest("s3://bucket/weather", "s3://archive/2024/*.nc", append_dim="time")
    >>> print(report)
    """
    source = source_options or SourceOptions()
    refuse_unknown(
        mode=mode,
        on_overlap=on_overlap,
        on_late=on_late,
        on_bad_file=source.on_bad_file,
        on_failed_check=source.on_failed_check,
    )
    refuse_mistyped(append_dim=append_dim, group=group, chunks=chunks, encoding=encoding)
    refuse_mistyped(
        source_group=source.source_group, skip=source.skip, load=source.load, rename=source.rename
    )
    if mode == "virtual" and (chunks or encoding):
        raise InvalidInputError("chunks= and encoding= need mode='native' or 'auto'")
    wanted = as_checks(checks)
    if region is not None and any(isinstance(each, SamplesEqualSource) for each in wanted):
        raise InvalidInputError(
            "samples_equal_source compares all there is beside a file's place along append_dim, and "
            "not the parts that region= fills: leave it out"
        )
    repository = find_repository(repo)
    dims = (append_dim,) if isinstance(append_dim, str) else tuple(append_dim or ())
    for option, given_by_dim in (("coords", coords), ("expected", expected)):
        for dim in [each for each in given_by_dim or () if each not in dims]:
            raise InvalidInputError(
                f"invalid {option} of {dim!r}: append_dim={append_dim!r} lacks it"
            )
    for dim, each in (coords or {}).items():
        if not callable(each):
            raise InvalidInputError(
                f"invalid coords {each!r} of {dim!r}: expected from_path(…), from_attribute(…) or a "
                "function"
            )
    options = Options(
        branch=branch,
        group=group.strip("/"),
        dims=dims,
        on_late=on_late,
        expected=dict(expected or {}),
        on_overlap=on_overlap,
        mode=mode,
        message=message,
        dry_run=dry_run,
        checks=wanted,
        encoding_options=EncodingOptions(dict(chunks or {}), dict(encoding or {})),
        region=region,
        statistics=statistics,
    )
    known = (current_config(repository).virtual_chunk_containers or {}).values()
    given = {each.name: getattr(source, each.name) for each in fields(source)}
    reading = Reading(
        **{**given, "containers": (*known, *source.containers)}, dims=dims, coords=coords or {}
    )
    with running("ingest", repository.storage, job, spark) as run:
        names = _names(sources)
        options = replace(options, tops=find_tops(names))
        files = discover(names, reading.open_stores())
        return _run(run, repository, files, reading, options)


def _run(
    run: Run,
    repository: Repository,
    files: tuple[SourceFile, ...],
    reading: Reading,
    options: Options,
) -> IngestReport:
    ledger = read_ledger(repository.readonly_session(options.branch).store)
    work = subtract(files, ledger, options.group)
    if not work.files:
        return describe(run.describe(), work, ())
    locations = [file.location for file in work.files]
    most = run.job.files_per_task
    size = sum(file.version.size_bytes for file in work.files)
    is_small = len(locations) <= most and (options.mode == "virtual" or size <= LEAST_TASK_BYTES)
    runner = run.choose_runner(is_small=is_small)
    opening = _opening(runner, reading, locations, most, run.slots)
    with run.job.leasing(repository.storage, "ingest"), opening as parsed:
        bad = bad_files(parsed.outcomes)
        is_empty = len(bad) == len(parsed.outcomes) and all(each.is_empty for each in bad)
        if bad and (reading.on_bad_file == "fail" or (is_empty and not work.known)):
            raise _refuse(bad, is_empty)
        _refuse_unknown_names(parsed.outcomes, repository, reading, options)
        return _try(Attempt(run, repository, files, parsed, options, reading))


@contextlib.contextmanager
def _opening(
    runner: Runner, reading: Reading, locations: list[str], most: int, slots: int
) -> Iterator[OpenedSources]:
    """Open files, on Spark or in this process; references are kept until the block ends."""
    if runner.spark is None:
        yield parse_here(runner, reading, locations)
        return
    groups = group_files(locations, slots, most)
    with parse_sources(runner, runner.spark, reading, groups) as parsed:
        yield parsed


def _try(attempt: Attempt) -> IngestReport:
    """Plan and commit; retry after a conflict on the new tip, and without bad files."""
    conflicts = rounds = 0
    while True:
        try:
            return with_quarantined(attempt.run(), attempt.findings)
        except ConflictError:
            conflicts += 1
            if conflicts == _TRIES:
                raise
        except FailedChecksError as failed:
            attempt = attempt.leave_out(failed)
            rounds += 1
            if rounds == _ROUNDS:
                raise refuse(attempt.findings) from None


def _names(sources: Sources) -> list[SourceName]:
    if isinstance(sources, str | PathLike):
        return [sources]
    if isinstance(sources, Iterable):
        return list(sources)
    return [row[0] for row in sources.select(_find_column(sources.columns)).collect()]


def _find_column(columns: list[str]) -> str:
    named = [name for name in _URI_COLUMNS if name in columns] or columns
    if len(columns) > 1 and named == columns:
        expected = ", ".join(_URI_COLUMNS)
        raise InvalidInputError(f"none of the columns {columns} is one of {expected}")
    return named[0]


def _refuse(bad: tuple[BadFile, ...], is_empty: bool) -> InvalidSourcesError:
    lines = [f"{each.location}: {each.reason}" for each in bad[:_SHOWN_FILES]]
    if len(bad) > _SHOWN_FILES:
        lines.append(f"and {len(bad) - _SHOWN_FILES} more files")
    head = "files can't be read; on_bad_file='skip' leaves them out"
    return InvalidSourcesError(
        "\n".join([f"{'no file has arrays to ingest' if is_empty else head}:", *lines]),
        files=[each.location for each in bad],
    )


def _refuse_unknown_names(
    outcomes: Iterable[Outcome], repository: Repository, reading: Reading, options: Options
) -> None:
    """Raise InvalidInputError if an option names an unknown array or dimension."""
    sources = [each for each in outcomes if isinstance(each, ParsedSource)]
    if not sources:
        return
    inside = {(each.arrays, each.dims) for each in sources}
    arrays = dict.fromkeys(name for names, _ in sorted(inside) for name in names)
    dims = dict.fromkeys(dim for _, names in sorted(inside) for dim in names)
    refuse_unnamed("skip", reading.skip, arrays, "arrays")
    refuse_unnamed("load", reading.load, arrays, "arrays")
    refuse_unnamed("rename", reading.rename, {**arrays, **dims}, "arrays and dimensions")
    for names, _ in inside:
        _refuse_same_names([each for each in names if each not in reading.skip], reading.rename)
    headers = [each.header for each in sources]
    arrays = dict.fromkeys(name for each in headers for name in each.arrays)
    dims = dict.fromkeys(dim for each in headers for dim in each.dims)
    # A coordinate without a dimension of its name has its own error message.
    unknown = [dim for dim in options.dims if dim not in arrays]
    for dim in unknown:
        if dim not in dims:
            raise InvalidInputError(
                f"invalid append_dim {dim!r}: the files have {list_known(dim, dims, 'dimensions')}"
                f"{suggest_coordinate(headers, dim)}"
            )
    chunks, encoding = options.encoding_options.chunks, options.encoding_options.encoding
    named = [name for name, size in chunks.items() if isinstance(size, Mapping)]
    plain = [name for name in chunks if name not in named]
    if {*named, *encoding} - arrays.keys() or set(plain) - dims.keys():
        store = repository.readonly_session(options.branch).store
        existing = read_existing(store, options.group, {}, ())
        arrays |= {} if existing is None else dict.fromkeys(existing.arrays)
        dims |= {} if existing is None else dict.fromkeys(existing.dims)
    refuse_unnamed("chunks", plain, dims, "dimensions")
    refuse_unnamed("chunks", named, arrays, "arrays")
    refuse_unnamed("encoding", encoding, arrays, "arrays")


def _refuse_same_names(names: Iterable[str], rename: Mapping[str, str]) -> None:
    counts = Counter(rename.get(name, name) for name in names)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise InvalidInputError(f"invalid rename: it gives several arrays the name {twice[0]!r}")
