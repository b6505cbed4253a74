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
from frazil.spark.ingestion.ingest_plan import IngestPlan
from frazil.spark.ingestion.source_data import ParsedSource, Reading, SourceData
from frazil.spark.runtime import Runner

_GUESSED_ITEM_BYTES = 16


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
        dim=found.dims[0] if found.dims else None,
        regions=regions,
        file_metadata=gather(sources),
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


def plan_regions(found: IngestPlan, sources: Sequence[ParsedSource]) -> tuple[FileRegion, ...]:
    """Return the region of each file, sorted by start."""
    regions = []
    for each in sources:
        place = found.places[each.header.name]
        along = [dim for dim in found.dims if dim in place]
        if not along:
            regions.append(FileRegion(each.location))
            continue
        positions = {dim: _find_positions(found, each.header.name, dim) for dim in along}
        regions.append(FileRegion(each.location, along[0], *place[along[0]], positions))
    return tuple(sorted(regions, key=lambda region: region.start))


def _find_positions(found: IngestPlan, name: str, dim: str) -> slice | tuple[int, ...]:
    axis = found.plan.axes.get(dim)
    runs = () if axis is None else axis.runs[found.plan.sources[name]]
    if len(runs) < 2:
        return slice(*found.places[name][dim])
    return tuple(at for run in runs for at in range(run.start, run.stop))


def gather(sources: Sequence[ParsedSource]) -> tuple[VariableMetadata, ...]:
    """Return the variable metadata of the files, grouped by equal metadata."""
    texts: dict[int, str] = {}
    found: dict[str, VariableMetadata] = {}
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
            found.setdefault(text, VariableMetadata(name, data_type, dict(array.attributes), ()))
            files.setdefault(text, []).append(source.location)
    return tuple(replace(each, files=tuple(files[text])) for text, each in found.items())


def count_bytes(found: IngestPlan) -> int:
    """Return the decoded size of all ingested data in bytes."""
    total = 0
    for variable in found.plan.variables.values():
        shape = list(variable.metadata["shape"])
        for axis, dim in enumerate(variable.metadata.get("dimension_names") or ()):
            spans = {each[dim] for each in found.places.values() if dim in each}
            if dim in found.dims and spans:
                shape[axis] = sum(stop - start for start, stop in spans)
        total += prod(shape) * _item_bytes(variable.metadata["data_type"])
    return total


def _item_bytes(data_type: object) -> int:
    with contextlib.suppress(TypeError):
        return np.dtype(data_type).itemsize  # type: ignore[call-overload, no-any-return]
    return _GUESSED_ITEM_BYTES
