"""One attempt to commit what was found in files, on top of what the branch holds now."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from frazil.assets import Assets
from frazil.conflicts import ConflictDetector
from frazil.errors import ConflictError, FailedChecksError
from frazil.format.json_values import JsonValue
from frazil.frames.statistics.analysing import find_analysable
from frazil.repository import Repository
from frazil.session import Session
from frazil.spark.arrays.measuring import measure_chunks, plan_analyses
from frazil.spark.arrays.runner import Runner, count_slots, find_application_id
from frazil.spark.arrays.splitting import configured_rules
from frazil.spark.checks import Finding
from frazil.spark.ingesting.arrays import make_room
from frazil.spark.ingesting.configuring import (
    add_to,
    configure,
    current_config,
    save,
)
from frazil.spark.ingesting.containers import plan_containers
from frazil.spark.ingesting.decoding import find_native, write_natives
from frazil.spark.ingesting.discovery import SourceFile
from frazil.spark.ingesting.existing import read_existing
from frazil.spark.ingesting.filling import plan_filling
from frazil.spark.ingesting.gate import check_session, refuse, refuse_late
from frazil.spark.ingesting.ledger import Entry, Work, read_ledger, subtract, write_ledger
from frazil.spark.ingesting.modes import Choice
from frazil.spark.ingesting.native import Written
from frazil.spark.ingesting.options import Options
from frazil.spark.ingesting.parsing import Outcome, ParsedSource, Reading, bad_files
from frazil.spark.ingesting.placing import PlacedCell, Placement, adopt, plan_placement
from frazil.spark.ingesting.planning import (
    IngestPlan,
    Replacing,
    find_converted,
    find_unread,
    loaded_everywhere,
    plan_ingest,
    split_replacing,
)
from frazil.spark.ingesting.planning import refuse as refuse_problems
from frazil.spark.ingesting.report import IngestReport, describe, finish, nothing_to_do
from frazil.spark.ingesting.splitting import plan_rules
from frazil.spark.job import Job
from frazil.virtual import SourceHeader, Treatment
from frazil.virtual.combining.times import count_alike, find_times
from frazil.virtual.writing import join

METRICS = "frazil_job"
"""The name that commits have the metrics of their job by."""


class OpenedSources(Protocol):
    """Sources that were opened, and their references, wherever these are."""

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What became of each file."""

    @property
    def runner(self) -> Runner:
        """What runs the tasks of the ingest."""

    def write_cells(self, placement: Placement, assets: Assets) -> list[PlacedCell]:
        """Bring references together by cell, and write a manifest of each."""


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """What all attempts have in common: the files are opened once."""

    job: Job
    repository: Repository
    files: tuple[SourceFile, ...]
    parsed: OpenedSources
    options: Options
    reading: Reading
    start: float = field(default_factory=time.perf_counter)
    findings: tuple[Finding, ...] = ()
    """For which files were left out."""

    def run(self) -> IngestReport:
        """Plan, write, commit; raises ConflictError where somebody else did meanwhile."""
        session = self.repository.writable_session(self.options.branch)
        sources = {e.location: e for e in self.parsed.outcomes if isinstance(e, ParsedSource)}
        bad = bad_files(self.parsed.outcomes)
        ledger = read_ledger(session.store)
        unusable = {each.location for each in bad}
        usable = [file for file in self.files if file.location not in unusable]
        work = subtract(usable, ledger, self.options.group)
        if not work.files:
            return nothing_to_do(self.job.id, work, bad)
        found = self._plan(session, work, sources)
        report = describe(self.job.id, found, work, bad, self.parsed.runner.name)
        if self.options.dry_run:
            return report
        chosen = [sources[file.location] for file in work.files]
        return self._write(session, found, chosen, report)

    def leave_out(self, failed: FailedChecksError) -> "Attempt":
        """The same without the files that findings name; raises the error where that is no help."""
        findings = (
            *self.findings,
            *(each for each in failed.findings if isinstance(each, Finding)),
        )
        blamed = {file for each in findings for file in each.files}
        is_settled = all(each.files for each in findings)
        if self.options.on_failed_check == "fail" or not is_settled:
            raise refuse(findings) from None
        files = tuple(file for file in self.files if file.location not in blamed)
        return replace(self, files=files, findings=findings)

    def _plan(
        self, session: Session, work: Work, sources: Mapping[str, ParsedSource]
    ) -> IngestPlan:
        headers = [sources[file.location].header for file in work.files]
        existing, headers = self._count_times(session, headers)
        new = headers[: len(work.new)]
        changed: list[Replacing] = [
            (header, entry.region)
            for header, (_, entry) in zip(headers[len(work.new) :], work.changed, strict=True)
        ]
        if self.options.on_failed_check == "quarantine" and existing is not None:
            refuse_late(new, existing, self.options.append_dim)
        if self.options.on_overlap == "replace" and existing is not None:
            new, replacing = split_replacing(new, existing, self.options.append_dim)
            changed += replacing
        choice = self._choose(session, existing, headers)
        if self.options.region is not None:
            return plan_filling(
                headers, existing, self.options.append_dim, self.options.region, choice
            )
        return plan_ingest(new, changed, existing, self.options.append_dim, choice)

    def _count_times(
        self, session: Session, headers: Sequence[SourceHeader]
    ) -> tuple[SourceHeader | None, list[SourceHeader]]:
        """What is there, and the sources, with times counted alike: as there, if a type holds that."""
        group, dim = self.options.group, self.options.append_dim
        fresh = loaded_everywhere(headers)
        existing = read_existing(session.store, group, fresh, dim)
        if existing is None:
            counted, problems = count_alike(headers)
            refuse_problems(problems, Choice(self.options.mode))
            return None, counted
        times = find_times([existing, *headers]) & existing.arrays.keys()
        # Of virtual ones the values can't be read without access to their files.
        native = find_native(session.state, group, times)
        existing = read_existing(session.store, group, fresh, dim, native) or existing
        (there, *counted), problems = count_alike([existing, *headers])
        problems += find_unread(existing, there, times - native)
        if self.options.region is not None:
            problems += find_converted(headers, counted)
        refuse_problems(problems, Choice(self.options.mode))
        return there, counted

    def _choose(
        self, session: Session, existing: SourceHeader | None, headers: Sequence[SourceHeader]
    ) -> Choice:
        mode, wishes = self.options.mode, self.options.wishes
        if mode != "auto" or existing is None:
            return Choice(mode, wishes)
        named = {name for each in headers for name in each.arrays} & existing.arrays.keys()
        return Choice(mode, wishes, find_native(session.state, self.options.group, named))

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
            folders, config.virtual_chunk_containers or {}, options.containers
        )
        rules = plan_rules(found, options.group, configured_rules(config))
        config = add_to(config, missing, rules)
        # Filling a chunk up takes reading what is in it already, and so does measuring it.
        is_read = found.existing and (found.natives or options.statistics)
        read = config.virtual_chunk_containers or {} if is_read else {}
        configured = configure(self.repository, config, [*folders, *read], options.credentials)
        session = _open_again(configured, session)

        make_room(found, session.store, options.group)
        headers = [each.header for each in sources]
        written = write_natives(
            self.parsed.runner, session, found, headers, self.reading, options.group
        )
        versions = {each.header.name: each.header.version for each in sources}
        placement = plan_placement(
            found, versions, session.state, options.group, count_slots(self.parsed.runner.spark)
        )
        placed = self.parsed.write_cells(placement, session.state.assets)
        adopt(found, session.state, options.group, placed)
        self._note(session, found, sources)
        if options.statistics:
            self._take_statistics(session, found)

        check_session(
            self.parsed.runner, session, options.checks, found, sources, self.reading, options.group
        )
        metrics = self._measure(sources, placed, written)
        self.job.refuse_if_cancelled()
        if missing or rules:
            save(self.repository, missing, rules)
        snapshot_id = session.commit(
            options.message or f"ingest {len(sources)} files",
            {METRICS: metrics},
            rebase_with=ConflictDetector(),
        )
        return finish(report, snapshot_id, placed, written, metrics)

    def _take_statistics(self, session: Session, found: IngestPlan) -> None:
        """Measure what is new in arrays that are more than coordinates."""
        runner, group = self.parsed.runner, self.options.group
        named = {f"/{join(group, name)}" for name in (*found.natives, *found.plan.variables)}
        paths = [path for path in find_analysable(session, f"/{group}") if path in named]
        analyses = plan_analyses(session, paths, is_strict=False)
        measure_chunks(runner, session, analyses, count_slots(runner.spark))

    def _note(self, session: Session, found: IngestPlan, sources: Sequence[ParsedSource]) -> None:
        """Write down in the ledger what is ingested."""
        entries = [
            Entry(
                each.location,
                self.options.group,
                each.header.version,
                found.regions[each.header.name],
                self.job.id,
            )
            for each in sources
        ]
        write_ledger(session.store, read_ledger(session.store), entries)

    def _measure(
        self,
        sources: Sequence[ParsedSource],
        placed: Sequence[PlacedCell],
        written: Mapping[str, Written],
    ) -> dict[str, JsonValue]:
        tally = self.job.tally
        return {
            "job": "ingest",
            "job_id": self.job.id,
            "ran_on": self.parsed.runner.name,
            "application_id": find_application_id(self.parsed.runner.spark),
            "files": len(sources),
            "references": sum(each.references for each in placed),
            "bytes": sum(each.bytes for each in placed),
            "chunks_written": sum(each.chunks for each in written.values()),
            "bytes_written": sum(each.bytes for each in written.values()),
            "seconds": round(time.perf_counter() - self.start, 3),
            "tasks": tally.tasks,
            "retries": tally.retries,
            "task_seconds": round(tally.task_seconds, 3),
            "checks": [each.name for each in self.options.checks],
            "quarantined": len({file for each in self.findings for file in each.files}),
        }


def needed_folders(found: IngestPlan, sources: Sequence[ParsedSource]) -> list[str]:
    """The folders that references lead to, if there are any."""
    treatments = {each.treatment for each in found.plan.variables.values()}
    if Treatment.VIRTUAL not in treatments:
        return []
    return sorted({folder for each in sources for folder in each.folders})


def _open_again(configured: Repository, session: Session) -> Session:
    """A session with the new configuration on the version that was planned for."""
    assert session.branch is not None
    opened = configured.writable_session(session.branch)
    if opened.snapshot_id != session.snapshot_id:
        raise ConflictError(
            message=f"somebody committed to {session.branch} meanwhile",
            expected_parent=session.snapshot_id,
            actual_parent=opened.snapshot_id,
        )
    return opened
