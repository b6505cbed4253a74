"""Report of an ingest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from frazil.display import Item, Table, show_bytes
from frazil.errors import InvalidSourcesError
from frazil.format.metadata import JsonValue
from frazil.spark.audit import Finding, render_findings
from frazil.spark.ingestion.ingest_options import item_bytes
from frazil.spark.ingestion.ingest_plan import IngestPlan
from frazil.spark.ingestion.ledger import Region, Work
from frazil.spark.ingestion.source_data import BadFile
from frazil.spark.ingestion.target_arrays import can_move_chunks
from frazil.spark.job import JobReport
from frazil.virtual.combine_axes import find_jumps
from frazil.virtual.combine_plan import Problem, ProblemKind, Report, Severity, Treatment, join
from frazil.virtual.time_units import show_values

_SHOWN_FILES = 20
_SHOWN_GAPS = 3
_LETTERS = {"days": "D", "hours": "h", "minutes": "min", "seconds": "s"}
_HOW = {
    Treatment.VIRTUAL: "virtual",
    Treatment.INLINE: "inline",
    Treatment.REENCODED: "native",
}


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """File that an ingest wrote, or would write."""

    source: str
    region: Region | None
    """Region along the first concatenation dimension."""
    is_changed: bool
    """True if an earlier version of the file was ingested before."""
    place: Mapping[str, Region] = field(default_factory=dict)
    """Region by concatenation dimension."""


@dataclass(frozen=True, slots=True)
class IngestedVariable:
    """Variable that an ingest wrote, or would write."""

    name: str
    shape: tuple[int, ...]
    treatment: str
    """`virtual`, `native` or `inline`."""
    references: int = 0
    """Number of chunks written, virtual or native."""
    reason: str = ""
    """Reason for a native variable."""
    files: int = 0
    """Number of files that bring it."""
    bytes: int = 0
    """Decoded size of what they bring."""


@dataclass(frozen=True, slots=True)
class IngestedDimension:
    """Dimension along which files are placed, with all that it has after the ingest."""

    name: str
    first: str
    last: str
    steps: int
    gaps: tuple[tuple[str, str], ...] = ()
    """Values before and after each jump that is longer than the usual step."""


@dataclass(frozen=True, slots=True)
class QuarantinedFile:
    """File left out because of findings of checks."""

    source: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class IngestReport(JobReport):
    """Result of an ingest; a `JobReport` with these fields.

    Attributes
    ----------
    snapshot_id
        Snapshot of the commit; None if there was nothing to ingest, or for a dry run.
    files
        Files that were ingested.
    known
        Files ingested before that have not changed.
    bad
        Skipped files, with the reason.
    variables
        Variables, with how each is stored.
    dimensions
        Dimensions along which files are placed, with their first and last value and their gaps.
    notes
        Notes, such as gaps and variables that some files lack.
    suggestions
        Options that would help.
    planned_tasks
        Number of tasks to open files and to write values, of a dry run.
    metrics
        Figures of the job: durations, bytes, tasks.
    quarantined
        Files that failed checks; the next ingest tries them again.
    """

    snapshot_id: str | None = None
    files: tuple[IngestedFile, ...] = ()
    known: tuple[str, ...] = ()
    bad: tuple[BadFile, ...] = ()
    variables: tuple[IngestedVariable, ...] = ()
    dimensions: tuple[IngestedDimension, ...] = ()
    notes: Report = field(default_factory=Report)
    suggestions: tuple[str, ...] = ()
    planned_tasks: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, JsonValue] = field(default_factory=dict)
    quarantined: tuple[QuarantinedFile, ...] = ()

    def __str__(self) -> str:
        lines = [f"snapshot  {self.snapshot_id or 'none'}", f"files     {self._count_files()}"]
        if self.files:
            lines.append(f"ran on    {self.ran_on}")
        if self.planned_tasks:
            lines.append(f"tasks     {self._count_tasks()}")
        for table in self._tables().values():
            lines += ["", str(table)]
        if self.quarantined:
            findings = dict.fromkeys(e for file in self.quarantined for e in file.findings)
            lines += ["", render_findings(tuple(findings))]
        if len(self.notes):
            lines += ["", str(self.notes)]
        lines += ["", *(f"suggestion: {each}" for each in self.suggestions)]
        return "\n".join(lines).rstrip()

    def shown_items(self) -> Iterator[Item]:
        """Yield the items shown in notebooks."""
        yield Item("snapshot", self.snapshot_id or "none")
        yield Item("files", self._count_files())
        if self.files:
            yield Item("ran on", self.ran_on)
        if self.planned_tasks:
            yield Item("tasks", self._count_tasks())
        for name, table in self._tables().items():
            yield Item(name, table)
        if self.quarantined:
            rows = (
                (each.source, "; ".join(finding.message for finding in each.findings))
                for each in self.quarantined[:_SHOWN_FILES]
            )
            yield Item("quarantined", Table(("quarantined", "why"), tuple(rows)))
        if len(self.notes):
            yield Item("notes", self.notes)
        for each in self.suggestions:
            yield Item("suggestion", each)

    def _count_tasks(self) -> str:
        return ", ".join(f"{count} for {what}" for what, count in self.planned_tasks.items())

    def _count_files(self) -> str:
        changed = sum(each.is_changed for each in self.files)
        counts = [
            ("new", len(self.files) - changed), ("changed", changed),
            ("known", len(self.known)), ("skipped", len(self.bad)),
            ("quarantined", len(self.quarantined)),
        ]  # fmt: skip
        return ", ".join(f"{count} {what}" for what, count in counts if count) or "none"

    def _tables(self) -> dict[str, Table]:
        """Return the non-empty tables of the report."""
        shown = tuple(
            (each.name, " × ".join(map(str, each.shape)) or "scalar", each.treatment,
             str(each.references or ""), str(each.files), show_bytes(each.bytes))
            for each in self.variables
        )  # fmt: skip
        headings = ("variable", "shape", "how", "references", "files", "bytes")
        # Before the commit there are no references, and afterwards they say what was written.
        columns = [0, 1, 2, 4, 5] if self.snapshot_id is None else [0, 1, 2, 3]
        dimensions = tuple(
            (each.name, each.first, each.last, str(each.steps), _show_gaps(each.gaps))
            for each in self.dimensions
        )
        reasons = tuple((each.name, each.reason) for each in self.variables if each.reason)
        skipped = tuple((each.location, each.reason) for each in self.bad[:_SHOWN_FILES])
        tables = {
            "dimensions": Table(("dimension", "first", "last", "steps", "gaps"), dimensions),
            "variables": Table(
                tuple(headings[each] for each in columns),
                tuple(tuple(row[each] for each in columns) for row in shown),
            ),
            "native": Table(("native", "why"), reasons),
            "skipped": Table(("skipped", "why"), skipped),
        }
        return {name: table for name, table in tables.items() if table.rows}


def _show_gaps(gaps: Sequence[tuple[str, str]]) -> str:
    shown = [f"{before} to {after}" for before, after in gaps[:_SHOWN_GAPS]]
    more = len(gaps) - _SHOWN_GAPS
    return ", ".join([*shown, f"{more} more"] if more > 0 else shown) or "none"


def describe(
    job: Mapping[str, Any],
    work: Work,
    bad: tuple[BadFile, ...],
    plans: Mapping[str, IngestPlan] | None = None,
) -> IngestReport:
    """Return the report of plans, by the path of their group, before they are carried out."""
    files: dict[str, IngestedFile] = {}
    variables: list[IngestedVariable] = []
    dimensions: list[IngestedDimension] = []
    notes: list[Problem] = []
    suggestions: list[str] = []
    plans = plans or {}
    for group, found in plans.items():
        for header in found.headers:
            name, place = header.name, found.places[header.name]
            key = name if len(plans) == 1 else header.location
            if not (before := files.get(key)) or not before.place:
                is_changed = name in found.replaced
                region = next(iter(place.values()), None)
                files[key] = IngestedFile(key, region, is_changed, place)
        variables += _describe_variables(found, group)
        dimensions += _describe_dimensions(found, group)
        suggestions += _suggest(found)
        notes += [
            replace(each, subject=join(group, each.subject))
            for each in found.plan.report.with_severity(Severity.NOTES)
            if not (each.kind is ProblemKind.MISSING and work.brought_before(each))
        ]
    copies: dict[str, list[str]] = {}
    for location, other in work.copies.items():
        copies.setdefault(other, []).append(location)
    for other, locations in copies.items():
        text = f"a copy of {other}: the ledger notes it, and it isn't looked at again"
        notes.append(Problem(ProblemKind.SUPERSEDED, "the file", text, tuple(locations)))
    for file, _ in work.again[:1]:
        text = (
            f"{len(work.again)} known files had been ingested without variables that are asked for "
            "now: these are added"
        )
        notes.append(Problem(ProblemKind.MISSING, "take, skip", text, (file.location,)))
    return IngestReport(
        **job,
        files=tuple(files.values()),
        known=tuple(work.known.to_pylist()),
        bad=bad,
        variables=tuple(variables),
        dimensions=tuple(dimensions),
        notes=Report(tuple(notes)),
        suggestions=tuple(dict.fromkeys(suggestions)),
    )


def _describe_variables(found: IngestPlan, group: str) -> Iterator[IngestedVariable]:
    for name, each in found.plan.variables.items():
        is_mixed = name in found.natives and each.treatment is not Treatment.REENCODED
        arrays = [header.arrays[name] for header in found.headers if name in header.arrays]
        is_static = not any(set(array.dims) & set(found.dims) for array in arrays)
        brought = [
            prod(array.shape) * item_bytes(array)
            for array in (arrays[:1] if is_static else arrays)
            if "data_type" in array.metadata
        ]
        yield IngestedVariable(
            join(group, name),
            tuple(each.metadata["shape"]),
            "virtual and native" if is_mixed else _HOW[each.treatment],
            reason=found.reasons.get(name, ""),
            files=len(arrays),
            bytes=sum(brought),
        )


def _describe_dimensions(found: IngestPlan, group: str) -> Iterator[IngestedDimension]:
    for dim, axis in found.plan.axes.items():
        jumps, _ = find_jumps(axis)
        count = len(axis.values)
        first, last = show_values(axis, [0, count - 1]) if count else ("", "")
        pairs = [show_values(axis, [at - 1, at]) for at in jumps]
        gaps = tuple((before, after) for before, after in pairs)
        yield IngestedDimension(join(group, dim), first, last, count, gaps)


def _suggest(found: IngestPlan) -> Iterator[str]:
    """Yield options that would help with a plan."""
    for dim, axis in found.plan.axes.items():
        jumps, step = find_jumps(axis)
        if jumps:
            first, last = show_values(axis, [0, len(axis.values) - 1])
            letter = _LETTERS.get(str(axis.attributes.get("units")).partition(" since ")[0])
            values = "[…]"
            if letter is not None:
                values = f"pandas.date_range({first!r}, {last!r}, freq='{step:g}{letter}')"
            option = f"expected={{{dim!r}: {values}}}"
            yield f"{option} keeps room for the gaps, so that late files move nothing"
    for dim, moved in found.shifts.items():
        arrays = found.existing.arrays if found.existing is not None else {}
        rewritten = [
            name
            for name, each in arrays.items()
            if dim in each.dims
            and not each.is_index
            and not can_move_chunks(each, each.dims.index(dim), moved)
        ]
        if rewritten:
            yield (
                f"{', '.join(rewritten)} must be rewritten to insert along {dim}: on_late='set_aside' "
                "leaves late files out"
            )
    unread = [each.subject for each in found.plan.report if each.kind is ProblemKind.NOT_COMPARED]
    if unread:
        yield f"load={unread!r} compares these variables between files"


def finish(
    report: IngestReport,
    job: Mapping[str, Any],
    snapshot_id: str,
    counts: Mapping[str, int],
    metrics: Mapping[str, JsonValue],
) -> IngestReport:
    """Complete the report after the commit; `counts` has the chunks written of each variable."""
    variables = tuple(
        replace(each, references=counts.get(each.name, 0)) for each in report.variables
    )
    return replace(report, **job, snapshot_id=snapshot_id, variables=variables, metrics=metrics)


def with_quarantined(report: IngestReport, findings: Sequence[Finding]) -> IngestReport:
    """Return the report with the files that were left out because of findings."""
    by_file: dict[str, list[Finding]] = {}
    for each in findings:
        for file in each.files:
            by_file.setdefault(file, []).append(each)
    quarantined = tuple(QuarantinedFile(file, tuple(by_file[file])) for file in sorted(by_file))
    return replace(report, quarantined=quarantined)


def refuse_bad(bad: Sequence[BadFile], *, is_empty: bool) -> InvalidSourcesError:
    """Return the error for files that can't be read."""
    lines = [
        f"{e.location}: {e.reason.removeprefix(e.location).lstrip()}" for e in bad[:_SHOWN_FILES]
    ]
    if len(bad) > _SHOWN_FILES:
        lines.append(f"and {len(bad) - _SHOWN_FILES} more files")
    head = "files can't be read; on_bad_file='skip' leaves them out"
    return InvalidSourcesError(
        "\n".join([f"{'no file has arrays to ingest' if is_empty else head}:", *lines]),
        files=[each.location for each in bad],
    )
