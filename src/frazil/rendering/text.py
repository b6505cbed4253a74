"""How settings show themselves: `repr` can be run, `str` tells what holds where nothing is set."""

import json
from collections.abc import Iterator
from dataclasses import Field, fields
from enum import Enum
from typing import Any


class Rendered:
    """A dataclass that shows itself, its name being that of its module's public one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return render_call(self)

    def __str__(self) -> str:
        return render_lines(self)


def effective(default: object) -> dict[str, object]:
    """Metadata of a field: what holds as long as it is None."""
    return {"effective": default}


def render_call(value: object) -> str:
    """A value as the call that makes it."""
    match value:
        case Rendered():
            lines = [f"    {name}={indent(render_call(each))}," for name, each in _items(value)]
            return "\n".join([f"{public_name(value)}(", *lines, ")"])
        case str():
            # In double quotes, as the official library shows text; Python reads it the same.
            return json.dumps(value, ensure_ascii=False)
        case Enum():
            return f"frazil.storage.{type(value).__name__}.{value.name}"
    return repr(value)


def render_lines(value: "Rendered") -> str:
    """A value as a title and one line, or block, for each field."""
    lines = [f"<{public_name(value)}>"]
    for field, each in zip(_fields(value), (each for _, each in _items(value)), strict=True):
        default = field.metadata.get("effective")
        shown = default if each is None else each
        if isinstance(shown, Rendered):
            lines.append(f"{field.name}:\n    {indent(render_lines(shown).rstrip())}")
        else:
            suffix = " (default)" if each is None and default is not None else ""
            lines.append(f"{field.name}: {render_call(shown)}{suffix}")
    return "\n".join(lines) + "\n"


def public_name(value: object) -> str:
    """Where users find a value's type."""
    return f"frazil.storage.{type(value).__qualname__}"


def indent(text: str) -> str:
    """All lines but the first, moved in."""
    return text.replace("\n", "\n    ")


def _fields(value: Any) -> tuple[Field[Any], ...]:
    return fields(value)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    return ((field.name, getattr(value, field.name)) for field in fields(value))
