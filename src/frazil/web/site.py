"""All pages by name: their contents from a query, their HTML, and the frame around them."""

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from frazil import __version__
from frazil.errors import InvalidInputError
from frazil.web.answers import ArrayPage, Explorer, RefEntry
from frazil.web.array_page import render_array, render_changed, render_extent, render_values
from frazil.web.html import Html, address, link, show, tag
from frazil.web.pages import (
    Links,
    Page,
    render_branch,
    render_changes,
    render_commit,
    render_compare,
    render_coverage,
    render_data,
    render_history,
    render_more,
    render_nodes,
    render_overview,
    render_rows,
    render_size,
    show_age,
)
from frazil.web.upkeep_pages import (
    render_health,
    render_jobs,
    render_operations,
    render_storage,
    render_stored,
)

Query = Mapping[str, str]

PAGES = (
    "overview",
    "data",
    "array",
    "history",
    "commit",
    "compare",
    "storage",
    "operations",
    "health",
    "jobs",
)
PARTS = (
    "size",
    "stored",
    "coverage",
    "extent",
    "values",
    "changes",
    "changed",
    "branch",
    "rows",
    "nodes",
)
"""Pieces of pages that a browser loads after the page."""
LAZY = ("storage",)
"""Pages that show nothing but parts, so that they need no contents."""
ANSWERS = ("slice", "series", "chunks", "chunk", "search")
"""Data that scripts load, which have no page."""
MENU = ("overview", "data", "history", "compare", "storage", "operations", "health", "jobs")


class SiteLinks:
    """Addresses of a site, which has every page."""

    def to(self, page: str, **query: object) -> str:
        """Return the address of a page."""
        return address("./" if page == "overview" else page, **query)

    def part(self, page: str, **query: object) -> Html:
        """Return a placeholder that loads a part."""
        source = address(page, **query)
        rest = tag("noscript", link(source, "Show"))
        return tag(
            "span" if page in ("size", "extent") else "div",
            tag("span", "loading …", class_="loading"),
            rest,
            data_part=source,
            aria_busy="true",
        )

    def frames(self, path: str) -> None:
        """Return None: a server has every slice."""
        del path


