"""Where each source lies along a dimension, by the values of its coordinate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.virtual.combining.problems import Problem, ProblemKind

# A jump counts as a gap when something as long as half a step is missing, so that months may differ.
_GAP_IN_STEPS = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """A dimension that sources are combined along, cut into blocks in the order of its values."""

    dim: str
    values: NDArray[Any]
    block_of: NDArray[np.int64]
    """The block of each source."""
    starts: NDArray[np.int64]
    """Where each block starts along the dimension."""
    lengths: NDArray[np.int64]

    @property
    def last_block(self) -> int:
        """The number of the block at the end."""
        return len(self.starts) - 1

    @property
    def regions(self) -> NDArray[np.int64]:
        """Where each source starts and ends along the dimension."""
        starts = self.starts[self.block_of]
        return np.stack([starts, starts + self.lengths[self.block_of]], axis=1)


def order_blocks(dim: str, coordinates: Sequence[NDArray[Any]]) -> Axis:
    """Sources in the order of their coordinate; those with the same values share a block."""
    blocks: dict[bytes, int] = {}
    distinct: list[NDArray[Any]] = []
    members: list[int] = []
    for values in coordinates:
        key = values.tobytes()
        if key not in blocks:
            blocks[key] = len(blocks)
            distinct.append(values)
        members.append(blocks[key])
    order = sorted(range(len(distinct)), key=lambda each: _first(distinct[each]))
    if _is_descending(distinct, order):
        order.reverse()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    ordered = [distinct[each] for each in order]
    lengths = np.array([len(each) for each in ordered], np.int64)
    return Axis(
        dim,
        np.concatenate(ordered),
        rank[np.array(members, np.int64)],
        np.cumsum(lengths) - lengths,
        lengths,
    )


def find_axis_problems(axis: Axis, names: Sequence[str]) -> Iterator[Problem]:
    """Overlaps and gaps between blocks, and values that don't go one way inside of them."""
    files = _files_of_blocks(axis, names)
    steps = np.diff(_as_numbers(axis.values))
    crooked = list(_find_crooked_blocks(axis))
    for block in crooked:
        text = "its values go neither up nor down all the way"
        yield Problem(ProblemKind.NOT_MONOTONIC, axis.dim, text, files[block])
    if crooked:
        return
    direction = -1 if axis.lengths.max() > 1 and np.median(steps) < 0 else 1
    usual = float(np.median(np.abs(steps))) if len(steps) else 0.0
    for block in range(1, len(axis.starts)):
        at = int(axis.starts[block])
        jump = float(steps[at - 1]) * direction
        both = files[block - 1] + files[block]
        before, after = axis.values[at - 1], axis.values[at]
        if jump <= 0:
            text = f"one ends at {before}, and the other starts at {after}"
            yield Problem(ProblemKind.OVERLAP, axis.dim, text, both)
        elif usual and jump > _GAP_IN_STEPS * usual:
            text = f"nothing between {before} and {after}, where a step is {usual:g}"
            yield Problem(ProblemKind.GAP, axis.dim, text, both)


def find_cell_problems(axes: Sequence[Axis], names: Sequence[str]) -> Iterator[Problem]:
    """Sources that cover the same, and places that none covers."""
    cells: dict[tuple[int, ...], list[str]] = {}
    blocks = np.stack([axis.block_of for axis in axes], axis=1)
    for name, cell in zip(names, map(tuple, blocks.tolist()), strict=True):
        cells.setdefault(cell, []).append(name)
    dims = ", ".join(axis.dim for axis in axes)
    for held_by in cells.values():
        if len(held_by) > 1:
            yield Problem(ProblemKind.DUPLICATE, dims, "they cover the same", tuple(held_by))
    empty = int(np.prod([len(axis.starts) for axis in axes])) - len(cells)
    if empty:
        text = f"{empty} of the places that the dimensions make together are in no file"
        yield Problem(ProblemKind.GAP, dims, text, tuple(names))


def _find_crooked_blocks(axis: Axis) -> Iterator[int]:
    values = _as_numbers(axis.values)
    for block, (start, length) in enumerate(zip(axis.starts, axis.lengths, strict=True)):
        steps = np.diff(values[start : start + length])
        if len(steps) and not (np.all(steps > 0) or np.all(steps < 0)):
            yield block


def _files_of_blocks(axis: Axis, names: Sequence[str]) -> Mapping[int, tuple[str, ...]]:
    files: dict[int, list[str]] = {}
    for name, block in zip(names, axis.block_of.tolist(), strict=True):
        files.setdefault(block, []).append(name)
    return {block: tuple(each) for block, each in files.items()}


def _first(values: NDArray[Any]) -> Any:
    return values[0] if len(values) else np.inf


def _is_descending(distinct: Sequence[NDArray[Any]], order: Sequence[int]) -> bool:
    """Whether the first block that has a direction goes down."""
    longer = [distinct[each] for each in order if len(distinct[each]) > 1]
    return bool(longer) and bool(longer[0][-1] < longer[0][0])


def _as_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Values whose differences are numbers."""
    if values.dtype.kind in "mM":
        return values.astype(np.int64)
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    # Texts have an order, but no distance.
    return np.unique(values, return_inverse=True)[1].astype(np.float64)
