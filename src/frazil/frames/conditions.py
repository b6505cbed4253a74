"""Conditions about columns, and what is known of their truth.

SQL has three truths. Here each is a pair: whether a condition can be true, and whether it can be false;
null is neither, and what nobody knows is both. A pair may stand for one row, or for many: then it says
what some of them can be. Where it is not exact it errs to "can be".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from frazil.frames.types import Values

Operator = Literal["=", "<>", "<", "<=", ">", ">="]
_OPERATORS: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip
Flags = NDArray[np.bool_] | np.bool_ | bool


@dataclass(frozen=True, slots=True)
class Compare:
    """A column beside a value, which is of the kind that `Values` of the column has."""

    column: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class IsIn:
    """A column whose value is one of these."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column without a value."""

    column: str


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of them."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary, which for null is null."""

    part: "Condition"


@dataclass(frozen=True, slots=True)
class Null:
    """Neither true nor false."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """What only the engine can tell."""

    text: str = ""
    can_fail: bool = False
    """Whether the engine may fail where it evaluates this, as it does for `1 / 0`."""


Leaf = Compare | IsIn | IsNull
Condition = Leaf | And | Or | Not | Null | Unknown

EVERYTHING = And(())


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What a condition can be, of one row or of each of many."""

    can_be_true: Flags
    can_be_false: Flags


UNKNOWN = Truth(True, True)


def evaluate(condition: Condition, tell: Callable[[Leaf], Truth]) -> Truth:
    """The truth of a condition, from what is told of its leaves; arrays are broadcast."""
    match condition:
        case And(parts):
            truths = [evaluate(part, tell) for part in parts]
            return Truth(
                reduce(and_, (each.can_be_true for each in truths), True),
                reduce(or_, (each.can_be_false for each in truths), False),
            )
        case Or(parts):
            truths = [evaluate(part, tell) for part in parts]
            return Truth(
                reduce(or_, (each.can_be_true for each in truths), False),
                reduce(and_, (each.can_be_false for each in truths), True),
            )
        case Not(part):
            truth = evaluate(part, tell)
            return Truth(truth.can_be_false, truth.can_be_true)
        case Null():
            return Truth(False, False)
        case Unknown():
            return UNKNOWN
    return tell(condition)


def leaves_of(condition: Condition) -> Iterator[Leaf]:
    """All leaves, as often as they are there."""
    match condition:
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves_of(part)
        case Not(part):
            yield from leaves_of(part)
        case Compare() | IsIn() | IsNull():
            yield condition


def columns_of(condition: Condition) -> frozenset[str]:
    """The columns that a condition is about, as far as it is understood."""
    return frozenset(leaf.column for leaf in leaves_of(condition))


def find_unknown(condition: Condition) -> str | None:
    """The text of a part that only the engine can tell; None if there is none."""
    match condition:
        case And(parts) | Or(parts):
            return next(filter(None, map(find_unknown, parts)), None)
        case Not(part):
            return find_unknown(part)
        case Unknown(text):
            return text or "a part of it"
    return None


def keep_failures(condition: Condition) -> Condition:
    """The part of a condition that leaves out no row for which the engine would fail.

    It evaluates parts of an `AND` from left to right, until one of them is not true.
    """
    if not isinstance(condition, And):
        return Unknown(find_unknown(condition) or "") if _can_fail(condition) else condition
    kept = []
    for part in condition.parts:
        kept.append(keep_failures(part))
        if _can_fail(part):
            break
    return And(tuple(kept))


def _can_fail(condition: Condition) -> bool:
    match condition:
        case And(parts) | Or(parts):
            return any(map(_can_fail, parts))
        case Not(part):
            return _can_fail(part)
        case Unknown():
            return condition.can_fail
    return False


def tell_of_values(leaf: Leaf, values: Values) -> Truth:
    """The exact truth of a leaf for each of some values."""
    if isinstance(leaf, IsNull):
        missing: Flags = False if values.missing is None else values.missing
        return Truth(missing, np.logical_not(missing))
    present = values.present
    holds = _holds(leaf, values)
    return Truth(holds & present, ~holds & present)


def _holds(leaf: Compare | IsIn, values: Values) -> NDArray[np.bool_]:
    data = values.data
    if data.dtype == object and values.missing is not None:
        # Nothing can be compared with None; what comes out there is not looked at.
        data = np.where(values.missing, _stand_in(leaf), data)
    if isinstance(leaf, IsIn):
        found = np.logical_or.reduce([_OPERATORS["="](data, _wide(each)) for each in leaf.values])
    else:
        found = _OPERATORS[leaf.operator](data, _wide(leaf.value))
    return np.asarray(found, np.bool_)


def _wide(value: Any) -> Any:
    # Beside a plain float numpy would compare single precision as such; Spark compares doubles.
    return np.float64(value) if isinstance(value, float) else value


def _stand_in(leaf: Compare | IsIn) -> Any:
    return leaf.values[0] if isinstance(leaf, IsIn) else leaf.value
