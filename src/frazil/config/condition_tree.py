"""Conditions in a saved configuration."""

from dataclasses import dataclass
from typing import Any

from frazil.config.conditions import (
    AllOf,
    Always,
    AnyOf,
    NameMatches,
    Never,
    NumRefs,
    PathMatches,
    Rule,
)
from frazil.config.preload_conditions import ManifestPreloadCondition
from frazil.config.shapes import (
    TEXT,
    U32,
    U64,
    as_choice,
    as_list,
    as_map,
    bad_tree,
    bad_value,
)
from frazil.config.split_conditions import (
    AnyDimCondition,
    DimSplits,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
)
from frazil.format.json_values import JsonValue


@dataclass(frozen=True, slots=True)
class ConditionShape:
    """A condition on arrays; `always` is what the one that holds for all is called."""

    cls: type[ManifestPreloadCondition] | type[ManifestSplitCondition]
    always: str

    def decode(self, tree: JsonValue, where: str) -> Any:
        """The condition."""
        return self.cls(self._decode_rule(tree, where))

    def encode(self, value: Any, where: str) -> JsonValue:
        """A tree of choices."""
        if not isinstance(value, self.cls):
            raise bad_value(where, value)
        return self._encode_rule(value.rule, where)

    def _decode_rule(self, tree: JsonValue, where: str) -> Rule:
        # YAML reads `true` without quotes as a truth.
        kind, content = ("true" if tree else "false", None) if isinstance(tree, bool) else (
            as_choice(tree, where)
        )  # fmt: skip
        match kind:
            case "or" | "and":
                rules = [self._decode_rule(each, where) for each in as_list(content, where)]
                return AnyOf(tuple(rules)) if kind == "or" else AllOf(tuple(rules))
            case "path_matches" | "name_matches":
                regex = TEXT.decode(as_map(content, where).get("regex"), where)
                return PathMatches(regex) if kind == "path_matches" else NameMatches(regex)
            case "num_refs":
                return _decode_num_refs(as_map(content, where), where)
            case "false":
                return Never()
        if kind != self.always:
            raise bad_tree(where, tree)
        return Always()

    def _encode_rule(self, rule: Rule, where: str) -> JsonValue:
        match rule:
            case AnyOf(rules):
                return {"or": [self._encode_rule(each, where) for each in rules]}
            case AllOf(rules):
                return {"and": [self._encode_rule(each, where) for each in rules]}
            case PathMatches(regex):
                return {"path_matches": {"regex": TEXT.encode(regex, where)}}
            case NameMatches(regex):
                return {"name_matches": {"regex": TEXT.encode(regex, where)}}
            case NumRefs(start, end):
                return {"num_refs": {"from": _bound("Included", start, where),
                                     "to": _bound("Excluded", end, where)}}  # fmt: skip
            case Always():
                return self.always
            case Never():
                return "false"


PRELOAD_CONDITION = ConditionShape(ManifestPreloadCondition, "true")
SPLIT_CONDITION = ConditionShape(ManifestSplitCondition, "any_array")


def _decode_num_refs(content: dict[str, JsonValue], where: str) -> NumRefs:
    """Bounds of either sort, as a first number and a number behind the last."""
    bounds: list[int | None] = []
    for name, shift in (("from", "Excluded"), ("to", "Included")):
        kind, number = as_choice(content.get(name, "Unbounded"), f"{where}.{name}")
        if kind == "Unbounded":
            bounds.append(None)
        elif kind in ("Included", "Excluded"):
            bounds.append(U32.decode(number, where) + (kind == shift))
        else:
            raise bad_tree(f"{where}.{name}", kind)
    return NumRefs(*bounds)


def _bound(kind: str, number: int | None, where: str) -> JsonValue:
    # A bound behind the largest number is none.
    if number is None or number == 2**32:
        return "Unbounded"
    return {kind: U32.encode(number, where)}


@dataclass(frozen=True, slots=True)
class SplitSizesShape:
    """Rules for splitting, each a pair of a condition and sizes along dimensions."""

    def decode(self, tree: JsonValue, where: str) -> tuple[tuple[Any, DimSplits], ...]:
        """The rules."""
        return tuple(self._decode_rule(each, where) for each in as_list(tree, where))

    def encode(self, value: Any, where: str) -> JsonValue:
        """A list of pairs."""
        return [
            [SPLIT_CONDITION.encode(condition, where),
             [{"condition": _encode_dim(dim, where), "num_chunks": U32.encode(size, where)}
              for dim, size in sizes]]
            for condition, sizes in value
        ]  # fmt: skip

    def _decode_rule(self, tree: JsonValue, where: str) -> tuple[Any, DimSplits]:
        match as_list(tree, where):
            case [condition, sizes]:
                dims = (as_map(each, where) for each in as_list(sizes, where))
                return SPLIT_CONDITION.decode(condition, where), tuple(
                    (_decode_dim(each.get("condition"), where),
                     U32.decode(each.get("num_chunks"), where))
                    for each in dims
                )  # fmt: skip
        raise bad_tree(where, tree)


def _decode_dim(tree: JsonValue, where: str) -> AnyDimCondition:
    match as_choice(tree, where):
        case "Axis", number:
            return ManifestSplitDimCondition.Axis(U64.decode(number, where))
        case "DimensionName", regex:
            return ManifestSplitDimCondition.DimensionName(TEXT.decode(regex, where))
        case "Any", _:
            return ManifestSplitDimCondition.Any()
    raise bad_tree(where, tree)


def _encode_dim(dim: AnyDimCondition, where: str) -> JsonValue:
    match dim:
        case ManifestSplitDimCondition.Axis(axis):
            return {"Axis": U64.encode(axis, where)}
        case ManifestSplitDimCondition.DimensionName(regex):
            return {"DimensionName": TEXT.encode(regex, where)}
        case ManifestSplitDimCondition.Any():
            return "Any"
    raise bad_value(where, dim)
