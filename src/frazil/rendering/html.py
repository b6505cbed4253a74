"""Values as HTML, for notebooks: a title, and a list of items of which blocks can be folded."""

from collections.abc import Iterable, Mapping
from html import escape

from frazil.rendering.items import Item, Shown
from frazil.rendering.tables import Table
from frazil.rendering.text import render_plain

# Colours follow the notebook's theme where it has one.
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
    """A value with its style, or other items of it; everything that came from outside is escaped."""
    return _STYLE + _render(value, value.shown_items() if items is None else items)


def _render(value: Shown, items: Iterable[Item]) -> str:
    shown = "".join(_render_item(item) for item in items)
    return f'<div class="icechunk-repr"><b>{escape(value.shown_title())}</b>{shown}</div>\n'


def _render_item(item: Item) -> str:
    name = f"<i>{escape(item.name)}</i>"
    match item.value:
        case Shown():
            inner = _render(item.value, item.value.shown_items())
            return f"<details><summary>{name}</summary>{inner}</details>"
        case Table():
            return f"<div>{name}{_render_table(item.value)}</div>"
        case Mapping() if any(isinstance(each, Shown) for each in item.value.values()):
            inner = "".join(_render_item(Item(key, each)) for key, each in item.value.items())
            return f"<details open><summary>{name}</summary>{inner}</details>"
    text = escape(render_plain(item.value))
    suffix = " (default)" if item.is_default else ""
    return f"<div>{name} <pre>{text}{suffix}</pre></div>"


def _render_table(table: Table) -> str:
    rows = "".join(_render_row("td", row) for row in table.rows)
    return f"<table>{_render_row('th', table.headings)}{rows}</table>"


def _render_row(kind: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"
