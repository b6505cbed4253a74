"""HTML as values, and links between pages."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Protocol, Self
from urllib.parse import quote


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()

    @classmethod
    def join(cls, parts: Iterable[object]) -> Self:
        """Parts one after the other, escaped where they are plain text."""
        return cls(
            "".join(part if isinstance(part, Html) else escape(show(part)) for part in parts)
        )


def show(value: object) -> str:
    """A value as text that can't turn the direction of what stands beside it."""
    return "".join(each if each.isprintable() or each in "\n\t" else "�" for each in str(value))


_VOID = frozenset(("br", "img", "input", "link", "meta"))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element; attributes that are None or False are left out, and `class_` is `class`."""
    spelled = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(show("" if value is True else value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{spelled}>")
    return Html(f"<{name}{spelled}>{Html.join(children)}</{name}>")


def link(address: str, *children: object, **attributes: object) -> Html:
    """A link inside of these pages."""
    return tag("a", *children, href=address, **attributes)


def address(page: str, **query: object) -> str:
    """The address of a page with its query."""
    pairs = (f"{key.rstrip('_')}={quote(str(each), safe='')}" for key, each in query.items())
    return f"{page}?{'&'.join(pairs)}" if query else page


def table(columns: Iterable[str], rows: Iterable[Iterable[object]], caption: str) -> Html:
    """A table; columns that begin with `>` hold numbers. The first cell of a row is its head."""
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
    """Names with what belongs to them; nothing for None."""
    parts = [
        part
        for name, value in pairs
        if value is not None
        for part in (tag("dt", name), tag("dd", value))
    ]
    return tag("dl", *parts)


class Links(Protocol):
    """Addresses; None where there is nothing to lead to."""

    def to_version(self, ref: str) -> str | None:
        """The nodes of a version."""

    def to_array(self, ref: str, path: str) -> str | None:
        """An array."""

    def to_changes(self, old: str, new: str) -> str | None:
        """What changed between two versions."""


class SiteLinks:
    """Every page is there."""

    def to_version(self, ref: str) -> str:
        """The nodes of a version."""
        return address("tree", ref=ref)

    def to_array(self, ref: str, path: str) -> str:
        """An array."""
        return address("array", ref=ref, path=path)

    def to_changes(self, old: str, new: str) -> str:
        """What changed between two versions."""
        return address("diff", from_=old, to=new)


@dataclass(frozen=True, slots=True)
class ReportLinks:
    """Only what is in the report is there."""

    arrays: Mapping[str, str] = field(default_factory=dict)
    """The anchor of each array that is shown."""

    def to_version(self, ref: str) -> None:
        """A report has one version."""
        del ref

    def to_array(self, ref: str, path: str) -> str | None:
        """An array of the one version."""
        del ref
        return f"#{self.arrays[path]}" if path in self.arrays else None

    def to_changes(self, old: str, new: str) -> None:
        """A report has one version."""
        del old, new


def link_to(target: str | None, text: str) -> object:
    """A link, or the text alone."""
    return text if target is None else tag("a", text, href=target)
