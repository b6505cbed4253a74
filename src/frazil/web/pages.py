"""Pages of a repository: their contents as values, and those values rendered as HTML.

A page is shown as HTML and, at the same address with `.json`, its contents as JSON.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from itertools import islice
from time import monotonic

import numpy as np

from frazil.display import show_bytes
from frazil.errors import IcechunkError, InvalidInputError
from frazil.ops import SpecVersion
from frazil.overview.contents import (
    ArrayOverview,
    ChunkMap,
    StoredArray,
    describe_array,
    find_changes,
    map_chunks,
    measure_arrays,
)
from frazil.overview.preview import NodeEntry, Preview, list_nodes, normalize, read_preview
from frazil.repository.locate import read_version
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.snapshots import AncestryGraph, Diff, SnapshotInfo
from frazil.urls import BranchRef, NamedRef
from frazil.version import __version__
from frazil.web.html import (
    Html,
    Links,
    ReportLinks,
    card,
    draw_chunks,
    draw_line,
    draw_slice,
    link,
    link_to,
    table,
    tag,
)

MOST_SNAPSHOTS = 500
MOST_OPERATIONS = 500


@dataclass(frozen=True, slots=True)
class Home:
    """Repository with its history and refs."""

    name: str
    generation: str
    status: str | None
    """None for generations without a status."""
    branches: Mapping[str, str]
    tags: Mapping[str, str]
    snapshots: tuple[SnapshotInfo, ...]
    """Newest snapshots of all branches and tags."""
    is_complete: bool


def gather_home(repository: Repository, name: str) -> Home:
    """Collect the contents of the home page."""
    branches = {each: repository.lookup_branch(each) for each in sorted(repository.list_branches())}
    tags = {each: repository.lookup_tag(each) for each in sorted(repository.list_tags())}
    found: dict[str, SnapshotInfo] = {}
    is_complete = True
    for start in dict.fromkeys([*branches.values(), *tags.values()]):
        history = list(islice(repository.ancestry(snapshot_id=start), MOST_SNAPSHOTS + 1))
        is_complete &= len(history) <= MOST_SNAPSHOTS
        found.update((each.id, each) for each in history)
    newest = sorted(found.values(), key=lambda each: each.written_at, reverse=True)
    return Home(
        name,
        repository.dialect.value,
        repository.status.availability.name if has_repo_info(repository) else None,
        branches,
        tags,
        tuple(newest[:MOST_SNAPSHOTS]),
        is_complete and len(newest) <= MOST_SNAPSHOTS,
    )


@dataclass(frozen=True, slots=True)
class TreeAnswer:
    """Nodes of a version."""

    ref: str
    nodes: tuple[NodeEntry, ...]


def gather_tree(repository: Repository, ref: str) -> TreeAnswer:
    """Collect all groups and arrays."""
    return TreeAnswer(ref, tuple(list_nodes(open_ref(repository, ref))))


@dataclass(frozen=True, slots=True)
class ArrayAnswer:
    """Array, its chunks, and the position of the slice shown."""

    ref: str
    array: ArrayOverview
    chunks: ChunkMap
    at: tuple[int, ...]
    """Index along each axis but the last two."""


def gather_array(
    repository: Repository, ref: str, path: str, at: str = "", *, reads_values: bool = True
) -> ArrayAnswer:
    """Collect the contents of an array's page."""
    session = open_ref(repository, ref)
    array = describe_array(session, path, reads_values=reads_values)
    return ArrayAnswer(ref, array, map_chunks(session, path), parse_place(at, array.shape))


