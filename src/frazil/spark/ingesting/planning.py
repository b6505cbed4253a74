"""What an ingest would write, and everything that is wrong with its sources: pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidSourcesError
from frazil.spark.ingesting.encodings import plan_metadata
from frazil.spark.ingesting.existing import THE_REPOSITORY, cut_out
from frazil.spark.ingesting.ledger import Region
from frazil.spark.ingesting.modes import (
    Choice,
    Surroundings,
    choose_native,
    find_one_way,
    find_unsolved,
    plan_native,
)
from frazil.spark.ingesting.native import NativeArray
from frazil.virtual import (
    Plan,
    Problem,
    ProblemKind,
    Report,
    Severity,
    SourceHeader,
    Treatment,
    combine,
)
from frazil.virtual.combining.agreement import are_equal, compare, compare_meaning, compare_storage
from frazil.virtual.sources import ArrayHeader

Replacing = tuple[SourceHeader, Region | None]
"""A source, and the region that it was or is to be in."""


@dataclass(frozen=True, slots=True, eq=False)
class IngestPlan:
    """How sources come to a group."""

    plan: Plan
    append_dim: str | None
    regions: Mapping[str, Region | None]
    """Of the sources that are ingested, where each goes along the dimension."""
    replaced: Mapping[str, Region | None] = field(default_factory=dict)
    """Those of them that were there before."""
    existing: SourceHeader | None = None
    kept: tuple[str, ...] = ()
    """The parts of the group that stay as they are."""
    natives: Mapping[str, NativeArray] = field(default_factory=dict)
    """The variables whose values are written anew."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why they are."""
    asked: frozenset[str] = frozenset()
    """Variables that are made as the caller said."""
    places: Mapping[str, Mapping[str, Region]] = field(default_factory=dict)
    """Where sources that fill a part go, by dimension."""


def plan_ingest(
    new: Sequence[SourceHeader],
    changed: Sequence[Replacing],
    existing: SourceHeader | None,
    append_dim: str | None,
    choice: Choice | None = None,
) -> IngestPlan:
    """Where each source goes; raises InvalidSourcesError with all problems and their files.

    Without a choice everything is to be virtual.
    """
    choice = choice or Choice()
    replaced = {header.name: region for header, region in changed}
    holes = [region or (0, 0) for region in replaced.values()]
    kept = cut_out(existing, append_dim, holes) if existing is not None else []
    headers = [*new, *(header for header, _ in changed)]
    plan = combine([*kept, *headers], append_dim or ())
    found = IngestPlan(
        plan,
        append_dim,
        {header.name: _region(plan, append_dim, header.name) for header in headers},
        replaced,
        existing,
        tuple(each.name for each in kept),
    )
    problems = [*_serious(plan), *_find_displaced(found), *_find_misfits(found)]
    there = existing.arrays if existing is not None else {}
    reasons = choose_native(plan, problems, there, choice)
    refuse([*find_unsolved(problems, reasons), *find_one_way(there, reasons)], choice)
    return _with_natives(found, headers, reasons, choice)


def _with_natives(
    found: IngestPlan, headers: Sequence[SourceHeader], reasons: Mapping[str, str], choice: Choice
) -> IngestPlan:
    """The plan with the variables that are written anew."""
    there = found.existing.arrays if found.existing is not None else {}
    around = Surroundings(
        headers, found.regions, there, bool(found.kept), found.append_dim, choice.wishes
    )
    variables = dict(found.plan.variables)
    natives = {}
    for name in reasons:
        metadata, natives[name] = plan_native(variables[name], around)
        variables[name] = replace(variables[name], treatment=Treatment.REENCODED, metadata=metadata)
    asked = {name for name in variables if choice.wishes.names(name) and name not in there}
    for name in asked - natives.keys():
        header = next(each.arrays[name] for each in headers if name in each.arrays)
        shape = variables[name].metadata["shape"]
        metadata = plan_metadata(header, shape, found.append_dim, choice.wishes)
        variables[name] = replace(variables[name], metadata=metadata)
    return replace(
        found,
        plan=replace(found.plan, variables=variables),
        natives=natives,
        reasons=reasons,
        asked=frozenset(asked),
    )


def find_unread(
    existing: SourceHeader, counted: SourceHeader, names: Iterable[str]
) -> Iterator[Problem]:
    """Times in the repository that were not read, and would have to be converted."""
    for name in sorted(names):
        before, after = existing.arrays[name], counted.arrays[name]
        is_kept = before.metadata["data_type"] == after.metadata["data_type"]
        if not is_kept or before.attributes != after.attributes:
            text = (
                "it is virtual in the repository, and neither its type nor its units hold the times "
                "of the files: rechunk it first"
            )
            yield Problem(ProblemKind.COORDINATE, name, text, ())


