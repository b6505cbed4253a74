"""HTML as values, and links between pages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Protocol, Self
from urllib.parse import quote


class Html(str):
    """Text that is already HTML."""

    __slots__ = ()

    @classmethod
    def join(cls, parts: Iterable[object]) -> Self:
        """Concatenate parts, escaping plain text."""
        return cls(
            "".join(part if isinstance(part, Html) else escape(show(part)) for part in parts)
        )


def show(value: object) -> str:
    """Convert a value to text without control characters, such as those that change text direction."""
    return "".join(each if each.isprintable() or each in "\n\t" else "�" for each in str(value))


_VOID = frozenset(("br", "img", "input", "link", "meta"))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Make an element; attributes that are None or False are left out, and `class_` is `class`."""
    spelled = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(show("" if value is True else value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{spelled}>")
    return Html(f"<{name}{spelled}>{Html.join(children)}</{name}>")


def link(address: str, *children: object, **attributes: object) -> Html:
    """Make a link to another page of this site."""
    return tag("a", *children, href=address, **attributes)


def address(page: str, **query: object) -> str:
    """Return the address of a page with a query."""
    pairs = (f"{key.rstrip('_')}={quote(str(each), safe='')}" for key, each in query.items())
    return f"{page}?{'&'.join(pairs)}" if query else page


def table(columns: Iterable[str], rows: Iterable[Iterable[object]], caption: str) -> Html:
    """Make a table; columns that begin with `>` hold numbers. The first cell of a row is its header."""
    names = list(columns)
    head = tag("tr", *(tag("th", name.lstrip(">"), scope="col") for name in names))
    body = [
        tag(
            "tr",
            *(
                tag(
                    "th" if number == 0 else "td",
                    cell,
                    scope="row" if number == 0 else None,
                    class_="number" if name[0] == ">" else None,
                )
                for number, (name, cell) in enumerate(zip(names, row, strict=True))
            ),
        )
        for row in rows
    ]
    parts = [tag("caption", caption), tag("thead", head), tag("tbody", *body)]
    return tag("div", tag("table", *parts), class_="scroll", tabindex="0", role="region",
               aria_label=caption)  # fmt: skip


def card(pairs: Iterable[tuple[str, object]]) -> Html:
    """Make a definition list, without values that are None."""
    parts = [
        part
        for name, value in pairs
        if value is not None
        for part in (tag("dt", name), tag("dd", value))
    ]
    return tag("dl", *parts)


class Links(Protocol):
    """Addresses of pages; None if there is no such page."""

    def to_version(self, ref: str) -> str | None:
        """Return the address of a version's nodes."""

    def to_array(self, ref: str, path: str) -> str | None:
        """Return the address of an array."""

    def to_changes(self, old: str, new: str) -> str | None:
        """Return the address of the changes between two versions."""


class SiteLinks:
    """Addresses of a site that has every page."""

    def to_version(self, ref: str) -> str:
        """Return the address of a version's nodes."""
        return address("tree", ref=ref)

    def to_array(self, ref: str, path: str) -> str:
        """Return the address of an array."""
        return address("array", ref=ref, path=path)

    def to_changes(self, old: str, new: str) -> str:
        """Return the address of the changes between two versions."""
        return address("diff", from_=old, to=new)


@dataclass(frozen=True, slots=True)
class ReportLinks:
    """Addresses within a report, which has one version."""

    arrays: Mapping[str, str] = field(default_factory=dict)
    """Anchor of each array shown."""

    def to_version(self, ref: str) -> None:
        """Return None: a report has one version."""
        del ref

    def to_array(self, ref: str, path: str) -> str | None:
        """Return the anchor of an array."""
        del ref
        return f"#{self.arrays[path]}" if path in self.arrays else None

    def to_changes(self, old: str, new: str) -> None:
        """Return None: a report has one version."""
        del old, new


def link_to(target: str | None, text: str) -> object:
    """Return a link, or the text if there is no target."""
    return text if target is None else tag("a", text, href=target)
