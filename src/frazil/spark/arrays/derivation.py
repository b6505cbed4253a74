"""Declaration of a derived dataset, and the parts of it that changes of its source affect."""

import ast
import hashlib
import inspect
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xarray import DataArray

from frazil.arguments import named_options
from frazil.display import suggest
from frazil.errors import InvalidInputError
from frazil.repository.diff import compare_arrays
from frazil.repository.session import ForkSession, Session
from frazil.snapshots import SnapshotInfo
from frazil.spark.arrays.blocks import BlockKind, Grouping, Space
from frazil.spark.arrays.reduction import REDUCTIONS
from frazil.spark.arrays.resample import Ends
from frazil.spark.arrays.transform import BlockOptions
from frazil.spark.regions import (
    Box,
    Margin,
    checked_encoding,
    cut,
    find_unit,
    grow,
    open_array,
    path_of,
    replace_axis,
    runs_of,
    whole,
)
from frazil.tables.columns import join_boxes

Dirty = list[Box] | None
"""Boxes of elements that changed; None if all did."""

STATE = "frazil_derive"
"""Key of the declaration and the source snapshot in the metadata of a commit."""

_DECODING = ("_FillValue", "_Unsigned", "add_offset", "calendar", "coordinates", "dtype",
             "missing_value", "scale_factor", "units")  # fmt: skip


@named_options
@dataclass(frozen=True, kw_only=True)
class Derivation:
    """Declaration of a dataset that `derive` makes from another and keeps in step with it.

    Without `by`, `groupby` and `function` the values are those of the source, in other chunks.

    Parameters
    ----------
    output
        Group of the derived dataset. Nothing else may be written to it.
    source
        Group of the source.
    variables
        Names of the variables to derive. Default: all variables of the source that are no coordinates.
    chunks
        Chunk lengths by dimension; -1 for the length of the dimension at the first run. Default: those
        of the source.
    by
        Coarser steps of dimensions, as for `resample`: a number of elements, or a time such as `1D` or
        `MS`.
    groupby
        Groups of a climatology: a coordinate, or a component of it such as `time.month`.
    how
        Reduction of steps and groups: mean, sum, min, max, count or std. NaN is skipped.
    levels
        Number of coarser levels of a pyramid, each of which applies `by` to the level before. They are
        the groups `1`, `2` and so on beside `0`, which has the values of the source.
    function
        Function of blocks, as for `transform`, or its name as `module:name`. It is applied to each
        variable, or, with `name`, to all of them together.
    name
        Name of the array that the function makes from all variables.
    blocks
        Type of the blocks, `xarray` or `numpy`, or `BlockOptions` with their halo and core dimensions.
    version
        Version of the function; change it if what the function calls changes.
    encoding
        `compressors`, `filters`, `serializer` or `shards` of the derived variables.

    Raises
    ------
    InvalidInputError
        If options contradict each other.

    Examples
    --------
    >>> Derivation(output="by-place", chunks={"time": 1000, "lat": 10, "lon": 10})
    >>> Derivation(output="daily", by={"time": "1D"}, how="max")
    >>> Derivation(output="pyramid", by={"lat": 2, "lon": 2}, levels=4)
    """

    output: str
    source: str = "/"
    variables: Sequence[str] | None = None
    chunks: Mapping[str, int] | None = None
    by: Mapping[str, str | int] | None = None
    groupby: str | None = None
    how: str = "mean"
    levels: int = 0
    function: Callable[..., Any] | str | None = None
    name: str | None = None
    blocks: BlockKind | BlockOptions = "xarray"
    version: str = ""
    encoding: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        ways = [each for each in ("by", "groupby", "function") if getattr(self, each)]
        if len(ways) > 1:
            raise InvalidInputError(f"{' and '.join(ways)} are different ways to derive: give one")
        if path_of(self.output) == "/":
            raise InvalidInputError("invalid output '/': name a group below the root")
        if isinstance(self.variables, str):
            raise InvalidInputError(f"invalid variables {self.variables!r}: give a list of names")
        if self.levels < 0 or (self.levels and not self._has_counts()):
            raise InvalidInputError(
                "levels needs the number of elements of each step, such as by={'lat': 2, 'lon': 2}"
            )
        if self.name is not None and (self.function is None or "/" in self.name or not self.name):
            raise InvalidInputError(f"invalid name {self.name!r}: it names what a function makes")
        if self.how not in REDUCTIONS:
            raise InvalidInputError(
                f"invalid how {self.how!r}: {suggest(str(self.how), REDUCTIONS)}; others can't go on "
                "from one step to the next: compute them with a function of whole dimensions"
            )
        checked_encoding(self.encoding)
        if self.function is not None:
            self.describe()

    def _has_counts(self) -> bool:
        return bool(self.by) and all(isinstance(each, int) for each in (self.by or {}).values())

    def load_function(self) -> Callable[..., Any] | None:
        """Return the function; raises InvalidInputError if there is none of its name."""
        if not isinstance(self.function, str):
            return self.function
        module, _, name = self.function.partition(":")
        try:
            found: Any = import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise InvalidInputError(
                f"invalid function {self.function!r}: give it as module:name ({error})"
            ) from error
        if not callable(found):
            raise InvalidInputError(f"invalid function {self.function!r}: it can't be called")
        checked: Callable[..., Any] = found
        return checked

    def describe(self) -> dict[str, Any]:
        """Return the declaration as plain values: fields that differ from their defaults."""
        found: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value == each.default or (value is not None and each.name == "function"):
                continue
            if each.name in ("output", "source"):
                value = path_of(value)
            if isinstance(value, BlockOptions):
                value = {one.name: getattr(value, one.name) for one in fields(value)}
            found[each.name] = value
        if self.function is not None:
            found["function"] = _identify(self.function, self.load_function())
        plain: dict[str, Any] = json.loads(json.dumps(found, default=_plain, sort_keys=True))
        return plain


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, Iterable) else repr(value)


