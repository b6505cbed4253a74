"""Checks on their way to workers: planned by the work that they are, run, and what they found."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeGuard

import xarray as xr
import zarr

from frazil.errors import (
    IncompleteResponseError,
    StorageTimeoutError,
    StorageUnreachableError,
    ThrottledError,
)
from frazil.maintenance.batches import pack
from frazil.session import Session
from frazil.spark.arrays.regions import choose_task_bytes
from frazil.spark.arrays.runner import Runner, count_slots
from frazil.spark.checks.findings import Finding
from frazil.spark.checks.subjects import (
    AnyCheck,
    FileRegion,
    NewRegion,
    NewVersion,
    RegionCheck,
    TellsOf,
    WholeCheck,
)
from frazil.virtual.quiet import without_codec_warnings

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
    told: tuple[TellsOf, ...]
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
