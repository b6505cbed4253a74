"""Elements of pages: HTML as values that are safe by construction."""

from collections.abc import Iterable
from html import escape
from typing import Self
from urllib.parse import quote


class Html(str):
    """Text that is already HTML."""

    __slots__ = ()

    @classmethod
    def join(cls, parts: Iterable[object]) -> Self:
        """Concatenate parts, escaping plain text; None is nothing."""
        return cls(
            "".join(
                part if isinstance(part, Html) else escape(show(part))
                for part in parts
                if part is not None
            )
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


def link(target: str | None, *children: object, **attributes: object) -> Html:
    """Make a link, or only its text if there is no target."""
    if target is None:
        return Html.join(children)
    return tag("a", *children, href=target, **attributes)


def address(page: str, **query: object) -> str:
    """Return the address of a page with a query, spelled as `encodeURIComponent` spells it."""
    pairs = (
        f"{key.rstrip('_')}={quote(str(each), safe=SAFE)}"
        for key, each in query.items()
        if each not in (None, "")
    )
    joined = "&".join(pairs)
    return f"{page}?{joined}" if joined else page


SAFE = "!'()*~"


def table(columns: Iterable[str], rows: Iterable[Iterable[object]], caption: str) -> Html:
    """Make a table; columns that begin with `>` hold numbers. The first cell of a row is its header."""
    names = list(columns)
    head = tag(
        "tr",
        *(
            tag("th", each.lstrip(">"), scope="col", class_="number" if each[0] == ">" else None)
            for each in names
        ),
    )
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


def facts(pairs: Iterable[tuple[str, object]], kind: str = "facts") -> Html:
    """Make a definition list, without values that are None."""
    known = [(name, value) for name, value in pairs if value is not None]
    if kind == "stats":
        return tag("dl", *(tag("div", tag("dt", n), tag("dd", v)) for n, v in known), class_=kind)
    parts = [part for name, value in known for part in (tag("dt", name), tag("dd", value))]
    return tag("dl", *parts, class_=kind)


def card(title: object, *children: object, small: object = None, **attributes: object) -> Html:
    """Make a section with a heading and a small text beside it."""
    attributes.setdefault("class_", "card")
    heading = tag("h2", title, tag("small", small) if small else None)
    return tag("section", heading, *children, **attributes)
