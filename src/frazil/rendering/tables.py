"""Tables of text."""

from collections.abc import Iterable, Sequence


def render_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table, its columns as wide as they have to be."""
    whole = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in whole
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]
