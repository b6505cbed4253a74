"""Public forms of snapshots and diffs, and the ancestry graph."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from html import escape
from typing import Any

import numpy as np

from frazil.display import Item, Listed, Shown, field_items, render_html
from frazil.format import repo_info, snapshot
from frazil.format.coordinates import Coordinates
from frazil.format.metadata import to_datetime
from frazil.format.repo_info import Deferred
from frazil.lazy import CollectorPause, dataclass

_MANY = 10_000


def to_lists(coordinates: Coordinates) -> list[list[int]]:
    """Convert coordinates to one list per chunk."""
    if len(coordinates) < _MANY or not coordinates.size:
        small: list[list[int]] = coordinates.tolist()
        return small
    found: list[list[int]]
    with CollectorPause():
        limit = int(coordinates.max()) + 1
        if limit > len(coordinates):
            found = coordinates.tolist()
            return found
        # Share one int object per distinct value.
        numbers = np.empty(limit, object)
        numbers[:] = range(limit)
        found = numbers[coordinates].tolist()
        return found


MOST_CHUNKS_SHOWN = 10
"""Per array."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Diff(Shown):
    """Paths of changed nodes by kind of change, and coordinates of changed chunks by array.

    Attributes
    ----------
    new_groups, new_arrays
        Paths of created nodes.
    deleted_groups, deleted_arrays
        Paths of deleted nodes.
    updated_groups, updated_arrays
        Paths of nodes with changed metadata.
    moved_nodes
        Pairs of old and new path.
    chunk_coordinates
        Coordinates of changed chunks as numpy arrays, by array.
    """

    new_groups: set[str] = field(default_factory=set)
    new_arrays: set[str] = field(default_factory=set)
    deleted_groups: set[str] = field(default_factory=set)
    deleted_arrays: set[str] = field(default_factory=set)
    updated_groups: set[str] = field(default_factory=set)
    updated_arrays: set[str] = field(default_factory=set)
    chunk_coordinates: Mapping[str, Coordinates] = field(default_factory=dict)
    """`updated_chunks` as numpy arrays, for millions of chunks."""
    moved_nodes: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of old and new path."""
    _lists: dict[str, list[list[int]]] = field(default_factory=dict, init=False)

    @property
    def updated_chunks(self) -> dict[str, list[list[int]]]:
        """Return the chunk references that were added, replaced or deleted, by array."""
        if len(self._lists) < len(self.chunk_coordinates):
            found = sorted(self.chunk_coordinates.items())
            self._lists.update({path: to_lists(each) for path, each in found})
        return self._lists

    def is_empty(self) -> bool:
        """Return True if nothing changed."""
        return not any(item.value for item in self._items())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Diff):
            return NotImplemented
        mine, theirs = list(self._items()), list(other._items())
        return mine == theirs and self.updated_chunks == other.updated_chunks

    def shown_items(self) -> Iterator[Item]:
        """Yield the items with changes."""
        return (item for item in self._items() if item.value)

    def _items(self) -> Iterator[Item]:
        for item in field_items(self):
            if item.name == "chunk_coordinates":
                shown = {path: len(each) for path, each in sorted(self.chunk_coordinates.items())}
                yield Item("updated_chunks", shown)
            elif not item.name.startswith("_"):
                yield item

    def __str__(self) -> str:
        moves = [f"{source} -> {target}" for source, target in self.moved_nodes]
        parts = (
            *(_render_lines(title, sorted(getattr(self, name))) for name, title in _TITLES.items()),
            # The official output has no empty line after the chunks.
            _render_lines("Chunks updated", _chunk_lines(self.chunk_coordinates)).rstrip("\n"),
            "\n" if self.chunk_coordinates else "",
            _render_lines("Nodes moved/renamed", moves),
        )
        return "".join(parts) or "No changes\n"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return render_html(self)

    __hash__ = None  # type: ignore[assignment]


_TITLES = {
    "new_groups": "Groups created",
    "new_arrays": "Arrays created",
    "updated_groups": "Group definitions updated",
    "updated_arrays": "Array definitions updated",
    "deleted_groups": "Groups deleted",
    "deleted_arrays": "Arrays deleted",
}


def _render_lines(title: str, lines: Collection[str]) -> str:
    return "".join([f"{title}:\n", *(f"    {line}\n" for line in lines), "\n"]) if lines else ""


def _chunk_lines(chunks: Mapping[str, Coordinates]) -> list[str]:
    lines = []
    for path, coordinates in sorted(chunks.items()):
        lines.append(f"{path}:")
        lines += (f"    {chunk}" for chunk in coordinates[:MOST_CHUNKS_SHOWN].tolist())
        rest = len(coordinates) - MOST_CHUNKS_SHOWN
        lines += [f"    ... {rest} more"] if rest > 0 else []
    return lines


@dataclass(frozen=True, slots=True, repr=False)
class SnapshotInfo(Listed, Deferred):
    """Description of a snapshot.

    Attributes
    ----------
    id, parent_id
        Ids of the snapshot and of its parent; None for a snapshot without parent.
    written_at
        Time of the commit.
    message, metadata
        Commit message and commit metadata.
    """

    id: str
    parent_id: str | None
    written_at: datetime
    message: str
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)


def _read_snapshot_info(stored: repo_info.SnapshotInfo | snapshot.Snapshot, name: str) -> object:
    """Return a field of the public form of a snapshot."""
    match name:
        case "id":
            return str(stored.id)
        case "parent_id":
            return None if stored.parent_id is None else str(stored.parent_id)
        case "written_at":
            return to_datetime(stored.flushed_at)
        case "message":
            return stored.message
    return dict(stored.metadata)


public_snapshot_info = SnapshotInfo.defer(_read_snapshot_info)
"""Return the public form of a snapshot from the repo info or, before V2, from its file."""


@dataclass(frozen=True, slots=True, repr=False)
class ManifestFileInfo(Listed):
    """Manifest file of a snapshot.

    Attributes
    ----------
    id
        Manifest id.
    size_bytes
        Size of the file; None if the spec version does not record it.
    num_chunk_refs
        Number of references; None if the spec version does not record it.
    """

    id: str
    size_bytes: int | None
    num_chunk_refs: int | None


def public_manifest_file_info(stored: snapshot.ManifestFileInfo) -> ManifestFileInfo:
    """Return the public form of a manifest file."""
    return ManifestFileInfo(str(stored.id), stored.size_bytes, stored.num_chunk_refs)


@dataclass(frozen=True, slots=True)
class Row:
    """One snapshot of the graph, with its lane and the lanes around it."""

    snapshot: SnapshotInfo
    lane: int
    passing: tuple[int, ...]
    """Lanes of other branches that continue beside it."""
    joining: tuple[int, ...]
    """Lanes that end here, connected to the snapshot by a line from above."""
    has_parent: bool
    """True if the lane continues below."""


@dataclass(frozen=True, slots=True)
class Label:
    """Text beside a snapshot."""

    id: str
    """Abbreviated id."""
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    message: str
    """First line of the message."""


def num_lanes(rows: Iterable[Row]) -> int:
    """Return the number of lanes of a graph."""
    return max((max(row.lane, *row.passing, *row.joining, 0) + 1 for row in rows), default=0)


def plan_rows(snapshots: Iterable[SnapshotInfo]) -> tuple[Row, ...]:
    """Return the rows of a graph; a lane ends if the parent is not among the snapshots."""
    by_id = {each.id: each for each in snapshots}
    lanes: list[str | None] = []  # which snapshot each lane leads to
    rows = []
    for each in _sort(by_id):
        meeting = [lane for lane, target in enumerate(lanes) if target == each.id]
        if not meeting and None not in lanes:
            lanes.append(None)
        lane = meeting[0] if meeting else lanes.index(None)
        for ended in meeting:
            lanes[ended] = None
        lanes[lane] = each.parent_id if each.parent_id in by_id else None
        passing = (i for i, target in enumerate(lanes) if target is not None and i != lane)
        rows.append(Row(each, lane, tuple(passing), tuple(meeting[1:]), lanes[lane] is not None))
    return tuple(rows)


def _sort(by_id: Mapping[str, SnapshotInfo]) -> list[SnapshotInfo]:
    """Sort newest first, with every parent below its children regardless of timestamps."""
    waiting = dict.fromkeys(by_id, 0)
    for each in by_id.values():
        if each.parent_id in waiting:
            waiting[each.parent_id] += 1
    ready = [each for each in by_id.values() if not waiting[each.id]]
    ordered = []
    while ready:
        newest = max(ready, key=lambda each: (each.written_at, each.id))
        ready.remove(newest)
        ordered.append(newest)
        if newest.parent_id in waiting:
            waiting[newest.parent_id] -= 1
            if not waiting[newest.parent_id]:
                ready.append(by_id[newest.parent_id])
    return ordered


_SVG_COLOURS = ("#2f7fd6", "#c2571a", "#2a9d5c", "#a44fc0", "#b8860b", "#c0392b")
_ROW_HEIGHT, _LANE_WIDTH, _MARGIN, _CHARACTER_WIDTH, _RADIUS = 26, 18, 14, 8, 5


def render_svg(rows: Sequence[Row], labels: Sequence[Label], *, has_colours: bool) -> str:
    """Render a graph as SVG: a circle per snapshot, a line to its parent, and its label."""
    text_x = _MARGIN + num_lanes(rows) * _LANE_WIDTH
    texts = [_text(label) for label in labels]
    longest = max(map(len, texts), default=0)
    width, height = text_x + longest * _CHARACTER_WIDTH, len(rows) * _ROW_HEIGHT
    colours = _SVG_COLOURS if has_colours else ("currentColor",)
    parts = [*_edges(rows, colours)]
    for number, (row, text) in enumerate(zip(rows, texts, strict=True)):
        x, y = _place(row.lane, number)
        colour = colours[row.lane % len(colours)]
        parts.append(f'<circle cx="{x}" cy="{y}" r="{_RADIUS}" fill="{colour}"/>')
        parts.append(f'<text x="{text_x}" y="{y + 4}" fill="currentColor">{escape(text)}</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="13">'
    )
    return "\n".join([head, *parts, "</svg>\n"])


def _edges(rows: Sequence[Row], colours: Sequence[str]) -> Iterator[str]:
    """Yield the path from each snapshot down its lane and, in the last row, to its parent."""
    places = {row.snapshot.id: (row.lane, number) for number, row in enumerate(rows)}
    for number, row in enumerate(rows):
        parent = places.get(row.snapshot.parent_id or "")
        if parent is None:
            continue
        (x, y), (parent_x, parent_y) = _place(row.lane, number), _place(*parent)
        bend = parent_y - _ROW_HEIGHT
        turn = f"V{bend} C{x} {bend + 13} {parent_x} {bend + 13} {parent_x} {parent_y}"
        colour = colours[row.lane % len(colours)]
        yield f'<path d="M{x} {y} {turn}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _place(lane: int, number: int) -> tuple[int, int]:
    return _MARGIN + lane * _LANE_WIDTH, number * _ROW_HEIGHT + _ROW_HEIGHT // 2


def _text(label: Label) -> str:
    refs = ", ".join([*label.branches, *(f"tag: {tag}" for tag in label.tags)])
    return " ".join(part for part in (label.id, refs and f"({refs})", label.message) if part)


_TERMINAL_COLOURS = (
    36,
    33,
    32,
    35,
    34,
    31,
)  # of a terminal: cyan, yellow, green, magenta, blue, red
_BOLD, _FAINT = 1, 2


def render_text(rows: Sequence[Row], labels: Sequence[Label], *, has_colours: bool) -> str:
    """Render a graph as text: a line per snapshot, and one between rows where lanes join."""
    lines: list[str] = []
    width = num_lanes(rows)
    for row, label in zip(rows, labels, strict=True):
        cells = _paint(_join(row, width), has_colours=has_colours)
        lines += [cells.rstrip()] if row.joining else []
        cells = _paint(_pass(row, width), has_colours=has_colours)
        lines.append(f"{cells}{_write(label, row.lane, has_colours=has_colours)}".rstrip())
    return "".join(f"{line}\n" for line in lines)


def _pass(row: Row, width: int) -> list[str]:
    """Return the cells of the row of a snapshot."""
    return ["● " if i == row.lane else "│ " if i in row.passing else "  " for i in range(width)]


def _join(row: Row, width: int) -> list[str]:
    """Return the cells above a row where lanes end: they turn left, below the lanes that continue."""
    last = max(row.joining, default=row.lane)
    cells = []
    for i in range(width):
        if i == row.lane:
            cells.append("├─")
        elif i == last:
            cells.append("╯ ")
        elif row.lane < i < last:
            cells.append("┴─" if i in row.joining else "│─" if i in row.passing else "──")
        else:
            cells.append("│ " if i in row.passing else "  ")
    return cells


def _paint(cells: list[str], *, has_colours: bool) -> str:
    if not has_colours:
        return "".join(cells)
    return "".join(_colour(cell, i) if cell.strip() else cell for i, cell in enumerate(cells))


def _write(label: Label, lane: int, *, has_colours: bool) -> str:
    name, refs = label.id, [*label.branches, *(f"tag: {tag}" for tag in label.tags)]
    if has_colours:
        name, refs = _escape(name, _FAINT), [_escape(_colour(ref, lane), _BOLD) for ref in refs]
    joined = f"({', '.join(refs)})" if refs else ""
    return " ".join(part for part in (name, joined, label.message) if part)


def _colour(text: str, lane: int) -> str:
    return _escape(text, _TERMINAL_COLOURS[lane % len(_TERMINAL_COLOURS)])


def _escape(text: str, code: int) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


SHORT_ID_LENGTH = 8


class AncestryGraph:
    """Snapshots with lines to their parents, and the branches and tags that point to them.

    Parameters
    ----------
    snapshots
        Snapshots of the graph.
    branches, tags
        Snapshot ids by name.
    plain
        Render without colours.
    """

    def __init__(
        self,
        snapshots: Iterable[SnapshotInfo],
        *,
        branches: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        plain: bool = False,
    ) -> None:
        self._rows = plan_rows(snapshots)
        self._labels = [
            Label(
                row.snapshot.id[:SHORT_ID_LENGTH],
                _names_of(row.snapshot.id, branches or {}),
                _names_of(row.snapshot.id, tags or {}),
                _first_line(row.snapshot.message),
            )
            for row in self._rows
        ]
        self._has_colours = not plain

    def __str__(self) -> str:
        return render_text(self._rows, self._labels, has_colours=self._has_colours)

    def __repr__(self) -> str:
        return str(self)

    def _repr_svg_(self) -> str:
        return render_svg(self._rows, self._labels, has_colours=self._has_colours)

    def _repr_html_(self) -> str:
        # Some notebooks use only HTML. A long line of a message scrolls.
        return f'<div style="overflow-x: auto">{self._repr_svg_()}</div>'


def _first_line(message: str) -> str:
    """Return the first line of a message, with control characters replaced by spaces."""
    line = message.partition("\n")[0]
    return "".join(each if each.isprintable() else " " for each in line)


def _names_of(snapshot_id: str, refs: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(name for name, target in refs.items() if target == snapshot_id))


__all__ = ["AncestryGraph", "Diff", "ManifestFileInfo", "SnapshotInfo"]
