"""Coarser steps of time and space: `frazil.spark.resample`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from xarray import DataArray

from frazil.arguments import verb
from frazil.errors import InvalidInputError
from frazil.maintenance.reachability import pack
from frazil.repository.session import ForkSession
from frazil.spark.arrays.blocks import (
    Inputs,
    Output,
    Space,
    count_bytes,
    create_output,
    find_space,
)
from frazil.spark.arrays.reduction import (
    BLOCK_BYTES,
    Former,
    Partials,
    Reduction,
    State,
    assign,
    find_reduction,
)
from frazil.spark.job import CommitReport, Job, SparkSession
from frazil.spark.regions import (
    Box,
    checked_encoding,
    count_items,
    cut,
    grow,
    open_for_writing,
    path_of,
    replace_axis,
    runs_of,
    slices_of,
    whole,
)
from frazil.spark.transaction import AnyRepository, committing, write_regions
from frazil.virtual.access import Authorize

Ends = NDArray[np.int64]
"""Where each step starts along the input's dimension, and where the last one ends."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps of a dimension, each of some elements of the input."""

    ends: Ends
    labels: DataArray | None
    """Coordinate of the steps; None if the input has none."""

    def __len__(self) -> int:
        return len(self.ends) - 1


def find_steps(array: DataArray, dim: str, rule: str | int) -> Steps:
    """Return steps of a number of elements, or of a time such as `1D`, labelled by their start."""
    if dim not in array.dims:
        raise InvalidInputError(f"{array.name} has no dimension {dim!r}: it has {array.dims}")
    size = array.sizes[dim]
    coordinate = array.coords.get(dim)
    if isinstance(rule, str):
        return _find_times(dim, coordinate, rule)
    if rule < 1:
        raise InvalidInputError(f"a step of {dim} needs 1 or more elements, not {rule}")
    starts = np.arange(0, size, rule, dtype=np.int64)
    ends = np.append(starts, size)
    if coordinate is None:
        return Steps(ends, None)
    if coordinate.dtype.kind not in "iuf":
        return Steps(ends, coordinate.isel({dim: starts}))
    middle = np.add.reduceat(coordinate.values.astype(np.float64), starts) / np.diff(ends)
    return Steps(ends, DataArray(middle, dims=(dim,), name=dim, attrs=coordinate.attrs))


def _find_times(dim: str, coordinate: DataArray | None, rule: str) -> Steps:
    index = None if coordinate is None else coordinate.to_index()
    if index is None or coordinate is None or not hasattr(index, "year"):
        raise InvalidInputError(
            f"{dim} has no times for steps of {rule!r}: give a number of elements"
        )
    if not index.is_monotonic_increasing:
        raise InvalidInputError(f"{dim} must ascend to be resampled")
    try:
        if isinstance(index, pd.DatetimeIndex):  # as Xarray does, which sums groups one by one
            sizes = pd.Series(0, index).groupby(pd.Grouper(freq=rule)).size()
            counts, starts = sizes.to_numpy(), sizes.index.to_numpy()
        else:
            ones = DataArray(np.ones(len(index)), {dim: coordinate.variable}, (dim,))
            counted = ones.resample({dim: rule}).sum().fillna(0)
            counts, starts = counted.values, counted[dim].values
    except ValueError as error:
        raise InvalidInputError(f"invalid step {rule!r} of {dim}: {error}") from error
    ends = np.append(0, np.cumsum(counts)).astype(np.int64)
    return Steps(ends, DataArray(starts, dims=(dim,), name=dim, attrs=coordinate.attrs))