def _identify(given: Callable[..., Any] | str, function: Any) -> str:
    """Return the name of a function and a digest of its code, without comments and layout."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None) or type(function).__module__
    known = given if isinstance(given, str) else f"{module}:{name}"
    try:
        text = ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError):
        # Without a source, as of compiled functions; a lambda inside of an expression is no statement.
        code = getattr(function, "__code__", None)
        text = "" if code is None else repr((code.co_code, code.co_consts, code.co_names))
    return f"{known} {hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


@dataclass(frozen=True, slots=True)
class LastRun:
    """Last run of a derivation, by the metadata of its commit."""

    commit: str
    source_snapshot: str
    declaration: Mapping[str, Any]


def find_last_run(ancestry: Iterable[SnapshotInfo], output: str) -> LastRun | None:
    """Return the newest run that wrote a group, or None; `ancestry` is newest first."""
    for info in ancestry:
        state = info.metadata.get(STATE)
        if isinstance(state, Mapping) and state.get("output") == output:
            return LastRun(info.id, state["source_snapshot"], state["declaration"])
    return None


def refuse_other_declaration(last: LastRun, declaration: Mapping[str, Any]) -> None:
    """Raise InvalidInputError if the group was derived by another declaration."""
    names = sorted({*last.declaration, *declaration})
    changed = [each for each in names if last.declaration.get(each) != declaration.get(each)]
    if changed:
        changes = "; ".join(
            f"{each} was {last.declaration.get(each)!r}, and is {declaration.get(each)!r}"
            for each in changed
        )
        raise InvalidInputError(
            f"the declaration of {declaration['output']} has changed: {changes}. Derive it again with "
            "rebuild=True"
        )


# Changes of a source


def find_dirty(old: Session | None, new: Session, path: str, *, attributes: str) -> Dirty:
    """Return the boxes of an array's elements that may differ from an older version.

    `attributes` says which of them count: `none`, `decoding` or `all`.
    """
    if old is None:
        return None
    before, after = old.state.view.find_node(path), new.state.view.get_node(path)
    if before is None or before.array is None or after.array is None or before.id != after.id:
        return None
    former, current = json.loads(before.user_data), json.loads(after.user_data)
    if _structure(former, attributes) != _structure(current, attributes):
        return None
    shape, unit = tuple(current["shape"]), find_unit(open_array(new, path))
    chunks = compare_arrays(new.state.assets, before, after).astype(np.int64)
    if not shape:
        return [()] if len(chunks) else []
    found = join_boxes(chunks) * np.array(unit)[:, None] if len(chunks) else ()
    boxes = [clip(tuple((int(a), int(b)) for a, b in box), shape) for box in found]
    boxes += grown(former["shape"], shape)
    return [box for box in boxes if not is_empty(box)]


def _structure(document: dict[str, Any], attributes: str) -> dict[str, Any]:
    """Return the metadata of an array that its values depend on."""
    own = document.pop("attributes", None) or {}
    kept = own if attributes == "all" else {name: own.get(name) for name in _DECODING}
    rest = {name: value for name, value in document.items() if name != "shape"}
    return rest if attributes == "none" else {**rest, "attributes": kept}


def clip(box: Box, shape: Sequence[int]) -> Box:
    """Return the part of a box inside of an array."""
    return tuple(
        (min(max(a, 0), size), min(max(b, 0), size))
        for (a, b), size in zip(box, shape, strict=True)
    )


def is_empty(box: Box) -> bool:
    """Return True if a box has no elements."""
    return any(stop <= start for start, stop in box)


def grown(old: Sequence[int], new: Sequence[int]) -> list[Box]:
    """Return the boxes by which an array is larger than before."""
    return [
        replace_axis(whole(new), axis, (before, after))
        for axis, (before, after) in enumerate(zip(old, new, strict=True))
        if after > before
    ]


def find_other_coordinates(
    old: DataArray, new: DataArray
) -> list[dict[str, tuple[int, int]]] | None:
    """Return where coordinates of an array differ from before, as ranges by dimension; None for all."""
    if {*old.coords} != {*new.coords}:
        return None
    found = []
    for name, now in new.coords.items():
        before = old.coords[name]
        if (
            before.dims != now.dims
            or before.dtype.kind != now.dtype.kind
            or before.attrs != now.attrs
        ):
            return None
        common = tuple(slice(0, min(a, b)) for a, b in zip(before.shape, now.shape, strict=True))
        one, other = before.values[common], now.values[common]
        differ = np.asarray(one != other) & ~(np.asarray(one != one) & np.asarray(other != other))
        if not now.dims:
            if differ.any():
                return None
            continue
        places = np.nonzero(differ)
        if len(places[0]):
            if now.ndim == 1:
                found += [{str(now.dims[0]): run} for run in runs_of(places[0])]
            else:
                ends = ((int(each.min()), int(each.max()) + 1) for each in places)
                found.append(dict(zip(map(str, now.dims), ends, strict=True)))
    return found


# From changes of inputs to those of outputs


def steps_affected(ends: Ends, start: int, stop: int) -> tuple[int, int]:
    """Return the range of steps that have elements of a range."""
    first = int(np.searchsorted(ends, start, "right")) - 1
    return first, max(int(np.searchsorted(ends, stop, "left")), first)


def steps_moved(old: Ends, new: Ends) -> list[tuple[int, int]]:
    """Return the ranges of steps that have other elements than before."""
    count = min(len(old), len(new)) - 1
    same = (old[:count] == new[:count]) & (old[1 : count + 1] == new[1 : count + 1])
    moved = np.append(np.flatnonzero(~same), np.arange(count, len(new) - 1))
    return runs_of(moved)


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Elements of the groups or steps along an axis, and what the last run has of them."""

    counts: NDArray[np.int64]
    """Number of elements of each."""
    new: NDArray[np.int64]
    """Number of elements that are appended since the last run."""
    origins: NDArray[np.intp]
    """Former index of those that begin with their former elements; -1 for others."""
    has_state: NDArray[np.bool_]
    """True for those whose partial state, where one is needed, has all former elements."""
    find: Callable[[int, int], NDArray[np.intp]]
    """Return the groups or steps of a range of elements."""

    @classmethod
    def of_groups(cls, old: Grouping, new: Grouping, known: NDArray[np.int64]) -> "Members":
        """Compare groups with those of the last run, whose states have `known` elements each."""
        origins = _find_origins(old, new)
        former = count_codes(old.codes, len(old.labels))
        is_whole = (known == former) & (former > 0) if len(known) == len(former) else former < 0
        counts = count_codes(new.codes, len(new.labels))
        appended = count_codes(new.codes[len(old.codes) :], len(new.labels))
        has_state = np.append(is_whole, np.False_)[origins]
        return cls(counts, appended, origins, has_state, partial(_codes_between, new.codes))

    @classmethod
    def of_steps(cls, old: Ends, new: Ends, known: NDArray[np.int64]) -> "Members":
        """Compare steps with those of the last run, the last of which has a state."""
        count, last = min(len(old), len(new)) - 1, len(old) - 2
        origins = np.full(len(new) - 1, -1, np.intp)
        is_same = (old[:count] == new[:count]) & (old[1 : count + 1] == new[1 : count + 1])
        origins[:count][is_same] = np.flatnonzero(is_same)
        has_state = np.ones(len(new) - 1, np.bool_)
        if 0 <= last < len(origins):
            if old[last] == new[last] and new[last + 1] >= old[-1]:
                origins[last] = last
            has_state[last] = 0 < known[0] == old[-1] - old[last]
        has_state[-1:] &= last == len(origins) - 1
        appended = np.diff(new.clip(min=old[-1]))
        return cls(np.diff(new), appended, origins, has_state, partial(_steps_between, new))

    def find_affected(
        self,
        dirty: Sequence[Box],
        seam: tuple[int, int],
        axis: int,
        shape: Sequence[int],
        moved: Sequence[Box],
        map_box: Callable[[Box], Box],
    ) -> tuple[list[Box], NDArray[np.intp], NDArray[np.bool_]]:
        """Return the boxes of results that changes affect, the origins, and which have a state then.

        Elements of the seam may be as before: the task of a box compares them. Boxes in `moved` have
        other elements along other axes.
        """
        origins, found = self.origins.copy(), [*moved]
        is_touched = np.full(len(origins), bool(moved))
        origins[is_touched] = -1
        for box in dirty:
            start, stop = box[axis]
            certain, unsure = (start, min(stop, seam[0])), (max(start, seam[0]), min(stop, seam[1]))
            for part in (certain, unsure):
                if part[0] < part[1]:
                    places = self.find(*part)
                    is_touched[places] = True
                    if part is certain:
                        origins[places] = -1
                    found += [replace_axis(map_box(box), axis, run) for run in runs_of(places)]
        is_entire = (self.origins != np.arange(len(origins))) | (self.new > 0)
        is_entire |= is_touched & ~self.has_state
        origins[is_entire & ~self.has_state] = -1
        everything = whole(shape)
        runs = runs_of(np.flatnonzero(is_entire))
        found += [replace_axis(everything, axis, run) for run in runs]
        return found, origins, is_entire | self.has_state