class Site:
    """Pages of one repository, on a server or in a report."""

    def __init__(self, explorer: Explorer, links: Links | None = None) -> None:
        self.explorer = explorer
        self.links: Links = SiteLinks() if links is None else links

    def gather(self, page: str, query: Query) -> Any:
        """Return the contents of a page, a part or an answer; raises InvalidInputError."""
        explorer, ref = self.explorer, query.get("ref") or "main"
        match page:
            case "overview":
                return explorer.overview(ref)
            case "data" | "nodes":
                internal = bool(query.get("internal"))
                return explorer.data(ref, query.get("q", ""), has_internal=internal)
            case "search":
                return self._search(ref, query.get("q", ""))
            case "array":
                return explorer.array(ref, need(query, "path"), parse_dims(query))
            case "history" | "rows":
                start = parse_number(query, "start") or 0
                return explorer.history(query.get("q", ""), query.get("branch", ""), start)
            case "commit":
                return explorer.commit(need(query, "id"))
            case "compare":
                return explorer.compare(query.get("from", ""), query.get("to", ""))
            case "storage" | "stored" | "size":
                return explorer.storage(ref)
            case "operations":
                return explorer.operations()
            case "health":
                return explorer.health(checks=bool(query.get("check")))
            case "jobs":
                return explorer.jobs(ref)
            case "coverage":
                return explorer.coverage(ref)
            case "extent":
                return explorer.coverage(ref, need(query, "path"))
            case "values":
                return explorer.slice(ref, need(query, "path"))
            case "changes":
                return explorer.compare(need(query, "from"), need(query, "to")).difference
            case "changed":
                return explorer.array(need(query, "to"), need(query, "path"))
            case "branch":
                return explorer.children(ref, query.get("path") or "/")
        return self._gather_values(page, ref, query)

    def _gather_values(self, page: str, ref: str, query: Query) -> Any:
        explorer, path = self.explorer, need(query, "path")
        match page:
            case "slice":
                side = parse_number(query, "side")
                dims, windows = parse_dims(query), parse_windows(query)
                return explorer.slice(ref, path, parse_place(query), dims, windows, side)
            case "series":
                return explorer.series(ref, path, need(query, "dim"), parse_place(query))
            case "chunks":
                return explorer.cells(ref, path, query.get("from", ""))
            case "chunk":
                text = query.get("at", "")
                if not re.fullmatch(r"(\d{1,18}(,\d{1,18})*)?", text):
                    raise InvalidInputError(f"invalid at {text!r}: give indices such as 3,0")
                return explorer.chunk(ref, path, [int(each) for each in text.split(",") if each])
        raise InvalidInputError(f"there is no page {page!r}")

    def _search(self, ref: str, q: str) -> dict[str, Any]:
        found = self.explorer.data(ref, q).nodes if q.strip() else ()
        nodes = [
            {"path": show(each.path), "href": self.links.to("array", ref=ref, path=each.path)}
            for each in found
            if hasattr(each, "long_name")
        ]
        return {"nodes": nodes[:100], "total": len(nodes)}

    def render(self, page: str, answer: Any, query: Query) -> Page:
        """Render the contents of a page."""
        links, explorer = self.links, self.explorer
        match page:
            case "overview":
                return render_overview(answer, links)
            case "data":
                return render_data(answer, links)
            case "array":
                return render_array(answer, links, explorer.list_refs(), explorer.url)
            case "history":
                return render_history(answer, links)
            case "commit":
                return render_commit(answer, links)
            case "compare":
                return render_compare(answer, links, explorer.list_refs())
            case "storage":
                return render_storage(query.get("ref") or "main", links)
            case "operations":
                return render_operations(answer)
            case "health":
                return render_health(answer, links)
            case "jobs":
                return render_jobs(answer, links)
        return Page(page, self.render_part(page, answer, query))

    def render_part(self, page: str, answer: Any, query: Query) -> Html:
        """Render a part of a page."""
        links, ref = self.links, query.get("ref") or "main"
        match page:
            case "size":
                return render_size(answer)
            case "stored":
                return render_stored(answer, links)
            case "coverage":
                return render_coverage(answer)
            case "extent":
                return render_extent(answer)
            case "values":
                return render_values(answer)
            case "changes":
                return render_changes(answer, need(query, "to"), links)
            case "changed":
                old = need(query, "from")
                return render_changed(answer, old, self._find_changed(answer, old))
            case "branch":
                return render_branch(ref, answer, links)
            case "nodes":
                return render_nodes(answer, parse_number(query, "start") or 0, links)
        return Html.join([render_rows(answer, links), render_more(answer, links)])

    def _find_changed(self, answer: ArrayPage, old: str) -> dict[str, int] | None:
        """Return where a changed chunk is on axes that no map shows; None if all are new."""
        found = self.explorer.compare(old, answer.ref).difference
        places = None if found is None else found.chunk_coordinates.get(answer.array.path)
        shape = answer.array.chunk_shape
        if places is None or not len(places) or shape is None or places.shape[1] != len(shape):
            return {}
        former = self.explorer.array(old, answer.array.path).array.shape
        starts = places.astype(np.int64) * np.array(shape)
        if len(former) == len(shape):
            common = starts[(starts < np.minimum(former, answer.array.shape)).all(axis=1)]
            if not len(common):
                return None
            starts = common
        return {
            axis.name: min(start, axis.length - 1)
            for axis, start in zip(answer.axes, starts[0].tolist(), strict=True)
            if axis.name not in answer.shown
        }

    def render_side(self, page: Page, ref: str) -> Html:
        """Render the sidebar: version, menu, search and tree."""
        explorer, links = self.explorer, self.links
        refs = explorer.list_refs()
        overview = len(
            [v for v in explorer.variables(ref)[0] if not v.path.startswith("/_frazil/")]
        )
        counts = {"data": f"{overview:,}", "history": f"{explorer.count_commits():,}"}
        items = []
        for name in MENU:
            query = {"ref": ref} if name in ("overview", "data", "storage", "jobs") else {}
            target = links.to(name, **query)
            if target is not None:
                count = tag("span", counts[name]) if name in counts else None
                items.append(
                    tag(
                        "li",
                        link(
                            target,
                            name.title(),
                            count,
                            aria_current="page" if page.menu == name else None,
                        ),
                    )
                )
        home = links.to("overview", ref=ref)
        is_site = links.to("compare") is not None
        options = [
            tag("option", *_name_version(each), value=each.name, selected=each.name == ref)
            for each in refs[:500]
        ]
        if ref not in {each.name for each in refs[:500]}:
            options.insert(0, tag("option", ref[:12], value=ref, selected=True))
        version = tag(
            "form",
            tag("select", *options, name="ref", aria_label="Version", data_submit=True),
            tag("input", type="hidden", name="path", value=page.path) if page.path else None,
            tag("noscript", tag("button", "Go")),
            action="array" if page.path else "./",
            method="get",
            class_="version",
        )
        nodes = explorer.children(ref, "/")
        tree = tag("ul", render_branch(ref, nodes, links, page.path))
        search = tag(
            "form",
            tag(
                "input",
                type="search",
                name="q",
                id="search",
                data_ref=ref,
                autocomplete="off",
                placeholder="Search paths and attributes",
                aria_label="Search paths and attributes",
            ),
            tag("input", type="hidden", name="ref", value=ref),
            action="data",
            method="get",
            role="search",
        )
        return tag(
            "header",
            tag("p", link(home, explorer.name), class_="brand"),
            tag("p", explorer.url, class_="path") if explorer.url != explorer.name else None,
            version if is_site else tag("p", tag("span", ref, class_="badge")),
            tag("nav", tag("ul", *items, class_="menu"), aria_label="Pages"),
            tag(
                "div",
                tag("h2", "Arrays"),
                search,
                tag("nav", tree, class_="tree", id="tree", aria_label="Arrays"),
                tag("ul", id="results", class_="tree", hidden=True, aria_label="Search results"),
                class_="arrays",
            ),
            tag(
                "div",
                f"Frazil {__version__}",
                tag("button", "Theme", type="button", id="theme", hidden=True),
                class_="foot",
            ),
            class_="side",
        )