def parse_place(text: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Parse indices along all axes but the last two, such as `3,0`; the middle if empty."""
    lengths = shape[:-2]
    if not text.strip():
        return tuple(length // 2 for length in lengths)
    try:
        place = tuple(int(each) for each in text.split(","))
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is not an index, such as 3,0") from error
    if len(place) != len(lengths) or not all(
        0 <= each < length for each, length in zip(place, lengths, strict=True)
    ):
        raise InvalidInputError(f"{text!r} is not in {lengths}, the axes before the last two")
    return place


def read_slice(repository: Repository, ref: str, path: str, at: str) -> Preview | None:
    """Read a slice along the last two axes, or the only one; None if the values aren't numbers."""
    session = open_ref(repository, ref)
    _, array = session.state.view.get_array(normalize(path))
    shape = tuple(each.array_length for each in array.shape)
    return None if 0 in shape else read_preview(session, path, parse_place(at, shape))


def try_slice(
    repository: Repository, ref: str, path: str, at: str
) -> tuple[Preview | None, str | None]:
    """Read a slice, or return the reason why it can't be read."""
    try:
        return read_slice(repository, ref, path, at), None
    except (IcechunkError, ValueError, OSError, NotImplementedError) as error:
        return None, str(getattr(error, "message", None) or error)


@dataclass(frozen=True, slots=True)
class DiffAnswer:
    """Changes from one version to another."""

    old: str
    new: str
    difference: Diff


def gather_diff(repository: Repository, old: str, new: str) -> DiffAnswer:
    """Collect the changes; the second version must come after the first."""
    ids = [open_ref(repository, each).snapshot_id for each in (old, new)]
    return DiffAnswer(old, new, find_changes(repository, *ids))


@dataclass(frozen=True, slots=True)
class StorageAnswer:
    """Storage used by the arrays of a version."""

    ref: str
    arrays: tuple[StoredArray, ...]


def gather_storage(repository: Repository, ref: str) -> StorageAnswer:
    """Collect the bytes by array and kind, largest first."""
    return StorageAnswer(ref, measure_arrays(open_ref(repository, ref)))


@dataclass(frozen=True, slots=True)
class Operation:
    """Entry of the ops log."""

    updated_at: datetime
    operation: str
    details: str


def gather_operations(repository: Repository) -> tuple[Operation, ...]:
    """Collect the newest operations; empty for generations without an ops log."""
    if not has_repo_info(repository):
        return ()
    return tuple(
        Operation(each.updated_at, type(each.kind).__name__, _details(each.kind))
        for each in islice(repository.ops_log(), MOST_OPERATIONS)
    )


def _details(kind: object) -> str:
    text = repr(kind)
    return text[text.index("(") + 1 : -1] if "(" in text else text


def has_repo_info(repository: Repository) -> bool:
    """Return True if the repository has a status and an ops log, as only spec version 2 does."""
    return repository.spec_version is SpecVersion.v2


def open_ref(repository: Repository, ref: str) -> Session:
    """Open a read-only session by branch, tag or snapshot id; the branch main if empty."""
    return read_version(repository, NamedRef(ref) if ref else BranchRef("main"))


@dataclass(frozen=True, slots=True)
class Page:
    """Title and body of a page."""

    title: str
    body: Html


Picture = Callable[[ArrayAnswer, Preview], Html]
"""Function that embeds a slice with two axes in a page, by address or as data."""


def render_home(home: Home, links: Links) -> Page:
    """Render history, branches and tags."""
    graph = AncestryGraph(home.snapshots, branches=home.branches, tags=home.tags)
    facts = card(
        [
            ("generation", home.generation),
            ("status", home.status),
            ("snapshots", f"{len(home.snapshots):,}" + ("" if home.is_complete else " newest")),
        ]
    )
    refs = [
        *(
            (link_to(links.to_version(name), name), "branch", id)
            for name, id in home.branches.items()
        ),
        *((link_to(links.to_version(name), name), "tag", id) for name, id in home.tags.items()),
    ]
    drawing = tag("div", Html(graph._repr_svg_()), class_="scroll graph", tabindex="0", role="img",
                  aria_label="history graph")  # fmt: skip
    return Page(
        home.name,
        Html.join(
            [
                facts,
                table(("name", "kind", "snapshot"), refs, "Branches and tags"),
                tag("h2", "History"),
                drawing,
                _history_table(home.snapshots, links),
            ]
        ),
    )


def _history_table(snapshots: Sequence[SnapshotInfo], links: Links) -> Html:
    rows = [
        (
            link_to(links.to_version(each.id), each.id[:12]),
            f"{each.written_at:%Y-%m-%d %H:%M:%S}",
            each.message,
            _changes(each, links),
        )
        for each in snapshots
    ]
    caption = "Snapshots, newest first"
    if not any(row[3] for row in rows):
        return table(("snapshot", "written", "message"), [row[:3] for row in rows], caption)
    return table(("snapshot", "written", "message", "changes"), rows, caption)


def _changes(info: SnapshotInfo, links: Links) -> object:
    target = links.to_changes(info.parent_id, info.id) if info.parent_id is not None else None
    return link_to(target, "what changed") if target else ""


def render_tree(tree: TreeAnswer, links: Links) -> Page:
    """Render groups and arrays."""
    rows = [_tree_row(tree.ref, each, links) for each in tree.nodes]
    return Page(
        f"Groups and arrays of {tree.ref}",
        table(("path", "kind", "shape", "type", "dimensions"), rows, "Groups and arrays"),
    )


def _tree_row(ref: str, node: NodeEntry, links: Links) -> tuple[object, ...]:
    if node.shape is None:
        return node.path, "group", "", "", ""
    name = link_to(links.to_array(ref, node.path), node.path)
    dims = ", ".join(str(each) for each in node.dims)
    return name, "array", show_shape(node.shape), node.dtype, dims


def show_shape(shape: Sequence[int]) -> str:
    """Format a shape, with crosses between the lengths."""
    return " × ".join(map(str, shape)) or "scalar"


def render_array(
    answer: ArrayAnswer,
    preview: Preview | None,
    reason: str | None,
    picture: Picture,
    *,
    is_asking: bool = True,
) -> Page:
    """Render metadata, chunks and a preview, with a form to select another slice if `is_asking`."""
    array = answer.array
    facts = card(
        [
            ("version", answer.ref),
            ("shape", show_shape(array.shape)),
            ("dimensions", ", ".join(str(each) for each in array.dims) or None),
            ("type", array.dtype),
            ("chunk shape", array.chunk_shape and show_shape(array.chunk_shape)),
            ("codecs", ", ".join(array.codecs)),
            ("fill value", str(array.fill_value)),
            ("references", array.describe_references()),
            ("stored", show_bytes(array.size_bytes)),
            ("manifests", array.manifests),
            ("values", array.values),
        ]
    )
    legend = tag(
        "p",
        *(
            tag("span", tag("span", "", class_=f"swatch {kind}", aria_hidden="true"), f" {kind} ")
            for kind in ("native", "virtual", "inline", "absent")
        ),
        class_="legend",
    )
    attributes = [(name, str(value)) for name, value in array.attributes.items()]
    return Page(
        array.path,
        Html.join(
            [
                facts,
                tag("h2", "Preview"),
                _place_form(answer) if is_asking else "",
                _look(answer, preview, reason, picture),
                tag("h2", "Chunks"),
                draw_chunks(answer.chunks, array.path),
                legend,
                tag("p", f"references: {array.describe_references()}", class_="note")
                if array.counted_manifests < array.manifests
                else "",
                table(("attribute", "value"), attributes, "Attributes") if attributes else "",
            ]
        ),
    )


def _look(
    answer: ArrayAnswer, preview: Preview | None, reason: str | None, picture: Picture
) -> Html:
    if preview is None:
        return tag("p", reason or "there are no numbers to draw", class_="note")
    values, spell = preview.values, preview.decoding.spell
    known = values[np.isfinite(values.astype(np.float64))]
    if not known.size:
        return tag("p", "all values are missing")
    if values.ndim == 0:
        return tag("p", f"its value is {spell(known[0])}")
    least, greatest = spell(known.min()), spell(known.max())
    if values.ndim == 1:
        span = f"from {least} to {greatest}"
        drawn = draw_line(values, f"{answer.array.path}, {span}")
    else:
        span = f"from {least} (dark) to {greatest} (light)"
        drawn = picture(answer, preview)
    north = ["north is up"] if preview.is_north_up else []
    caption = "; ".join([span, *north, *_describe_part(answer, preview)])
    return tag("figure", drawn, tag("figcaption", caption))


def _describe_part(answer: ArrayAnswer, preview: Preview) -> list[str]:
    """Describe which elements are drawn, if not all are."""
    if preview.is_whole:
        return []
    count = len(preview.window)
    names = answer.array.dims[-count:] or [
        f"axis {len(answer.at) + number}" for number in range(count)
    ]
    parts = (
        f"{name} {span.start:,} to {span.stop - 1:,} of {length:,}"
        for name, span, length in zip(names, preview.window, preview.lengths, strict=True)
    )
    return [f"a part of it: {', '.join(parts)}"]


def _place_form(answer: ArrayAnswer) -> Html:
    """Render the form that selects a slice, for arrays with more than two axes."""
    if not answer.at:
        return Html()
    names = [str(each) for each in answer.array.dims[:-2]] or [
        f"axis {number}" for number in range(len(answer.at))
    ]
    label = tag("label", f"index along {', '.join(names)} ", for_="at")
    field = tag("input", id="at", name="at", value=",".join(map(str, answer.at)))
    hidden = [
        tag("input", type="hidden", name=name, value=value)
        for name, value in (("ref", answer.ref), ("path", answer.array.path))
    ]
    return tag("form", *hidden, label, field, tag("button", "look"), action="array", method="get")


def render_diff(answer: DiffAnswer, links: Links) -> Page:
    """Render the changes between two versions."""
    found = answer.difference
    rows: list[tuple[object, ...]] = [
        (path, what)
        for name, what in (
            ("new_groups", "new group"),
            ("new_arrays", "new array"),
            ("updated_groups", "group changed"),
            ("updated_arrays", "array changed"),
            ("deleted_groups", "group deleted"),
            ("deleted_arrays", "array deleted"),
        )
        for path in sorted(getattr(found, name))
    ]
    rows += [(source, f"moved to {target}") for source, target in found.moved_nodes]
    rows += [
        (link_to(links.to_array(answer.new, path), path), f"{len(each):,} chunks changed")
        for path, each in sorted(found.chunk_coordinates.items())
    ]
    title = f"From {answer.old} to {answer.new}"
    return Page(
        title, table(("path", "change"), rows, "Changes") if rows else tag("p", "Nothing changed.")
    )


def render_storage(answer: StorageAnswer, links: Links) -> Page:
    """Render the bytes by array."""
    total = sum(each.total_bytes for each in answer.arrays)
    rows = [_storage_row(answer.ref, each, total, links) for each in answer.arrays]
    more = "" if all(each.is_complete for each in answer.arrays) else "at least "
    columns = ("array", ">chunks", ">native", ">inline", ">virtual", "share")
    return Page(
        f"Storage of {answer.ref}",
        Html.join(
            [tag("p", f"{more}{show_bytes(total)} in all"), table(columns, rows, "Bytes by array")]
        ),
    )


def _storage_row(ref: str, each: StoredArray, total: int, links: Links) -> tuple[object, ...]:
    share = each.total_bytes / total if total else 0
    bar = tag(
        "svg",
        tag("title", f"{share:.1%}"),
        tag("rect", x=0, y=0, width=f"{share * 100:.1f}", height=10, class_="chunk native"),
        viewBox="0 0 100 10", width=100, height=10, role="img",
    )  # fmt: skip
    sizes = (show_bytes(n) for n in (each.native_bytes, each.inline_bytes, each.virtual_bytes))
    name = link_to(links.to_array(ref, each.path), each.path)
    more = "" if each.is_complete else "at least "
    return (name, f"{more}{each.chunks:,}", *sizes, bar)


def render_operations(operations: Sequence[Operation]) -> Page:
    """Render the ops log."""
    rows = [
        (f"{each.updated_at:%Y-%m-%d %H:%M:%S}", each.operation, each.details)
        for each in operations
    ]
    return Page("Operations", table(("when", "operation", "details"), rows, "Newest first"))


def read_style() -> str:
    """Return the style sheet of all pages."""
    return files("frazil.web").joinpath("style.css").read_text("utf-8")


def lay_out(page: Page, name: str, style: Html, navigation: Html) -> str:
    """Render an HTML document."""
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


_MOST_ARRAYS = 30
"""Maximum arrays shown with a picture."""
MOST_SECONDS = 120.0


def render_report(
    repository: Repository, name: str, ref: str = "main", *, most_seconds: float = MOST_SECONDS
) -> str:
    """Render an HTML document with history, arrays, storage and operations.

    Array values are read for at most `most_seconds`.
    """
    end = monotonic() + most_seconds
    tree = gather_tree(repository, ref)
    arrays = [each.path for each in tree.nodes if each.shape is not None][:_MOST_ARRAYS]
    links = ReportLinks({path: f"array-{number}" for number, path in enumerate(arrays)})
    sections = [
        ("history", render_home(gather_home(repository, name), links)),
        ("arrays", render_tree(tree, links)),
        *((links.arrays[path], _render_array(repository, ref, path, end)) for path in arrays),
        ("storage", render_storage(gather_storage(repository, ref), links)),
        ("operations", render_operations(gather_operations(repository))),
    ]
    body = Html.join(
        tag("section", tag("h2", page.title), page.body, id=anchor) for anchor, page in sections
    )
    parts = ("history", "arrays", "storage", "operations")
    navigation = tag("nav", *(link(f"#{each}", each.title()) for each in parts), aria_label="Parts")
    style = tag("style", Html(read_style()))
    return lay_out(Page(f"Report of {ref}", body), name, style, navigation)


def _render_array(repository: Repository, ref: str, path: str, end: float) -> Page:
    if monotonic() >= end:
        answer = gather_array(repository, ref, path, reads_values=False)
        late = "its values were not read, because the report took too long already"
        return render_array(answer, None, late, _embed, is_asking=False)
    answer = gather_array(repository, ref, path)
    preview, reason = try_slice(repository, ref, path, "")
    return render_array(answer, preview, reason, _embed, is_asking=False)


def _embed(answer: ArrayAnswer, preview: Preview) -> Html:
    data = b64encode(draw_slice(preview.values)).decode()
    return tag("img", src=f"data:image/png;base64,{data}", alt=f"slice of {answer.array.path}")
