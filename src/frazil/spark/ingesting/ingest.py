"""Ingesting files into a repository: one commit, or none."""

import contextlib
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from frazil.errors import (
    ConflictError,
    FailedChecksError,
    InvalidInputError,
    InvalidSourcesError,
)
from frazil.opening import open_repository
from frazil.repository import Repository
from frazil.spark.arrays.regions import LEAST_TASK_BYTES
from frazil.spark.arrays.runner import Runner, RunOn, choose_runner, count_slots
from frazil.spark.checks.own import Function, as_checks
from frazil.spark.checks.samples import SamplesEqualSource
from frazil.spark.checks.subjects import AnyCheck
from frazil.spark.ingesting.attempt import Attempt, OpenedSources
from frazil.spark.ingesting.configuring import current_config
from frazil.spark.ingesting.discovery import SourceFile, SourceName, discover
from frazil.spark.ingesting.encodings import Chunks, Encoding, Wishes
from frazil.spark.ingesting.existing import read_existing
from frazil.spark.ingesting.frames import parse_sources
from frazil.spark.ingesting.gate import refuse
from frazil.spark.ingesting.here import parse_here
from frazil.spark.ingesting.ledger import read_ledger, subtract
from frazil.spark.ingesting.options import (
    Mode,
    OnBadFile,
    OnFailedCheck,
    OnOverlap,
    Options,
    refuse_mistyped,
    refuse_unknown,
    refuse_unnamed,
)
from frazil.spark.ingesting.parsing import (
    BadFile,
    Outcome,
    ParsedSource,
    Reading,
    bad_files,
    group_files,
)
from frazil.spark.ingesting.region_options import RegionOption
from frazil.spark.ingesting.report import IngestReport, nothing_to_do, with_quarantined
from frazil.spark.job import Job
from frazil.urls import Location
from frazil.virtual import VirtualChunkContainer
from frazil.virtual.readers.stores import Credentials, SourceStores

Sources = SourceName | Iterable[SourceName] | DataFrame

_TRIES = 5
"""So often a plan is made anew because somebody else committed."""
_ROUNDS = 10
"""So often a plan is made anew because files are left out."""
_SHOWN_FILES = 20
_URI_COLUMNS = ("source", "uri", "url", "path")


def ingest(
    spark: SparkSession | None,
    sources: Sources,
    repo: Repository | Location,
    *,
    branch: str = "main",
    group: str = "/",
    append_dim: str | None = None,
    mode: Mode = "auto",
    chunks: Chunks | None = None,
    encoding: Encoding | None = None,
    region: RegionOption | None = None,
    on_overlap: OnOverlap = "refuse",
    on_bad_file: OnBadFile = "fail",
    checks: Iterable[AnyCheck | Function] = (),
    on_failed_check: OnFailedCheck = "fail",
    message: str | None = None,
    dry_run: bool = False,
    statistics: bool = False,
    rename: Mapping[str, str] | None = None,
    skip: Collection[str] = (),
    load: Collection[str] = (),
    source_group: str = "",
    containers: Iterable[VirtualChunkContainer] = (),
    credentials: Credentials | None = None,
    storage_options: Mapping[str, Any] | None = None,
    files_per_task: int = 16,
    run_on: RunOn = "auto",
    job: Job | None = None,
) -> IngestReport:
    """Bring files into a group of a repository, in one commit.

    `sources` are paths and URLs of files, patterns, prefixes, or a DataFrame with a column of them.
    Files that were ingested before are left out, unless they have changed; a second call does nothing.
    `append_dim` is the dimension that files follow each other along, by the values of its coordinate.

    `mode` says whether variables are referred to (`"virtual"`), decoded and written (`"native"`), or
    what each of them allows (`"auto"`). `chunks`, by dimension or by variable and dimension, and
    `encoding`, by variable, tell how what is written is stored.

    `region` fills a part of arrays that are there: a slice by dimension, or `"auto"` for the place that
    the values of coordinates tell.

    With `on_overlap="replace"` a file whose values of that coordinate are all there already takes the
    place of what is there; one that overlaps in part is refused.

    `checks`, of `frazil.spark.checks` or functions, see the new version before the branch does. With
    `on_failed_check="quarantine"` the files that they blame are left out, and tried again next time.

    With `statistics` the chunks that are new are measured in the same commit, as `analyze` does it; for
    variables that are referred to, this reads them.

    `rename` gives arrays and dimensions other names, `skip` leaves arrays out, `load` writes the values
    of arrays into the repository, `source_group` is the group inside of the files. `containers` and
    `credentials` tell how sources are reached, and as whom, as `frazil.virtual.open` takes them.

    Files that one task would open, `files_per_task` of them, are ingested in this process by the same
    plan, for which `spark` may be None; the report tells it, and `run_on` decides otherwise.

    Raises InvalidSourcesError, with everything that is wrong, for sources that don't fit each other or
    what is there, FailedChecksError with all findings, ConflictError where others commit to the same
    again and again, JobError and JobCancelledError. The branch is then as it was.
    """
    refuse_unknown(
        mode=mode, on_overlap=on_overlap, on_bad_file=on_bad_file, on_failed_check=on_failed_check
    )
    refuse_mistyped(
        append_dim=append_dim, group=group, source_group=source_group, skip=skip, load=load,
        rename=rename, chunks=chunks, encoding=encoding,
    )  # fmt: skip
    if mode == "virtual" and (chunks or encoding):
        raise InvalidInputError("chunks= and encoding= are for mode='native' and 'auto'")
    wanted = as_checks(checks)
    if region is not None and any(isinstance(each, SamplesEqualSource) for each in wanted):
        raise InvalidInputError(
            "samples_equal_source compares all there is beside a file's place along append_dim, and "
            "not the parts that region= fills: leave it out"
        )
    start = time.perf_counter()
    if not isinstance(repo, Repository):
        repo = open_repository(repo, storage_options=storage_options)
    options = Options(
        branch=branch,
        group=group.strip("/"),
        append_dim=append_dim,
        on_overlap=on_overlap,
        on_bad_file=on_bad_file,
        mode=mode,
        message=message,
        dry_run=dry_run,
        files_per_task=files_per_task,
        checks=wanted,
        on_failed_check=on_failed_check,
        containers=tuple(containers),
        credentials=dict(credentials or {}),
        wishes=Wishes(dict(chunks or {}), dict(encoding or {})),
        region=region,
        statistics=statistics,
    )
    known = (current_config(repo).virtual_chunk_containers or {}).values()
    reading = Reading(
        group=source_group,
        load=tuple(load),
        skip=tuple(skip),
        rename=dict(rename or {}),
        containers=(*known, *options.containers),
        credentials=options.credentials,
    )
    with _ending(job or Job()) as run:
        files = discover(_names(sources), SourceStores(reading.containers, reading.credentials))
        return _run(spark, run_on, run, repo, files, reading, options, start)