@dataclass(frozen=True, slots=True)
class Change:
    """Changes of an array since the last run."""

    dirty: list[Box]
    seam: tuple[int, int]
    compare: Callable[[NDArray[np.int64]], Members]
    """Compare the groups or steps, given how many elements their states have."""
    map_box: Callable[[Box], Box] = tuple
    """Return the box of the result along the other axes."""
    moved: Sequence[Box] = ()
    """Boxes of the result with other elements along other axes."""


def _find_origins(old: Grouping, new: Grouping) -> NDArray[np.intp]:
    """Return the former index of each group that begins with its former elements; -1 for others."""
    origins = np.full(len(new.labels), -1, np.intp)
    if not len(old.labels) or old.labels.dtype.kind != new.labels.dtype.kind:
        return origins
    places = np.searchsorted(old.labels, new.labels).clip(max=len(old.labels) - 1)
    is_known = old.labels[places] == new.labels
    origins[is_known] = places[is_known]
    # By former code, with a last item for elements without a label, whose code is -1.
    present = np.full(len(old.labels) + 1, -1, np.intp)
    present[places[is_known]] = np.flatnonzero(is_known)
    before, after = present[old.codes], new.codes[: len(old.codes)]
    lost, before = before[len(after) :], before[: len(after)]
    for codes in (lost, before[before != after], after[before != after]):
        origins[codes[codes >= 0]] = -1
    return origins


