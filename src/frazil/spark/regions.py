"""Regions of arrays: boxes of whole chunks, halos, and the rules that split manifests."""

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
from frazil.format.metadata import validate_path
from frazil.format.snapshot import Node
from frazil.repository.context import SessionState
from frazil.repository.repository import Repository
from frazil.repository.session import Session

Box = tuple[tuple[int, int], ...]
Shape = tuple[int, ...]

MIB = 1 << 20
LEAST_TASK_BYTES = 64 * MIB
"""About half a second of work; below this the overhead of a task exceeds its work."""
MOST_TASK_BYTES = 256 * MIB
TASKS_PER_SLOT = 3
"""More than one, so that slots that finish early get another task."""


def choose_task_bytes(total_bytes: int, slots: int) -> int:
    """Return the number of bytes one task should process."""
    fair = -(-total_bytes // (slots * TASKS_PER_SLOT))
    return min(max(fair, LEAST_TASK_BYTES), MOST_TASK_BYTES)


def whole(shape: Sequence[int]) -> Box:
    """Return the box of a whole array."""
    return tuple((0, size) for size in shape)


def count_items(box: Box) -> int:
    """Return the number of elements of a box."""
    return prod(stop - start for start, stop in box)


def slices_of(box: Box) -> tuple[slice, ...]:
    """Return a box as an index."""
    return tuple(slice(start, stop) for start, stop in box)


def shift(box: Box, offsets: Sequence[int]) -> Box:
    """Return a box moved by an offset along each axis."""
    return tuple(
        (start + offset, stop + offset) for (start, stop), offset in zip(box, offsets, strict=True)
    )


def subtract_box(box: Box, other: Box) -> list[Box]:
    """Return disjoint boxes that fill what of a box is outside of another one."""
    if any(a >= d or c >= b for (a, b), (c, d) in zip(box, other, strict=True)):
        return [box]
    found, inner = [], list(box)
    for axis, ((a, b), (c, d)) in enumerate(zip(box, other, strict=True)):
        for start, stop in ((a, max(a, c)), (min(b, d), b)):
            if start < stop:
                found.append((*inner[:axis], (start, stop), *inner[axis + 1 :]))
        inner[axis] = (max(a, c), min(b, d))
    return found


def replace_axis(box: Box, axis: int, ends: tuple[int, int]) -> Box:
    """Return a box with other ends along one axis."""
    return (*box[:axis], ends, *box[axis + 1 :])


def runs_of(indices: NDArray[Any]) -> list[tuple[int, int]]:
    """Return the ranges of consecutive numbers among some, which ascend."""
    if not len(indices):
        return []
    cuts = np.flatnonzero(np.diff(indices) > 1) + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in np.split(indices, cuts)]


def cut(area: Box, unit: Sequence[int]) -> list[Box]:
    """Split an area into boxes that start at multiples of the unit, except at the edges of the area."""
    axes = [_cut_axis(*ends, size) for ends, size in zip(area, unit, strict=True)]
    return list(product(*axes))


