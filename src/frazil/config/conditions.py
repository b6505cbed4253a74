"""Conditions that select the arrays to preload and to split."""

import re
from abc import ABC
from collections.abc import Iterable
from functools import cache
from typing import ClassVar, Self

from frazil.display import CalledInOrder, public_name, render_call
from frazil.lazy import dataclass


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Rule that holds if at least one of its rules holds."""

    rules: tuple["Rule", ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Rule that holds if all of its rules hold."""

    rules: tuple["Rule", ...]


@dataclass(frozen=True, slots=True)
class PathMatches:
    """Rule that holds if a regular expression matches in the array's absolute path."""

    regex: str


@dataclass(frozen=True, slots=True)
class NameMatches:
    """Rule that holds if a regular expression matches in the last segment of the array's path."""

    regex: str


@dataclass(frozen=True, slots=True)
class NumRefs:
    """Rule on the number of references: at least `from_refs` and below `to_refs`; None is unbounded."""

    from_refs: int | None
    to_refs: int | None


@dataclass(frozen=True, slots=True)
class Always:
    """Rule that always holds."""


@dataclass(frozen=True, slots=True)
class Never:
    """Rule that never holds."""


Rule = AnyOf | AllOf | PathMatches | NameMatches | NumRefs | Always | Never


def rule_holds(rule: Rule, path: str, num_refs: int = 0) -> bool:
    """Return True if a rule holds for an array."""
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
    """Return True if a regular expression matches in a string; False if it is invalid."""
    pattern = _compile(regex)
    return pattern is not None and pattern.search(text) is not None


@cache
def _compile(regex: str) -> re.Pattern[str] | None:
    try:
        return re.compile(regex)
    except (re.error, RecursionError, OverflowError):
        return None


def render_rule(rule: Rule, owner: str, always: str) -> str:
    """Render a rule as the call that constructs it."""
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
class _Condition:
    """Condition on an array: a rule, and the ways to make it."""

    rule: Rule

    _ALWAYS: ClassVar[str]
    """Name of the condition that always holds."""

    @classmethod
    def or_conditions(cls, conditions: Iterable[Self]) -> Self:
        """Return a condition that holds if one of some conditions holds.

        Parameters
        ----------
        conditions
            The conditions to combine.
        """
        return cls(AnyOf(tuple(each.rule for each in conditions)))

    @classmethod
    def and_conditions(cls, conditions: Iterable[Self]) -> Self:
        """Return a condition that holds if all of some conditions hold.

        Parameters
        ----------
        conditions
            The conditions to combine.
        """
        return cls(AllOf(tuple(each.rule for each in conditions)))

    @classmethod
    def path_matches(cls, regex: str) -> Self:
        """Return a condition on the array's absolute path.

        Parameters
        ----------
        regex
            Regular expression to search for in the path, such as `/group/array`.
        """
        return cls(PathMatches(regex))

    @classmethod
    def name_matches(cls, regex: str) -> Self:
        """Return a condition on the last segment of the array's path.

        Parameters
        ----------
        regex
            Regular expression to search for in the name.
        """
        return cls(NameMatches(regex))

    def __and__(self, other: Self, /) -> Self:
        return type(self)(AllOf((self.rule, other.rule)))

    def __or__(self, other: Self, /) -> Self:
        return type(self)(AnyOf((self.rule, other.rule)))

    def __repr__(self) -> str:
        return render_rule(self.rule, public_name(self), self._ALWAYS)


class ManifestPreloadCondition(_Condition):
    """Condition on an array and on the number of references in a manifest."""

    __slots__ = ()
    _ALWAYS = "true"

    @staticmethod
    def num_refs(from_refs: int | None, to_refs: int | None) -> "ManifestPreloadCondition":
        """Return a condition on the number of references in the manifest.

        Parameters
        ----------
        from_refs
            Minimum number of references; None for no minimum.
        to_refs
            First number of references that is too many; None for no maximum.

        Returns
        -------
        ManifestPreloadCondition
            The condition.
        """
        return ManifestPreloadCondition(NumRefs(from_refs, to_refs))

    @staticmethod
    def true() -> "ManifestPreloadCondition":
        """Return a condition that always holds."""
        return ManifestPreloadCondition(Always())

    @staticmethod
    def false() -> "ManifestPreloadCondition":
        """Return a condition that never holds."""
        return ManifestPreloadCondition(Never())

    def matches(self, path: str, num_refs: int) -> bool:
        """Return True if the condition holds for an array and a number of references.

        Parameters
        ----------
        path
            Path of the array.
        num_refs
            Number of references in the manifest.
        """
        return rule_holds(self.rule, path, num_refs)


# Names of coordinates by the CF conventions, as cf-xarray guesses them.
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
"""Default condition: coordinates with up to 1,000 references."""


class ManifestSplitCondition(_Condition):
    """Condition on an array."""

    __slots__ = ()
    _ALWAYS = "AnyArray"

    @staticmethod
    def AnyArray() -> "ManifestSplitCondition":  # noqa: N802 (as users write it)
        """Return a condition that always holds."""
        return ManifestSplitCondition(Always())

    def matches(self, path: str) -> bool:
        """Return True if the condition holds for an array.

        Parameters
        ----------
        path
            Path of the array.
        """
        return rule_holds(self.rule, path)


class ManifestSplitDimCondition(ABC):  # noqa: B024 (it names its alternatives, and is never made)
    """Condition that selects the dimensions to split; one of `Axis`, `DimensionName` and `Any`."""

    @dataclass(frozen=True, slots=True, repr=False)
    class Axis(CalledInOrder):
        """Condition that selects one dimension by its index, from 0."""

        axis: int

        def matches(self, axis: int, dimension_name: str | None) -> bool:  # noqa: ARG002
            """Return True if the condition selects a dimension."""
            return axis == self.axis

    @dataclass(frozen=True, slots=True, repr=False)
    class DimensionName(CalledInOrder):
        """Condition that selects dimensions whose name matches a regular expression."""

        regex: str

        def matches(self, axis: int, dimension_name: str | None) -> bool:  # noqa: ARG002
            """Return True if the condition selects a dimension; False if it has no name."""
            return dimension_name is not None and has_match(self.regex, dimension_name)

    @dataclass(frozen=True, slots=True, repr=False)
    class Any(CalledInOrder):
        """Condition that selects every dimension."""

        def matches(self, axis: int, dimension_name: str | None) -> bool:  # noqa: ARG002
            """Return True if the condition selects a dimension."""
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
"""Pairs of a dimension condition and the number of chunks per split region."""
SplitSizes = tuple[tuple[ManifestSplitCondition, DimSplits], ...]
"""Split rules in the order of their precedence."""
