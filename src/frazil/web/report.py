"""The report: the pages of one version in a single HTML file that needs no server."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from frazil.errors import IcechunkError
from frazil.repository.repository import Repository
from frazil.web.answers import ArrayPage, Explorer, Variable, spell_json
from frazil.web.html import Html, address, show, tag
from frazil.web.pages import THUMB_SIDE, Page
from frazil.web.site import LAZY, Site, lay_out, read_asset

MOST_SECONDS = 120.0
"""Time after which no more values are read."""
_MOST_ARRAYS = 30
"""Maximum arrays with a page of their own."""
_MOST_COMMITS = 60
"""Maximum commits with a page of their own."""
_MOST_FRAMES = 24
"""Maximum slices of an array along an axis."""
_MOST_ARRAY_SECONDS = 3.0
"""Time for the slices of an array, by which their number is chosen."""
_MOST_BYTES = 1_200_000
"""Maximum size of all slices; after it, arrays have one slice."""
_SIDE = 256
"""Maximum elements of a slice along an axis."""


@dataclass(slots=True)
class ReportLinks:
    """Addresses within a report, and the data that its scripts find there."""

    site: Site | None = None
    pages: dict[str, Page] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    data: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)

    def to(self, page: str, **query: object) -> str | None:
        """Return the address of a page of the report, or None."""
        target = address(page, **query)
        return f"#{target}" if target in self.known else None

    def part(self, page: str, **query: object) -> Html:
        """Render a part in place."""
        assert self.site is not None
        given = {name.rstrip("_"): str(each) for name, each in query.items()}
        try:
            return self.site.render_part(page, self.site.gather(page, given), given)
        except IcechunkError as error:
            return tag("p", error.message, class_="alert")

    def frames(self, path: str) -> Mapping[str, Sequence[int]]:
        """Return the indices along each axis whose slices are in the report."""
        return self.steps.get(path, {})


def render_report(
    repository: Repository, name: str, ref: str = "main", *, most_seconds: float = MOST_SECONDS
) -> str:
    """Render the pages of a version as one HTML document, the overview first.

    Parameters
    ----------
    repository
        Repository to show.
    name
        URL or name of the repository on the pages.
    ref
        Branch, tag or snapshot to show.
    most_seconds
        Time after which no more values are read.

    Returns
    -------
    str
        HTML document without references to other files.
    """
    end = monotonic() + most_seconds
    explorer = Explorer(repository, name, is_frozen=True)
    links = ReportLinks()
    site = links.site = Site(explorer, links)
    overview = explorer.overview(ref)
    arrays, _ = explorer.variables(ref)
    chosen = [each.path for each in overview.variables]
    chosen += [each.path for each in arrays if each.path not in chosen and each.is_coordinate]
    chosen = chosen[:_MOST_ARRAYS]
    commits = [each.snapshot.id for each in explorer.history(count=_MOST_COMMITS).rows]
    places = _list_pages(ref, chosen, commits)
    links.known = {address(page, **query) for page, query in places}
    links.data["coastlines.json"] = json.loads(read_asset("coastlines.json"))
    links.data["nodes"] = _list_nodes(arrays, links, ref)
    for each in overview.variables:
        _add_slice(links, end, each.path, {"side": THUMB_SIDE}, ref)
    sections = []
    for page, query in places:
        if page == "array":
            _add_array(links, end, site.gather(page, query))
        shown = site.render(page, _gather_page(site, page, query, end), query)
        sections.append(_render_section(address(page, **query), shown, ref, explorer.name))
    return _lay_out(site, overview.title or explorer.name, ref, sections, links.data)


def _list_pages(
    ref: str, arrays: Sequence[str], commits: Sequence[str]
) -> list[tuple[str, dict[str, str]]]:
    return [
        ("overview", {"ref": ref}),
        ("data", {"ref": ref}),
        *(("array", {"ref": ref, "path": path}) for path in arrays),
        ("history", {}),
        *(("commit", {"id": id}) for id in commits),
        ("storage", {"ref": ref}),
        ("operations", {}),
        ("health", {}),
        ("jobs", {"ref": ref}),
    ]


def _gather_page(site: Site, page: str, query: Mapping[str, str], end: float) -> Any:
    """Gather a page; the health page with a check, if there is time."""
    if page == "health" and monotonic() < end:
        try:
            return site.explorer.health(checks=True)
        except IcechunkError:
            pass
    if page == "history":
        return site.explorer.history(count=_MOST_COMMITS)
    return None if page in LAZY else site.gather(page, query)


def _list_nodes(arrays: Sequence[Variable], links: ReportLinks, ref: str) -> list[dict[str, str]]:
    found = []
    for each in arrays[:2000]:
        href = links.to("array", ref=ref, path=each.path)
        if href is not None:
            text = f"{each.path} {each.long_name or ''} {each.units or ''}".lower()
            found.append({"path": show(each.path), "href": href, "text": text})
    return found


def _add_array(links: ReportLinks, end: float, page: ArrayPage) -> None:
    """Add the slices and the chunk grid of an array."""
    site, path, ref = links.site, page.array.path, page.ref
    assert site is not None
    links.data[address("chunks.json", ref=ref, path=path)] = json.loads(
        spell_json(site.explorer.cells(ref, path))
    )
    if len(page.shown) == 1:
        _add_slice(links, end, path, {}, ref)
    if len(page.shown) != 2:
        return
    others = [each for each in page.axes if each.name not in page.shown]
    middle = {each.name: each.length // 2 for each in others}
    along = next((each for each in others if each.kind == "time"), others[0] if others else None)
    steps: list[int] = []
    dims = ",".join(page.shown)
    if along is not None:
        begun = monotonic()
        size = _add_slice(links, end, path, {"at": _spell(middle), "dims": dims}, ref)
        patience = int(_MOST_ARRAY_SECONDS / max(1e-3, monotonic() - begun))
        used = sum(len(each.get("values") or "") for each in links.data.values() if _is_slice(each))
        room = (_MOST_BYTES - used) // max(1, size)
        count = max(1, min(_MOST_FRAMES, along.length, patience, room))
        steps = sorted({middle[along.name], *_spread(along.length, count)})
        links.steps[path] = {along.name: steps}
        for index in steps:
            place = {**middle, along.name: index}
            _add_slice(links, end, path, {"at": _spell(place), "dims": dims}, ref)
    else:
        _add_slice(links, end, path, {"dims": dims}, ref)


def _is_slice(data: Any) -> bool:
    return isinstance(data, dict) and data.get("form") == "map"


def _spread(length: int, count: int) -> list[int]:
    if count < 2:
        return []
    return [number * (length - 1) // (count - 1) for number in range(count)]


def _spell(place: Mapping[str, int]) -> str:
    return ",".join(f"{name}:{index}" for name, index in place.items())


def _add_slice(
    links: ReportLinks, end: float, path: str, query: Mapping[str, object], ref: str
) -> int:
    """Add a slice, or why there is none; return its size."""
    key = address("slice.json", ref=ref, path=path, **query)
    if key in links.data:
        return len(str(links.data[key].get("values", "")))
    assert links.site is not None
    if monotonic() >= end:
        late = "its values were not read, because the report took too long already"
        links.data[key] = {"form": "nothing", "axes": [], "at": {}, "note": late}
        return 0
    given = {name: str(each) for name, each in query.items()} | {"ref": ref, "path": path}
    given.setdefault("side", str(_SIDE))
    try:
        found = links.site.gather("slice", given)
    except IcechunkError as error:
        found = {"form": "nothing", "axes": [], "at": {}, "note": error.message}
    links.data[key] = json.loads(spell_json(found))
    return len(str(found.get("values", "")))


def _render_section(place: str, page: Page, ref: str, name: str) -> Html:
    menu = (
        address(page.menu, ref=ref)
        if page.menu in ("overview", "data", "storage", "jobs")
        else page.menu
    )
    return tag(
        "section",
        page.body,
        class_="page",
        id=place,
        data_menu=menu,
        data_title=f"{page.title} · {name}",
        aria_label=page.title,
    )


def _lay_out(
    site: Site, title: str, ref: str, sections: Sequence[Html], data: Mapping[str, Any]
) -> str:
    # Inside of a script element, only "<" could end it.
    embedded = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    script = read_asset("maps.js") + read_asset("explorer.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'"
    )
    head = Html.join(
        [
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("style", Html(read_asset("explorer.css"))),
        ]
    )
    side = site.render_side(Page(title, Html(), "overview"), ref)
    ends = [
        tag("script", Html(embedded), type="application/json", id="embedded"),
        tag("script", Html(script)),
    ]
    main = Html.join([*sections, *ends])
    return lay_out(title, head, side, main, kind="report")
