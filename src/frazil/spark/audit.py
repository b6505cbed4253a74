"""Run quality checks in tasks and report their findings."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeGuard

import xarray as xr
import zarr

from frazil.display import render_table
from frazil.errors import (
    IncompleteResponseError,
    StorageTimeoutError,
    StorageUnreachableError,
    ThrottledError,
)
from frazil.maintenance.reachability import pack
from frazil.repository.session import Session
from frazil.spark.regions import choose_task_bytes
from frazil.spark.runtime import Runner, count_slots
from frazil.virtual.source_formats import without_codec_warnings

_SHOWN_FINDINGS = 50
_HEADINGS = ("check", "variable", "region", "file", "what it is")


@dataclass(frozen=True, slots=True)
class Finding:
    """Problem found by a check, and its location.

    Parameters
    ----------
    message
        What is wrong.
    check
        Name of the check; by default that of the function.
    variable
        Variable with the problem; None for the whole dataset.
    files
        Source files that cause the problem; empty if no file does.
    region
        Start and stop along the dimension that files are concatenated along.
    """

    message: str
    check: str = ""
    variable: str | None = None
    files: tuple[str, ...] = ()
    region: tuple[int, int] | None = None


def render_findings(findings: Sequence[Finding]) -> str:
    """Render findings as a table, limited to the first ones."""
    lines = render_table(_HEADINGS, [_cells(each) for each in findings[:_SHOWN_FINDINGS]])
    more = len(findings) - _SHOWN_FINDINGS
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


def _cells(finding: Finding) -> tuple[str, ...]:
    region = "" if finding.region is None else "[{}:{}]".format(*finding.region)
    files = finding.files[0] if finding.files else ""
    if len(finding.files) > 1:
        files += f" and {len(finding.files) - 1} more"
    return finding.check, finding.variable or "", region, files, finding.message


@dataclass(frozen=True, slots=True)
class FileRegion:
    """Region that a source file fills along the dimension that files are concatenated along.

    Attributes
    ----------
    file
        URL of the source file.
    dim
        The dimension; None if the file is the whole dataset.
    start, stop
        Start and stop of the region along `dim`.
    positions
        Positions along all dimensions that files are concatenated along.
    """

    file: str
    dim: str | None = None
    start: int = 0
    stop: int = 0
    positions: Mapping[str, slice | tuple[int, ...]] = field(default_factory=dict)

    @property
    def indexers(self) -> dict[str, slice | list[int]]:
        """Indexers for `Dataset.isel`."""
        if self.dim is None:
            return {}
        return {
            dim: each if isinstance(each, slice) else list(each)
            for dim, each in (
                {self.dim: slice(self.start, self.stop)} | dict(self.positions)
            ).items()
        }

    @property
    def ends(self) -> tuple[int, int] | None:
        """Start and stop of the region; None without a dimension."""
        return None if self.dim is None else (self.start, self.stop)


@dataclass(frozen=True, slots=True, eq=False)
class VariableMetadata:
    """Metadata of a variable in source files."""

    variable: str
    data_type: Any
    attributes: Mapping[str, Any]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NewVersion:
    """Group as it would be published."""

    dataset: xr.Dataset
    """Lazy and decoded."""
    metadata: Mapping[str, Mapping[str, Any]]
    """The `zarr.json` of each array."""
    before: Mapping[str, Mapping[str, Any]]
    """The `zarr.json` of each array in the previous version; empty if there is none."""
    dim: str | None
    regions: Sequence[FileRegion]
    """Regions of the new files, in order."""
    file_metadata: Sequence[VariableMetadata] = ()

    def files_from(self, position: int) -> tuple[str, ...]:
        """Return the new files that start at or after a position along the dimension."""
        return tuple(each.file for each in self.regions if each.start >= position)

    def files_at(self, position: int) -> tuple[str, ...]:
        """Return the new file that holds a position along the dimension, if any."""
        return tuple(each.file for each in self.regions if each.start <= position < each.stop)


@dataclass(frozen=True, slots=True, eq=False)
class NewRegion:
    """Data of one new file."""

    dataset: xr.Dataset
    """Lazy and decoded, of the region only."""
    region: FileRegion
    open_source: Callable[[], xr.Dataset]
    """Function that opens the source file."""

    def find(self, check: str, message: str, variable: str | None = None) -> Finding:
        """Return a finding about this file."""
        return Finding(message, check, variable, (self.region.file,), self.region.ends)


class WholeCheck(Protocol):
    """Check of the coordinates and metadata of the whole dataset."""

    @property
    def name(self) -> str:
        """Name of the check in findings."""

    def check_whole(self, version: NewVersion) -> Sequence[Finding]:
        """Return the problems found."""


class RegionCheck(Protocol):
    """Check of the data of each source file."""

    @property
    def name(self) -> str:
        """Name of the check in findings."""

    @property
    def share_read(self) -> float:
        """Fraction of the data it reads, used to size tasks."""

    def check_region(self, region: NewRegion) -> Sequence[Finding]:
        """Return the problems found."""


AnyCheck = WholeCheck | RegionCheck

OpenSource = Callable[[str], xr.Dataset]
"""Function that opens a file by its location."""

_FILE_BYTES = 4 << 20
"""Cost of opening a file, in bytes read."""

_TRANSIENT = (
    ThrottledError,
    StorageTimeoutError,
    StorageUnreachableError,
    IncompleteResponseError,
)
"""Transient errors, which say nothing about the data."""


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """Unpublished new version to check, and the files it was made from."""

    session: Session
    """Session of the new version, sent to workers."""
    former: Session
    group: str
    dim: str | None
    regions: tuple[FileRegion, ...]
    file_metadata: tuple[VariableMetadata, ...]
    open_source: OpenSource
    bytes_each: int
    """Decoded size of the data of one region."""


def run_checks(runner: Runner, subject: Subject, checks: Sequence[AnyCheck]) -> list[Finding]:
    """Run checks and return all findings; an error that a check raises is a finding, too."""
    whole = [each for each in checks if is_whole(each)]
    of_regions = [each for each in checks if is_partial(each)]
    groups: list[_Group] = [_Group(tuple(whole), ())] if whole else []
    if of_regions:
        shares = sum(each.share_read for each in of_regions)
        plan = plan_tasks(subject.regions, subject.bytes_each, shares, count_slots(runner.spark))
        groups += [_Group(tuple(of_regions), tuple(regions)) for regions in plan]
    runner.job.expect("checking", files=len(subject.regions))
    found = runner.run("checking", _Task(subject), groups)
    return [each for findings in found for each in findings]


def is_whole(check: AnyCheck) -> TypeGuard[WholeCheck]:
    """Return True if a check validates the whole dataset."""
    return hasattr(check, "check_whole")


def is_partial(check: AnyCheck) -> TypeGuard[RegionCheck]:
    """Return True if a check validates the data of each file."""
    return hasattr(check, "check_region")


def plan_tasks(
    regions: Sequence[FileRegion], bytes_each: int, share: float, slots: int
) -> list[list[FileRegion]]:
    """Group regions into tasks of suitable size that use all slots."""
    cost = _FILE_BYTES + int(bytes_each * share)
    return pack(regions, [cost] * len(regions), choose_task_bytes(cost * len(regions), slots))


@dataclass(frozen=True, slots=True)
class _Group:
    checks: tuple[Any, ...]
    regions: tuple[FileRegion, ...]
    """Empty for checks of the whole dataset."""


@dataclass(frozen=True, slots=True)
class _Task:
    subject: Subject

    def __call__(self, group: _Group) -> list[Finding]:
        with without_codec_warnings():
            try:
                dataset = _open(self.subject)
            except _TRANSIENT:
                raise
            except Exception as error:
                return [Finding(_describe_error(error), each.name) for each in group.checks]
            if group.regions:
                return check_regions(self.subject, dataset, group.checks, group.regions)
            return check_whole(self.subject, dataset, group.checks)


def check_whole(
    subject: Subject, dataset: xr.Dataset, checks: Sequence[WholeCheck]
) -> list[Finding]:
    """Return the findings of checks of the whole dataset."""
    version = NewVersion(
        dataset,
        _read_metadata(subject.session, subject.group),
        _read_metadata(subject.former, subject.group),
        subject.dim,
        subject.regions,
        subject.file_metadata,
    )
    found: list[Finding] = []
    for check in checks:
        found += _guard(partial(check.check_whole, version), Finding("", check.name))
    return found


def check_regions(
    subject: Subject,
    dataset: xr.Dataset,
    checks: Sequence[RegionCheck],
    regions: Sequence[FileRegion],
) -> list[Finding]:
    """Return the findings of checks of the data of these files."""
    found: list[Finding] = []
    for region in regions:
        data = dataset.isel(region.indexers)
        part = NewRegion(data, region, partial(subject.open_source, region.file))
        for check in checks:
            found += _guard(partial(check.check_region, part), part.find(check.name, ""))
    return found


def _guard(run: Callable[[], Sequence[Finding]], blank: Finding) -> Sequence[Finding]:
    try:
        return run()
    except _TRANSIENT:
        raise
    except Exception as error:
        return [replace(blank, message=_describe_error(error))]


def _describe_error(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"it raised {type(error).__name__}: {text[0] if text else ''}"


def _open(subject: Subject) -> xr.Dataset:
    store: Any = subject.session.store
    group = subject.group or None
    found: xr.Dataset = xr.open_zarr(store, group=group, consolidated=False, chunks=None)
    return found


def _read_metadata(session: Session, group: str) -> Mapping[str, Mapping[str, Any]]:
    try:
        found = zarr.open_group(session.store, path=group, mode="r", zarr_format=3)
    except FileNotFoundError:
        return {}
    return {
        name: json.loads(json.dumps(array.metadata.to_dict())) for name, array in found.arrays()
    }
