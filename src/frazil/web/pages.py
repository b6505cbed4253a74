"""Pages of the explorer, rendered from their contents as HTML."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from frazil.display import show_bytes, to_plain
from frazil.overview.contents import Coverage, SpaceCoverage, TimeCoverage
from frazil.overview.nodes import NodeEntry
from frazil.snapshots import Diff, Row, SnapshotInfo
from frazil.web.answers import (
    Commit,
    Comparison,
    Data,
    HistoryPage,
    Overview,
    RefEntry,
    StoragePage,
    Variable,
    is_internal,
)
from frazil.web.html import Html, address, card, facts, link, table, tag

MOST_AXES = 8
"""Maximum axes that are named or listed one by one."""
MOST_LISTED = 2000
"""Maximum nodes or paths in one list."""
MOST_COMPARED = 8
"""Maximum changed arrays that are compared on maps."""


@dataclass(frozen=True, slots=True)
class Page:
    """Title and body of a page."""

    title: str
    body: Html
    menu: str = ""
    """Page of the menu that it belongs to."""
    path: str = ""
    """Array or group that it shows."""


class Links(Protocol):
    """Addresses of pages and parts, on a site or in a report."""

    def to(self, page: str, **query: object) -> str | None:
        """Return the address of a page; None if there is no such page."""

    def part(self, page: str, **query: object) -> Html:
        """Return a part of a page: a placeholder that loads it, or the part itself."""

    def frames(self, path: str) -> Mapping[str, Sequence[int]] | None:
        """Return the indices along each axis whose slices are at hand; None if all are."""


# Texts


def show_age(time: datetime, now: datetime | None = None) -> str:
    """Format how long ago something was, or its date if that is more than a month."""
    seconds = ((now or datetime.now(UTC)) - time).total_seconds()
    if 0 <= seconds < 60:
        return "just now"
    for size, most, name in ((86400, 30, "day"), (3600, 24, "hour"), (60, 60, "minute")):
        count = int(seconds // size)
        if 1 <= count <= most:
            return f"{plural(count, name)} ago"
    return f"{time:%Y-%m-%d}"


def ago(time: datetime) -> Html:
    """Return how long ago something was, with the time as a hint."""
    return tag(
        "time",
        show_age(time),
        datetime=f"{time:%Y-%m-%dT%H:%M:%SZ}",
        title=f"{time:%Y-%m-%d %H:%M:%S} UTC",
    )


def moment(time: datetime) -> Html:
    """Return a time to the minute."""
    return tag("time", f"{time:%Y-%m-%d %H:%M}", datetime=f"{time:%Y-%m-%dT%H:%M:%SZ}")


def show_shape(shape: Sequence[int]) -> str:
    """Format a shape, with crosses between the lengths; of many, the first and the last ones."""
    if len(shape) > MOST_AXES:
        ends = show_shape(shape[:2]), show_shape(shape[-2:])
        return f"{' × … × '.join(ends)} ({len(shape)} axes)"
    return " × ".join(f"{each:,}" for each in shape) or "scalar"


def first_line(message: str) -> str:
    """Return the first line of a message, shortened."""
    return _shorten((message.strip().splitlines() or ["no message"])[0], 120)


def show_value(value: object) -> str:
    """Format an attribute or a piece of metadata."""
    if isinstance(value, str):
        return value
    return json.dumps(to_plain(value), ensure_ascii=False, default=str)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def headed(crumbs: Sequence[object], title: object, sub: object = None) -> Html:
    """Return the head of a page: where it is, its title, a line below."""
    trail: list[object] = []
    for each in crumbs:
        trail += [" / " if trail else None, each]
    return Html.join(
        [
            tag("p", *trail, class_="crumbs") if trail else None,
            tag("h1", title),
            tag("p", sub, class_="sub") if sub else None,
        ]
    )


def chips(parts: Sequence[object]) -> Html:
    """Return short facts in a row."""
    return tag("ul", *(tag("li", each, class_="chip") for each in parts if each), class_="chips")


def select(
    name: str, pairs: Sequence[tuple[str, str]], chosen: str = "", **attributes: object
) -> Html:
    """Make a choice of values, each with its text."""
    options = [tag("option", text, value=value, selected=value == chosen) for value, text in pairs]
    return tag("select", *options, name=name, **attributes)


# Overview


def render_overview(answer: Overview, links: Links) -> Page:
    """Render the overview of a version."""
    newest = answer.snapshot
    sub = Html.join(
        [
            *([_shorten(answer.summary, 300), tag("br")] if answer.summary else []),
            f"{plural(answer.arrays, 'array')} in {plural(answer.groups + 1, 'group')} · updated ",
            ago(newest.written_at),
            " by ",
            link(links.to("commit", id=newest.id), first_line(newest.message)),
        ]
    )
    kpis = [
        (show_count(answer.arrays), "arrays"),
        (links.part("size", ref=answer.ref), "stored and referenced"),
        (show_count(answer.total_commits), "commits"),
        (ago(newest.written_at), "last commit"),
    ]
    row = tag(
        "div",
        *(
            tag("div", tag("b", value), tag("span", name), class_="card kpi")
            for value, name in kpis
        ),
        class_="row",
    )
    variables = tag(
        "ul",
        *(_render_variable(each, answer.ref, links) for each in answer.variables),
        class_="variables",
    )
    shown = len(answer.variables)
    rest = f"{shown} of {answer.arrays:,} arrays" if shown < answer.arrays else None
    left = tag(
        "div",
        card(
            "Variables",
            variables if shown else tag("p", "There are no arrays yet.", class_="note"),
            small=link(links.to("data", ref=answer.ref), rest or "all groups and arrays"),
        ),
        card("Attributes", facts(list_attributes(answer.attributes)))
        if answer.attributes
        else None,
        class_="stack",
    )
    right = tag(
        "div",
        card("Coverage", links.part("coverage", ref=answer.ref)),
        card(
            "Last commits",
            render_commits(answer.commits, links),
            small=link(links.to("history"), f"all {answer.total_commits:,}"),
        ),
        card("Branches and tags", _render_refs(answer.refs, links)),
        card(
            "About",
            facts(
                [
                    ("format", answer.generation),
                    ("status", answer.status),
                    ("snapshot", tag("code", newest.id)),
                    ("location", tag("code", answer.url)),
                ]
            ),
        ),
        class_="stack",
    )
    head = headed([], answer.title or answer.name, sub)
    return Page(
        answer.title or answer.name,
        Html.join([head, row, tag("div", left, right, class_="grid")]),
        "overview",
    )


def show_count(number: int) -> str:
    """Format a count."""
    return f"{number:,}"


def list_attributes(attributes: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return attributes as texts, not too many; long ones fold."""
    found: list[tuple[str, object]] = []
    for name, value in list(attributes.items())[:_MOST_ATTRIBUTES]:
        text = show_value(value)
        whole = tag("pre", _shorten(text, 20_000), tabindex=0)
        start = tag("summary", _shorten(text, 200), f" ({len(text):,} characters)")
        found.append((name, text if len(text) <= _LONG else tag("details", start, whole)))
    rest = len(attributes) - _MOST_ATTRIBUTES
    return [*found, *([("…", f"{plural(rest, 'more attribute')}")] if rest > 0 else [])]


