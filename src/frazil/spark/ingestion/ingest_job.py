"""Ingest files into a repository, in one commit or none."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from inspect import signature
from os import PathLike
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arguments import refuse_unknown, verb
from frazil.errors import ConflictError, FailedChecksError, InvalidSourcesError
from frazil.format.metadata import JsonValue
from frazil.repository.conflicts import GrowthDetector
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.spark.arrays.analyze import measure_chunks, plan_analyses
from frazil.spark.audit import AnyCheck, Finding
from frazil.spark.checks import Function, as_checks
from frazil.spark.ingestion.discovery import Sources, discover, find_tops, list_names, tabulate
from frazil.spark.ingestion.ingest_options import (
    Chunks,
    Encoding,
    EncodingOptions,
    Mode,
    OnLate,
    OnOverlap,
    Options,
    RegionOption,
    name_sources,
    refuse_contradictions,
    refuse_invalid_choices,
    refuse_mistyped,
    refuse_unknown_names,
)
from frazil.spark.ingestion.ingest_plan import (
    Choice,
    IngestPlan,
    Target,
    convert_header,
    find_converted,
    find_late,
    find_unread,
    plan_expected,
    plan_ingest,
    read_existing,
)
from frazil.spark.ingestion.ingest_plan import refuse as refuse_problems
from frazil.spark.ingestion.ingest_report import (
    IngestReport,
    describe,
    finish,
    refuse_bad,
    with_quarantined,
)
from frazil.spark.ingestion.ingest_tasks import OpenedSources, check_session, open_sources, refuse
from frazil.spark.ingestion.ledger import (
    WHOLE_TREE,
    Covered,
    Entry,
    Ledger,
    Work,
    find_copies,
    find_corrections,
    find_group,
    find_vanished,
    look_again,
    read_eras,
    read_ledger,
    subtract,
    write_ledger,
)
from frazil.spark.ingestion.native_write import Written, find_native, plan_tasks, write_natives
from frazil.spark.ingestion.source_data import (
    BadFile,
    ParsedSource,
    Reading,
    SourceOptions,
    add_lacking,
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
    needed_folders,
    open_again,
    plan_filling,
    plan_placement,
    plan_rules,
)
from frazil.spark.job import DataFrame, Job, SparkSession
from frazil.spark.regions import LEAST_TASK_BYTES, configured_rules
from frazil.spark.transaction import AnyRepository, Run, find_repository, running
from frazil.tables.statistics import find_analysable
from frazil.virtual.combine_plan import create_group, join
from frazil.virtual.combine_sources import (
    ERA,
    choose_fill_values,
    choose_rivals,
    split_eras,
)
from frazil.virtual.conversions import as_conversions
from frazil.virtual.new_dimensions import Coordinate, loaded_everywhere, spread_differing
from frazil.virtual.source import SourceHeader
from frazil.virtual.time_units import count_alike, find_times

METRICS = "frazil_job"
"""Key of the job metrics in the commit metadata."""


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """State shared by all attempts of an ingest; the files are opened once."""

    job_run: Run
    repository: Repository
    files: pa.Table
    """Columns of the files, those that were ingested before included."""
    parsed: OpenedSources
    options: Options
    reading: Reading
    known: tuple[str, Ledger]
    """Ledger as it was read first, with its snapshot."""
    findings: tuple[Finding, ...] = ()
    """Findings because of which files were left out."""
    written: dict[str, tuple[Placement, list[PlacedManifest]]] = field(default_factory=dict)
    """Manifests that an earlier attempt wrote, by group."""

    def run(self) -> IngestReport:
        """Plan, write and commit; raise ConflictError after a concurrent commit."""
        session = self.repository.writable_session(self.options.branch)
        bad = bad_files(self.parsed.outcomes)
        snapshot_id, ledger = self.known
        if session.snapshot_id != snapshot_id:
            ledger = read_ledger(session.store)
        group, is_replacing = self.options.ledger_group, self.options.is_replacing
        work = subtract(self.files, ledger, group, self.reading.wants, is_replacing)
        work = work.without({each.location for each in bad})
        if not work.files:
            return describe(self.job_run.describe(), work, bad)
        parts, work, left_out = self._place(session, ledger, work)
        plans = {each.inside: each.found for each in parts}
        report = describe(self.job_run.describe(), work, (*bad, *left_out), plans)
        if not parts and not work.copies:
            return report
        if self.options.dry_run:
            return replace(report, planned_tasks=self._count_tasks(parts, work))
        return self._write(session, ledger, parts, work, report)

    def _count_tasks(self, parts: Sequence["GroupPlan"], work: Work) -> dict[str, int]:
        """Return the tasks that the ingest would have on Spark."""
        slots = self.job_run.slots
        natives = [each for part in parts for each in part.found.natives.values()]
        return {
            "opening files": len(group_files(work.files, slots, self.job_run.job.files_per_task)),
            "writing values": len(plan_tasks(natives, slots)),
        }

    def leave_out(self, failed: FailedChecksError) -> "Attempt":
        """Return the attempt without the files that findings blame; raise if that can't help."""
        findings = (
            *self.findings,
            *(each for each in failed.findings if isinstance(each, Finding)),
        )
        blamed = pa.array({file for each in findings for file in each.files}, pa.large_string())
        names_files = all(each.files for each in findings)
        if self.reading.on_failed_check == "fail" or not names_files:
            raise refuse(findings) from None
        is_blamed = pc.is_in(self.files["source"], blamed)
        return replace(self, files=self.files.filter(pc.invert(is_blamed)), findings=findings)

    def _place(
        self, session: Session, ledger: Ledger, work: Work
    ) -> tuple[list["GroupPlan"], Work, list[BadFile]]:
        """Plan the files that can be placed, and leave out the others if that was asked for."""
        parsed = [each for each in self.parsed.outcomes if isinstance(each, ParsedSource)]
        locations = {each.header.name: each.location for each in parsed}
        left_out: list[BadFile] = []
        rival_of: dict[str, str] = {}
        group = self.options.ledger_group
        while work.files:
            waiting = {each.location for each in work.files}
            try:
                parts = self._plan_groups(session, ledger, work, parsed)
            except InvalidSourcesError as error:
                stores = self.reading.open_stores()
                copies = find_copies(error.problems, locations, work, ledger, group, stores)
                corrections = find_corrections(error.problems, locations, work, ledger, group)
                if copies or corrections:
                    work = work.without_copies(copies).with_corrections(corrections)
                    continue
                named = {locations.get(each, each) for each in error.files} & waiting
                # Of files for the same place one can be placed, unless it can't for another reason.
                rivals = [each.files for each in error.problems if each.is_rivalry]
                unfit = {e for each in error.problems if not each.is_rivalry for e in each.files}
                unfit = {locations.get(each, each) for each in unfit or error.files} & waiting
                names = {location: name for name, location in locations.items()}
                blamed = {e: error.explain(e, names.get(e, e)) for e in sorted(unfit)}
                if rivals and len(rivals) == len(error.problems):
                    chosen = self._choose_rivals(rivals, parsed, work)
                    blamed = {each: self._explain_rival(rival) for each, rival in chosen.items()}
                    rival_of |= chosen
                is_hopeless = not named or (blamed.keys() == waiting and group not in ledger.groups)
                if self.reading.on_bad_file == "fail" or is_hopeless:
                    raise
            else:
                blamed = {}
                if self.options.on_late == "set_aside":
                    late = [pair for each in parts for pair in find_late(each.found)]
                    blamed = {locations[name]: f"set aside: {each.text}" for name, each in late}
                if not blamed:
                    return parts, work, left_out
            left_out += [BadFile(e, text, rival=rival_of.get(e)) for e, text in blamed.items()]
            work = work.without(blamed.keys())
        return [], work, left_out

    def _choose_rivals(
        self, rivals: Sequence[Sequence[str]], parsed: Sequence[ParsedSource], work: Work
    ) -> dict[str, str]:
        """Return the files to leave out of those that overlap each other, each with its rival."""
        locations = {each.header.name: each.location for each in parsed}
        headers = {each.header.name: each.header for each in parsed}
        # A copy of a file that was ingested before must not keep out its next version.
        changed = {file.location for file, _ in work.changed}
        former = {name for name, location in locations.items() if location in changed}
        found = choose_rivals(rivals, headers, self.options.dims, former)
        return {locations[name]: locations[rival] for name, rival in found.items()}

    def _explain_rival(self, rival: str) -> str:
        verb = "the next ingest" if self.options.on_overlap == "replace" else "on_overlap='replace'"
        return f"it covers what {rival} covers, which came first: {verb} replaces it"

    def _plan_groups(
        self, session: Session, ledger: Ledger, work: Work, parsed: Sequence[ParsedSource]
    ) -> list["GroupPlan"]:
        """Plan each group of the files that has arrays."""
        groups: dict[str, dict[str, ParsedSource]] = {}
        for each in parsed:
            if each.header.arrays:
                groups.setdefault(each.header.group, {})[each.location] = each
        eras: dict[str, dict[str, Any]] = {}
        if self.options.eras == "groups":
            eras, groups = self._split_eras(session, work, groups)
        if self.options.is_split:
            base, changed = self.options.group, {file.location for file, _ in work.changed}
            now = {join(base, inside): each.keys() for inside, each in groups.items()}
            refuse_problems(
                find_vanished(ledger, base, now, changed, self.options.eras == "groups"),
                Choice(self.options.mode),
            )
        if self.options.is_tree:
            there = self._read_tree(session, ledger)
            add_lacking(groups, there, [each.location for each in work.files], self.options.dims)
        parts = []
        for inside, sources in groups.items():
            path = join(self.options.group, inside) if self.options.is_split else self.options.group
            own = work.without({e.location for e in work.files if e.location not in sources})
            if self.options.is_split:
                options = self.reading.wants, self.options.is_replacing
                own = subtract(tabulate(own.files), ledger, path, *options)
            if own.files:
                part = GroupPlan(
                    path,
                    inside if self.options.is_split else "",
                    tuple(sources[file.location] for file in own.files),
                    replace(self.reading, source_group=next(iter(sources.values())).header.group),
                    eras,
                )
                parts.append(replace(part, found=self._plan(session, ledger, own, part)))
        return parts

    def _split_eras(
        self, session: Session, work: Work, groups: Mapping[str, Mapping[str, ParsedSource]]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, ParsedSource]]]:
        """Return the storage of new eras, and the sources of each group below that of their era.

        All groups of a file belong to one era.
        """
        waiting = {each.location for each in work.files}
        whole: dict[str, SourceHeader] = {}
        for group, sources in groups.items():
            for location in [each for each in sources if each in waiting]:
                header = sources[location].header
                before = whole.get(location, replace(header, group="", arrays={}))
                # The coordinates of a tree, by which eras are ordered, are those of its first group.
                own = {
                    join(group, name)
                    if self.options.is_tree and not array.is_index
                    else name: array
                    for name, array in header.arrays.items()
                }
                whole[location] = replace(before, arrays={**own, **before.arrays})
        known = read_eras(session.store, self.options.group)
        era_of, eras = split_eras(list(whole.values()), known, self.options.dims)
        found: dict[str, dict[str, ParsedSource]] = {}
        for location, era in era_of.items():
            for group, sources in groups.items():
                if location in sources:
                    inside = join(era, group) if self.options.is_tree and group else era
                    found.setdefault(inside, {})[location] = sources[location]
        return {name: each for name, each in eras.items() if known.get(name) != each}, found

    def _read_tree(self, session: Session, ledger: Ledger) -> dict[str, SourceHeader]:
        """Return the groups that files were ingested into, by their path below that of the tree."""
        base = f"{self.options.group}/".lstrip("/")
        paths = [each for each in ledger.groups if f"{each}/".startswith(base)]
        found = {path: read_existing(session.store, path, {}, ()) for path in paths}
        return {
            path.removeprefix(base): header for path, header in found.items() if header is not None
        }

    def _plan(self, session: Session, ledger: Ledger, work: Work, part: "GroupPlan") -> IngestPlan:
        sources = {each.location: each for each in part.sources}
        headers = [convert_header(each.header, part.reading.convert) for each in part.sources]
        headers = work.without_former(headers)
        dims = self.options.dims
        if self.options.is_tree:
            dims = tuple(dim for dim in dims if any(dim in each.arrays for each in headers))
        existing, headers = self._count_times(session, headers, part.path, dims)
        choice = self._choose(session, existing, headers, part.path)
        changed = {
            sources[entry.source].header.name: entry.place_along(dims) for _, entry in work.changed
        }
        if existing is not None and not changed and not self.options.is_replacing:
            existing = ledger.with_digests(existing, part.path)
        if self.options.region is None:
            existing, headers = spread_differing(headers, existing, dims, changed)
        there = existing.arrays if existing is not None else {}
        headers = choose_fill_values(headers, there, dims, is_decoded=choice.mode == "native")
        if self.options.region is not None:
            dim = dims[0] if dims else None
            return plan_filling(headers, existing, dim, self.options.region, choice)
        covered = ledger.read_covered(part.path, dims, sources)
        return plan_ingest(
            headers,
            Target(existing, covered, changed, is_static=bool(self.options.dims) and not dims),
            dims,
            choice,
            on_overlap=self.options.on_overlap,
            on_late=self.options.on_late,
            expected=plan_expected(self.options.expected, existing, headers),
        )

    def _count_times(
        self, session: Session, headers: Sequence[SourceHeader], group: str, dims: Sequence[str]
    ) -> tuple[SourceHeader | None, list[SourceHeader]]:
        """Convert times of the group and the sources to equal units, those of the group if they fit."""
        fresh = loaded_everywhere(headers)
        existing = read_existing(session.store, group, fresh, dims)
        if existing is None:
            counted, problems = count_alike(headers)
            refuse_problems(problems, Choice(self.options.mode))
            return None, counted
        times = find_times([existing, *headers]) & existing.arrays.keys()
        static = {k for k, e in existing.arrays.items() if k in fresh and not {*dims} & {*e.dims}}
        # Values of virtual arrays can't be read without access to their source files.
        native = find_native(session.state, group, times | static, or_empty=True)
        existing = read_existing(session.store, group, fresh, dims, native) or existing
        (there, *counted), problems = count_alike([existing, *headers])
        problems += find_unread(existing, there, times - native)
        if self.options.region is not None:
            problems += find_converted(headers, counted)
        refuse_problems(problems, Choice(self.options.mode))
        return there, counted

    def _choose(
        self,
        session: Session,
        existing: SourceHeader | None,
        headers: Sequence[SourceHeader],
        group: str,
    ) -> Choice:
        mode, encoding_options = self.options.mode, self.options.encoding_options
        if mode != "auto" or existing is None:
            return Choice(mode, encoding_options)
        named = {name for each in headers for name in each.arrays} & existing.arrays.keys()
        return Choice(mode, encoding_options, find_native(session.state, group, named))

    def _write(
        self,
        session: Session,
        ledger: Ledger,
        parts: Sequence["GroupPlan"],
        work: Work,
        report: IngestReport,
    ) -> IngestReport:
        options, config = self.options, current_config(self.repository)
        folders = sorted({e for part in parts for e in needed_folders(part.found, part.sources)})
        missing = plan_containers(
            folders,
            config.virtual_chunk_containers or {},
            self.reading.containers,
            options.tops,
        )
        configured_now = configured_rules(config)
        rules = tuple(
            e for part in parts for e in plan_rules(part.found, part.path, configured_now)
        )
        config = add_to(config, missing, rules)
        # Completing a chunk requires reading its existing values, and so does measuring it.
        plans = [part.found for part in parts]
        is_read = any(
            each.existing and (each.natives or each.shifts or options.statistics) for each in plans
        )
        read = config.virtual_chunk_containers or {} if is_read else {}
        configured = configure(self.repository, config, [*folders, *read], self.reading.credentials)
        session = open_again(configured, session)

        counts: Counter[str] = Counter()
        placed: list[PlacedManifest] = []
        written: list[Written] = []
        self._create_groups(session, parts)
        for part in parts:
            new_manifests, new_chunks = self._write_group(session, part)
            placed += new_manifests
            written += new_chunks.values()
            for each in new_manifests:
                counts[join(part.inside, each.variable)] += each.references
            for name, chunks in new_chunks.items():
                counts[join(part.inside, name)] += chunks.chunks
        self._note(session, ledger, parts, work)
        for part in parts:
            if options.statistics:
                self._take_statistics(session, part)
            check_session(
                self.parsed.runner,
                session,
                part.choose_checks(options),
                part.found,
                [each for each in part.sources if each.arrays],
                part.reading,
                part.path,
            )
        job = self.job_run.describe()
        metrics = job | self._measure(work, placed, written)
        self.job_run.job.refuse_if_cancelled()
        if missing or rules:
            save(self.repository, missing, rules)
        snapshot_id = session.commit(
            options.message
            or f"ingest {len(work.files)} file{'s' * (len(work.files) != 1)}"
            + (f", note {len(work.copies)} of equal content" if work.copies else ""),
            {METRICS: metrics},
            rebase_with=GrowthDetector(),
        )
        return finish(report, job, snapshot_id, counts, metrics)

    def _create_groups(self, session: Session, parts: Sequence["GroupPlan"]) -> None:
        """Create the groups of new eras, and those of files that have attributes but no arrays."""
        eras = {name: storage for part in parts for name, storage in part.eras.items()}
        for name, storage in eras.items():
            create_group(session.store, join(self.options.group, name), {ERA: storage})
        tops = {
            each.location: part.inside.partition("/")[0] for part in parts for each in part.sources
        }
        for each in self.parsed.outcomes if self.options.is_tree else ():
            if isinstance(each, ParsedSource) and not each.header.arrays and each.location in tops:
                top = tops[each.location] if self.options.eras == "groups" else ""
                path = join(self.options.group, join(top, each.header.group)).strip("/")
                if find_group(session.store, path) is None:
                    create_group(session.store, path, each.header.attributes)

    def _write_group(
        self, session: Session, part: "GroupPlan"
    ) -> tuple[list[PlacedManifest], dict[str, Written]]:
        """Write references and values of one group."""
        found, group = part.found, part.path
        make_room(found, session, group)
        headers = [each.header for each in part.sources]
        written = write_natives(self.parsed.runner, session, found, headers, part.reading, group)
        versions = {each.header.name: each.header.version for each in part.sources}
        placement = plan_placement(found, versions, session.state, group, self.job_run.slots)
        # After a conflict the manifests stay, if the files keep their places in the same arrays.
        known = self.written.get(group)
        if known is None or not known[0].is_like(placement):
            known = placement, self.parsed.write_manifests(placement, session.state.assets)
            self.written[group] = known
        placed = known[1]
        adopt(found, session.state, group, placed)
        return placed, written

    def _take_statistics(self, session: Session, part: "GroupPlan") -> None:
        """Measure the new chunks of data arrays, not of coordinates."""
        runner, found, group = self.parsed.runner, part.found, part.path
        named = {f"/{join(group, name)}" for name in (*found.natives, *found.plan.variables)}
        paths = [path for path in find_analysable(session, f"/{group}") if path in named]
        analyses = plan_analyses(session, paths, is_strict=False)
        measure_chunks(runner, session, analyses, self.job_run.task_bytes(analyses.bytes))

    def _note(
        self, session: Session, before: Ledger, parts: Sequence["GroupPlan"], work: Work
    ) -> None:
        """Write ledger entries for the ingested sources."""
        job = self.job_run.job.id
        entries: list[Entry] = []
        moved: list[Covered] = []
        former = {file.location: entry.variables or frozenset() for file, entry in work.again}
        known: dict[frozenset[str], frozenset[str]] = {}
        for part in parts:
            found = part.found
            for each in part.sources:
                header = each.header
                brought = frozenset(header.arrays) | former.get(each.location, frozenset())
                variables = known.setdefault(brought, brought)
                place = found.places[header.name]
                own = (each.location, part.path, each.version, place, job, variables)
                entries.append(Entry(*own, each.left_out))
            if found.shifts:
                new = [each.location for each in part.sources]
                dims = tuple(found.plan.axes)
                covered = before.read_covered(part.path, dims, new)
                moved.append(replace(covered, boxes=found.move(covered.boxes)))
        group = self.options.ledger_group
        sources = [each for each in self.parsed.outcomes if isinstance(each, ParsedSource)]
        versions = {each.location: each.version for each in sources}
        if self.options.is_split:
            entries += [Entry(e.location, group, versions[e.location], {}, job) for e in work.files]
        for location, other in work.copies.items():
            version = versions[location]
            entries.append(Entry(location, group, version, {}, job, frozenset(), copy_of=other))
        names = {group: name_sources(sources, self.reading.source_group)}
        taken = [each for each in parts if self.options.region is None]
        headers = {each.path: (each.found.headers, each.found.replaced) for each in taken}
        write_ledger(session.store, before, entries, moved, names, headers)

    def _measure(
        self,
        work: Work,
        placed: Sequence[PlacedManifest],
        written: Sequence[Written],
    ) -> dict[str, JsonValue]:
        return {
            "files": len(work.files),
            "references": sum(each.references for each in placed),
            "bytes": sum(each.bytes for each in placed),
            "chunks_written": sum(each.chunks for each in written),
            "bytes_written": sum(each.bytes for each in written),
            "checks": [each.name for each in self.options.checks],
            "convert": {n: list(map(str, each)) for n, each in self.reading.convert.items()},
            "quarantined": len({file for each in self.findings for file in each.files}),
        }