def _run(
    spark: SparkSession | None,
    run_on: RunOn,
    job: Job,
    repository: Repository,
    files: tuple[SourceFile, ...],
    reading: Reading,
    options: Options,
    start: float,
) -> IngestReport:
    ledger = read_ledger(repository.readonly_session(options.branch).store)
    work = subtract(files, ledger, options.group)
    if not work.files:
        return nothing_to_do(job.id, work, ())
    locations = [file.location for file in work.files]
    most = options.files_per_task
    size = sum(file.version.size_bytes for file in work.files)
    is_small = len(locations) <= most and (options.mode == "virtual" or size <= LEAST_TASK_BYTES)
    storage = repository.storage
    runner = choose_runner(spark, job, run_on, storage, is_small=is_small)
    with job.leasing(storage, "ingest"), _opening(runner, reading, locations, most) as parsed:
        bad = bad_files(parsed.outcomes)
        is_empty = len(bad) == len(parsed.outcomes) and all(each.is_empty for each in bad)
        if bad and (options.on_bad_file == "fail" or (is_empty and not work.known)):
            raise _refuse(bad, is_empty)
        _refuse_unknown_names(parsed.outcomes, repository, reading, options)
        return _try(Attempt(job, repository, files, parsed, options, reading, start))


@contextlib.contextmanager
def _opening(
    runner: Runner, reading: Reading, locations: list[str], most: int
) -> Iterator[OpenedSources]:
    """Open files, on Spark or here; their references are kept until the end of the block."""
    if runner.spark is None:
        yield parse_here(runner, reading, locations)
        return
    groups = group_files(locations, count_slots(runner.spark), most)
    with parse_sources(runner, runner.spark, reading, groups) as parsed:
        yield parsed


def _try(attempt: Attempt) -> IngestReport:
    """Plan and commit; again after a conflict, on top of what others did, and without bad files."""
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


@contextlib.contextmanager
def _ending(job: Job) -> Iterator[Job]:
    try:
        yield job
    finally:
        job.end()


def _names(sources: Sources) -> list[SourceName]:
    if isinstance(sources, str | PathLike):
        return [sources]
    if isinstance(sources, DataFrame):
        return [row[0] for row in sources.select(_find_column(sources.columns)).collect()]
    return list(sources)


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
    """Raise InvalidInputError where an option names something that there is not."""
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
    # A coordinate without a dimension of its name has a message of its own.
    if options.append_dim is not None and options.append_dim not in arrays:
        refuse_unnamed("append_dim", [options.append_dim], dims, "dimensions")
    chunks, encoding = options.wishes.chunks, options.wishes.encoding
    named = [name for name, size in chunks.items() if isinstance(size, Mapping)]
    plain = [name for name in chunks if name not in named]
    if {*named, *encoding} - arrays.keys() or set(plain) - dims.keys():
        store = repository.readonly_session(options.branch).store
        existing = read_existing(store, options.group, {}, None)
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
