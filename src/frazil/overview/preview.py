"""Previews of values from few chunks: slices, series along an axis, samples."""

import base64
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from time import monotonic
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from frazil.display import show_bytes
from frazil.errors import FormatError, IcechunkError, InvalidInputError, ObjectNotFoundError
from frazil.format.snapshot import Node
from frazil.overview.nodes import (
    NUMBERS,
    Axis,
    Decoding,
    choose_axes,
    find_axes,
    find_curved,
    is_projected,
    normalize,
    spell_times,
    trim_times,
)
from frazil.repository.session import Session

MOST_SAMPLE_CHUNKS = 16
"""Maximum chunks read for a summary of an array."""
MOST_CHUNKS = 512
"""Maximum chunks read for a slice or a series."""
MOST_BYTES = 1 << 28
"""Maximum bytes decoded for either."""
MOST_SIDE = 640
"""Maximum elements of a slice or a series along an axis."""
MOST_TEXTS = 200
"""Maximum elements of an array without numbers that are shown as text."""
_MOST_SECONDS = 10.0
"""Time after which no further chunk is read."""
READ_ERRORS = (IcechunkError, ValueError, TypeError, OSError, NotImplementedError, RuntimeError)
"""Errors of chunks that can't be read or decoded, by Frazil, Zarr or a codec."""


# Planning


