"""A graph of snapshots in characters, for terminals."""

from collections.abc import Sequence

from frazil.snapshots.graph_layout import Label, Row, num_lanes

_COLOURS = (36, 33, 32, 35, 34, 31)  # of a terminal: cyan, yellow, green, magenta, blue, red
_BOLD, _FAINT = 1, 2


def render_text(rows: Sequence[Row], labels: Sequence[Label], *, has_colours: bool) -> str:
    """A line for each snapshot, and one between where lanes meet."""
    lines: list[str] = []
    width = num_lanes(rows)
    for row, label in zip(rows, labels, strict=True):
        cells = _paint(_join(row, width), has_colours=has_colours)
        lines += [cells.rstrip()] if row.joining else []
        cells = _paint(_pass(row, width), has_colours=has_colours)
        lines.append(f"{cells}{_write(label, row.lane, has_colours=has_colours)}".rstrip())
    return "".join(f"{line}\n" for line in lines)


def _pass(row: Row, width: int) -> list[str]:
    """The row of a snapshot."""
    return ["● " if i == row.lane else "│ " if i in row.passing else "  " for i in range(width)]


def _join(row: Row, width: int) -> list[str]:
    """The row above one in which lanes end: they turn left, and pass under those that go on."""
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
    return _escape(text, _COLOURS[lane % len(_COLOURS)])


def _escape(text: str, code: int) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"