def find_converted(
    headers: Sequence[SourceHeader], counted: Sequence[SourceHeader]
) -> Iterator[Problem]:
    """Arrays whose values are no longer those of their chunks, which are what fills a region."""
    for before, after in zip(headers, counted, strict=True):
        for name, array in after.arrays.items():
            if array is not before.arrays[name] and not array.is_index:
                text = "it is counted from another moment, or in another type, than the repository"
                yield Problem(ProblemKind.COORDINATE, name, text, (after.name,))


def have_one_clock(one: SourceHeader, other: SourceHeader, dim: str) -> bool:
    """Return whether the coordinates of two sources have the same units and calendar."""
    first, second = one.arrays[dim].attributes, other.arrays[dim].attributes
    return all(first.get(each) == second.get(each) for each in ("units", "calendar"))


def split_replacing(
    new: Sequence[SourceHeader], existing: SourceHeader, dim: str | None
) -> tuple[list[SourceHeader], list[Replacing]]:
    """The sources that bring something new, and those whose place is all there already."""
    there = _values_along(existing, dim)
    bringing: list[SourceHeader] = []
    replacing: list[Replacing] = []
    for header in new:
        values = _values_along(header, dim)
        region = None
        if dim is not None and there is not None and values is not None:
            region = find_run(there, values) if have_one_clock(header, existing, dim) else None
        if region is None:
            bringing.append(header)
        else:
            replacing.append((header, region))
    return bringing, replacing


def _values_along(header: SourceHeader, dim: str | None) -> NDArray[Any] | None:
    return header.arrays[dim].values if dim is not None and dim in header.arrays else None


def find_run(there: NDArray[Any], values: NDArray[Any]) -> Region | None:
    """Where values follow each other in others as they do here."""
    for start in np.flatnonzero(there == values[0]).tolist() if len(values) else ():
        if are_equal(there[start : start + len(values)], values):
            return start, start + len(values)
    return None


def loaded_everywhere(headers: Sequence[SourceHeader]) -> dict[str, ArrayHeader]:
    """The arrays whose values come with every header that has them."""
    arrays = [array for header in headers for array in header.arrays.values()]
    unread = {array.name for array in arrays if array.values is None}
    return {array.name: array for array in arrays if array.name not in unread}


def refuse(wrong: Sequence[Problem], choice: Choice) -> None:
    """Raise InvalidSourcesError for what can't be carried out."""
    if wrong:
        files = [file for problem in wrong for file in problem.files]
        hint = "variables can be left out with skip="
        if choice.mode == "virtual":
            hint = (
                "what must be re-encoded needs mode='auto' or 'native', or is left out with skip="
            )
        raise InvalidSourcesError(
            f"the sources can't be ingested as they are; {hint}:\n{Report(tuple(wrong))}",
            files=[file for file in files if not file.startswith(THE_REPOSITORY)],
        )


def _serious(plan: Plan) -> Iterator[Problem]:
    yield from plan.report.with_severity(Severity.STOPS)
    yield from plan.report.with_severity(Severity.REENCODES)


def _region(plan: Plan, dim: str | None, name: str) -> Region | None:
    if dim is None or dim not in plan.regions:
        return None
    start, stop = plan.regions[dim][plan.sources[name]].tolist()
    return start, stop


def _find_displaced(found: IngestPlan) -> Iterator[Problem]:
    """What is there already must stay where it is."""
    dim = found.append_dim
    if dim is None:
        return
    end = found.existing.dims.get(dim, 0) if found.existing is not None else 0
    for name, region in found.regions.items():
        if region is None:
            continue
        before = found.replaced.get(name)
        if before is not None and before != region:
            text = f"it is in {_show(before)} and would be in {_show(region)} now"
            yield Problem(ProblemKind.LENGTH, dim, text, (name,))
        if before is None and region[0] < end:
            text = f"it would come to {_show(region)}, before the end of what is there, {end}"
            yield Problem(ProblemKind.OVERLAP, dim, text, (name,))


def _show(region: Region) -> str:
    return f"[{region[0]}:{region[1]}]"


def _find_misfits(found: IngestPlan) -> Iterator[Problem]:
    """Where nothing of the group stays, nothing has been compared with it yet."""
    if found.existing is None or found.kept:
        return
    dim = found.append_dim

    def fixed(header: ArrayHeader) -> list[int]:
        pairs = zip(header.dims, header.shape, strict=True)
        return [extent for each, extent in pairs if each != dim]

    for name, variable in found.plan.variables.items():
        there = found.existing.arrays.get(name)
        if there is None:
            continue
        both = [(THE_REPOSITORY, there), *((each, ArrayHeader(name, variable.metadata))
                for each in found.regions)]  # fmt: skip
        yield from compare(both, ProblemKind.DIMENSIONS, "dimensions", lambda each: each.dims)
        yield from compare(both, ProblemKind.LENGTH, "length of its other axes", fixed)
        yield from compare_meaning(both)
        if variable.values is None:
            yield from compare_storage(both)