def count_codes(codes: NDArray[np.intp], groups: int) -> NDArray[np.int64]:
    """Return the number of elements of each group; those with the code -1 are in none."""
    return np.bincount(codes[codes >= 0], minlength=groups).astype(np.int64)


def _codes_between(codes: NDArray[np.intp], start: int, stop: int) -> NDArray[np.intp]:
    found = np.unique(codes[start:stop])
    return found[found >= 0]


def _steps_between(ends: Ends, start: int, stop: int) -> NDArray[np.intp]:
    return np.arange(*steps_affected(ends, start, stop))


def find_seam(
    dirty: Sequence[Box], old: Sequence[int], new: Sequence[int], axis: int, unit: int
) -> tuple[int, int]:
    """Return the former elements along an axis that may have changed only because of an append.

    They share a chunk with appended elements.
    """
    length = old[axis]
    start = length - length % unit
    is_appended = new[axis] > length and [*old[:axis], *old[axis + 1 :]] == [
        *new[:axis],
        *new[axis + 1 :],
    ]
    if is_appended and any(box[axis][0] < length and box[axis][1] > start for box in dirty):
        return start, length
    return length, length


def blocks_affected(
    space: Space,
    dims: Sequence[str],
    ends: Mapping[str, tuple[int, int]],
    core_dims: Sequence[str],
    margins: Mapping[str, Margin],
) -> list[Box]:
    """Return the boxes along `dims` whose blocks, with their halo, read ranges of the space."""
    box = whole([space.size(dim) for dim in dims])
    boxes = [box]
    for axis, dim in enumerate(dims):
        if dim in core_dims or dim not in ends:
            continue
        size, (start, stop) = space.size(dim), ends[dim]
        margin = margins.get(dim)
        ranges = [(start, stop)]
        if margin is not None:
            ranges = _with_halo(start, stop, size, margin)
        boxes = [replace_axis(each, axis, part) for each in boxes for part in ranges]
    return [each for box in boxes if not is_empty(each := clip(box, [space.size(d) for d in dims]))]


