"""Shapes of values in a saved configuration: how each is read from plain values, and written to them.

Reading is lenient where the official reader is: missing keys are None, unknown ones are passed over.
Values are held to the official ranges in both directions, since a number that does not fit makes the
whole configuration unreadable there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from frazil.errors import FormatError, InvalidInputError
from frazil.format.json_values import JsonValue


class Shape(Protocol):
    """One sort of value; `where` names the place in errors."""

    def decode(self, tree: JsonValue, where: str) -> Any:
        """The value; raises FormatError for what can't be one."""

    def encode(self, value: Any, where: str) -> JsonValue:
        """Plain values; raises InvalidInputError for what can't be saved."""


class Scalar:
    """A value that is saved as it is."""

    def __init__(self, kind: type, least: int = 0, most: int = 0) -> None:
        self._kind = kind
        self._least = least
        self._most = most

    def decode(self, tree: JsonValue, where: str) -> Any:
        """The value itself."""
        if not self._fits(tree):
            raise bad_tree(where, tree)
        return tree

    def encode(self, value: Any, where: str) -> JsonValue:
        """The value itself."""
        if not self._fits(value):
            raise bad_value(where, value)
        return value

    def _fits(self, value: object) -> bool:
        # True is an int to Python, but no number in a file.
        if type(value) is not self._kind:
            return False
        return not (isinstance(value, int) and self._kind is int) or (
            self._least <= value <= self._most
        )


TEXT, FLAG = Scalar(str), Scalar(bool)
U8, U16, U32, U64 = (Scalar(int, 0, 2**bits - 1) for bits in (8, 16, 32, 64))
COUNT16, COUNT64 = (Scalar(int, 1, 2**bits - 1) for bits in (16, 64))
I32 = Scalar(int, -(2**31), 2**31 - 1)


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts by name."""

    def decode(self, tree: JsonValue, where: str) -> dict[str, str]:
        """A mapping."""
        return {
            name: as_text(each, f"{where}.{name}") for name, each in as_map(tree, where).items()
        }

    def encode(self, value: Any, where: str) -> JsonValue:
        """A mapping; None is an empty one."""
        return {name: TEXT.encode(each, f"{where}.{name}") for name, each in (value or {}).items()}


@dataclass(frozen=True, slots=True)
class Record:
    """A dataclass, saved as a map; a field of None is null, or absent, and all may be."""

    cls: type
    fields: Mapping[str, Shape]
    """In the order in which they are written."""

    def decode(self, tree: JsonValue, where: str) -> Any:
        """The dataclass, made of the fields that are there."""
        found = as_map(tree, where)
        return self.cls(
            **{
                name: shape.decode(found[name], f"{where}.{name}")
                for name, shape in self.fields.items()
                if found.get(name) is not None
            }
        )

    def encode(self, value: Any, where: str) -> JsonValue:
        """A map with all fields."""
        if not isinstance(value, self.cls):
            raise bad_value(where, value)
        return {
            name: encode_optional(shape, getattr(value, name), f"{where}.{name}")
            for name, shape in self.fields.items()
        }


def encode_optional(shape: Shape, value: Any, where: str) -> JsonValue:
    """A value, or null for None."""
    return None if value is None else shape.encode(value, where)


def as_map(tree: JsonValue, where: str) -> dict[str, JsonValue]:
    """The tree, if it is a map."""
    if not isinstance(tree, dict):
        raise bad_tree(where, tree)
    return tree


def as_list(tree: JsonValue, where: str) -> list[JsonValue]:
    """The tree, if it is a list."""
    if not isinstance(tree, list):
        raise bad_tree(where, tree)
    return tree


def as_choice(tree: JsonValue, where: str) -> tuple[str, JsonValue]:
    """A choice with its content: a map of one key, or a text alone."""
    match tree:
        case str():
            return tree, None
        case dict() if len(tree) == 1:
            ((name, content),) = tree.items()
            return name, content
    raise bad_tree(where, tree)


def bad_tree(where: str, tree: JsonValue) -> FormatError:
    """What to raise about a part of a saved configuration."""
    return FormatError(f"{where}: {tree!r} can't be this", kind="config-deserialization")


def bad_value(where: str, value: object) -> InvalidInputError:
    """What to raise about a part of a configuration that is to be saved."""
    return InvalidInputError(f"{where}: {value!r} can't be saved here", kind="serialization")


def as_text(tree: JsonValue, where: str) -> str:
    """The tree as a text; numbers and truths that a person wrote without quotes are texts, too."""
    if isinstance(tree, bool):
        return str(tree).lower()
    if isinstance(tree, str | int | float):
        return str(tree)
    raise bad_tree(where, tree)
