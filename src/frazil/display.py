"""Representations of values: text, HTML, tables and JSON."""

import dataclasses
import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from frazil.lazy import dataclass, lazy_modules, package_name

if TYPE_CHECKING:
    import difflib
    import html
else:
    difflib, html = lazy_modules("difflib", "html")


@dataclass(frozen=True, slots=True)
class Item:
    """One line or block of a representation."""

    name: str
    value: object
    is_default: bool = False
    """True if the field is not set and the value is its default."""


class Shown:
    """Value with a representation made of items."""

    __slots__ = ()

    def shown_title(self) -> str:
        """Return the title line."""
        return public_name(self)

    @abstractmethod
    def shown_items(self) -> Iterator[Item]:
        """Yield the items in display order."""


def effective(default: object) -> dict[str, object]:
    """Return field metadata with the value that applies while the field is None."""
    return {"effective": default}


def effective_value(value: Any, name: str) -> Any:
    """Return a field of a dataclass, or its default if it is None."""
    found = getattr(value, name)
    if found is not None:
        return found
    return next(each for each in fields(value) if each.name == name).metadata["effective"]


def field_items(value: Any) -> Iterator[Item]:
    """Yield the displayed fields of a dataclass, with defaults for those that are None."""
    for field in fields(value):
        if not field.repr:
            continue
        found, default = getattr(value, field.name), field.metadata.get("effective")
        is_default = found is None and default is not None
        yield Item(field.name, default if is_default else found, is_default)


# Types that the official library displays in a different module.
_OFFICIAL_NAMES = {
    "ops.ChunkStorageStats": "stats.ChunkStorageStats",
    "ops.RepoStatus": "repository.RepoStatus",
    "repository.Conflict": "conflicts.Conflict",
    "repository.ForkSession": "session.ForkSession",
    "repository.IcechunkStore": "IcechunkStore",
    "repository.Repository": "Repository",
    "repository.Session": "session.Session",
    "storage.ObjectStoreConfig": "config.ObjectStoreConfig",
}


def public_name(value: object) -> str:
    """Return the public name of a value's type, in its public module."""
    package, *modules = type(value).__module__.split(".")[:2]
    name = ".".join([*modules, type(value).__qualname__])
    if package != "frazil":
        return f"{package}.{name}"
    for ours, theirs in _OFFICIAL_NAMES.items():
        if name == ours or name.startswith(f"{ours}."):
            name = theirs + name.removeprefix(ours)
    return f"{package_name()}.{name}"


_SHOWN_NAMES = 30


def render_call(value: object) -> str:
    """Render a value as the expression that creates it."""
    match value:
        case str():
            # In double quotes, like the official library; Python reads it the same.
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
    """Render a dataclass as the call that creates it, one line per field."""
    shown = [each.name for each in fields(value) if each.repr]
    lines = [f"{name}={render_call(getattr(value, name))}," for name in shown]
    return bracket(f"{public_name(value)}(", lines, ")")


def render_short_call(value: Any) -> str:
    """Render a dataclass as the call that creates it, in one line."""
    arguments = (f"{each.name}={render_call(getattr(value, each.name))}" for each in fields(value))
    return f"{public_name(value)}({', '.join(arguments)})"


def render_ordered_call(value: Any) -> str:
    """Render a dataclass as the call that creates it, with positional arguments."""
    arguments = (render_call(getattr(value, each.name)) for each in fields(value))
    return f"{public_name(value)}({', '.join(arguments)})"


def render_block(value: Shown) -> str:
    """Render a title and one line or block per item, with a trailing newline."""
    lines = [f"<{value.shown_title()}>"]
    for item in value.shown_items():
        suffix = " (default)" if item.is_default and not isinstance(item.value, Shown) else ""
        lines.append(_render_text_item(item.name, item.value) + suffix)
    return "\n".join(lines) + "\n"


def _render_text_item(name: str, value: object) -> str:
    match value:
        case Shown():
            return nest(f"{name}:", render_block(value))
        case Mapping() if any(isinstance(each, Shown) for each in value.values()):
            blocks = (_render_text_item(key, each) for key, each in value.items())
            return nest(f"{name}:", "\n".join(blocks))
    text = render_plain(value)
    return nest(f"{name}:", text) if "\n" in text else f"{name}: {text}"


def render_plain(value: object) -> str:
    """Render a value for people: text unquoted, enum members by name."""
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
    """Return a title with indented text below it."""
    return f"{title}\n    {indent(text.rstrip())}"


def bracket(opening: str, lines: Iterable[str], closing: str) -> str:
    """Return indented lines between an opening and a closing bracket."""
    return "\n".join([opening, *(f"    {indent(line)}" for line in lines), closing])


def indent(text: str) -> str:
    """Indent all lines but the first."""
    return text.replace("\n", "\n    ")