def _with_halo(start: int, stop: int, size: int, margin: Margin) -> list[tuple[int, int]]:
    # An element reads `after` elements behind it, so it depends on what changed there.
    low, high = start - margin.after, stop + margin.before
    if margin.boundary != "wrap":
        return [(low, high)]
    if high - low >= size:
        return [(0, size)]
    return [(low, high), (low + size, size), (0, high - size)]


# From affected elements to regions to write


def plan_boxes(dirty: Dirty, shape: Sequence[int], unit: Sequence[int]) -> list[Box]:
    """Return boxes that contain all dirty elements and don't share a chunk, as few as possible."""
    full = whole(shape)
    if is_empty(full):
        return []
    boxes = [full] if dirty is None else [each for each in dirty if not is_empty(each)]
    if full in boxes or not boxes:
        return boxes[:0] if not boxes else [full]
    sizes, lengths = np.array(unit, np.int64), np.array(shape, np.int64)
    parts = [_chunks_of(box, sizes) for box in boxes]
    rows, lows, highs = (np.concatenate(each) for each in zip(*parts, strict=True))
    chunks, inverse = np.unique(rows, axis=0, return_inverse=True)
    low, high = np.broadcast_to(sizes, chunks.shape).copy(), np.zeros_like(chunks)
    np.minimum.at(low, inverse.ravel(), lows)
    np.maximum.at(high, inverse.ravel(), highs)
    is_whole = (low == 0) & (high >= np.minimum(sizes, lengths - chunks * sizes))
    # Chunks of which only a part is written are joined along the other axes only.
    key = np.concatenate([np.where(is_whole, -1, each) for each in (chunks, low, high)], axis=1)
    kinds, number = np.unique(key, axis=0, return_inverse=True)
    found = []
    for kind in range(len(kinds)):
        rows = np.flatnonzero(number.ravel() == kind)
        part, first, last = is_whole[rows[0]], low[rows[0]], high[rows[0]]
        for box in join_boxes(chunks[rows]) * sizes[:, None]:
            starts = np.where(part, box[:, 0], box[:, 0] + first)
            stops = np.where(part, np.minimum(box[:, 1], lengths), box[:, 0] + last)
            found.append(tuple(zip(starts.tolist(), stops.tolist(), strict=True)))
    return found


