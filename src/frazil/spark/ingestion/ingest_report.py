"""Report of an ingest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.display import Item, Table
from frazil.format.metadata import JsonValue
from frazil.spark.checks.audit import Finding, render_findings
from frazil.spark.ingestion.ingest_plan import IngestPlan
from frazil.spark.ingestion.ledger import Region, Work
from frazil.spark.ingestion.source_data import BadFile
from frazil.spark.job import JobReport
from frazil.virtual.combine_plan import Problem, Report, Severity, Treatment, join

_SHOWN_FILES = 20
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
    notes
        Notes, such as gaps and variables that some files lack.
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
    notes: Report = field(default_factory=Report)
    metrics: Mapping[str, JsonValue] = field(default_factory=dict)
    quarantined: tuple[QuarantinedFile, ...] = ()

    def __str__(self) -> str:
        lines = [f"snapshot  {self.snapshot_id or 'none'}", f"files     {self._count_files()}"]
        if self.files:
            lines.append(f"ran on    {self.ran_on}")
        for table in self._tables().values():
            lines += ["", str(table)]
        if self.quarantined:
            findings = dict.fromkeys(e for file in self.quarantined for e in file.findings)
            lines += ["", render_findings(tuple(findings))]
        if len(self.notes):
            lines += ["", str(self.notes)]
        return "\n".join(lines)

    def shown_items(self) -> Iterator[Item]:
        """Yield the items shown in notebooks."""
        yield Item("snapshot", self.snapshot_id or "none")
        yield Item("files", self._count_files())
        if self.files:
            yield Item("ran on", self.ran_on)
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
             str(each.references or "")) for each in self.variables
        )  # fmt: skip
        reasons = tuple((each.name, each.reason) for each in self.variables if each.reason)
        skipped = tuple((each.location, each.reason) for each in self.bad[:_SHOWN_FILES])
        tables = {
            "variables": Table(("variable", "shape", "how", "references"), shown),
            "native": Table(("native", "why"), reasons),
            "skipped": Table(("skipped", "why"), skipped),
        }
        return {name: table for name, table in tables.items() if table.rows}


def describe(
    job: Mapping[str, Any],
    work: Work,
    bad: tuple[BadFile, ...],
    plans: Mapping[str, IngestPlan] | None = None,
) -> IngestReport:
    """Return the report of plans, by the path of their group, before they are carried out."""
    files: dict[str, IngestedFile] = {}
    variables: list[IngestedVariable] = []
    notes: list[Problem] = []
    plans = plans or {}
    for group, found in plans.items():
        for header in found.headers:
            name, place = header.name, found.places[header.name]
            key = name if len(plans) == 1 else header.location
            if not (before := files.get(key)) or not before.place:
                is_changed = name in found.replaced
                region = next(iter(place.values()), None)
                files[key] = IngestedFile(key, region, is_changed, dict(place))
        variables += _describe_variables(found, group)
        notes += [
            replace(each, subject=join(group, each.subject))
            for each in found.plan.report.with_severity(Severity.NOTES)
        ]
    return IngestReport(
        **job,
        files=tuple(files.values()),
        known=tuple(file.location for file in work.known),
        bad=bad,
        variables=tuple(variables),
        notes=Report(tuple(notes)),
    )


def _describe_variables(found: IngestPlan, group: str) -> Iterator[IngestedVariable]:
    for name, each in found.plan.variables.items():
        is_mixed = name in found.natives and each.treatment is not Treatment.REENCODED
        yield IngestedVariable(
            join(group, name),
            tuple(each.metadata["shape"]),
            "virtual and native" if is_mixed else _HOW[each.treatment],
            reason=found.reasons.get(name, ""),
        )


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
