"""The page of conflicts, written from what Frazil reports and where it differs on purpose.

python -m tests.interop.conflict_page
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import frazil
from tests.interop.conflict_edits import EDITS
from tests.interop.rebase_scenarios import list_conflicts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conflicts.md"

Pair = tuple[str, str]
"""Our edit and theirs."""

Matrix = dict[Pair, list[list[Any]]]
"""What is reported for each pair: kinds, paths, coordinates of chunks."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Edits of ours that meet edits of theirs, which only Frazil reports."""

    kind: str
    ours: frozenset[str]
    theirs: frozenset[str]
    reason: str


def _starting(*beginnings: str) -> frozenset[str]:
    return frozenset(name for name in EDITS if name.startswith(beginnings))


DIFFERENCES = (
    Difference(
        "NewNodeInInvalidGroup",
        _starting("create"),
        _starting("delete parent"),
        "our node would be in a group that is gone",
    ),
    Difference(
        "DeleteOfUpdatedGroup",
        _starting("delete parent"),
        _starting("create"),
        "their node would be left without its group",
    ),
    Difference(
        "MoveOperationCannotBeRebased",
        _starting("move array"),
        _starting("delete array", "delete parent"),
        "what we move is gone",
    ),
    Difference(
        "MoveOperationCannotBeRebased",
        _starting("move group"),
        _starting("delete group", "delete parent"),
        "what we move is gone",
    ),
    Difference(
        "MoveOperationCannotBeRebased",
        _starting("move parent"),
        _starting("delete array", "delete group", "delete parent"),
        "some of what we move is gone",
    ),
    Difference(
        "MoveOperationCannotBeRebased",
        _starting("move parent"),
        _starting("create"),
        "their node would be left where we move its group away",
    ),
)
"""All of them; the official library reports nothing in any of these."""


def find_difference(pair: Pair) -> Difference | None:
    """Why Frazil alone reports a pair, if it does."""
    ours, theirs = pair
    found = (each for each in DIFFERENCES if ours in each.ours and theirs in each.theirs)
    return next(found, None)


def as_matrix(rows: list[list[list[list[Any]]]]) -> Matrix:
    """What `list_conflicts` gives, by pairs."""
    return {
        (ours, theirs): found
        for ours, row in zip(EDITS, rows, strict=True)
        for theirs, found in zip(EDITS, row, strict=True)
    }


def read_ours() -> Matrix:
    """What Frazil reports."""
    return as_matrix(list_conflicts(frazil, list(EDITS.values())))


# The page

_OPENING = """# Which edits conflict

What `ConflictDetector` reports when a session is rebased: *ours* is the edit of the session, *theirs*
that of a commit which came in between. All edits are of one small tree, in which the group `g` has the
array `a` and the group `sub`; chunks that are set or deleted are the same on both sides. What is not
listed is rebased without a conflict.

This page is written by `python -m tests.interop.conflict_page`, and
`tests/interop/test_conflict_table.py` compares every pair of it with the official library.
"""

_HEADER = "| theirs | Frazil | official |\n|---|---|---|"


def render(matrix: Matrix) -> str:
    """The page as Markdown."""
    sections = (_render_section(ours, matrix) for ours in EDITS)
    return "\n".join([_OPENING, *sections, _render_differences()])


def _render_section(ours: str, matrix: Matrix) -> str:
    rows = [_render_row((ours, theirs), matrix) for theirs in EDITS if matrix[ours, theirs]]
    return "\n".join([f"## We {ours}\n", _HEADER, *rows, ""])


def _render_row(pair: Pair, matrix: Matrix) -> str:
    kinds = ", ".join(dict.fromkeys(f"`{kind}`" for kind, *_ in matrix[pair]))
    official = "the same" if find_difference(pair) is None else "not noticed"
    return f"| {pair[1]} | {kinds} | {official} |"


def _render_differences() -> str:
    return "\n".join(["## Where Frazil differs on purpose\n", *_difference_lines(), ""])


def _difference_lines() -> Iterator[str]:
    yield "| ours | theirs | Frazil | why |\n|---|---|---|---|"
    for each in DIFFERENCES:
        ours, theirs = (
            "; ".join(n for n in EDITS if n in names) for names in (each.ours, each.theirs)
        )
        yield f"| {ours} | {theirs} | `{each.kind}` | {each.reason} |"


if __name__ == "__main__":
    PAGE.write_text(render(read_ours()))