def _chunks_of(box: Box, sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Return the chunks of a box, and the range of its elements in each."""
    ends = np.array(box, np.int64)
    axes = [
        np.arange(a // size, -(-b // size))
        for (a, b), size in zip(box, sizes.tolist(), strict=True)
    ]
    chunks = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(box))
    starts = chunks * sizes
    return chunks, np.maximum(starts, ends[:, 0]) - starts, np.minimum(sizes, ends[:, 1] - starts)


WriteBox = Callable[[ForkSession, Box], object]


@dataclass(frozen=True, slots=True)
class Product:
    """Boxes of one output array to write, and the task that writes one."""

    write: WriteBox
    boxes: Sequence[Box]
    unit: Sequence[int]
    """Part of the boxes' space stored as one object."""
    item_bytes: int
    """Bytes read for an element of a box."""
    most_items: int
    """Maximum elements of the box that a task holds at a time."""

    def split(self) -> Iterator[Box]:
        """Yield boxes of whole chunks that fit in memory."""
        for box in self.boxes:
            ends = [
                -(-(stop - start) // unit) * unit
                for (start, stop), unit in zip(box, self.unit, strict=True)
            ]
            yield from cut(box, grow(self.unit, ends, self.most_items)) if box else [box]


@dataclass(frozen=True, slots=True)
class WriteProducts:
    """Task that writes one box of one of several products."""

    writers: tuple[WriteBox, ...]

    def __call__(self, session: ForkSession, region: tuple[int, Box]) -> None:
        number, box = region
        self.writers[number](session, box)


# Levels of a pyramid

_MULTISCALES = {
    "uuid": "d35379db-88df-4056-af3a-620245f8e347",
    "name": "multiscales",
    "schema_url": "https://raw.githubusercontent.com/zarr-conventions/multiscales/refs/tags/v1/schema.json",
    "spec_url": "https://github.com/zarr-conventions/multiscales/blob/v1/README.md",
    "description": "Levels of a pyramid",
}


def describe_levels(
    levels: int, variables: Mapping[str, Sequence[str | None]], by: Mapping[str, int], how: str
) -> dict[str, Any]:
    """Return attributes of a pyramid's group that viewers read.

    `multiscales` is the convention that GeoZarr uses. `ome` is that of OME-NGFF 0.5; it has the
    variables whose axes that specification allows.
    """
    method = "average" if how == "mean" else how
    factors = list(by.values())
    layout: list[dict[str, Any]] = [
        {"asset": "0", "transform": _transform([1.0] * len(by), [0.0] * len(by))}
    ]
    layout += [
        {
            "asset": str(level),
            "derived_from": str(level - 1),
            "transform": _transform(map(float, factors), ((n - 1) / 2 for n in factors)),
            "resampling_method": method,
        }
        for level in range(1, levels + 1)
    ]
    images = [
        _describe_image(name, axes, levels, dims, by, method)
        for name, dims in variables.items()
        if (axes := _ome_axes(dims, by)) is not None
    ]
    return {
        "zarr_conventions": [_MULTISCALES],
        "multiscales": {"layout": layout, "resampling_method": method},
        **({"ome": {"version": "0.5", "multiscales": images}} if images else {}),
    }


def _transform(scale: Iterable[float], translation: Iterable[float]) -> dict[str, list[float]]:
    return {"scale": list(scale), "translation": list(translation)}


def _ome_axes(dims: Sequence[str | None], by: Mapping[str, int]) -> list[dict[str, str]] | None:
    """Return the axes of an image: time, channel, and two or three of space at the end."""
    names = [str(dim) for dim in dims]
    space = [dim for dim in names if dim in by]
    rest = names[: len(names) - len(space)]
    if len(space) not in (2, 3) or names[len(rest) :] != space or len(rest) > 2 or None in dims:
        return None
    kinds = {0: [], 1: ["time"], 2: ["time", "channel"]}[len(rest)]
    return [
        {"name": name, "type": kind}
        for name, kind in zip(names, [*kinds, *["space"] * len(space)], strict=True)
    ]


def _describe_image(
    name: str,
    axes: list[dict[str, str]],
    levels: int,
    dims: Sequence[str | None],
    by: Mapping[str, int],
    method: str,
) -> dict[str, Any]:
    """Return the metadata of one variable, in elements of the first level."""

    def scale(level: int) -> list[float]:
        return [float(by.get(str(dim), 1)) ** level for dim in dims]

    return {
        "name": name,
        "axes": axes,
        "type": method,
        "datasets": [
            {
                "path": f"{level}/{name}",
                "coordinateTransformations": [
                    {"type": "scale", "scale": scale(level)},
                    {"type": "translation", "translation": [(n - 1) / 2 for n in scale(level)]},
                ],
            }
            for level in range(levels + 1)
        ],
    }