_LONG, _MOST_ATTRIBUTES = 500, 100


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()}…"


def _render_variable(each: Variable, ref: str, links: Links) -> Html:
    thumb = None
    if each.has_numbers and each.shape and 0 not in each.shape:
        source = address("slice.json", ref=ref, path=each.path, side=THUMB_SIDE)
        thumb = tag(
            "canvas", class_="thumb", data_thumb=source, width=216, height=108, aria_hidden="true"
        )
    units = f" · {each.units}" if each.units and each.units != "1" else ""
    dims = " × ".join(str(name) for name in each.dims)
    words = [
        tag("p", link(links.to("array", ref=ref, path=each.path), each.path.lstrip("/"))),
        tag("p", each.long_name or "", units if each.long_name else units.lstrip(" ·")),
        tag("p", f"{dims} · " if dims else None, show_shape(each.shape)),
    ]
    return tag("li", thumb, tag("div", *words), class_="variable")


THUMB_SIDE = 108
"""Maximum elements of a small map along an axis."""


def render_commits(commits: Sequence[SnapshotInfo], links: Links) -> Html:
    """Render a short list of commits."""
    items = [
        tag(
            "li",
            link(links.to("commit", id=each.id), first_line(each.message)),
            tag("p", ago(each.written_at), _author(each)),
        )
        for each in commits
    ]
    return tag("ul", *items, class_="commits")


