"""How values show themselves: settings as a call that can be run, records as lines, both as HTML."""

from collections.abc import Iterator

from frazil.rendering.html import render_html
from frazil.rendering.items import (
    Item,
    Shown,
    effective,
    effective_value,
    field_items,
    public_name,
)
from frazil.rendering.tables import Table
from frazil.rendering.text import (
    render_block,
    render_call,
    render_fields_call,
    render_ordered_call,
    render_plain,
    render_short_call,
)

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


class Block(Shown):
    """Shows its items in `str` and in notebooks."""

    __slots__ = ()

    def __str__(self) -> str:
        return render_block(self)

    def _repr_html_(self) -> str:
        return render_html(self)


class Rendered(Block):
    """Settings, a dataclass: `repr` can be run, `str` tells what holds where nothing is set."""

    __slots__ = ()

    def shown_items(self) -> Iterator[Item]:
        """The fields; text is quoted, to be told from None."""
        for item in field_items(self):
            is_text = isinstance(item.value, str)
            yield Item(item.name, render_call(item.value), item.is_default) if is_text else item

    def __repr__(self) -> str:
        return render_fields_call(self)


class Listed(Block):
    """A record, a dataclass: a line for each field, in `repr` as well."""

    __slots__ = ()

    def shown_items(self) -> Iterator[Item]:
        """The fields."""
        return field_items(self)

    def __repr__(self) -> str:
        return str(self)


class Called:
    """An alternative, a dataclass: the call that makes it, in one line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return render_short_call(self)


class CalledInOrder:
    """The same, for one whose arguments have no names for the official library."""

    __slots__ = ()

    def __repr__(self) -> str:
        return render_ordered_call(self)
