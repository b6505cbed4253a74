"""What of a variable has to be the same in every source, and in which sources it is not."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.virtual.combining.problems import Problem, ProblemKind
from frazil.virtual.sources import ArrayHeader

Contributors = Sequence[tuple[str, ArrayHeader]]
"""The sources that have a variable, each by its name."""

CF_ENCODING = (
    "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units", "calendar",
    "dtype", "flag_values", "flag_masks", "flag_meanings",
)  # fmt: skip
"""Attributes that say what stored values mean."""
_ABSENT = "none"


def find_outsiders(
    contributors: Contributors, property: Callable[[ArrayHeader], object]
) -> tuple[str, Mapping[str, tuple[str, ...]]]:
    """What most sources have, and the sources that have something else, by what they have."""
    first = property(contributors[0][1])
    first_text = json.dumps(first, sort_keys=True)
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, header in contributors:
        value = property(header)
        # Spelling a value out takes long, and most are like the first.
        text = first_text if value == first else json.dumps(value, sort_keys=True)
        groups[text].append(name)
    usual = max(groups, key=lambda value: len(groups[value]))
    return usual, {value: tuple(names) for value, names in groups.items() if value != usual}


def compare(
    contributors: Contributors,
    kind: ProblemKind,
    what: str,
    property: Callable[[ArrayHeader], object],
) -> Iterator[Problem]:
    """A problem for each value of a property that is not the usual one."""
    usual, outsiders = find_outsiders(contributors, property)
    subject = contributors[0][1].name
    for value, names in outsiders.items():
        text = f"{what} is {_unquote(value)}, and {_unquote(usual)} elsewhere"
        yield Problem(kind, subject, text, names)


def compare_meaning(contributors: Contributors) -> Iterator[Problem]:
    """Problems with what stored values mean, which no two sources may tell differently."""
    yield from compare(
        contributors, ProblemKind.DATA_TYPE, "data type", lambda each: each.metadata["data_type"]
    )
    for name in CF_ENCODING:
        yield from compare(
            contributors,
            ProblemKind.ENCODING,
            name,
            lambda each, name=name: each.attributes.get(name, _ABSENT),  # type: ignore[misc]
        )


def compare_storage(contributors: Contributors) -> Iterator[Problem]:
    """Problems with how chunks are stored, which is the same for all chunks of an array."""
    yield from compare(
        contributors, ProblemKind.CODECS, "codecs", lambda each: _essential_codecs(each.metadata)
    )
    yield from compare(
        contributors, ProblemKind.CHUNKS, "chunk shape", lambda each: each.chunk_shape
    )
    yield from compare(
        contributors,
        ProblemKind.FILL_VALUE,
        "fill value",
        lambda each: each.metadata.get("fill_value"),
    )


def find_obstacles(contributors: Contributors) -> Iterator[Problem]:
    """Problems with bytes that can't be referred to."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, header in contributors:
        if header.obstacle is not None:
            groups[header.obstacle].append(name)
    for obstacle, names in groups.items():
        yield Problem(ProblemKind.UNREACHABLE, contributors[0][1].name, obstacle, tuple(names))


def are_equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether two arrays have the same values, NaN being equal to itself."""
    if one.shape != other.shape:
        return False
    is_same = one == other
    if one.dtype.kind in "fc" and other.dtype.kind in "fc":
        is_same = is_same | (np.isnan(one) & np.isnan(other))
    return bool(np.all(is_same))


# How hard a compressor tried matters to nobody who decompresses.
_EFFORTS = frozenset(("level", "clevel", "acceleration"))


def _essential_codecs(metadata: Mapping[str, Any]) -> list[Any]:
    return [_essential_codec(each) for each in metadata["codecs"]]


def _essential_codec(codec: Mapping[str, Any]) -> dict[str, Any]:
    settings = codec.get("configuration") or {}
    return {
        "name": codec["name"],
        "configuration": {name: settings[name] for name in settings if name not in _EFFORTS},
    }


def _unquote(text: str) -> str:
    return text[1:-1] if text.startswith('"') else text