@dataclass(frozen=True, slots=True, eq=False)
class GroupPlan:
    """Plan of one group of the files."""

    path: str
    """Group to ingest into, without leading and trailing slashes; empty for the root."""
    inside: str
    """Path of the group below the one that the whole tree is ingested into."""
    sources: tuple[ParsedSource, ...]
    reading: Reading
    """Options for reading the group of the files."""
    eras: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Storage of the variables of all eras that the repository doesn't have yet."""
    found: IngestPlan = field(kw_only=True, default=None)  # type: ignore[assignment]

    def choose_checks(self, options: Options) -> list[AnyCheck]:
        """Return the checks of the group: those of append_dim are not for a group without it."""
        is_static = bool(options.dims) and not self.found.dims
        return [e for e in options.checks if not is_static or getattr(e, "dim", "") is not None]


_FEW_FILES = 16
_TRIES = 20
"""Maximum attempts after concurrent commits; manifests stay if the files keep their places."""
_ROUNDS = 10
"""Maximum attempts after leaving files out."""


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
    sources
        Paths and URLs of files, patterns, prefixes, or a DataFrame with a column of them.
    append_dim
        Dimension along which files are ordered, by the values of its coordinate, or several ones. A
        dimension that the files lack is made from a scalar coordinate of its name.
    coords
        Coordinates that the files don't have as variables, by dimension: `from_path`,
        `from_attribute`, or a function of the header of a file.
    expected
        Values that a dimension has even where no file brings them, by dimension; or a function that
        returns them from the coordinates of the repository and of the files, in their units.
    group
        Group to ingest into.
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
    dry_run
        Plan without writing.
    statistics
        Measure the new chunks in the same commit, as `analyze` does. This reads virtual variables.
    source_options
        How source files are read, and what is done with bad ones.

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
    refuse_invalid_choices(
        mode=mode, eras=source.eras, on_overlap=on_overlap, on_late=on_late,
        on_bad_file=source.on_bad_file, on_failed_check=source.on_failed_check,
    )  # fmt: skip
    refuse_mistyped(
        append_dim=append_dim, group=group, chunks=chunks, encoding=encoding, coords=coords,
        source_group=source.source_group, skip=source.skip, load=source.load, take=source.take,
        rename=source.rename, convert=source.convert, containers=source.containers,
    )  # fmt: skip
    conversions = as_conversions(source.convert or {})
    dims = (append_dim,) if isinstance(append_dim, str) else tuple(append_dim or ())
    options = Options(
        branch=branch,
        group=group.strip("/"),
        dims=dims,
        on_late=on_late,
        eras=source.eras,
        expected=dict(expected or {}),
        on_overlap=on_overlap,
        mode=mode,
        message=message,
        dry_run=dry_run,
        checks=as_checks(checks),
        encoding_options=EncodingOptions(dict(chunks or {}), dict(encoding or {})),
        region=region,
        statistics=statistics,
        is_tree=source.source_group == WHOLE_TREE,
    )
    refuse_contradictions(options, conversions, coords or {})
    repository = find_repository(repo)
    known = (current_config(repository).virtual_chunk_containers or {}).values()
    given = {each.name: getattr(source, each.name) for each in fields(source)}
    reading = Reading(
        **{**given, "containers": (*known, *source.containers), "convert": conversions},
        dims=dims,
        coords=coords or {},
    )
    with running("ingest", repository.storage, job, spark) as run:
        names = list_names(sources)
        run.job.inputs += [str(getattr(each, "location", each)) for each in names[:100]]
        is_frame = not isinstance(sources, str | PathLike | Iterable)
        files = discover(names, reading.open_stores(), are_announced=is_frame)
        return _run(run, repository, files, reading, replace(options, tops=find_tops(names)))