def _author(snapshot: SnapshotInfo) -> str:
    found = snapshot.metadata.get("author") or snapshot.metadata.get("author_name")
    return f" · {found}" if isinstance(found, str) else ""


def _render_refs(refs: Sequence[RefEntry], links: Links) -> Html:
    rows = [
        (
            link(
                links.to("overview", ref=each.name),
                tag("span", each.name, class_=f"badge {each.kind}"),
            ),
            each.kind,
            ago(each.written_at) if each.written_at else "",
        )
        for each in refs
    ]
    return table(("name", "kind", "last commit"), rows, "Branches and tags")


def render_size(answer: StoragePage) -> Html:
    """Render the size of a version in one word."""
    more = "" if all(each.is_complete for each in answer.arrays) else "≥ "
    return Html.join([more, show_bytes(sum(each.total_bytes for each in answer.arrays))])


def render_coverage(answer: Coverage) -> Html:
    """Render times as bars and areas on a world map."""
    parts: list[object] = []
    for time in answer.times:
        rects = [
            tag(
                "rect", x=f"{a * 1000:.1f}", y=0, width=f"{max(2.0, (b - a) * 1000):.1f}", height=26
            )
            for a, b in time.segments
        ]
        parts += [
            tag(
                "svg",
                tag("title", describe_time(time)),
                *rects,
                class_="timeline",
                role="img",
                viewBox="0 0 1000 26",
                preserveAspectRatio="none",
            ),
            tag("p", tag("span", time.first), tag("span", time.last), class_="ends"),
            tag("p", describe_time(time), class_="note"),
        ]
    if answer.areas:
        boxes = [
            [-180, each.south, 180, each.north]
            if each.is_global
            else [each.west, each.south, each.east, each.north]
            for each in answer.areas
        ]
        texts = [describe_area(each) for each in answer.areas]
        parts += [
            tag(
                "div",
                tag(
                    "canvas",
                    data_extent=json.dumps(boxes),
                    role="img",
                    aria_label=texts[0],
                    width=360,
                    height=180,
                ),
                class_="viewer",
            ),
            *(tag("p", text, class_="note") for text in texts),
        ]
    if answer.unreadable:
        parts.append(
            tag("p", f"Some coordinates could not be read: {answer.unreadable}.", class_="alert")
        )
    if not parts:
        parts.append(tag("p", "No variable has coordinates of time or place.", class_="note"))
    return Html.join(parts)


def describe_time(time: TimeCoverage) -> str:
    """Describe times in a line."""
    every = f"every {time.step} · " if time.step else ""
    gaps = (
        ""
        if time.gaps is None
        else " · no gaps"
        if time.gaps == 0
        else f" · {plural(time.gaps, 'gap')}"
    )
    return f"{time.first} – {time.last} · {every}{plural(time.count, 'step')}{gaps}"


def describe_area(area: SpaceCoverage) -> str:
    """Describe an area in a line."""
    north_south = f"{_degrees(area.south, 'N', 'S')} – {_degrees(area.north, 'N', 'S')}"
    east_west = (
        "all longitudes"
        if area.is_global
        else (f"{_degrees(area.west, 'E', 'W')} – {_degrees(area.east, 'E', 'W')}")
    )
    step = ""
    if area.step is not None:
        tall, wide = area.step
        step = f" · {tall:g}°" if abs(tall - wide) < 1e-6 else f" · {tall:g}° × {wide:g}°"
    return f"{north_south}, {east_west}{step}"


def _degrees(value: float, positive: str, negative: str) -> str:
    value = value if positive == "N" else (value + 180) % 360 - 180
    return f"{abs(round(value, 2)):g}° {positive if value >= 0 else negative}"


# Groups and arrays


def render_data(answer: Data, links: Links) -> Page:
    """Render groups and arrays as a list, the first of them."""
    form = tag(
        "form",
        tag(
            "label",
            "Search paths and attributes ",
            tag("input", type="search", name="q", value=answer.q),
        ),
        tag("input", type="hidden", name="ref", value=answer.ref),
        tag("button", "Search"),
        action="data",
        method="get",
        class_="filters",
    )
    notes = []
    if answer.hidden:
        notes.append(f"{plural(answer.hidden, 'node')} of Frazil's own records are hidden. ")
    shows = links.to("data", ref=answer.ref, q=answer.q, internal=1) if answer.hidden else None
    sub = f"{plural(len(answer.nodes), 'node')} found for “{answer.q}”" if answer.q else None
    return Page(
        f"Data of {answer.ref}",
        Html.join(
            [
                headed([answer.ref], "Data", sub),
                form if links.to("data", ref=answer.ref, q="x") else None,
                tag("div", render_nodes(answer, 0, links), class_="card"),
                tag("p", *notes, link(shows, "Show them") if shows else None, class_="note"),
            ]
        ),
        "data",
    )


