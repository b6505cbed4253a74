"""Regions of arrays: boxes of whole chunks, windows, and how references are split over manifests."""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np
import zarr
from numpy.typing import NDArray

from frazil.config.conditions import (
    DimSplits,
    ManifestSplitCondition,
    ManifestSplitDimCondition,
    SplitSizes,
)
from frazil.config.settings import (
    ManifestConfig,
    ManifestSplittingConfig,
    RepositoryConfig,
    resolve_config,
)
from frazil.errors import AlreadyExistsError, InvalidInputError
from frazil.format.ids import NodeId
from frazil.format.paths import validate_path
from frazil.format.snapshot import Node
from frazil.repository.commit import SHARED_MANIFEST_DIALECTS
from frazil.repository.repository import Repository
from frazil.repository.session import Session
from frazil.repository.session_state import SessionState

Box = tuple[tuple[int, int], ...]
Shape = tuple[int, ...]

MIB = 1 << 20
LEAST_TASK_BYTES = 64 * MIB
"""About half a second of work, without which a task costs more than it does."""
MOST_TASK_BYTES = 256 * MIB
TASKS_PER_SLOT = 3
"""So that slots that are done early find something to do."""


def choose_task_bytes(total_bytes: int, slots: int) -> int:
    """How much one task should take on."""
    fair = -(-total_bytes // (slots * TASKS_PER_SLOT))
    return min(max(fair, LEAST_TASK_BYTES), MOST_TASK_BYTES)


def whole(shape: Sequence[int]) -> Box:
    """The box of a whole array."""
    return tuple((0, size) for size in shape)


def count_items(box: Box) -> int:
    """How many elements a box has."""
    return prod(stop - start for start, stop in box)


def slices_of(box: Box) -> tuple[slice, ...]:
    """A box as an index."""
    return tuple(slice(start, stop) for start, stop in box)


def shift(box: Box, offsets: Sequence[int]) -> Box:
    """A box moved by so many elements."""
    return tuple(
        (start + offset, stop + offset) for (start, stop), offset in zip(box, offsets, strict=True)
    )


def cut(area: Box, unit: Sequence[int]) -> list[Box]:
    """The area in boxes that begin at multiples of the unit, but for those at its edge."""
    axes = [_cut_axis(*ends, size) for ends, size in zip(area, unit, strict=True)]
    return list(product(*axes))


def _cut_axis(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    first = start - start % size
    return [(max(start, low), min(stop, low + size)) for low in range(first, stop, size)]


def grow(
    unit: Sequence[int], shape: Sequence[int], most_items: int, goals: Sequence[int] | None = None
) -> Shape:
    """As many units along each axis as fit, or the whole axis; at least one unit.

    Axes are first grown up to their goals, the last one first, and then further.
    """
    sizes = [min(size, length) for size, length in zip(unit, shape, strict=True)]
    for targets in (goals or shape, shape):
        for axis in reversed(range(len(sizes))):
            others = prod(sizes) // sizes[axis] if sizes[axis] else 1
            most = min(targets[axis], most_items // max(others, 1))
            sizes[axis] = max(sizes[axis], _multiple(unit[axis], most, shape[axis]))
    return tuple(max(size, 1) for size in sizes)


def balance(size: Sequence[int], unit: Sequence[int], shape: Sequence[int]) -> Shape:
    """Whole units such that there are as many boxes along each axis, the last of them no small rest."""
    return tuple(map(_balance_axis, size, unit, shape))


def _balance_axis(size: int, unit: int, length: int) -> int:
    if size >= length:
        return size
    count = -(-length // size)
    return -(-length // (count * unit)) * unit


def _multiple(unit: int, most: int, length: int) -> int:
    return length if most >= length else most - most % unit


Boundary = Literal["clip", "wrap", "nearest"]
"""At the ends of a dimension: fewer neighbours, those of the other end, or the last element again."""

Halo = Mapping[str, int | tuple[int, int]]
"""How many neighbours a block has along a dimension, on both sides or before and after."""


@dataclass(frozen=True, slots=True)
class Margin:
    """How far the blocks along one dimension reach beyond their edges."""

    before: int
    after: int
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Window:
    """What is read along one dimension, and where the block itself is in it."""

    indices: slice | NDArray[Any]
    inner: slice


def plan_margins(
    halo: Halo | None, boundary: Boundary | Mapping[str, Boundary]
) -> dict[str, Margin]:
    """The margins by dimension; raises InvalidInputError for what can't be one."""
    margins = {}
    for dim, width in (halo or {}).items():
        before, after = (width, width) if isinstance(width, int) else width
        kind = boundary if isinstance(boundary, str) else boundary.get(dim, "clip")
        if before < 0 or after < 0 or kind not in ("clip", "wrap", "nearest"):
            raise InvalidInputError(f"{dim} can't have a halo of {width!r} with boundary {kind!r}")
        margins[dim] = Margin(before, after, kind)
    return margins


def window(start: int, stop: int, length: int, margin: Margin | None) -> Window:
    """What to read for the elements from `start` to `stop` of a dimension."""
    if margin is None:
        return Window(slice(start, stop), slice(0, stop - start))
    low, high = start - margin.before, stop + margin.after
    if margin.boundary == "clip" or (low >= 0 and high <= length):
        low, high = max(low, 0), min(high, length)
        return Window(slice(low, high), slice(start - low, stop - low))
    places = np.arange(low, high)
    indices = places % length if margin.boundary == "wrap" else places.clip(0, length - 1)
    return Window(indices, slice(margin.before, margin.before + stop - start))


MOST_REFERENCES = 100_000
"""In one manifest."""


def plan_rule(
    path: str, counts: Sequence[int], growing: int | None, configured: SplitSizes | None
) -> SplitSizes:
    """A rule for an array of so many chunks along its axes; none if it has one, or needs none.

    The sizes depend on chunks that don't grow in number, so that an append finds the cells as they
    were: it writes the last one anew, and those behind it.
    """
    if any(condition.matches(path) for condition, _ in configured or ()):
        return ()
    sizes = plan_sizes(counts, growing)
    return ((ManifestSplitCondition.path_matches(f"^{re.escape(path)}$"), sizes),) if sizes else ()


def plan_sizes(
    counts: Sequence[int], growing: int | None, most: int = MOST_REFERENCES
) -> DimSplits:
    """Every how many chunks an array is split along its axes; nothing for one that is small."""
    sizes = list(counts)
    if growing is not None:
        sizes[growing] = max(1, most // max(1, prod(counts) // max(1, counts[growing])))
    for axis in range(len(sizes)):
        if axis != growing:
            others = max(1, prod(sizes) // max(1, sizes[axis]))
            sizes[axis] = max(1, min(sizes[axis], most // others))
    return tuple(
        (ManifestSplitDimCondition.Axis(axis), size)
        for axis, size in enumerate(sizes)
        if axis == growing or size < counts[axis]
    )


def configured_rules(config: RepositoryConfig) -> SplitSizes | None:
    """The rules for splitting that somebody has set."""
    splitting = config.manifest.splitting if config.manifest is not None else None
    return splitting.split_sizes if splitting is not None else None


def add_rules(config: RepositoryConfig, rules: SplitSizes) -> RepositoryConfig:
    """A configuration with, behind its own, the rules that it lacks."""
    added = deepcopy(config)
    before = configured_rules(config) or ()
    new = tuple(rule for rule in rules if rule not in before)
    if new:
        added.manifest = added.manifest or ManifestConfig()
        added.manifest.splitting = ManifestSplittingConfig((*before, *new))
    return added


def add_missing_rules(state: SessionState, rewritten: Container[NodeId]) -> None:
    """Let a session split the manifests of large arrays that it has begun, and of those rewritten.

    The manifests of others stay as they are: to split them would be more work than was asked for.
    """
    changed = state.changes.chunks
    if changed:
        _add_rules(
            state,
            lambda node: (
                node.id in changed
                and (node.id in rewritten or (node.array is not None and not node.array.manifests))
            ),
        )


def add_all_missing_rules(state: SessionState) -> None:
    """Let a session split the manifests of all large arrays."""
    _add_rules(state, lambda _: True)


def _add_rules(state: SessionState, is_for: Callable[[Node], bool]) -> None:
    if state.context.dialect in SHARED_MANIFEST_DIALECTS:
        return
    configured = configured_rules(state.context.config)
    rules: SplitSizes = ()
    for node in state.view.nodes():
        if node.array is not None and is_for(node):
            counts = [each.num_chunks for each in node.array.shape]
            rules = (*rules, *plan_rule(node.path, counts, None, configured))
    if rules:
        config = add_rules(state.context.config, rules)
        state.context = replace(state.context, config=config, settings=resolve_config(config))


def save_rules(repository: Repository, config: RepositoryConfig) -> None:
    """Save the rules of a session that its repository was not opened with, and nothing else."""
    before = configured_rules(repository.config) or ()
    rules = tuple(rule for rule in configured_rules(config) or () if rule not in before)
    if not rules:
        return
    saved = Repository.open(repository.storage)
    wanted = add_rules(saved.config, rules)
    if wanted != saved.config:
        saved.reopen(wanted).save_config()


AnyArray = zarr.Array[Any]

Chunks = Mapping[str, int] | Sequence[int]
"""By dimension or in the order of the axes; -1 is the whole axis."""

ENCODINGS = frozenset({"compressors", "filters", "serializer", "shards"})
"""What may be said about how an array is stored, besides its chunks."""


def path_of(name: str) -> str:
    """The path of a node, with or without a slash in front, as the format spells it."""
    return validate_path("/" + name.strip("/"))


def open_array(session: Session, path: str) -> AnyArray:
    """An array to read; raises NodeNotFoundError, or InvalidInputError for a group."""
    session.state.view.get_array(path)
    return zarr.open_array(session.store, path=path.lstrip("/"), mode="r")


def open_for_writing(session: Session, path: str) -> AnyArray:
    """An array of a writable session."""
    return zarr.open_array(session.store, path=path.lstrip("/"), mode="r+")


def find_unit(array: AnyArray) -> tuple[int, ...]:
    """The shape of what is written as one object."""
    return tuple(max(size, 1) for size in array.shards or array.chunks)


def dimensions_of(array: AnyArray) -> tuple[str | None, ...]:
    """The names of its axes."""
    names = getattr(array.metadata, "dimension_names", None)
    return tuple(names) if names else (None,) * array.ndim


def resolve_chunks(array: AnyArray, chunks: Chunks) -> tuple[int, ...]:
    """The length of chunks along each axis; dimensions that are not named keep theirs."""
    if isinstance(chunks, Mapping):
        names = dimensions_of(array)
        unknown = sorted(set(chunks) - {name for name in names if name is not None})
        if unknown:
            raise InvalidInputError(
                f"{array.path} has no dimension {', '.join(map(repr, unknown))}, but {names}"
            )
        sizes = [
            chunks.get(name or "", size) for name, size in zip(names, array.chunks, strict=True)
        ]
    else:
        sizes = list(chunks)
    if len(sizes) != array.ndim or any(size == 0 or size < -1 for size in sizes):
        raise InvalidInputError(f"{chunks!r} are no chunks for an array of {array.shape}")
    return tuple(
        max(length, 1) if size == -1 else min(size, max(length, 1))
        for size, length in zip(sizes, array.shape, strict=True)
    )


def create_like(
    session: Session,
    path: str,
    source: AnyArray,
    chunks: Sequence[int],
    encoding: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
) -> AnyArray:
    """An array with the type, attributes, fill value and codecs of another one, but other chunks."""
    settings = {
        "compressors": source.compressors,
        "filters": source.filters,
        "serializer": getattr(source, "serializer", "auto"),
        **checked_encoding(encoding),
    }
    return zarr.create_array(
        session.store,
        name=path.lstrip("/"),
        shape=source.shape,
        dtype=source.metadata.dtype,
        chunks=tuple(chunks),
        fill_value=source.fill_value,
        attributes=source.attrs.asdict(),
        dimension_names=dimensions_of(source),
        overwrite=overwrite,
        **settings,
    )


def checked_encoding(encoding: Mapping[str, Any] | None) -> dict[str, Any]:
    """The encoding; raises InvalidInputError for what is none."""
    unknown = sorted(set(encoding or {}) - ENCODINGS)
    if unknown:
        raise InvalidInputError(f"{', '.join(unknown)}: encoding has only {sorted(ENCODINGS)}")
    return dict(encoding or {})


def refuse_existing(session: Session, path: str) -> None:
    """Raise AlreadyExistsError if there is a node at a path."""
    if session.state.view.find_node(path) is not None:
        raise AlreadyExistsError(f"there is something at {path} already: choose another output")


def byte_count(shape: Sequence[int], itemsize: int) -> int:
    """What so many elements take in memory."""
    return prod(shape) * itemsize