def ingest_batches(repo: AnyRepository, **options: Any) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that ingests the files that a stream announces.

    Each batch with new files is one commit. A batch that Spark repeats after a failure changes nothing,
    because the ledger has its files. A file that is gone by then is a bad file.

    Parameters
    ----------
    repo
        Repository, or its location.
    options
        Options of `ingest`, and those of `SourceOptions` and `Job`.

    Returns
    -------
    function
        Function of a DataFrame with a column of paths and URLs, and the number of the batch.

    Examples
    --------
    >>> query = announced.writeStream.foreachBatch(ingest_batches(repo, append_dim="time")).start()
    """
    known = [name for each in (ingest, SourceOptions, Job) for name in signature(each).parameters]
    refuse_unknown(options, known, "ingest_batches")

    def ingest_batch(frame: DataFrame, batch_id: int) -> None:
        given = {"message": f"ingest batch {batch_id}", "spark": frame.sparkSession, **options}
        ingest(repo, frame, **given)

    return ingest_batch


def _run(
    run: Run, repository: Repository, files: pa.Table, reading: Reading, options: Options
) -> IngestReport:
    session = repository.readonly_session(options.branch)
    ledger = read_ledger(session.store)
    files = look_again(files, ledger, options.ledger_group, reading.open_stores())
    group, is_replacing = options.ledger_group, options.is_replacing
    work = subtract(files, ledger, group, reading.wants, is_replacing)
    names = ledger.find_names(options.ledger_group)

    def list_there() -> dict[str, tuple[str, ...]]:
        return ledger.list_arrays(session.store, options.group, is_tree=options.is_split)

    if not work.files:
        if len(work.known):
            refuse_unknown_names((), names, list_there, reading, options)
        return describe(run.describe(), work, ())
    size = sum(file.version.size_bytes for file in work.files)
    is_small = len(work.files) <= min(_FEW_FILES, run.job.files_per_task) and (
        options.mode == "virtual" or size <= LEAST_TASK_BYTES
    )
    runner = run.choose_runner(is_small=is_small)
    opening = open_sources(runner, reading, work.files, repository.storage, run.slots)
    is_first = group not in ledger.groups
    del work  # each attempt has its own, of files that may be many
    with run.job.leasing(repository.storage, "ingest"), opening as parsed:
        bad = bad_files(parsed.outcomes)
        is_empty = len(bad) == len(parsed.outcomes) and all(each.is_empty for each in bad)
        if bad and (reading.on_bad_file == "fail" or (is_empty and is_first)):
            raise refuse_bad(bad, is_empty=is_empty)
        sources = [each for each in parsed.outcomes if isinstance(each, ParsedSource)]
        refuse_unknown_names(sources, names, list_there, reading, options)
        return _try(
            Attempt(run, repository, files, parsed, options, reading, (session.snapshot_id, ledger))
        )


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
