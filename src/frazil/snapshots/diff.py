"""What changed between two snapshots, or in a session, as users see it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from frazil.rendering import Item, field_items, render_html
from frazil.rendering.items import Shown

MOST_CHUNKS_SHOWN = 10
"""Of one array."""


@dataclass(frozen=True, slots=True, repr=False)
class Diff(Shown):
    """Paths of nodes, by what happened to them; coordinates of chunks by array."""

    new_groups: set[str] = field(default_factory=set)
    new_arrays: set[str] = field(default_factory=set)
    deleted_groups: set[str] = field(default_factory=set)
    deleted_arrays: set[str] = field(default_factory=set)
    updated_groups: set[str] = field(default_factory=set)
    updated_arrays: set[str] = field(default_factory=set)
    updated_chunks: dict[str, Sequence[list[int]]] = field(default_factory=dict)
    """References that were added, replaced or deleted; from a repository as `ChunkList`s."""
    moved_nodes: list[tuple[str, str]] = field(default_factory=list)
    """From where, and to where."""

    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not any(item.value for item in field_items(self))

    def shown_items(self) -> Iterator[Item]:
        """What changed, and nothing about what did not."""
        return (item for item in field_items(self) if item.value)

    def __str__(self) -> str:
        parts = (
            *(_render_paths(title, getattr(self, name)) for name, title in _TITLES.items()),
            _render_lines("Chunks", _chunk_lines(self.updated_chunks)),
            _render_lines("Moved", [f"{source} → {target}" for source, target in self.moved_nodes]),
        )
        return "\n".join(part for part in parts if part) or "No changes\n"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return render_html(self)

    __hash__ = None  # type: ignore[assignment]


_TITLES = {
    "new_groups": "New groups",
    "new_arrays": "New arrays",
    "deleted_groups": "Deleted groups",
    "deleted_arrays": "Deleted arrays",
    "updated_groups": "Updated groups",
    "updated_arrays": "Updated arrays",
}


def _render_paths(title: str, paths: Collection[str]) -> str:
    return _render_lines(title, sorted(paths))


def _render_lines(title: str, lines: Collection[str]) -> str:
    return "".join([f"{title}:\n", *(f"    {line}\n" for line in lines)]) if lines else ""


def _chunk_lines(chunks: Mapping[str, Sequence[list[int]]]) -> list[str]:
    lines = []
    for path, coordinates in sorted(chunks.items()):
        shown = ", ".join(map(str, coordinates[:MOST_CHUNKS_SHOWN]))
        rest = len(coordinates) - MOST_CHUNKS_SHOWN
        lines.append(f"{path}: {shown}{f', and {rest} more' if rest > 0 else ''}")
    return lines