@dataclass(frozen=True, slots=True, eq=False)
class ResamplePlan:
    """Steps of an array, and the output that a reduction makes of them."""

    array: DataArray
    space: Space
    steps: Mapping[str, Steps]
    reduction: Reduction
    output: Output

    @classmethod
    def of(
        cls,
        array: DataArray,
        by: Mapping[str, str | int],
        how: str,
        path: str,
        chunks: Mapping[str, int],
        *,
        attrs: Mapping[str, Any] | None = None,
        dtype: Any = None,
    ) -> "ResamplePlan":
        """Plan the output, with the chunk lengths, attributes and type of the input unless given."""
        reduction = find_reduction(how, array.dtype)
        steps = {dim: find_steps(array, dim, rule) for dim, rule in by.items()}
        _refuse_empty(array, how, steps)
        space = find_space([array])
        shape = tuple(
            len(steps[dim]) if dim in steps else size
            for dim, size in zip(space.dims, space.shape, strict=True)
        )
        unknown = [dim for dim in chunks if dim not in space.dims]
        if unknown:
            raise InvalidInputError(
                f"chunks names the dimension {unknown[0]!r}: there are {space.dims}"
            )
        lengths = tuple(
            max(size if chunks.get(dim) == -1 else min(size, chunks.get(dim, space.chunk(dim))), 1)
            for dim, size in zip(space.dims, shape, strict=True)
        )
        output = Output(
            path, space.dims, shape, lengths, np.dtype(dtype or reduction.result_type(array.dtype)),
            array.attrs if attrs is None else attrs,
        )  # fmt: skip
        return cls(array, space, steps, reduction, output)

    @property
    def item_bytes(self) -> int:
        """Bytes of an element of the input, with what is read along with it."""
        return max(count_bytes([self.array], dict.fromkeys(self.space.dims, 1)), 1)

    @property
    def ends(self) -> tuple[Ends, ...]:
        """Steps of each dimension; dimensions that are not reduced keep their elements."""
        return tuple(
            self.steps[dim].ends if dim in self.steps else np.arange(size + 1)
            for dim, size in zip(self.space.dims, self.space.shape, strict=True)
        )

    def task(
        self,
        inputs: Inputs,
        output: Output,
        partials: Partials | None = None,
        former: Former | None = None,
    ) -> "ResampleBlock":
        """Return the task that writes boxes of an output as planned."""
        piece = grow(self.space.chunks, self.space.shape, BLOCK_BYTES // self.item_bytes)
        in_order = partials is not None and len(self.steps) == 1
        return ResampleBlock(
            inputs, output, self.reduction, self.ends, piece, self.array.dtype, in_order, partials,
            former,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ResampleBlock:
    """Task that computes and writes one box of the output."""

    inputs: Inputs
    output: Output
    reduction: Reduction
    ends: tuple[Ends, ...]
    """Steps of each dimension."""
    piece: tuple[int, ...]
    """Shape of what is read at a time."""
    dtype: "np.dtype[Any]"
    in_order: bool = False
    """Add the elements of a step one after the other, so that all runs get the same bits."""
    partials: Partials | None = None
    """Where the state of the last step is kept."""
    former: Former | None = None

    def __call__(self, session: ForkSession, box: Box) -> None:
        """Read the input of a box piece by piece, reduce and write it."""
        for part, is_continued in self._parts(box):
            self._write(session, part, is_continued=is_continued)

    def _parts(self, box: Box) -> list[tuple[Box, bool]]:
        """Return the parts to compute, and for each if it continues its first step."""
        if self.former is None or self.partials is None:
            return [(box, False)]
        axis, former = self.partials.axis, self.former
        (first, last), ends = box[axis], self.ends[axis]
        origins = former.origins[first:last].copy()
        low, high = max(former.seam[0], int(ends[first])), min(former.seam[1], int(ends[last]))
        if low < high:
            found = replace(former, seam=(low, high)).find_changed(
                self.inputs, self.input_box(box), axis, self.piece
            )
            origins[np.searchsorted(ends, found, "right") - 1 - first] = -1
        has_new = ends[first + 1 : last + 1] > former.length
        parts = []
        for start, stop in runs_of(np.flatnonzero(has_new | (origins < 0))):
            # Only the last former step can have new elements.
            cuts = [start, *np.flatnonzero((origins >= 0)[start + 1 : stop]) + start + 1, stop]
            parts += [
                (replace_axis(box, axis, (first + a, first + b)), bool(origins[a] >= 0))
                for a, b in pairwise(cuts)
            ]
        return parts

    def _write(self, session: ForkSession, box: Box, *, is_continued: bool) -> None:
        state = self.reduction.start(tuple(stop - start for start, stop in box), self.dtype)
        area = self.input_box(box)
        if self.partials is not None and self.former is not None and is_continued:
            axis = self.partials.axis
            known = self.partials.read(box, np.zeros(1, np.intp))
            first = (*(slice(None),) * axis, slice(0, 1))
            assign({name: column[first] for name, column in state.items()}, known)
            area = replace_axis(area, axis, (self.former.length, area[axis][1]))
        for piece in cut(area, self.piece):
            self._add(state, self.inputs.read(piece), box, piece)
        finished = self.reduction.finish(state)
        dtype = self.output.dtype
        if dtype.kind in "iub" and not np.isfinite(finished).all():
            raise InvalidInputError(
                f"a step without values has no {dtype}: choose a dtype of encoding that has NaN"
            )
        array = open_for_writing(session, self.output.path)
        array[slices_of(box)] = finished.astype(dtype)
        if (
            self.partials is not None
            and box[self.partials.axis][1] == self.output.shape[self.partials.axis]
        ):
            last = (*(slice(None),) * self.partials.axis, slice(-1, None))
            place = replace_axis(box, self.partials.axis, (0, 1))
            self.partials.write(session, place, {n: each[last] for n, each in state.items()})

    def input_box(self, box: Box) -> Box:
        """Return the elements of the input in a box of steps."""
        return tuple(
            (int(ends[start]), int(ends[stop]))
            for ends, (start, stop) in zip(self.ends, box, strict=True)
        )

    def _add(self, state: State, values: NDArray[Any], box: Box, piece: Box) -> None:
        """Add a piece of the input to the state of the steps that it is part of."""
        runs = [
            list(_runs(ends, steps, part))
            for ends, steps, part in zip(self.ends, box, piece, strict=True)
        ]
        for run in product(*runs):
            steps = tuple(slice(each.first, each.first + each.count) for each in run)
            part = values[
                tuple(slice(each.start, each.start + each.count * each.length) for each in run)
            ]
            known = {name: column[steps] for name, column in state.items()}
            if self.in_order and self.partials is not None:
                axis = self.partials.axis
                shape = [each.count * each.length for each in run]
                shape[axis : axis + 1] = run[axis].count, run[axis].length
                self.reduction.fold(known, np.moveaxis(part.reshape(shape), axis + 1, 0))
                continue
            split = part.reshape([n for each in run for n in (each.count, each.length)])
            found = self.reduction.collect(split, tuple(range(1, 2 * len(run), 2)))
            assign(known, self.reduction.combine(known, found))


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive steps with equally many elements in a piece."""

    first: int
    """First step, counted from the start of the box."""
    count: int
    start: int
    """First element, counted from the start of the piece."""
    length: int


def _runs(ends: Ends, steps: tuple[int, int], part: tuple[int, int]) -> Iterator[_Run]:
    cuts = ends[steps[0] : steps[1] + 1].clip(*part) - part[0]
    lengths = np.diff(cuts)
    changes = np.flatnonzero(np.diff(lengths, prepend=-1))
    for first, end in zip(changes, np.append(changes[1:], len(lengths)), strict=True):
        if lengths[first]:
            yield _Run(int(first), int(end - first), int(cuts[first]), int(lengths[first]))


@verb(job=Job)
def resample(
    repo: AnyRepository,
    input: str,
    output: str,
    by: Mapping[str, str | int],
    *,
    how: str = "mean",
    chunks: Mapping[str, int] | None = None,
    attrs: Mapping[str, Any] | None = None,
    encoding: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    branch: str = "main",
    authorize: Authorize = (),
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> CommitReport:
    """Reduce an array to coarser steps of time or space, written as one array in one commit.

    Every chunk of the input is read by the task that writes its steps.

    Parameters
    ----------
    input
        Path of the array.
    output
        Path of the output array, in a group whose coordinates are its own.
    by
        Steps of each dimension: a number of elements, or a time such as `1D`, `6h` or `MS` (as in
        `resample` of Xarray: steps start at their label, and those without elements are missing).
    how
        Reduction: mean, sum, min, max, count or std. NaN is skipped.
    chunks
        Chunk lengths of the output by dimension. Default: those of the input.
    attrs
        Attributes of the output. Default: those of the input.
    encoding
        `dtype`, `compressors`, `filters`, `serializer` or `shards` of the output.
    overwrite
        Replace an existing output.

    Returns
    -------
    CommitReport

    Raises
    ------
    AlreadyExistsError
        If there is a node at `output`, unless `overwrite`.
    InvalidInputError
        If a dimension, a step or the reduction is unknown.

    Examples
    --------
    >>> resample(repo, "t2m", "daily/t2m", {"time": "1D"}, how="max")
    >>> resample(repo, "t2m", "coarse/t2m", {"lat": 4, "lon": 4})
    """
    if not by:
        raise InvalidInputError(
            "by is empty: name the steps of a dimension, such as {'time': '1D'}"
        )
    with committing("resample", repo, branch, job, spark, authorize) as run:
        session = run.open_session()
        source = run.repository.readonly_session(snapshot_id=session.snapshot_id)
        found = Inputs(source, (path_of(input),))
        (array,) = found.open()
        written = dict(encoding or {})
        dtype = written.pop("dtype", None)
        written = checked_encoding(written)
        plan = ResamplePlan.of(
            array, by, how, path_of(output), chunks or {}, attrs=attrs, dtype=dtype
        )
        made = plan.output
        if shards := written.pop("shards", None):
            made = replace(made, shards=tuple(shards))
        labels = {dim: each.labels for dim, each in plan.steps.items() if each.labels is not None}
        kept = {str(name): c for name, c in array.coords.items() if c.dims == (name,)}
        create_output(session, made, {**kept, **labels}, written, overwrite=overwrite)
        limit = run.task_bytes(array.nbytes)
        runner = run.choose_runner(is_small=array.nbytes <= limit)
        run.job.expect("resampling", bytes=array.nbytes)
        task = plan.task(found, made)
        boxes = cut(whole(made.shape), made.shards or made.chunks)
        sizes = [count_items(task.input_box(box)) * plan.item_bytes for box in boxes]
        if groups := pack(boxes, sizes, limit):
            write_regions(runner, session, task, groups, "resampling")
        return run.commit(session, message or f"resample {input} to {output}", metadata)


def _refuse_empty(array: DataArray, how: str, steps: Mapping[str, Steps]) -> None:
    """Raise InvalidInputError for steps whose result no integer can be."""
    for dim, each in steps.items():
        if array.dtype.kind != "f" and how in ("min", "max") and not np.diff(each.ends).all():
            raise InvalidInputError(
                f"steps of {dim} without elements have no {how}, which {array.dtype} can't say: "
                "choose longer steps, or how='mean'"
            )