def render_nodes(answer: Data, start: int, links: Links) -> Html:
    """Render a part of the list of groups and arrays, and the link that loads the next one."""
    nodes = [each for each in answer.nodes if each.path != "/"]
    query = {"ref": answer.ref, "q": answer.q, "internal": 1 if answer.has_internal else None}
    is_site = links.to("data", ref=answer.ref, q="x") is not None
    stop = start + (_NODES_AT_ONCE if is_site else MOST_LISTED)
    rows = []
    for each in nodes[start:stop]:
        if isinstance(each, Variable):
            dims = ", ".join(str(name) for name in each.dims)
            words = " · ".join(
                filter(None, [each.long_name, each.units if each.units != "1" else None])
            )
            target = links.to("array", ref=answer.ref, path=each.path)
            rows.append((link(target, each.path), words, show_shape(each.shape), dims, each.dtype))
        else:
            target = links.to("data", ref=answer.ref, q=each.path + "/")
            rows.append((link(target, f"{each.path}/"), "group", "", "", ""))
    columns = ("path", "description", "shape", "dimensions", "type")
    more = None
    if len(nodes) > stop:
        rest = f"{len(nodes) - stop:,} more"
        following = address("nodes", **query, start=stop)
        more = tag(
            "p",
            link(following, rest) if is_site else f"and {rest}",
            data_more=following if is_site else None,
            class_="note",
        )
    return Html.join([table(columns, rows, "Groups and arrays"), more])


def render_branch(ref: str, nodes: Sequence[NodeEntry], links: Links, current: str = "") -> Html:
    """Render the children of a group in the sidebar; groups load theirs when opened."""
    items = []
    for each in nodes[:_MOST_CHILDREN]:
        name = each.path.rpartition("/")[2]
        if each.kind == "group":
            branch = address("branch", ref=ref, path=each.path)
            fold = tag("details", tag("summary", name), tag("ul"), data_branch=branch)
            items.append(tag("li", fold))
        else:
            target = links.to("array", ref=ref, path=each.path)
            is_here = "page" if each.path == current else None
            items.append(tag("li", link(target, name, aria_current=is_here)))
    rest = len(nodes) - _MOST_CHILDREN
    if rest > 0:
        items.append(tag("li", f"and {rest:,} more: search for them", class_="more"))
    return Html.join(items)


_MOST_CHILDREN = 200
_NODES_AT_ONCE = 200
"""Rows of a page; the next ones load when they are scrolled to."""


# History


_LANE, _ROW = 14, 46


def render_history(answer: HistoryPage, links: Links) -> Page:
    """Render the graph of all commits, with a filter."""
    pairs = [("", "all branches and tags"), *((each, each) for each in answer.branches[:500])]
    form = tag(
        "form",
        tag(
            "input",
            type="search",
            name="q",
            value=answer.q,
            aria_label="Filter by message, id, date or metadata",
            placeholder="Filter by message, id, date or metadata",
        ),
        select("branch", pairs, answer.branch, aria_label="Branch or tag", data_submit=True),
        tag("button", "Filter"),
        action="history",
        method="get",
        class_="filters",
    )
    is_site = links.to("history", q="x") is not None
    listed = tag("ul", render_rows(answer, links), class_="history")
    return Page(
        "History",
        Html.join(
            [
                headed([], "History", plural(answer.total, "commit")),
                form if is_site else None,
                tag(
                    "section",
                    listed,
                    render_more(answer, links),
                    class_="card",
                    aria_label="Commits",
                ),
            ]
        ),
        "history",
    )


def render_more(answer: HistoryPage, links: Links) -> Html | None:
    """Render the link to older commits, which loads them when it is scrolled to."""
    stop = answer.start + len(answer.rows)
    if stop >= answer.total:
        return None
    query = {"q": answer.q, "branch": answer.branch, "start": stop}
    target = links.to("history", **query)
    if target is None:
        return tag("p", f"and {answer.total - stop:,} older commits", class_="note")
    return tag(
        "p", link(target, "Older commits"), data_more=address("rows", **query), class_="note"
    )


