"""Elements of pages: HTML as values, links between pages, and pictures as PNG and SVG."""

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Protocol, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from frazil.overview.contents import ChunkMap


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


_SCALE = np.array(
    [
        (68, 1, 84), (71, 44, 122), (59, 81, 139), (44, 113, 142), (33, 144, 141),
        (39, 173, 129), (92, 200, 99), (170, 220, 50), (253, 231, 37),
    ],
    np.float64,
)  # fmt: skip
"""Colours from dark blue over green to yellow: perceptually uniform, safe for colour-blind
readers and readable in grey.
"""

_SMALLEST = 360
"""Minimum pixels along the longer side; small slices are enlarged."""


def draw_slice(values: NDArray[Any]) -> bytes:
    """Draw a slice with two axes as PNG, the first axis downwards; missing values are transparent."""
    numbers = values.astype(np.float64)
    known = np.isfinite(numbers)
    low, high = (numbers[known].min(), numbers[known].max()) if known.any() else (0.0, 1.0)
    place = np.where(known, (numbers - low) / ((high - low) or 1.0), 0.0) * (len(_SCALE) - 1)
    colours = np.stack(
        [np.interp(place, np.arange(len(_SCALE)), _SCALE[:, each]) for each in range(3)], axis=-1
    )
    pixels = np.concatenate([colours, np.where(known, 255, 0)[..., None]], axis=-1)
    factor = max(1, _SMALLEST // max(1, *numbers.shape))
    return encode_png(pixels.astype(np.uint8).repeat(factor, 0).repeat(factor, 1))


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Encode pixels as PNG; the axes are rows, columns and RGBA."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + width * 4), np.uint8)
    rows[:, 1:] = pixels.reshape(height, width * 4)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def draw_line(values: NDArray[Any], title: str) -> Html:
    """Draw values along one axis as SVG, with gaps where they are missing."""
    numbers = values.astype(np.float64)
    known = np.isfinite(numbers)
    if not known.any():
        return tag("p", "all values are missing")
    low, high = float(numbers[known].min()), float(numbers[known].max())
    width, height, margin = 640, 220, 8
    x = margin + np.arange(len(numbers)) * (width - 2 * margin) / max(1, len(numbers) - 1)
    y = height - margin - (numbers - low) / ((high - low) or 1.0) * (height - 2 * margin)
    steps = []
    for number in np.flatnonzero(known).tolist():
        is_start = number == 0 or not known[number - 1]
        steps.append(f"{'M' if is_start else 'L'}{x[number]:.1f} {y[number]:.1f}")
    path = tag("path", d=" ".join(steps), fill="none", stroke="currentColor", stroke_width="1.5")
    frame = tag("rect", x=0.5, y=0.5, width=width - 1, height=height - 1, class_="frame")
    label = tag("title", title)
    return tag("svg", label, frame, path, viewBox=f"0 0 {width} {height}", role="img",
               class_="plot")  # fmt: skip


_CELL = 12


def draw_chunks(chunks: ChunkMap, title: str) -> Html:
    """Draw a chunk grid as SVG: one square per cell, coloured by the most frequent kind of chunk."""
    height, width = chunks.room.shape
    kinds = list(chunks.counts)
    stacked = np.stack([chunks.counts[kind] for kind in kinds])
    present = stacked.sum(axis=0)
    best = stacked.argmax(axis=0)
    largest = max(1, int(chunks.size_bytes.max(initial=0)))
    cells = []
    for row in range(height):
        for column in range(width):
            count, room = int(present[row, column]), int(chunks.room[row, column])
            kind = kinds[int(best[row, column])] if count else "absent"
            size = int(chunks.size_bytes[row, column])
            strength = 0.35 + 0.65 * size / largest if count else 1.0
            cells.append(
                tag(
                    "rect",
                    tag("title", f"{count} of {room} chunks, {kind}, {size:,} bytes"),
                    x=column * _CELL,
                    y=row * _CELL,
                    width=_CELL - 1,
                    height=_CELL - 1,
                    class_=f"chunk {kind}",
                    fill_opacity=f"{strength * (count / room if count else 1):.2f}",
                )
            )
    total = f"{title}: {int(present.sum()):,} of {int(chunks.room.sum()):,} chunks exist"
    return tag("svg", tag("title", total), *cells, role="img", class_="chunks",
               viewBox=f"0 0 {width * _CELL} {height * _CELL}",
               width=min(760, width * _CELL * 2))  # fmt: skip