def _cut_axis(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    first = start - start % size
    return [(max(start, low), min(stop, low + size)) for low in range(first, stop, size)]


def grow(
    unit: Sequence[int], shape: Sequence[int], most_items: int, goals: Sequence[int] | None = None
) -> Shape:
    """Return the largest multiple of the unit with at most `most_items` elements; at least one unit.

    An axis that fits is taken whole. Axes grow up to their goals first, the last axis first, and then
    up to the shape.
    """
    sizes = [min(size, length) for size, length in zip(unit, shape, strict=True)]
    for targets in (goals or shape, shape):
        for axis in reversed(range(len(sizes))):
            others = prod(sizes) // sizes[axis] if sizes[axis] else 1
            most = min(targets[axis], most_items // max(others, 1))
            wanted = shape[axis] if most >= shape[axis] else most - most % unit[axis]
            sizes[axis] = max(sizes[axis], wanted)
    return tuple(max(size, 1) for size in sizes)


def balance(size: Sequence[int], unit: Sequence[int], shape: Sequence[int]) -> Shape:
    """Return a size in whole units that gives as many boxes per axis, of about equal size."""
    return tuple(map(_balance_axis, size, unit, shape))


def _balance_axis(size: int, unit: int, length: int) -> int:
    if size >= length:
        return size
    count = -(-length // size)
    return -(-length // (count * unit)) * unit


Boundary = Literal["clip", "wrap", "nearest"]
"""Values beyond the ends of a dimension: none, those of the other end, or the last element repeated."""

Halo = Mapping[str, int | tuple[int, int]]
"""Number of neighbours of a block per dimension, on both sides or as (before, after)."""


@dataclass(frozen=True, slots=True)
class Margin:
    """Number of elements a block reads beyond its edges along one dimension."""

    before: int
    after: int
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Window:
    """Indices to read along one dimension, and the position of the block within them."""

    indices: slice | NDArray[Any]
    inner: slice


def plan_margins(
    halo: Halo | None, boundary: Boundary | Mapping[str, Boundary]
) -> dict[str, Margin]:
    """Return the margins by dimension.

    Raises InvalidInputError for a negative width or an unknown boundary.
    """
    margins = {}
    for dim, width in (halo or {}).items():
        before, after = (width, width) if isinstance(width, int) else width
        kind = boundary if isinstance(boundary, str) else boundary.get(dim, "clip")
        if before < 0 or after < 0 or kind not in ("clip", "wrap", "nearest"):
            raise InvalidInputError(f"{dim} can't have a halo of {width!r} with boundary {kind!r}")
        margins[dim] = Margin(before, after, kind)
    return margins


def window(start: int, stop: int, length: int, margin: Margin | None) -> Window:
    """Return the indices to read for the elements from `start` to `stop` of a dimension."""
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
"""Maximum number of references in one manifest."""


def plan_rule(
    path: str, counts: Sequence[int], growing: int | None, configured: SplitSizes | None
) -> SplitSizes:
    """Return a split rule for an array with these chunk counts; empty if it has one or needs none.

    The sizes depend only on axes that don't grow, so that an append finds the same split regions: it
    rewrites the last one and adds new ones after it.
    """
    if any(condition.matches(path) for condition, _ in configured or ()):
        return ()
    sizes = plan_sizes(counts, growing)
    return ((ManifestSplitCondition.path_matches(f"^{re.escape(path)}$"), sizes),) if sizes else ()


def plan_sizes(
    counts: Sequence[int], growing: int | None, most: int = MOST_REFERENCES
) -> DimSplits:
    """Return the split size in chunks along each axis; empty for a small array."""
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
    """Return the manifest split rules of a configuration, or None."""
    splitting = config.manifest.splitting if config.manifest is not None else None
    return splitting.split_sizes if splitting is not None else None


def add_rules(config: RepositoryConfig, rules: SplitSizes) -> RepositoryConfig:
    """Return a configuration with the missing rules appended to its own."""
    added = deepcopy(config)
    before = configured_rules(config) or ()
    new = tuple(rule for rule in rules if rule not in before)
    if new:
        added.manifest = added.manifest or ManifestConfig()
        added.manifest.splitting = ManifestSplittingConfig((*before, *new))
    return added


def add_missing_rules(state: SessionState, rewritten: Container[NodeId]) -> None:
    """Add split rules for large arrays that the session writes first, and for those in `rewritten`.

    The manifests of other arrays stay as they are: splitting them would rewrite more than requested.
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
    """Add split rules for all large arrays of a session."""
    _add_rules(state, lambda _: True)


def _add_rules(state: SessionState, is_for: Callable[[Node], bool]) -> None:
    if state.context.dialect.shares_manifests:
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
    """Save the session's split rules that the repository was opened without, and nothing else."""
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
"""Chunk lengths by dimension or in the order of the axes; -1 means the whole axis."""

ENCODINGS = frozenset({"compressors", "filters", "serializer", "shards"})
"""Encoding options of an array besides its chunks."""


def path_of(name: str) -> str:
    """Return the path of a node as the format spells it; the leading slash is optional."""
    return validate_path("/" + name.strip("/"))


def open_array(session: Session, path: str) -> AnyArray:
    """Open an array for reading.

    Raises NodeNotFoundError if there is no node, InvalidInputError for a group.
    """
    session.state.view.get_array(path)
    return zarr.open_array(session.store, path=path.lstrip("/"), mode="r")


def open_for_writing(session: Session, path: str) -> AnyArray:
    """Open an array of a writable session for writing."""
    return zarr.open_array(session.store, path=path.lstrip("/"), mode="r+")


def find_unit(array: AnyArray) -> tuple[int, ...]:
    """Return the shape of the part of an array stored as one object: a shard or a chunk."""
    return tuple(max(size, 1) for size in array.shards or array.chunks)


def dimensions_of(array: AnyArray) -> tuple[str | None, ...]:
    """Return the dimension names of an array; None for each unnamed axis."""
    names = getattr(array.metadata, "dimension_names", None)
    return tuple(names) if names else (None,) * array.ndim


def resolve_chunks(array: AnyArray, chunks: Chunks) -> tuple[int, ...]:
    """Return the chunk length along each axis; dimensions that are not named keep theirs.

    Raises InvalidInputError for an unknown dimension or an invalid length.
    """
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
        raise InvalidInputError(f"invalid chunks {chunks!r}: the array has the shape {array.shape}")
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
    """Create an array with the type, attributes, fill value and codecs of another, but other chunks."""
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
    """Return the encoding as a dict; raise InvalidInputError for an unknown option."""
    unknown = sorted(set(encoding or {}) - ENCODINGS)
    if unknown:
        raise InvalidInputError(f"{', '.join(unknown)}: encoding has only {sorted(ENCODINGS)}")
    return dict(encoding or {})


def refuse_existing(session: Session, path: str) -> None:
    """Raise AlreadyExistsError if there is a node at a path."""
    if session.state.view.find_node(path) is not None:
        raise AlreadyExistsError(f"{path} exists already: choose another output")


def byte_count(shape: Sequence[int], itemsize: int) -> int:
    """Return the size in memory of an array of this shape."""
    return prod(shape) * itemsize
