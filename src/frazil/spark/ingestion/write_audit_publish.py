"""Write-audit-publish: write and check the new version before the branch moves."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from frazil.errors import FailedChecksError
from frazil.repository.session import Session
from frazil.repository.session_state import SessionState
from frazil.spark.checks.audit import (
    AnyCheck,
    FileRegion,
    Finding,
    Subject,
    VariableMetadata,
    render_findings,
    run_checks,
)
from frazil.spark.ingestion.ingest_plan import IngestPlan, have_one_clock
from frazil.spark.ingestion.source_data import ParsedSource, Reading, SourceData
from frazil.spark.transaction import Runner
from frazil.virtual.source import SourceHeader

_GUESSED_ITEM_BYTES = 16
_ORDERED = "biufmM"


def check_session(
    runner: Runner,
    session: Session,
    checks: Sequence[AnyCheck],
    found: IngestPlan,
    sources: Sequence[ParsedSource],
    reading: Reading,
    group: str,
) -> None:
    """Run checks on the uncommitted session; raise FailedChecksError with all findings."""
    if not checks:
        return
    regions = plan_regions(found, sources)
    subject = Subject(
        session=session.fork(),
        former=Session(SessionState(session.state.context, session.state.view.snapshot)),
        group=group,
        dim=found.append_dim,
        regions=regions,
        told=gather(sources),
        open_source=SourceData(reading),
        bytes_each=count_bytes(found) // max(1, len(regions)),
    )
    findings = run_checks(runner, subject, checks)
    if findings:
        raise refuse(findings)


def refuse(findings: Sequence[Finding]) -> FailedChecksError:
    """Return the error for findings."""
    count = f"{len(findings)} findings" if len(findings) > 1 else "a finding"
    return FailedChecksError(
        f"the checks have {count}, and nothing was published:\n{render_findings(findings)}",
        findings=findings,
        files=[file for each in findings for file in each.files],
    )


def refuse_late(new: Sequence[SourceHeader], existing: SourceHeader, dim: str | None) -> None:
    """Raise FailedChecksError for files that belong between existing data.

    They were left out of an earlier ingest, and data can't be inserted there.
    """
    text = "it belongs before the end of what is there, where nothing can be inserted"
    late = [Finding(text, "in order", dim, (each.location,)) for each in new
            if is_late(each, existing, dim)]  # fmt: skip
    if late:
        raise refuse(late)


def is_late(header: SourceHeader, existing: SourceHeader, dim: str | None) -> bool:
    """Return whether all coordinate values of a file are new and lie between existing ones."""
    if dim is None or dim not in header.arrays or dim not in existing.arrays:
        return False
    mine, theirs = header.arrays[dim], existing.arrays[dim]
    if mine.values is None or theirs.values is None or not len(mine.values) * len(theirs.values):
        return False
    is_comparable = mine.values.dtype.kind in _ORDERED and theirs.values.dtype.kind in _ORDERED
    if not is_comparable or not have_one_clock(header, existing, dim):
        return False
    between = (mine.values < theirs.values.max()) & (mine.values > theirs.values.min())
    return bool(np.all(between)) and not np.any(np.isin(mine.values, theirs.values))


def plan_regions(found: IngestPlan, sources: Sequence[ParsedSource]) -> tuple[FileRegion, ...]:
    """Return the region of each file, sorted by start."""
    regions = []
    for each in sources:
        region = found.regions[each.header.name]
        if region is None:
            regions.append(FileRegion(each.location))
        else:
            regions.append(FileRegion(each.location, found.append_dim, *region))
    return tuple(sorted(regions, key=lambda region: region.start))


def gather(sources: Sequence[ParsedSource]) -> tuple[VariableMetadata, ...]:
    """Return the variable metadata of the files, grouped by equal metadata."""
    texts: dict[int, str] = {}
    told: dict[str, VariableMetadata] = {}
    files: dict[str, list[str]] = {}
    for source in sources:
        for name, array in source.header.arrays.items():
            if "data_type" not in array.metadata:
                continue
            # Most files share one header, which is serialized once.
            if id(array) not in texts:
                content = [name, array.metadata["data_type"], dict(array.attributes)]
                texts[id(array)] = json.dumps(content, sort_keys=True)
            text = texts[id(array)]
            data_type = array.metadata["data_type"]
            told.setdefault(text, VariableMetadata(name, data_type, dict(array.attributes), ()))
            files.setdefault(text, []).append(source.location)
    return tuple(replace(each, files=tuple(files[text])) for text, each in told.items())


def count_bytes(found: IngestPlan) -> int:
    """Return the decoded size of all ingested data in bytes."""
    total = 0
    for variable in found.plan.variables.values():
        shape = dict(enumerate(variable.metadata["shape"]))
        dims = list(variable.metadata.get("dimension_names") or ())
        if found.append_dim in dims:
            spans = [region for region in found.regions.values() if region is not None]
            shape[dims.index(found.append_dim)] = sum(stop - start for start, stop in spans)
        total += prod(shape.values()) * _item_bytes(variable.metadata["data_type"])
    return total


def _item_bytes(data_type: object) -> int:
    with contextlib.suppress(TypeError):
        return np.dtype(data_type).itemsize  # type: ignore[call-overload, no-any-return]
    return _GUESSED_ITEM_BYTES