def render_rows(answer: HistoryPage, links: Links) -> Html:
    """Render one line for each commit, with its part of the graph."""
    width = answer.lanes * _LANE + 8
    # A lane has a line above a commit if it goes on from the row before.
    active = {row.lane for row in answer.rows} if answer.start else set()
    items = []
    for row in answer.rows:
        snapshot = row.snapshot
        title = link(links.to("commit", id=snapshot.id), first_line(snapshot.message))
        when = [moment(snapshot.written_at), f" · {snapshot.id[:12]}", _author(snapshot)]
        words = [
            tag("p", *_badges(answer.refs.get(snapshot.id, ())), title),
            tag("p", *when, class_="when"),
        ]
        graph = _draw_lanes(row, width, has_child=row.lane in active)
        items.append(tag("li", graph, tag("div", *words)))
        active = {*row.passing, *([row.lane] if row.has_parent else [])}
    return Html.join(items)


def _badges(refs: Sequence[RefEntry]) -> list[object]:
    found: list[object] = []
    for each in refs[:6]:
        found += [tag("span", each.name, class_=f"badge {each.kind}"), " "]
    return found


def _draw_lanes(row: Row, width: int, *, has_child: bool) -> Html:
    def place(lane: int) -> float:
        return min(lane, 11) * _LANE + 9

    middle, x = _ROW / 2, place(row.lane)
    lines = [
        tag("path", d=f"M{place(lane)} 0V{_ROW}", class_=f"lane l{lane % 6}")
        for lane in row.passing
    ]
    lines += [
        tag(
            "path",
            d=f"M{place(lane)} 0C{place(lane)} {middle} {x} 0 {x} {middle}",
            class_=f"lane l{lane % 6}",
        )
        for lane in row.joining
    ]
    if has_child:
        lines.append(tag("path", d=f"M{x} 0V{middle}", class_=f"lane l{row.lane % 6}"))
    if row.has_parent:
        lines.append(tag("path", d=f"M{x} {middle}V{_ROW}", class_=f"lane l{row.lane % 6}"))
    dot = tag("circle", cx=x, cy=middle, r=4.5, class_=f"lane l{row.lane % 6}")
    return tag(
        "svg",
        *lines,
        dot,
        width=width,
        height=_ROW,
        viewBox=f"0 0 {width} {_ROW}",
        aria_hidden="true",
    )


