"""A page as a whole document: the same for what is served and for what is written to a file."""

from importlib.resources import files

from frazil.version import __version__
from frazil.web.html import Html, link, tag
from frazil.web.pages import Page


def read_style() -> str:
    """The style sheet of all pages."""
    return files("frazil.web").joinpath("style.css").read_text("utf-8")


def lay_out(page: Page, name: str, style: Html, navigation: Html) -> str:
    """An HTML document."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{page.title} · {name}"),
        style,
    )
    body = tag(
        "body",
        link("#content", "Skip to the content", class_="skip"),
        tag("header", tag("strong", name), navigation),
        tag("main", tag("h1", page.title), page.body, id="content"),
        tag("footer", tag("p", f"Frazil {__version__}")),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en")
