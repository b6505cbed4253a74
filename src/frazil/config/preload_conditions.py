"""Which manifests are fetched before anybody asks for them."""

from collections.abc import Iterable
from dataclasses import dataclass

from frazil.config.conditions import (
    AllOf,
    Always,
    AnyOf,
    NameMatches,
    Never,
    NumRefs,
    PathMatches,
    Rule,
    render_rule,
    rule_holds,
)
from frazil.rendering import public_name


@dataclass(frozen=True, slots=True, repr=False)
class ManifestPreloadCondition:
    """A condition on an array and on the number of references in its manifest."""

    rule: Rule

    @staticmethod
    def or_conditions(
        conditions: "Iterable[ManifestPreloadCondition]",
    ) -> "ManifestPreloadCondition":
        """Holds if one of the conditions does."""
        return ManifestPreloadCondition(AnyOf(tuple(each.rule for each in conditions)))

    @staticmethod
    def and_conditions(
        conditions: "Iterable[ManifestPreloadCondition]",
    ) -> "ManifestPreloadCondition":
        """Holds if all of the conditions do."""
        return ManifestPreloadCondition(AllOf(tuple(each.rule for each in conditions)))

    @staticmethod
    def path_matches(regex: str) -> "ManifestPreloadCondition":
        """Holds if the expression is found in the array's absolute path, `/group/array`."""
        return ManifestPreloadCondition(PathMatches(regex))

    @staticmethod
    def name_matches(regex: str) -> "ManifestPreloadCondition":
        """Holds if the expression is found in the last segment of the array's path."""
        return ManifestPreloadCondition(NameMatches(regex))

    @staticmethod
    def num_refs(from_refs: int | None, to_refs: int | None) -> "ManifestPreloadCondition":
        """Holds for at least `from_refs` references, and fewer than `to_refs`."""
        return ManifestPreloadCondition(NumRefs(from_refs, to_refs))

    @staticmethod
    def true() -> "ManifestPreloadCondition":
        """Holds always."""
        return ManifestPreloadCondition(Always())

    @staticmethod
    def false() -> "ManifestPreloadCondition":
        """Never holds."""
        return ManifestPreloadCondition(Never())

    def matches(self, path: str, num_refs: int) -> bool:
        """Whether the condition holds for an array with so many references."""
        return rule_holds(self.rule, path, num_refs)

    def __and__(self, other: "ManifestPreloadCondition", /) -> "ManifestPreloadCondition":
        return ManifestPreloadCondition(AllOf((self.rule, other.rule)))

    def __or__(self, other: "ManifestPreloadCondition", /) -> "ManifestPreloadCondition":
        return ManifestPreloadCondition(AnyOf((self.rule, other.rule)))

    def __repr__(self) -> str:
        return render_rule(self.rule, public_name(self), "true")


# Names of coordinates by the conventions for climate and forecast data, as cf-xarray guesses them.
_COORDINATE_NAMES = (
    r"^\bt\b$|^(time|min|hour|day|week|month|year)[0-9]*$",
    r"^(z|nav_lev|gdep|lv_|[o]*lev|bottom_top|sigma|h(ei)?ght|altitude|depth|isobaric|pres|isotherm)"
    r"[a-z_]*[0-9]*$",
    r"^(y|j|nlat|rlat|nj)$",
    r"^y?(nav_lat|lat|gphi)[a-z0-9]*$",
    r"^(x|i|nlon|rlon|ni)$",
    r"^x?(nav_lon|lon|glam)[a-z0-9]*$",
)

DEFAULT_PRELOAD_IF = ManifestPreloadCondition(
    AllOf((AnyOf(tuple(map(NameMatches, _COORDINATE_NAMES))), NumRefs(None, 1001)))
)
"""Coordinates with up to a thousand references."""