def suggest(name: str, known: Iterable[str]) -> str:
    """Suggest the known name nearest to an unknown one, or list the known names."""
    names = list(known)
    near = _find_near(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    return f"there are {', '.join(names)}" if names else "there are none"


def list_known(name: str, known: Iterable[str], what: str) -> str:
    """List the known names of some kind, and suggest the one nearest to an unknown name."""
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
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with headings."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return "\n".join(render_table(self.headings, self.rows))


def render_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table with aligned columns."""
    whole = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in whole
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


# Colours follow the theme of the notebook.
_STYLE = """\
<style>
.icechunk-repr { color: var(--jp-content-font-color0, inherit); line-height: 1.5; max-width: 50em }
.icechunk-repr .icechunk-repr { border-left: 2px solid var(--jp-border-color2, #8884);
  margin: 0 0 0.3em 0.4em; padding-left: 0.8em }
.icechunk-repr b { font-weight: 600 }
.icechunk-repr i { font-style: normal; opacity: 0.6 }
.icechunk-repr pre { display: inline; white-space: pre-wrap; font-family: inherit }
.icechunk-repr summary { cursor: pointer }
.icechunk-repr table { border-collapse: collapse; margin: 0.2em 0 0.4em 0.4em }
.icechunk-repr th, .icechunk-repr td { padding: 0 0.8em; text-align: left; vertical-align: top }
.icechunk-repr th { border-bottom: 1px solid var(--jp-border-color2, #8884); font-weight: 600 }
</style>
"""


def render_html(value: Shown, items: Iterable[Item] | None = None) -> str:
    """Render a value, or the given items of it, as HTML with styles; all values are escaped."""
    return _STYLE + _render(value, value.shown_items() if items is None else items)


def _render(value: Shown, items: Iterable[Item]) -> str:
    shown = "".join(_render_html_item(item) for item in items)
    return f'<div class="icechunk-repr"><b>{html.escape(value.shown_title())}</b>{shown}</div>\n'


def _render_html_item(item: Item) -> str:
    name = f"<i>{html.escape(item.name)}</i>"
    match item.value:
        case Shown():
            inner = _render(item.value, item.value.shown_items())
            return f"<details><summary>{name}</summary>{inner}</details>"
        case Table():
            return f"<div>{name}{_render_table(item.value)}</div>"
        case Mapping() if any(isinstance(each, Shown) for each in item.value.values()):
            inner = "".join(_render_html_item(Item(key, each)) for key, each in item.value.items())
            return f"<details open><summary>{name}</summary>{inner}</details>"
    text = html.escape(render_plain(item.value))
    suffix = " (default)" if item.is_default else ""
    return f"<div>{name} <pre>{text}{suffix}</pre></div>"


def _render_table(table: Table) -> str:
    rows = "".join(_render_row("td", row) for row in table.rows)
    return f"<table>{_render_row('th', table.headings)}{rows}</table>"


def _render_row(kind: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(cell)}</{kind}>' for cell in cells)}</tr>"


def to_plain(value: Any) -> Any:
    """Convert a value to mappings, lists, strings, numbers and None."""
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.name.lower() if not isinstance(value.value, str) else value.value
        case str():
            return value
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return value.hex()
        case Mapping():
            return {str(name): to_plain(each) for name, each in value.items()}
        case AbstractSet():
            return sorted(map(to_plain, value))
    return _of_object(value)


def _of_object(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return to_plain(value.to_dict())
    if dataclasses.is_dataclass(value):
        fields = (each.name for each in dataclasses.fields(value) if not each.name.startswith("_"))
        return {name: to_plain(getattr(value, name)) for name in fields}
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    if hasattr(value, "__iter__"):
        return [to_plain(each) for each in value]
    return str(value)


def show_bytes(count: float) -> str:
    """Format a number of bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} PiB"


class Block(Shown):
    """Displays its items in `str` and in notebooks."""

    __slots__ = ()

    def __str__(self) -> str:
        return render_block(self)

    def _repr_html_(self) -> str:
        return render_html(self)


class Rendered(Block):
    """Dataclass of settings: `repr` is executable, `str` shows defaults of unset fields."""

    __slots__ = ()

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields; text is quoted, to distinguish it from None."""
        for item in field_items(self):
            is_text = isinstance(item.value, str)
            yield Item(item.name, render_call(item.value), item.is_default) if is_text else item

    def __repr__(self) -> str:
        return render_fields_call(self)


class Listed(Block):
    """Dataclass of a record: one line per field, also in `repr`."""

    __slots__ = ()

    def shown_items(self) -> Iterator[Item]:
        """Yield the fields."""
        return field_items(self)

    def __repr__(self) -> str:
        return str(self)


class Called:
    """Dataclass whose `repr` is the call that creates it, in one line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return render_short_call(self)


class CalledInOrder:
    """Dataclass whose `repr` is the call that creates it, with positional arguments."""

    __slots__ = ()

    def __repr__(self) -> str:
        return render_ordered_call(self)


__all__ = [
    "Block",
    "Called",
    "CalledInOrder",
    "Item",
    "Listed",
    "Rendered",
    "Table",
    "effective",
    "effective_value",
    "field_items",
    "public_name",
    "render_call",
    "render_html",
    "render_plain",
]