@dataclass(frozen=True, slots=True)
class Span:
    """Elements along an axis that are read: every `step`-th from `start` to before `stop`."""

    start: int
    stop: int
    step: int = 1
    chunk: int = 1
    """Chunk length; the inner one of shards."""

    @property
    def indices(self) -> range:
        """Return the indices of the elements."""
        return range(self.start, self.stop, self.step)

    @property
    def touched(self) -> int:
        """Return the number of chunks that hold these elements."""
        last = self.start + (len(self.indices) - 1) * self.step
        whole = last // self.chunk - self.start // self.chunk + 1
        return min(whole, len(self.indices)) if len(self.indices) else 0

    def split(self) -> list[tuple[slice, slice]]:
        """Return the parts to read one by one: where they go, and which elements they are."""
        if self.step == 1 or self.step < self.chunk:
            return [(slice(0, len(self.indices)), slice(self.start, self.stop, self.step))]
        return [
            (slice(number, number + 1), slice(index, index + 1))
            for number, index in enumerate(self.indices)
        ]

    def split_by_chunk(self) -> list[tuple[slice, slice]]:
        """Return one part for each chunk."""
        parts: list[tuple[slice, slice]] = []
        first = 0
        while first < len(self.indices):
            end = (self.indices[first] // self.chunk + 1) * self.chunk
            count = -(-(end - self.indices[first]) // self.step)
            last = min(first + count, len(self.indices))
            stop = self.indices[last - 1] + 1
            parts.append((slice(first, last), slice(self.indices[first], stop, self.step)))
            first = last
        return parts


def limit_chunks(chunk_shape: Sequence[int], itemsize: int, most: int) -> int:
    """Return the maximum chunks to read; raises InvalidInputError if one alone is too large."""
    size = itemsize * math.prod(chunk_shape)
    if size > MOST_BYTES:
        raise InvalidInputError(
            f"a chunk holds {show_bytes(size)}, and a preview reads at most {show_bytes(MOST_BYTES)}"
        )
    return min(most, MOST_BYTES // max(1, size))


def plan_spans(
    windows: Sequence[tuple[int, int]],
    chunks: Sequence[int],
    most_chunks: int,
    most_side: int = MOST_SIDE,
) -> tuple[Span, ...]:
    """Spread elements evenly over one or two windows, within at most `most_chunks` chunks.

    Parameters
    ----------
    windows
        Start and stop along each axis.
    chunks
        Chunk length along each axis.
    most_chunks
        Maximum chunks that hold the elements.
    most_side
        Maximum elements along each axis.
    """
    pairs = list(zip(windows, chunks, strict=True))
    spans = [_spread_over(window, chunk, most_side) for window, chunk in pairs]
    touched = [each.touched for each in spans]
    if math.prod(touched) <= most_chunks:
        return tuple(spans)
    fewest = min(touched) if len(touched) > 1 else 1
    fair = math.isqrt(most_chunks) if len(touched) > 1 else most_chunks
    limit = fair if fewest > fair else max(1, most_chunks // max(1, fewest))
    return tuple(
        span if span.touched <= limit else _spread_over(window, chunk, limit)
        for span, (window, chunk) in zip(spans, pairs, strict=True)
    )


def _spread_over(window: tuple[int, int], chunk: int, most: int) -> Span:
    start, stop = window
    step = max(1, -(-(stop - start) // most))
    middle = min(step // 2, max(0, stop - start - 1))
    return Span(start + middle, stop, step, chunk)


def plan_sample(
    shape: Sequence[int],
    chunks: Sequence[int],
    written: Sequence[Sequence[int]],
    inner: Sequence[int],
    most_chunks: int,
) -> Iterator[tuple[slice, ...]]:
    """Yield one chunk of some written objects, which hold `inner` chunks along each axis."""
    for place in _spread(written, most_chunks):
        starts = (
            chunk * min(number * size + size // 2, max(0, -(-length // max(1, chunk)) - 1))
            for number, size, chunk, length in zip(place, inner, chunks, shape, strict=True)
        )
        yield tuple(
            slice(start, min(length, start + max(1, chunk)))
            for start, chunk, length in zip(starts, chunks, shape, strict=True)
        )


def _spread(items: Sequence[Any], most: int) -> Iterator[Any]:
    """Return a few items, evenly spread from first to last."""
    count = min(len(items), most)
    return (items[number * (len(items) - 1) // max(1, count - 1)] for number in range(count))


# Reading


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Decoded values of some chunks."""

    values: NDArray[Any]
    chunks: int
    """Number of chunks read."""
    decoding: Decoding


def read_sample(session: Session, path: str, written: Sequence[Sequence[int]]) -> Sample | None:
    """Read a few of the written chunks; None unless they hold numbers or times."""
    array = open_array(session, path)
    if array.dtype.kind not in f"{NUMBERS}mM":
        return None
    decoding = Decoding.of(array.attrs.asdict(), array.dtype)
    most = limit_chunks(_chunk_shape(array), array.dtype.itemsize, MOST_SAMPLE_CHUNKS)
    inner = [
        whole // part
        for whole, part in zip(array.shards or array.chunks, array.chunks, strict=True)
    ]
    parts: list[NDArray[Any]] = []
    end = monotonic() + _MOST_SECONDS
    # Read sequentially, so that unreadable data fails once and slow storage gets fewer requests.
    for region in plan_sample(array.shape, array.chunks, written, inner, most):
        if parts and monotonic() > end:
            break
        parts.append(decoding.decode(np.asarray(array[region])).ravel())
    values = np.concatenate(parts) if parts else np.empty(0, array.dtype)
    return Sample(values, len(parts), decoding)


def open_array(session: Session, path: str) -> zarr.Array[Any]:
    """Open an array of a version with Zarr."""
    return zarr.open_array(session.store, path=path.strip("/"), mode="r")


def _chunk_shape(array: zarr.Array[Any]) -> list[int]:
    return [
        max(1, min(chunk, length)) for chunk, length in zip(array.chunks, array.shape, strict=True)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Values of some spans, with those that could not be read."""

    values: NDArray[Any]
    is_read: NDArray[np.bool_]
    reason: str | None
    """Why some could not be read."""


def _read_block(array: zarr.Array[Any], selection: Sequence[int | Span]) -> _Block:
    """Read the elements of spans, at an index along all other axes; raises if none can be read."""
    spans = [each for each in selection if isinstance(each, Span)]
    shape = tuple(len(each.indices) for each in spans)
    values = np.zeros(shape, array.dtype)
    is_read = np.zeros(shape, np.bool_)
    failures: list[Exception] = []
    end = monotonic() + _MOST_SECONDS

    def read(part: tuple[tuple[slice, slice], ...]) -> None:
        if monotonic() > end:
            failures.append(TimeoutError(f"they took longer than {_MOST_SECONDS:.0f} s"))
            return
        wanted = iter(each[1] for each in part)
        key = tuple(next(wanted) if isinstance(each, Span) else each for each in selection)
        target = tuple(each[0] for each in part)
        try:
            values[target] = np.asarray(array[key])
            is_read[target] = True
        except READ_ERRORS as error:
            failures.append(error)

    parts = list(product(*(each.split() for each in spans)))
    _run(read, parts)
    if failures and len(parts) == 1 and not _is_refusal(failures[0]):
        failures.clear()
        _run(read, list(product(*(each.split_by_chunk() for each in spans))))
    if failures and (not is_read.any() or _is_refusal(failures[0])):
        raise failures[0]
    return _Block(values, is_read, explain(failures[0]) if failures else None)


def _run(read: Any, parts: Sequence[Any]) -> None:
    if len(parts) == 1:
        read(parts[0])
        return
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, parts))


def _is_refusal(error: Exception) -> bool:
    return getattr(error, "kind", None) == "unauthorized-virtual-chunk-container"


def explain(error: Exception) -> str:
    """Return the message of an error for readers of a page."""
    if _is_refusal(error):
        return (
            "its virtual chunks are in a container that is not authorized: start the command again"
            " with --authorize '*', or with the prefix of the container"
        )
    text = str(getattr(error, "message", None) or error) or type(error).__name__
    if isinstance(error, FormatError | ObjectNotFoundError):
        return f"the repository is damaged ({text}); `frazil check` lists all problems"
    return text


@dataclass(frozen=True, slots=True, eq=False)
class ShownAxis:
    """Axis of a slice with its coordinates."""

    name: str
    length: int
    kind: str
    units: str | None
    indices: tuple[int, int, int]
    """First index, last index and step of the elements shown."""
    coordinates: list[float] | None
    """Decoded coordinate of each element; None without numbers."""
    labels: list[str] | None = None
    """Times or texts of the elements; None for numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Part of an array along at most two axes, ready to draw."""

    path: str
    form: str
    """`map`, `line`, `value`, `text` or `nothing`."""
    axes: tuple[ShownAxis, ...] = ()
    at: Mapping[str, Mapping[str, object]] | None = None
    """Index and label along each other axis, by name."""
    values: NDArray[Any] | None = None
    """Decoded numbers. The first row is the top one: north, if known."""
    texts: list[str] | None = None
    units: str | None = None
    is_north_up: bool = False
    is_geographic: bool = False
    """True if the axes are latitude and longitude, so that coastlines can be drawn."""
    note: str | None = None
    """What was left out, and why."""


def read_slice(
    session: Session,
    path: str,
    at: Mapping[str, int] | None = None,
    *,
    dims: Sequence[str] | None = None,
    windows: Mapping[str, tuple[int, int]] | None = None,
    most_side: int = MOST_SIDE,
) -> Slice:
    """Read a slice for a map, a line or a list of texts.

    Parameters
    ----------
    session
        Session at the version to read.
    path
        Path of the array.
    at
        Index along axes that are not shown; the middle of the others. Negative ones count from the end.
    dims
        Names of the axes shown, rows first; north and east if known, else the last two.
    windows
        Start and stop along shown axes; all of them by default.
    most_side
        Maximum elements along each axis.

    Raises
    ------
    InvalidInputError
        If there is no such axis or index, or one chunk is too large.
    IcechunkError
        If no chunk can be read.
    """
    node, _ = session.state.view.get_array(normalize(path))
    array = open_array(session, path)
    axes = find_axes(session, node)
    if 0 in array.shape:
        return Slice(node.path, "nothing", note="the array is empty")
    shown = choose_axes(axes) if dims is None else tuple(_find(axes, each) for each in dims)
    if (axes and not 1 <= len(shown) <= 2) or len(set(shown)) != len(shown):
        raise InvalidInputError(f"invalid axes {list(dims or ())}: name one or two of them")
    place = _find_place(axes, shown, at or {})
    if array.dtype.kind not in f"{NUMBERS}c":
        return _read_texts(session, array, node, axes)
    decoding = Decoding.of(array.attrs.asdict(), array.dtype)
    most = limit_chunks(_chunk_shape(array), array.dtype.itemsize, MOST_CHUNKS)
    limits = [_clip(each, (windows or {}).get(each.name)) for each in shown]
    chunks = [max(1, array.chunks[each.number]) for each in shown]
    spans = plan_spans(limits, chunks, most, most_side)
    by_number = {axis.number: span for axis, span in zip(shown, spans, strict=True)}
    block = _read_block(array, [by_number.get(n, place.get(n, 0)) for n in range(array.ndim)])
    values = np.abs(block.values) if array.dtype.kind == "c" else decoding.decode(block.values)
    if not block.is_read.all():
        values = np.where(block.is_read, values.astype(np.float64), np.nan)
    if len(shown) == 2 and shown[0].number > shown[1].number:
        values = values.T
    described = [_show_axis(session, axis, span) for axis, span in zip(shown, spans, strict=True)]
    values, described, is_north_up = _turn(session, node, shown, spans, values, described)
    return Slice(
        node.path,
        ("value", "line", "map")[len(shown)],
        tuple(described),
        {axes[n].name: _label(session, axes[n], index) for n, index in place.items()},
        values,
        units=decoding.units,
        is_north_up=is_north_up,
        is_geographic=[each.kind for each in described] == ["latitude", "longitude"]
        and all(each.coordinates for each in described)
        and not is_projected(session, node),
        note=_describe_limits(shown, limits, spans, block, array.dtype.kind == "c"),
    )


def _find(axes: Sequence[Axis], name: str) -> Axis:
    found = next((each for each in axes if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in axes) or "none"
        raise InvalidInputError(f"there is no axis {name!r}: the array has {known}")
    return found


def _find_place(
    axes: Sequence[Axis], shown: Sequence[Axis], at: Mapping[str, int]
) -> dict[int, int]:
    for name in at:
        _find(axes, name)
    place = {}
    for axis in axes:
        if axis in shown:
            continue
        index = at.get(axis.name, axis.length // 2)
        if not -axis.length <= index < axis.length:
            raise InvalidInputError(
                f"index {index} is not on the axis {axis.name}, which has {axis.length:,} elements"
            )
        place[axis.number] = index % axis.length
    return place


def _clip(axis: Axis, window: tuple[int, int] | None) -> tuple[int, int]:
    if window is None:
        return 0, axis.length
    start, stop = max(0, window[0]), min(axis.length, window[1])
    if start >= stop:
        raise InvalidInputError(
            f"the window {window[0]}:{window[1]} of {axis.name} is empty: it has {axis.length:,}"
            " elements"
        )
    return start, stop


def read_coordinates(
    session: Session, path: str, spans: Span | Sequence[int]
) -> tuple[list[float] | None, list[str] | None]:
    """Read elements of a coordinate, as numbers or, for times and texts, as labels too."""
    array = open_array(session, path)
    limit_chunks(_chunk_shape(array), array.dtype.itemsize, 1)
    if isinstance(spans, Span):
        chosen = Span(spans.start, spans.stop, spans.step, max(1, array.chunks[0]))
        stored = _read_block(array, [chosen]).values
    else:
        stored = np.array([np.asarray(array[index])[()] for index in spans])
    if stored.dtype.kind == "M":
        return None, trim_times([str(each) for each in stored.astype("M8[s]")])
    if stored.dtype.kind not in NUMBERS:
        return None, [str(each) for each in stored.tolist()]
    decoding = Decoding.of(array.attrs.asdict(), array.dtype)
    numbers = decoding.decode(stored).astype(np.float64)
    labels = None
    if decoding.is_time:
        labels = spell_times(numbers, str(decoding.units), decoding.calendar)
    return numbers.tolist() if np.isfinite(numbers).all() else None, labels


def _show_axis(session: Session, axis: Axis, span: Span) -> ShownAxis:
    coordinates: tuple[list[float] | None, list[str] | None] = None, None
    if axis.coordinate is not None:
        try:
            coordinates = read_coordinates(session, axis.coordinate, span)
        except READ_ERRORS:
            coordinates = None, None
    last = span.indices[-1]
    return ShownAxis(
        axis.name, axis.length, axis.kind, axis.units, (span.start, last, span.step), *coordinates
    )


def _label(session: Session, axis: Axis, index: int) -> dict[str, object]:
    label = None
    if axis.coordinate is not None:
        # A neighbour tells whether times have hours: "2024-02-15" or "2024-02-15 00:00".
        near = [index, *([index + 1] if index + 1 < axis.length else [max(0, index - 1)])]
        try:
            numbers, texts = read_coordinates(session, axis.coordinate, near)
        except READ_ERRORS:
            numbers, texts = None, None
        if texts:
            label = texts[0]
        elif numbers:
            units = "" if axis.units in (None, "1") else f" {axis.units}"
            label = f"{numbers[0]:g}{units}"
    return {"index": index, "length": axis.length, "label": label}


def _turn(
    session: Session,
    node: Node,
    shown: Sequence[Axis],
    spans: Sequence[Span],
    values: NDArray[Any],
    described: list[ShownAxis],
) -> tuple[NDArray[Any], list[ShownAxis], bool]:
    """Turn a map so that north is up and east is right, where coordinates tell."""
    if len(shown) != 2:
        return values, described, False
    is_north_up = False
    rows, columns = shown
    ends = _find_ends(described[0]) if rows.points_north else None
    if ends is None and not rows.points_north:
        ends = _find_curved_ends(session, node, rows, columns, spans)
    if ends is not None and ends[0] != ends[1]:
        is_north_up = True
        if ends[0] < ends[1]:
            values, described[0] = values[::-1], _reverse(described[0])
    ends = _find_ends(described[1]) if columns.points_east else None
    if ends is not None and ends[0] > ends[1]:
        values, described[1] = values[:, ::-1], _reverse(described[1])
    return values, described, is_north_up


def _find_ends(axis: ShownAxis) -> tuple[float, float] | None:
    return (axis.coordinates[0], axis.coordinates[-1]) if axis.coordinates else None


def _reverse(axis: ShownAxis) -> ShownAxis:
    first, last, step = axis.indices
    return ShownAxis(
        axis.name, axis.length, axis.kind, axis.units, (last, first, -step),
        axis.coordinates and axis.coordinates[::-1], axis.labels and axis.labels[::-1],
    )  # fmt: skip


def _find_curved_ends(
    session: Session, node: Node, rows: Axis, columns: Axis, spans: Sequence[Span]
) -> tuple[float, float] | None:
    """Return the first and last latitude along the rows, in the middle of the columns."""
    for found in find_curved(session, node, rows.name, columns.name):
        try:
            array = open_array(session, found.path)
            limit_chunks(_chunk_shape(array), array.dtype.itemsize, 2)
            decoding = Decoding.of(array.attrs.asdict(), array.dtype)
            assert found.array is not None
            dims = list(found.array.dimension_names or ())
            key = [0] * array.ndim
            key[dims.index(columns.name)] = columns.length // 2
            ends = []
            for index in (spans[0].indices[0], spans[0].indices[-1]):
                key[dims.index(rows.name)] = index
                stored = np.asarray(array[tuple(key)]).reshape(1)
                ends.append(float(decoding.decode(stored)[0]))
        except READ_ERRORS:
            continue
        if all(map(math.isfinite, ends)):
            return ends[0], ends[1]
    return None


def _read_texts(
    session: Session, array: zarr.Array[Any], node: Node, axes: Sequence[Axis]
) -> Slice:
    """Return the first elements of an array without numbers as text."""
    limit_chunks(_chunk_shape(array), array.dtype.itemsize, 1)
    if not axes:
        return Slice(node.path, "text", texts=[str(np.asarray(array[()])[()])])
    last = axes[-1]
    count = min(last.length, MOST_TEXTS)
    key: tuple[int | slice, ...] = (*(axis.length // 2 for axis in axes[:-1]), slice(0, count))
    stored = np.asarray(array[key])
    if stored.dtype.kind == "M":
        texts = trim_times([str(each) for each in stored.astype("M8[s]")])
    else:
        texts = [str(each) for each in stored.tolist()]
    shown = ShownAxis(last.name, last.length, last.kind, last.units, (0, count - 1, 1), None)
    rest = (
        f"the first {count:,} of {last.length:,} along {last.name}" if count < last.length else None
    )
    at = {axis.name: _label(session, axis, axis.length // 2) for axis in axes[:-1]}
    return Slice(node.path, "text", (shown,), at, texts=texts, note=rest)


def _describe_limits(
    shown: Sequence[Axis],
    windows: Sequence[tuple[int, int]],
    spans: Sequence[Span],
    block: _Block,
    is_magnitude: bool,
) -> str | None:
    """Describe what was left out, or None if everything is shown."""
    notes = ["magnitudes of complex numbers"] if is_magnitude else []
    parts = []
    for axis, (start, stop), span in zip(shown, windows, spans, strict=True):
        if span.step > 1:
            parts.append(f"{len(span.indices):,} of {stop - start:,} along {axis.name}")
    if parts:
        notes.append(f"shows {' and '.join(parts)}")
    if block.reason is not None:
        missing = int((~block.is_read).sum())
        notes.append(f"{missing:,} values could not be read: {block.reason}")
    return "; ".join(notes) or None


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Values along one axis at a point."""

    axis: ShownAxis
    values: list[float | None]
    units: str | None
    note: str | None


def read_series(session: Session, path: str, dim: str, at: Mapping[str, int]) -> Series:
    """Read the values along an axis at an index of all others.

    Parameters
    ----------
    session
        Session at the version to read.
    path
        Path of the array.
    dim
        Name of the axis.
    at
        Index along the other axes; the middle by default.
    """
    found = read_slice(session, path, {k: v for k, v in at.items() if k != dim}, dims=[dim])
    if found.form != "line" or found.values is None:
        raise InvalidInputError(f"{path} has no numbers to plot")
    return Series(found.axes[0], to_numbers(found.values), found.units, found.note)


def to_numbers(values: NDArray[Any]) -> list[float | None]:
    """Return numbers for JSON, with None for missing ones."""
    numbers = values.astype(np.float64).ravel()
    return [each if math.isfinite(each) else None for each in numbers.tolist()]


def pack(values: NDArray[Any]) -> str:
    """Encode numbers as text: float32, byte planes, zlib, base64. Fractions keep 16 bits."""
    numbers = np.ascontiguousarray(values, np.float32)
    bits = numbers.view(np.uint32)
    if values.dtype.kind == "f" and not np.array_equal(numbers, np.rint(numbers), equal_nan=True):
        finite = np.isfinite(numbers)
        bits = np.where(finite, (bits + np.uint32(64)) & np.uint32(0xFFFFFF80), bits)
    planes = bits.ravel().view(np.uint8).reshape(-1, 4).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode("ascii")