def _name_version(ref: RefEntry) -> list[object]:
    kind = " (tag)" if ref.kind == "tag" else ""
    return [ref.name, kind, f" · {show_age(ref.written_at)}" if ref.written_at else None]


def lay_out(
    title: str, head: Html, side: Html, main: Html, *, kind: str = "", theme: str = ""
) -> str:
    """Render an HTML document."""
    top = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        head,
    )
    body = tag(
        "body",
        link("#content", "Skip to the content", class_="skip"),
        tag("div", side, tag("main", main, id="content"), class_="app"),
        class_=kind or None,
    )
    chosen = theme if theme in ("light", "dark") else None
    return "<!doctype html>\n" + tag("html", top, body, lang="en", data_theme=chosen)


def read_asset(name: str) -> str:
    """Return a style sheet, a script or the coastlines."""
    return files("frazil.web").joinpath(name).read_text("utf-8")


# Queries


def need(query: Query, name: str) -> str:
    """Return a value of a query; raises InvalidInputError if it is missing."""
    found = query.get(name)
    if not found:
        raise InvalidInputError(f"the address needs {name}=")
    return found


def parse_number(query: Query, name: str) -> int | None:
    """Return a natural number of a query, or None."""
    text = query.get(name)
    if not text:
        return None
    if not re.fullmatch(r"\d{1,18}", text):
        raise InvalidInputError(f"invalid {name} {text!r}: give a natural number")
    return int(text) or None


def parse_dims(query: Query) -> list[str]:
    """Return the axes to show, such as `lat,lon`."""
    return [each for each in query.get("dims", "").split(",") if each]


def parse_place(query: Query) -> dict[str, int]:
    """Return indices by axis, such as `time:3,level:0`."""
    text = query.get("at", "")
    found = re.findall(r"([^,:]+):(-?\d{1,18})(?:,|$)", text)
    if ",".join(f"{name}:{index}" for name, index in found) != text:
        raise InvalidInputError(
            f"invalid at {text!r}: give indices by axis, such as time:3,level:0"
        )
    return {name: int(index) for name, index in found}


def parse_windows(query: Query) -> dict[str, tuple[int, int]]:
    """Return windows by axis, such as `lat:0:90,lon:10:20`."""
    text = query.get("window", "")
    found = re.findall(r"([^,:]+):(\d{1,18}):(\d{1,18})(?:,|$)", text)
    if ",".join(f"{name}:{start}:{stop}" for name, start, stop in found) != text:
        raise InvalidInputError(f"invalid window {text!r}: give start and stop, such as lat:0:90")
    return {name: (int(start), int(stop)) for name, start, stop in found}
