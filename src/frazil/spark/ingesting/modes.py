"""Which variables are referred to, and which are written anew: pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from frazil.spark.ingesting.encodings import (
    Wishes,
    can_encode,
    find_unit,
    item_bytes,
    plan_metadata,
)
from frazil.spark.ingesting.ledger import Region
from frazil.spark.ingesting.native import NativeArray, Part
from frazil.spark.ingesting.options import Mode
from frazil.virtual import (
    ArrayHeader,
    Plan,
    Problem,
    ProblemKind,
    SourceHeader,
    Treatment,
    VariablePlan,
)

SOLVED_BY_DECODING = frozenset({
    ProblemKind.CODECS, ProblemKind.CHUNKS, ProblemKind.FILL_VALUE, ProblemKind.RAGGED,
    ProblemKind.UNREACHABLE,
})  # fmt: skip
"""Values that are decoded have none of these any more; what they mean has still to be the same."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What decides between references and values."""

    mode: Mode = "virtual"
    wishes: Wishes = field(default_factory=Wishes)
    native_there: frozenset[str] = frozenset()
    """Arrays that have chunks of their own in the repository."""


def choose_native(
    plan: Plan, problems: Iterable[Problem], there: Mapping[str, ArrayHeader], choice: Choice
) -> dict[str, str]:
    """The variables whose values are written, with the reason of each."""
    if choice.mode == "virtual":
        return {}
    reasons: dict[str, list[str]] = {}
    for each in problems:
        if each.kind in SOLVED_BY_DECODING:
            reasons.setdefault(each.subject, []).append(each.text)
    found = {}
    for name, variable in plan.variables.items():
        if variable.treatment is Treatment.INLINE or "data_type" not in variable.metadata:
            continue
        if choice.mode == "native":
            found[name] = "mode='native'"
        elif name in choice.native_there:
            found[name] = "it is native in the repository"
        elif name in reasons:
            found[name] = "; ".join(dict.fromkeys(reasons[name]))
        elif choice.wishes.names(name) and name not in there:
            found[name] = "its encoding was asked for"
    return found


def find_unsolved(problems: Iterable[Problem], native: Mapping[str, str]) -> Iterator[Problem]:
    """The problems that are left where some variables are decoded."""
    for each in problems:
        if each.kind not in SOLVED_BY_DECODING or each.subject not in native:
            yield each


def find_one_way(there: Mapping[str, ArrayHeader], native: Iterable[str]) -> Iterator[Problem]:
    """Arrays of the repository whose codecs can be read, but not written."""
    for name in native:
        if name in there and not can_encode(there[name].metadata):
            text = (
                "its codecs in the repository can only decode: rechunk it with other compressors, or "
                "leave it out with skip="
            )
            yield Problem(ProblemKind.CODECS, name, text, ())


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """What a native array is planned in."""

    headers: Sequence[SourceHeader]
    """Of the sources that are ingested."""
    regions: Mapping[str, Region | None]
    there: Mapping[str, ArrayHeader]
    is_kept: bool
    """Whether anything of the group stays."""
    append_dim: str | None
    wishes: Wishes


def plan_native(
    variable: VariablePlan, around: Surroundings
) -> tuple[dict[str, object], NativeArray]:
    """The metadata of an array, and which source goes where in it."""
    having = [each for each in around.headers if variable.name in each.arrays]
    first = having[0].arrays[variable.name]
    shape = tuple(variable.metadata["shape"])
    there = around.there.get(variable.name)
    if there is not None:
        metadata = {**there.metadata, "shape": list(shape)}
    else:
        metadata = plan_metadata(first, shape, around.append_dim, around.wishes)
    axis = first.dims.index(around.append_dim) if around.append_dim in first.dims else None
    if axis is None:
        having = [] if there is not None and around.is_kept else having[:1]
    parts = [
        Part(each.name, _place(each.arrays[variable.name], axis, around.regions[each.name]))
        for each in having
    ]
    return metadata, NativeArray(
        variable.name,
        shape,
        find_unit(metadata),
        first.chunk_shape,
        item_bytes(first),
        axis,
        tuple(parts),
    )


def _place(header: ArrayHeader, axis: int | None, region: Region | None) -> tuple[Region, ...]:
    box = [(0, extent) for extent in header.shape]
    if axis is not None and region is not None:
        box[axis] = region
    return tuple(box)
