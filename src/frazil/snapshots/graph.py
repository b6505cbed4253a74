"""The ancestry of snapshots as a drawing, for terminals and notebooks."""

from collections.abc import Iterable, Mapping

from frazil.snapshots.graph_layout import Label, plan_rows
from frazil.snapshots.graph_svg import render_svg
from frazil.snapshots.graph_text import render_text
from frazil.snapshots.infos import SnapshotInfo

SHORT_ID_LENGTH = 8


class AncestryGraph:
    """Snapshots with lines to their parents, and the branches and tags that point at them.

    Branches and tags are given as the id of a snapshot by the name. A plain graph has no colours.
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
        # Some notebooks ask for nothing else. A long line of a message scrolls.
        return f'<div style="overflow-x: auto">{self._repr_svg_()}</div>'


def _first_line(message: str) -> str:
    """What fits beside a snapshot; nothing in it can move a cursor or break a drawing."""
    line = message.partition("\n")[0]
    return "".join(each if each.isprintable() else " " for each in line)


def _names_of(snapshot_id: str, refs: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(name for name, target in refs.items() if target == snapshot_id))
