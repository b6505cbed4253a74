"""A graph of snapshots as SVG, for notebooks."""

from collections.abc import Iterator, Sequence
from html import escape

from frazil.snapshots.graph_layout import Label, Row, num_lanes

_COLOURS = ("#2f7fd6", "#c2571a", "#2a9d5c", "#a44fc0", "#b8860b", "#c0392b")
_ROW_HEIGHT, _LANE_WIDTH, _MARGIN, _CHARACTER_WIDTH, _RADIUS = 26, 18, 14, 8, 5


def render_svg(rows: Sequence[Row], labels: Sequence[Label], *, has_colours: bool) -> str:
    """A circle for each snapshot, a line to its parent, and its label."""
    text_x = _MARGIN + num_lanes(rows) * _LANE_WIDTH
    texts = [_text(label) for label in labels]
    longest = max(map(len, texts), default=0)
    width, height = text_x + longest * _CHARACTER_WIDTH, len(rows) * _ROW_HEIGHT
    colours = _COLOURS if has_colours else ("currentColor",)
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
    """A path from each snapshot down its own lane, turning to its parent's in the last row."""
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
