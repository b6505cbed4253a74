"""Which arrays have their references split over manifests, and along which dimensions."""

from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass

from frazil.config.conditions import (
    AllOf,
    Always,
    AnyOf,
    NameMatches,
    PathMatches,
    Rule,
    has_match,
    render_rule,
    rule_holds,
)
from frazil.rendering import CalledInOrder, public_name


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