def _show_metric(name: str, value: object) -> str:
    if name == "bytes" and isinstance(value, int):
        return show_bytes(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{round(value, 1):,}"
    return show_value(value)


def render_commit(answer: Commit, links: Links) -> Page:
    """Render a commit: message, metadata, job metrics and changes."""
    snapshot = answer.snapshot
    lines = snapshot.message.strip().splitlines() or ["no message"]
    rest = "\n".join(lines[1:]).strip()
    metadata = [
        (name, show_value(each)) for name, each in snapshot.metadata.items() if name != "frazil_job"
    ]
    parent = snapshot.parent_id
    sub = Html.join(
        [
            moment(snapshot.written_at),
            " · ",
            ago(snapshot.written_at),
            " · ",
            tag("code", snapshot.id),
        ]
    )
    changes = tag("p", "This is the first commit.", class_="note")
    whole = None
    if parent is not None:
        changes = links.part("changes", from_=parent, to=snapshot.id)
        whole = link(links.to("compare", from_=parent, to=snapshot.id), "maps of the changes")
    cards = [
        tag(
            "div",
            tag("section", tag("h2", "Message"), tag("pre", rest), class_="card") if rest else None,
            card("Changes", changes, small=whole),
            class_="stack",
        ),
        tag(
            "div",
            card(
                "Job",
                facts(
                    [
                        (name.replace("_", " "), _show_metric(name, each))
                        for name, each in answer.job.items()
                    ]
                ),
            )
            if answer.job
            else None,
            card("Metadata", facts(metadata)) if metadata else None,
            card(
                "Snapshot",
                facts(
                    [
                        ("id", tag("code", snapshot.id)),
                        (
                            "parent",
                            link(links.to("commit", id=parent), tag("code", parent))
                            if parent
                            else None,
                        ),
                        ("refs", Html.join(_badges(answer.refs)) if answer.refs else None),
                        (
                            "browse",
                            link(links.to("overview", ref=snapshot.id), "overview of this version")
                            if links.to("overview", ref=snapshot.id)
                            else None,
                        ),
                    ]
                ),
            ),
            class_="stack",
        ),
    ]
    crumbs = [link(links.to("history"), "History")]
    return Page(
        first_line(lines[0]),
        Html.join([headed(crumbs, lines[0][:300], sub), tag("div", *cards, class_="grid")]),
        "history",
    )


# Comparison


_CHANGES = (
    ("new_groups", "new group"),
    ("new_arrays", "new array"),
    ("updated_groups", "group changed"),
    ("updated_arrays", "metadata changed"),
    ("deleted_groups", "group deleted"),
    ("deleted_arrays", "array deleted"),
)


def render_changes(found: Diff, new: str, links: Links) -> Html:
    """Render the changes between two versions as a table."""
    changes: dict[str, list[str]] = {}
    for name, what in _CHANGES:
        for path in getattr(found, name):
            if not (name == "updated_arrays" and path in found.new_arrays):
                changes.setdefault(path, []).append(what)
    for source, target in found.moved_nodes:
        changes.setdefault(source, []).append(f"moved to {target}")
    for path, each in found.chunk_coordinates.items():
        verb = "" if path in found.new_arrays else " changed"
        changes.setdefault(path, []).append(f"{plural(len(each), 'chunk')}{verb}")
    if not changes:
        return tag("p", "Nothing changed.", class_="note")
    own = [path for path in changes if is_internal(path)]
    for path in own:
        del changes[path]
    arrays = found.new_arrays | found.updated_arrays | found.chunk_coordinates.keys()
    rows = []
    for path, words in sorted(changes.items()):
        is_there = path in arrays and path not in found.deleted_arrays
        place = links.to("array", ref=new, path=path) if is_there else None
        rows.append((link(place, path), ", ".join(words)))
    rest = len(rows) - MOST_LISTED
    notes = [f"and {rest:,} more"] if rest > 0 else []
    if own:
        notes.append(f"{plural(len(own), 'node')} of Frazil's own records changed too.")
    return Html.join(
        [
            table(("path", "change"), rows[:MOST_LISTED], "Changes") if rows else None,
            *(tag("p", each, class_="note") for each in notes),
        ]
    )


def render_compare(answer: Comparison, links: Links, refs: Sequence[RefEntry]) -> Page:
    """Render the form to choose two versions, their changes, and maps of them."""
    names = [each.name for each in refs[:500]]
    fields = [
        tag(
            "label",
            f"{label} ",
            tag(
                "input",
                type="text",
                name=name,
                value=value,
                list="versions",
                placeholder="branch, tag or snapshot",
            ),
        )
        for label, name, value in (("From", "from", answer.old), ("to", "to", answer.new or "main"))
    ]
    form = tag(
        "form",
        *fields,
        tag("datalist", *(tag("option", value=each) for each in names), id="versions"),
        tag("button", "Compare"),
        action="compare",
        method="get",
        class_="filters",
    )
    body: list[object] = [
        headed([], "Compare", "the changes from one version to another"),
        form,
    ]
    title = "Compare"
    if answer.difference is not None:
        title = f"From {answer.old} to {answer.new}"
        found = answer.difference
        body.append(
            tag(
                "div",
                card("Changes", render_changes(found, answer.new, links)),
                card(
                    "Commits between",
                    render_commits(answer.commits[:30], links),
                    small=plural(len(answer.commits), "commit"),
                ),
                class_="grid",
            )
        )
        changed = [
            path
            for path in found.chunk_coordinates
            if path not in found.new_arrays and found.chunk_coordinates[path].shape[1] > 1
        ]
        changed.sort(key=lambda path: (-found.chunk_coordinates[path].shape[1], path))
        for path in changed[:MOST_COMPARED]:
            body.append(links.part("changed", from_=answer.old, to=answer.new, path=path))
        if len(changed) > MOST_COMPARED:
            body.append(
                tag(
                    "p",
                    f"{len(changed) - MOST_COMPARED:,} more changed arrays have no maps here.",
                    class_="note",
                )
            )
    return Page(title, Html.join(body), "compare")
