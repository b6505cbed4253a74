"""Compute statistics of all chunks of arrays, as one commit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.arguments import verb
from frazil.errors import InvalidInputError
from frazil.maintenance.reachability import pack
from frazil.repository.session import Session
from frazil.spark.job import CommitReport, Job, SparkSession
from frazil.spark.regions import path_of
from frazil.spark.runtime import Runner
from frazil.spark.transaction import AnyRepository, committing
from frazil.tables.columns import Boxes
from frazil.tables.scan_plan import plan_partitions
from frazil.tables.statistics import Analysis, Measures, Subject, find_analysable, plan_analysis
from frazil.virtual.access import Authorize
from frazil.virtual.source_formats import without_codec_warnings


@dataclass(frozen=True, slots=True, eq=False)
class Analyses:
    """Chunks of arrays to measure."""

    all: tuple[Analysis, ...]
    left_out: tuple[str, ...] = ()
    """Arrays that are skipped, with the reason."""

    @property
    def bytes(self) -> int:
        """Decoded size of the chunks to read."""
        return sum(int(each.written.sum()) * each.subject.chunk_bytes for each in self.all)

    def describe(self) -> list[str]:
        """Return notes on the plan for a report."""
        written, unwritten, fresh, unsure = (
            sum(int(count) for count in counts)
            for counts in (
                (each.written.sum() for each in self.all),
                (each.unwritten.sum() for each in self.all),
                (each.fresh for each in self.all),
                (each.without_checksum for each in self.all),
            )
        )
        notes = [
            f"measured {written + unwritten} chunks, {unwritten} of which were never written",
            f"{fresh} were known",
        ]
        if unsure:
            notes.append(f"{unsure} left out, whose references have no checksum")
        return notes + [f"left out: {each}" for each in self.left_out]


def plan_analyses(session: Session, paths: Sequence[str], *, is_strict: bool) -> Analyses:
    """Plan the measurement of arrays in a session, including uncommitted changes.

    Arrays that can't be table columns raise InvalidInputError if strict, and are skipped otherwise.
    """
    found, left_out = [], []
    forked = session.fork()
    with without_codec_warnings():
        for path in paths:
            try:
                found.append(plan_analysis(forked, path))
            except (InvalidInputError, ValueError) as error:
                if is_strict:
                    raise
                left_out.append(f"{path} ({error})")
    return Analyses(tuple(found), tuple(left_out))


def measure_chunks(runner: Runner, session: Session, analyses: Analyses, limit: int) -> None:
    """Measure the planned chunks in tasks of limited bytes, and write the statistics."""
    parts = [
        _Part(number, partition.boxes, partition.chunk_count * each.subject.chunk_bytes)
        for number, each in enumerate(analyses.all)
        for partition in plan_partitions(each.written, each.subject.chunk_bytes, limit)
    ]
    groups = pack(parts, [part.bytes for part in parts], limit)
    measured: list[list[Measures]] = [[] for _ in analyses.all]
    if groups:
        runner.job.expect("measuring", bytes=analyses.bytes)
        task = _MeasureParts(tuple(each.subject for each in analyses.all))
        for results in runner.run("measuring", task, groups):
            for number, found in results:
                measured[number].append(found)
    for each, found_here in zip(analyses.all, measured, strict=True):
        each.write(session, found_here)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Chunks of one array."""

    number: int
    boxes: Boxes
    bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class _MeasureParts:
    subjects: tuple[Subject, ...]

    def __call__(self, parts: Sequence[_Part]) -> list[tuple[int, Measures]]:
        with without_codec_warnings():
            return [(part.number, self.subjects[part.number].measure(part.boxes)) for part in parts]


@verb(job=Job)
def analyze(
    repo: AnyRepository,
    arrays: Sequence[str] | None = None,
    *,
    group: str = "/",
    branch: str = "main",
    authorize: Authorize = (),
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> CommitReport:
    """Compute statistics of chunks, which queries use to prune chunks by a predicate.

    Only chunks written since the last analysis are read.

    Parameters
    ----------
    arrays
        Names of arrays in the group, or paths below it. Default: all arrays in and below the group that
        can be table columns.
    group
        Path of the group.

    Returns
    -------
    CommitReport

    Raises
    ------
    InvalidInputError
        If a named array can't be a table column.
    """
    with committing("analyze", repo, branch, job, spark, authorize) as run:
        session = run.open_session()
        place = path_of(group)
        named = None if arrays is None else [path_of(f"{place}/{name}") for name in arrays]
        paths = list(find_analysable(session, place)) if named is None else named
        analyses = plan_analyses(session, paths, is_strict=named is not None)
        run.notes += analyses.describe()
        limit = run.task_bytes(analyses.bytes)
        runner = run.choose_runner(is_small=analyses.bytes <= limit)
        measure_chunks(runner, session, analyses, limit)
        return run.commit(session, message, metadata)
