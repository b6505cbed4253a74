"""Values as HTML, for notebooks: a title, and a list of items of which blocks can be folded."""

from collections.abc import Mapping
from html import escape

from frazil.rendering.items import Item, Shown, public_name
from frazil.rendering.text import render_plain

# Colours follow the notebook's theme where it has one.
_STYLE = """\
<style>
.frazil { color: var(--jp-content-font-color0, inherit); line-height: 1.5; max-width: 50em }
.frazil .frazil { border-left: 2px solid var(--jp-border-color2, #8884); margin: 0 0 0.3em 0.4em;
  padding-left: 0.8em }
.frazil b { font-weight: 600 }
.frazil i { font-style: normal; opacity: 0.6 }
.frazil pre { display: inline; white-space: pre-wrap; font-family: inherit }
.frazil summary { cursor: pointer }
</style>
"""


def render_html(value: Shown) -> str:
    """A value with its style; everything that came from outside is escaped."""
    return _STYLE + _render(value)


def _render(value: Shown) -> str:
    items = "".join(_render_item(item) for item in value.shown_items())
    return f'<div class="frazil"><b>{escape(public_name(value))}</b>{items}</div>\n'


def _render_item(item: Item) -> str:
    name = f"<i>{escape(item.name)}</i>"
    match item.value:
        case Shown():
            return f"<details><summary>{name}</summary>{_render(item.value)}</details>"
        case Mapping() if any(isinstance(each, Shown) for each in item.value.values()):
            inner = "".join(_render_item(Item(key, each)) for key, each in item.value.items())
            return f"<details open><summary>{name}</summary>{inner}</details>"
    text = escape(render_plain(item.value))
    suffix = " <i>(default)</i>" if item.is_default else ""
    return f"<div>{name} <pre>{text}</pre>{suffix}</div>"
