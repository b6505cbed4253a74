"""What changed between two snapshots, or in a session, as users see it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from frazil.format.coordinates import Coordinates
from frazil.rendering import Item, field_items, render_html
from frazil.rendering.items import Shown
from frazil.snapshots.coordinate_lists import to_lists

MOST_CHUNKS_SHOWN = 10
"""Of one array."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Diff(Shown):
    """Paths of nodes, by what happened to them; coordinates of chunks by array."""

    new_groups: set[str] = field(default_factory=set)
    new_arrays: set[str] = field(default_factory=set)
    deleted_groups: set[str] = field(default_factory=set)
    deleted_arrays: set[str] = field(default_factory=set)
    updated_groups: set[str] = field(default_factory=set)
    updated_arrays: set[str] = field(default_factory=set)
    chunk_coordinates: Mapping[str, Coordinates] = field(default_factory=dict)
    """`updated_chunks` as columns, for those who have millions."""
    moved_nodes: list[tuple[str, str]] = field(default_factory=list)
    """From where, and to where."""
    _lists: dict[str, list[list[int]]] = field(default_factory=dict, init=False)

    @property
    def updated_chunks(self) -> dict[str, list[list[int]]]:
        """References that were added, replaced or deleted, by array."""
        if len(self._lists) < len(self.chunk_coordinates):
            found = sorted(self.chunk_coordinates.items())
            self._lists.update({path: to_lists(each) for path, each in found})
        return self._lists

    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not any(item.value for item in self._items())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Diff):
            return NotImplemented
        mine, theirs = list(self._items()), list(other._items())
        return mine == theirs and self.updated_chunks == other.updated_chunks

    def shown_items(self) -> Iterator[Item]:
        """What changed, and nothing about what did not."""
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
            # Officially the chunks have no empty line after them.
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
