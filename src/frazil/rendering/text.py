"""Values as text: as the call that makes them, and as a block of lines for people."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from enum import Enum
from typing import Any

from frazil.rendering.items import Shown, public_name

_SHOWN_NAMES = 30


def render_call(value: object) -> str:
    """A value as the expression that makes it."""
    match value:
        case str():
            # In double quotes, as the official library shows text; Python reads it the same.
            return json.dumps(value, ensure_ascii=False)
        case Enum():
            return f"{public_name(value)}.{value.name}"
        case list():
            return f"[{', '.join(map(render_call, value))}]"
        case tuple():
            comma = "," if len(value) == 1 else ""
            return f"({', '.join(map(render_call, value))}{comma})"
        case Mapping() if any(isinstance(each, Shown) for each in value.values()):
            lines = [f"{render_call(name)}: {render_call(each)}," for name, each in value.items()]
            return bracket("{", lines, "}")
        case Mapping():
            pairs = (f"{render_call(name)}: {render_call(each)}" for name, each in value.items())
            return f"{{{', '.join(pairs)}}}"
    return repr(value)


def render_fields_call(value: Any) -> str:
    """A dataclass as the call that makes it, a line for each field."""
    shown = [each.name for each in fields(value) if each.repr]
    lines = [f"{name}={render_call(getattr(value, name))}," for name in shown]
    return bracket(f"{public_name(value)}(", lines, ")")


def render_short_call(value: Any) -> str:
    """A dataclass as the call that makes it, in one line."""
    arguments = (f"{each.name}={render_call(getattr(value, each.name))}" for each in fields(value))
    return f"{public_name(value)}({', '.join(arguments)})"


def render_ordered_call(value: Any) -> str:
    """The same, its arguments without their names."""
    arguments = (render_call(getattr(value, each.name)) for each in fields(value))
    return f"{public_name(value)}({', '.join(arguments)})"


def render_block(value: Shown) -> str:
    """A title, and one line, or block, for each item; with a line feed at the end."""
    lines = [f"<{value.shown_title()}>"]
    for item in value.shown_items():
        suffix = " (default)" if item.is_default and not isinstance(item.value, Shown) else ""
        lines.append(_render_item(item.name, item.value) + suffix)
    return "\n".join(lines) + "\n"


def _render_item(name: str, value: object) -> str:
    match value:
        case Shown():
            return nest(f"{name}:", render_block(value))
        case Mapping() if any(isinstance(each, Shown) for each in value.values()):
            blocks = (_render_item(key, each) for key, each in value.items())
            return nest(f"{name}:", "\n".join(blocks))
    text = render_plain(value)
    return nest(f"{name}:", text) if "\n" in text else f"{name}: {text}"


def render_plain(value: object) -> str:
    """A value for people to read: text as it is, names without where they come from."""
    match value:
        case str():
            return value
        case Enum():
            return value.name
        case list() | tuple() | Mapping():
            return render_call(value)
        case set() | frozenset():
            return f"{{{', '.join(render_call(each) for each in sorted(value))}}}"
    return str(value)


def nest(title: str, text: str) -> str:
    """A title with the text below it, moved in."""
    return f"{title}\n    {indent(text.rstrip())}"


def bracket(opening: str, lines: Iterable[str], closing: str) -> str:
    """Lines moved in between what opens and what closes."""
    return "\n".join([opening, *(f"    {indent(line)}" for line in lines), closing])


def indent(text: str) -> str:
    """All lines but the first, moved in."""
    return text.replace("\n", "\n    ")


def suggest(name: str, known: Iterable[str]) -> str:
    """Say which of the known names is nearest to an unknown one, or which there are."""
    names = list(known)
    near = _find_near(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    return f"there are {', '.join(names)}" if names else "there are none"


def list_known(name: str, known: Iterable[str], what: str) -> str:
    """List the names there are of some kind, with the one that is nearest to an unknown one."""
    names = list(dict.fromkeys(known))
    if not names:
        return f"no {what}"
    shown = ", ".join(names[:_SHOWN_NAMES])
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    near = _find_near(name, names)
    hint = "" if near is None else f"; did you mean {near!r}?"
    return f"{what} {shown}{more}{hint}"


def _find_near(name: str, known: Iterable[str]) -> str | None:
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None
