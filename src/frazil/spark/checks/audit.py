"""Run quality checks in tasks, and report their findings."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from frazil.spark.runtime import count_slots
from frazil.spark.transaction import Runner
from frazil.virtual.source_formats import without_codec_warnings

_SHOWN_FINDINGS = 50
_HEADINGS = ("check", "variable", "region", "file", "what it is")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be, and where."""

    message: str
    check: str = ""
    """The name of the check; that of the function, unless it says otherwise."""
    variable: str | None = None
    files: tuple[str, ...] = ()
    """The source files without which it would not be so; none where no file is to blame."""
    region: tuple[int, int] | None = None
    """From where to where along the dimension that files follow each other along."""


def render_findings(findings: Sequence[Finding]) -> str:
    """Findings as a table, of the first ones if there are many."""
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
    """Where the data of a source file is, along the dimension that files follow each other along."""

    file: str
    dim: str | None = None
    """None for a file that is all there is."""
    start: int = 0
    stop: int = 0

    @property
    def indexers(self) -> dict[str, slice]:
        """What `Dataset.isel` takes."""
        return {} if self.dim is None else {self.dim: slice(self.start, self.stop)}

    @property
    def ends(self) -> tuple[int, int] | None:
        """From where to where."""
        return None if self.dim is None else (self.start, self.stop)


@dataclass(frozen=True, slots=True, eq=False)
class VariableMetadata:
    """What some files tell of a variable."""

    variable: str
    data_type: Any
    attributes: Mapping[str, Any]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NewVersion:
    """A group as it would be published."""

    dataset: xr.Dataset
    """Lazy, decoded."""
    metadata: Mapping[str, Mapping[str, Any]]
    """The `zarr.json` of each array."""
    before: Mapping[str, Mapping[str, Any]]
    """The same in the version before; empty where there is none."""
    dim: str | None
    regions: Sequence[FileRegion]
    """Of the files that would come with it, in their order."""
    told: Sequence[VariableMetadata] = ()

    def files_from(self, position: int) -> tuple[str, ...]:
        """The files behind a position along the dimension."""
        return tuple(each.file for each in self.regions if each.start >= position)

    def files_at(self, position: int) -> tuple[str, ...]:
        """The file that a position along the dimension comes from, if it is one of these."""
        return tuple(each.file for each in self.regions if each.start <= position < each.stop)


@dataclass(frozen=True, slots=True, eq=False)
class NewRegion:
    """What a file brings."""

    dataset: xr.Dataset
    """Lazy, decoded, of the region only."""
    region: FileRegion
    open_source: Callable[[], xr.Dataset]
    """The file itself."""

    def find(self, check: str, message: str, variable: str | None = None) -> Finding:
        """A finding about this file."""
        return Finding(message, check, variable, (self.region.file,), self.region.ends)


class WholeCheck(Protocol):
    """Looks at coordinates and metadata of the whole."""

    @property
    def name(self) -> str:
        """What findings call it."""

    def check_whole(self, version: NewVersion) -> Sequence[Finding]:
        """What is wrong."""


class RegionCheck(Protocol):
    """Looks at the data of a source file."""

    @property
    def name(self) -> str:
        """What findings call it."""

    @property
    def share_read(self) -> float:
        """How much of the data it reads, to size tasks by."""

    def check_region(self, region: NewRegion) -> Sequence[Finding]:
        """What is wrong."""


AnyCheck = WholeCheck | RegionCheck

OpenSource = Callable[[str], xr.Dataset]
"""Opens a file by its location."""

_FILE_BYTES = 4 << 20
"""What beginning with a file costs is worth reading so much."""

_PASSING = (
    ThrottledError,
    StorageTimeoutError,
    StorageUnreachableError,
    IncompleteResponseError,
)
"""What says nothing about the data."""


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A new version that nothing points to, and what came into it."""

    session: Session
    """Of the new version; workers get it."""
    former: Session
    group: str
    dim: str | None
    regions: tuple[FileRegion, ...]
    told: tuple[VariableMetadata, ...]
    open_source: OpenSource
    bytes_each: int
    """Of the data of one of the regions, as they are in memory."""


def run_checks(runner: Runner, subject: Subject, checks: Sequence[AnyCheck]) -> list[Finding]:
    """Everything that checks find; what a check raises is one of these."""
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
    """Whether a check looks at the whole."""
    return hasattr(check, "check_whole")


def is_partial(check: AnyCheck) -> TypeGuard[RegionCheck]:
    """Whether a check looks at the data of each file."""
    return hasattr(check, "check_region")


def plan_tasks(
    regions: Sequence[FileRegion], bytes_each: int, share: float, slots: int
) -> list[list[FileRegion]]:
    """Regions by task, such that each has enough to do and all slots have some."""
    cost = _FILE_BYTES + int(bytes_each * share)
    return pack(regions, [cost] * len(regions), choose_task_bytes(cost * len(regions), slots))


@dataclass(frozen=True, slots=True)
class _Group:
    checks: tuple[Any, ...]
    regions: tuple[FileRegion, ...]
    """None for checks of the whole."""


@dataclass(frozen=True, slots=True)
class _Task:
    subject: Subject

    def __call__(self, group: _Group) -> list[Finding]:
        with without_codec_warnings():
            try:
                dataset = _open(self.subject)
            except _PASSING:
                raise
            except Exception as error:
                return [Finding(_tell(error), each.name) for each in group.checks]
            if group.regions:
                return check_regions(self.subject, dataset, group.checks, group.regions)
            return check_whole(self.subject, dataset, group.checks)


def check_whole(
    subject: Subject, dataset: xr.Dataset, checks: Sequence[WholeCheck]
) -> list[Finding]:
    """What checks of the whole find."""
    version = NewVersion(
        dataset,
        _read_metadata(subject.session, subject.group),
        _read_metadata(subject.former, subject.group),
        subject.dim,
        subject.regions,
        subject.told,
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
    """What checks find in the data of some files."""
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
    except _PASSING:
        raise
    except Exception as error:
        return [replace(blank, message=_tell(error))]


def _tell(error: Exception) -> str:
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
