"""A check of metadata: the same in all files, and as it was."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.spark.checks.findings import Finding
from frazil.spark.checks.subjects import NewVersion

CF_ATTRIBUTES = (
    "standard_name", "units", "calendar", "positive", "axis", "cell_methods", "grid_mapping",
    "bounds", "valid_min", "valid_max", "valid_range", "flag_values", "flag_masks", "flag_meanings",
    "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned",
)  # fmt: skip
"""Those that say what values mean."""

_OF_TIMES = frozenset({"units", "calendar"})


@dataclass(frozen=True, slots=True)
class SameMetadata:
    """Data types and attributes are those of the version before, and the same in all files."""

    attributes: tuple[str, ...] = CF_ATTRIBUTES
    name: str = "same_metadata"

    def check_whole(self, version: NewVersion) -> Sequence[Finding]:
        """A finding for each property of a variable that is another one somewhere."""
        found = []
        for variable, new in version.metadata.items():
            old = version.before.get(variable)
            if old is not None:
                for text in self._compare(old, new, "it was", "now"):
                    found.append(Finding(text, self.name, variable))
        for told in version.told:
            mine = version.metadata.get(told.variable)
            if mine is None:
                continue
            theirs = {"data_type": told.data_type, "attributes": told.attributes}
            # Times that count from another day in each file are counted anew from one.
            without = _OF_TIMES if told.variable == version.dim else frozenset[str]()
            for text in self._compare(mine, theirs, "in the repository", "in the file", without):
                found.append(Finding(text, self.name, told.variable, told.files))
        return found

    def _compare(
        self,
        one: Mapping[str, Any],
        other: Mapping[str, Any],
        where: str,
        there: str,
        without: frozenset[str] = frozenset(),
    ) -> Iterator[str]:
        names = [name for name in self.attributes if name not in without]
        for what, here, elsewhere in find_differences(one, other, names):
            yield f"{what} is {elsewhere} {there}, {here} {where}"


def same_metadata(attributes: Sequence[str] = CF_ATTRIBUTES) -> SameMetadata:
    """Data types and attributes are those of the version before, and the same in all files."""
    return SameMetadata(tuple(attributes))


def find_differences(
    one: Mapping[str, Any], other: Mapping[str, Any], attributes: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """What is not the same in the metadata of two arrays: its name, and what both say."""
    pairs = [("data type", one["data_type"], other["data_type"])]
    mine, theirs = one.get("attributes") or {}, other.get("attributes") or {}
    pairs += [(name, mine.get(name), theirs.get(name)) for name in attributes]
    for name, here, there in pairs:
        # NaN, which is not equal to itself, is spelt out.
        said, answered = json.dumps(here, sort_keys=True), json.dumps(there, sort_keys=True)
        if said != answered:
            yield name, said, answered
