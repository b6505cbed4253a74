"""Conditions of a configuration: which arrays are preloaded or split, and how."""

import re
from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from frazil.display import CalledInOrder, public_name, render_call


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one holds."""

    rules: tuple["Rule", ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """All hold."""

    rules: tuple["Rule", ...]


@dataclass(frozen=True, slots=True)
class PathMatches:
    """The array's absolute path has a match."""

    regex: str


@dataclass(frozen=True, slots=True)
class NameMatches:
    """The last segment of the array's path has a match."""

    regex: str


@dataclass(frozen=True, slots=True)
class NumRefs:
    """The number of references is at least `from_refs` and below `to_refs`; None is no bound."""

    from_refs: int | None
    to_refs: int | None


@dataclass(frozen=True, slots=True)
class Always:
    """Holds."""


@dataclass(frozen=True, slots=True)
class Never:
    """Does not hold."""


Rule = AnyOf | AllOf | PathMatches | NameMatches | NumRefs | Always | Never


def rule_holds(rule: Rule, path: str, num_refs: int = 0) -> bool:
    """Whether a rule holds for an array."""
    match rule:
        case AnyOf(rules):
            return any(rule_holds(each, path, num_refs) for each in rules)
        case AllOf(rules):
            return all(rule_holds(each, path, num_refs) for each in rules)
        case PathMatches(regex):
            return has_match(regex, path)
        case NameMatches(regex):
            return has_match(regex, path.rpartition("/")[2])
        case NumRefs(from_refs, to_refs):
            return (from_refs or 0) <= num_refs and (to_refs is None or num_refs < to_refs)
        case Always():
            return True
        case Never():
            return False


def has_match(regex: str, text: str) -> bool:
    """Whether an expression is found in a text; never, if it is none."""
    pattern = _compile(regex)
    return pattern is not None and pattern.search(text) is not None


@cache
def _compile(regex: str) -> re.Pattern[str] | None:
    try:
        return re.compile(regex)
    except (re.error, RecursionError, OverflowError):
        return None


def render_rule(rule: Rule, owner: str, always: str) -> str:
    """A rule as the call of its owner's constructor that makes it."""
    match rule:
        case AnyOf(rules) | AllOf(rules):
            kind = "or_conditions" if isinstance(rule, AnyOf) else "and_conditions"
            inner = ", ".join(render_rule(each, owner, always) for each in rules)
            return f"{owner}.{kind}([{inner}])"
        case PathMatches(regex):
            return f"{owner}.path_matches({render_call(regex)})"
        case NameMatches(regex):
            return f"{owner}.name_matches({render_call(regex)})"
        case NumRefs(from_refs, to_refs):
            return f"{owner}.num_refs({from_refs}, {to_refs})"
        case Always():
            return f"{owner}.{always}()"
        case Never():
            return f"{owner}.false()"


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


@dataclass(frozen=True, slots=True, repr=False)
class ManifestSplitCondition:
    """A condition on an array."""

    rule: Rule

    @staticmethod
    def or_conditions(conditions: "Iterable[ManifestSplitCondition]") -> "ManifestSplitCondition":
        """Holds if one of the conditions does."""
        return ManifestSplitCondition(AnyOf(tuple(each.rule for each in conditions)))

    @staticmethod
    def and_conditions(conditions: "Iterable[ManifestSplitCondition]") -> "ManifestSplitCondition":
        """Holds if all of the conditions do."""
        return ManifestSplitCondition(AllOf(tuple(each.rule for each in conditions)))

    @staticmethod
    def path_matches(regex: str) -> "ManifestSplitCondition":
        """Holds if the expression is found in the array's absolute path, `/group/array`."""
        return ManifestSplitCondition(PathMatches(regex))

    @staticmethod
    def name_matches(regex: str) -> "ManifestSplitCondition":
        """Holds if the expression is found in the last segment of the array's path."""
        return ManifestSplitCondition(NameMatches(regex))

    @staticmethod
    def AnyArray() -> "ManifestSplitCondition":  # noqa: N802 (as users write it)
        """Holds always."""
        return ManifestSplitCondition(Always())

    def matches(self, path: str) -> bool:
        """Whether the condition holds for an array."""
        return rule_holds(self.rule, path)

    def __and__(self, other: "ManifestSplitCondition", /) -> "ManifestSplitCondition":
        return ManifestSplitCondition(AllOf((self.rule, other.rule)))

    def __or__(self, other: "ManifestSplitCondition", /) -> "ManifestSplitCondition":
        return ManifestSplitCondition(AnyOf((self.rule, other.rule)))

    def __repr__(self) -> str:
        return render_rule(self.rule, public_name(self), "AnyArray")


class ManifestSplitDimCondition(ABC):  # noqa: B024 (it names its alternatives, and is never made)
    """Which dimension is meant; an alternative each."""

    @dataclass(frozen=True, slots=True, repr=False)
    class Axis(CalledInOrder):
        """The dimension of this number, from 0."""

        axis: int

        def matches(self, axis: int, dimension_name: str | None) -> bool:  # noqa: ARG002
            """Whether a dimension is meant."""
            return axis == self.axis

    @dataclass(frozen=True, slots=True, repr=False)
    class DimensionName(CalledInOrder):
        """The dimensions in whose names the expression is found."""

        regex: str

        def matches(self, axis: int, dimension_name: str | None) -> bool:  # noqa: ARG002
            """Whether a dimension is meant; never one without a name."""
            return dimension_name is not None and has_match(self.regex, dimension_name)

    @dataclass(frozen=True, slots=True, repr=False)
    class Any(CalledInOrder):
        """Every dimension."""

        def matches(self, axis: int, dimension_name: str | None) -> bool:  # noqa: ARG002
            """Whether a dimension is meant."""
            return True


ManifestSplitDimCondition.register(ManifestSplitDimCondition.Axis)
ManifestSplitDimCondition.register(ManifestSplitDimCondition.DimensionName)
ManifestSplitDimCondition.register(ManifestSplitDimCondition.Any)

AnyDimCondition = (
    ManifestSplitDimCondition.Axis
    | ManifestSplitDimCondition.DimensionName
    | ManifestSplitDimCondition.Any
)
DimSplits = tuple[tuple[AnyDimCondition, int], ...]
"""Along which dimensions, and every how many chunks."""
SplitSizes = tuple[tuple[ManifestSplitCondition, DimSplits], ...]
"""Rules in the order in which they are asked."""
