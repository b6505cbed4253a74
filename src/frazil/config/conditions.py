"""Conditions on arrays: by path, name or number of references, joined by `|` and `&`.

The two public kinds differ in what they may ask, not in how they are answered: both hold a `Rule`.
A regular expression is searched for, so it matches anywhere unless it says otherwise; one that can't be
compiled matches nothing, as in the official library.
"""

import re
from dataclasses import dataclass
from functools import cache

from frazil.rendering import render_call


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
