"""Apply functions and reductions over arrays, as one commit each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xarray import DataArray

from frazil.arguments import named_options, verb
from frazil.errors import InvalidInputError
from frazil.maintenance.reachability import pack
from frazil.repository.session import ForkSession, Session
from frazil.spark.arrays.analyze import measure_chunks, plan_analyses
from frazil.spark.arrays.blocks import (
    BlockKind,
    Computation,
    Grouping,
    Inputs,
    Output,
    Space,
    count_bytes,
    create_output,
    find_groups,
    find_space,
    refuse_type,
)
from frazil.spark.arrays.reduction import (
    BLOCK_BYTES,
    Layout,
    Reducing,
    find_reduction,
    plan_chunks,
    plan_layout,
    plan_reduction,
)
from frazil.spark.job import CommitReport, Job, SparkSession
from frazil.spark.regions import (
    LEAST_TASK_BYTES,
    Boundary,
    Box,
    Halo,
    Shape,
    checked_encoding,
    count_items,
    cut,
    grow,
    open_for_writing,
    path_of,
    plan_margins,
    slices_of,
    whole,
)
from frazil.spark.runtime import Runner
from frazil.spark.transaction import (
    AnyRepository,
    CommitRun,
    committing,
    scratch_arrays,
    write_regions,
)
from frazil.virtual.access import Authorize


@dataclass(frozen=True, slots=True)
class MapBlock:
    """Task that computes and writes one box of the dimensions shared by inputs and output."""

    computation: Computation
    output: Output

    def __call__(self, session: ForkSession, box: Box) -> None:
        """Read, compute, validate and write a block."""
        target = box_in(self.output, self.computation.space, box)
        result = self.computation(box_over(self.computation.space, self.output, box))
        values = self.output.fit(result, [stop - start for start, stop in target])
        open_for_writing(session, self.output.path)[slices_of(target)] = values


def shared_dims(output: Output, space: Space) -> tuple[str, ...]:
    """Return the dimensions shared by inputs and output, along which blocks are split."""
    return tuple(dim for dim in output.dims if dim in space.dims)


def box_over(space: Space, output: Output, box: Box) -> Box:
    """Extend a box of the shared dimensions to the inputs: whole along the others."""
    ends = dict(zip(shared_dims(output, space), box, strict=True))
    return tuple(
        ends.get(dim, (0, size)) for dim, size in zip(space.dims, space.shape, strict=True)
    )


def box_in(output: Output, space: Space, box: Box) -> Box:
    """Extend a box of the shared dimensions to the output: whole along the others."""
    ends = dict(zip(shared_dims(output, space), box, strict=True))
    return tuple(
        ends.get(dim, (0, size)) for dim, size in zip(output.dims, output.shape, strict=True)
    )


def plan_blocks(
    output: Output,
    space: Space,
    core_dims: Sequence[str],
    bytes_per_item: int,
    most_bytes: int,
) -> list[Box]:
    """Plan boxes of whole output chunks, whole along core dimensions, within the memory limit."""
    shared = space.only(shared_dims(output, space))
    unit = [
        max(space.size(dim), 1) if dim in core_dims else output.unit[dim] for dim in shared.dims
    ]
    goals = [-(-c // u) * u for c, u in zip(shared.chunks, unit, strict=True)]
    size = grow(unit, shared.shape, most_bytes // max(bytes_per_item, 1), goals)
    return cut(whole(shared.shape), size)


def describe_output(
    path: str,
    sample: DataArray,
    computation: Computation,
    template: DataArray | None,
    chunks: Mapping[str, int],
    attrs: Mapping[str, Any] | None,
) -> Output:
    """Describe the output by its template, or else by the result of one block."""
    space = computation.space
    like = sample if template is None else template
    dims = tuple(str(dim) for dim in like.dims)
    gone = [dim for dim in space.dims if dim not in dims and dim not in computation.core_dims]
    if gone:
        raise InvalidInputError(
            f"the function takes {', '.join(gone)} away: name it in core_dims, so that blocks are "
            "whole along it"
        )
    shape = tuple(
        space.size(dim) if dim in space.dims and template is None else like.sizes[dim]
        for dim in dims
    )
    _refuse_other_sizes(space, dims, shape)
    default = {dim: space.chunk(dim) for dim in dims if dim in space.dims}
    default.update(_template_chunks(template))
    wanted = {**default, **chunks}
    sizes = tuple(
        max(min(n if wanted.get(d, -1) == -1 else wanted[d], n), 1)
        for d, n in zip(dims, shape, strict=True)
    )
    return Output(path, dims, shape, sizes, like.dtype, like.attrs if attrs is None else attrs)


def _refuse_other_sizes(space: Space, dims: tuple[str, ...], shape: tuple[int, ...]) -> None:
    for dim, size in zip(dims, shape, strict=True):
        if dim in space.dims and space.size(dim) != size:
            raise InvalidInputError(
                f"{dim} has {space.size(dim)} elements in the inputs and {size} in the template"
            )


def _template_chunks(template: DataArray | None) -> dict[str, int]:
    if template is None:
        return {}
    if template.chunks is not None:
        sizes: Any = [each[0] for each in template.chunks]
    else:
        sizes = template.encoding.get("chunks") or ()
    return {str(dim): int(size) for dim, size in zip(template.dims, sizes, strict=False)}


@named_options
@dataclass(frozen=True, slots=True)
class BlockOptions:
    """Blocks that the function of a transform gets.

    Parameters
    ----------
    kind
        `xarray` for DataArrays, decoded and with their coordinates, or `numpy` for arrays.
    core_dims
        Dimensions that the function needs whole or removes.
    halo
        Number of neighbouring elements of a block by dimension, which are trimmed from the result.
    boundary
        Values of the halo beyond the ends of a dimension: `clip`, `wrap` or `nearest`.
    """

    kind: BlockKind = "xarray"
    core_dims: Sequence[str] = ()
    halo: Halo | None = None
    boundary: Boundary | Mapping[str, Boundary] = "clip"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Output as the user requests it."""

    path: str
    template: DataArray | None
    dtype: Any
    chunks: Mapping[str, int]
    attrs: Mapping[str, Any] | None
    encoding: Mapping[str, Any]
    overwrite: bool


@dataclass(frozen=True, slots=True)
class Transforming:
    """Execution of a transform."""

    run: CommitRun
    runner: Runner
    session: Session
    computation: Computation
    arrays: Sequence[DataArray]
    wanted: Wanted
    task_bytes: int

    def map(self) -> None:
        """Write the result of the function for every block."""
        wanted, space = self.wanted, self.computation.space
        sample = self._sample()
        output = describe_output(
            wanted.path, sample, self.computation, wanted.template, wanted.chunks, wanted.attrs
        )
        output = self._typed(output)
        output.fit(sample, self._sample_shape(output))
        self._create(output, {})
        item = self._item_bytes(output)
        boxes = plan_blocks(
            output, space, self.computation.core_dims, item, min(LEAST_TASK_BYTES, self.task_bytes)
        )
        groups = pack(boxes, [count_items(box) * item for box in boxes], self.task_bytes)
        if groups:
            block = MapBlock(self.computation, output)
            write_regions(self.runner, self.session, block, groups, "transforming")

    def reduce(self, name: str, over: Sequence[str] | str | None, groupby: str | None) -> None:
        """Write the reduction over some dimensions."""
        wanted, space = self.wanted, self.computation.space
        sample = self._sample()
        if set(sample.dims) != set(space.dims):
            raise InvalidInputError(
                f"the function gave {sample.dims}, where a reduction needs all of {space.dims}"
            )
        reduction = find_reduction(name, sample.dtype)
        grouping = None if groupby is None else find_groups(self.arrays[0], groupby)
        layout = plan_layout(space, over, grouping)
        state = sum(each.itemsize for each in reduction.columns(sample.dtype).values())
        unit = plan_chunks(layout, wanted.chunks, state)
        result = reduction.result_type(sample.dtype)
        output = self._typed(self._reduced_output(layout, unit, grouping, result))
        self._create(output, {} if grouping is None else {grouping.name: grouping.coordinate()})
        item = max(count_bytes(self.arrays, dict.fromkeys(space.dims, 1)), 1)
        owned = [output.unit[dim] for dim in layout.kept]
        plan = plan_reduction(layout, owned, item, state, self.task_bytes, BLOCK_BYTES)
        reducing = Reducing(
            self.runner, self.computation, reduction, layout, plan, sample.dtype, output,
            self.task_bytes, item,
        )  # fmt: skip
        self.run.notes.append(f"{len(plan.boxes)} boxes, each in {len(plan.pieces)} pieces")
        with scratch_arrays(self.run.open_session(), self.run.job.id) as scratch:
            reducing.run(self.session, scratch)

    def _reduced_output(
        self, layout: Layout, unit: Shape, grouping: Grouping | None, dtype: "np.dtype[Any]"
    ) -> Output:
        wanted, count = self.wanted, layout.count_groups
        name = "" if grouping is None else grouping.name
        group_chunk = wanted.chunks.get(name, -1)
        return Output(
            wanted.path,
            layout.with_groups(layout.kept, name),
            layout.with_groups(layout.space.only(layout.kept).shape, count),
            layout.with_groups(unit, count if group_chunk == -1 else min(group_chunk, count)),
            dtype,
            self.arrays[0].attrs if wanted.attrs is None else wanted.attrs,
        )

    def _sample(self) -> DataArray:
        """Compute the first block."""
        space, core = self.computation.space, self.computation.core_dims
        return self.computation(
            tuple(
                (0, size if dim in core else min(chunk, size))
                for dim, size, chunk in zip(space.dims, space.shape, space.chunks, strict=True)
            )
        )

    def _sample_shape(self, output: Output) -> list[int]:
        space, core = self.computation.space, self.computation.core_dims
        return [
            min(space.chunk(dim), size) if dim in space.dims and dim not in core else size
            for dim, size in zip(output.dims, output.shape, strict=True)
        ]

    def _typed(self, output: Output) -> Output:
        dtype = output.dtype if self.wanted.dtype is None else np.dtype(self.wanted.dtype)
        refuse_type(dtype)
        shards = self.wanted.encoding.get("shards")
        return replace(output, dtype=dtype, shards=None if shards is None else tuple(shards))

    def _create(self, output: Output, labels: Mapping[str, DataArray]) -> None:
        known = {
            str(name): coordinate
            for array in (*self.arrays, self.wanted.template)
            if array is not None
            for name, coordinate in array.coords.items()
            if coordinate.dims == (name,)
        }
        encoding = {name: each for name, each in self.wanted.encoding.items() if name != "shards"}
        create_output(
            self.session, output, {**known, **labels}, encoding, overwrite=self.wanted.overwrite
        )

    def _item_bytes(self, output: Output) -> int:
        """Return the bytes of inputs and output per element of the split dimensions."""
        space, core = self.computation.space, self.computation.core_dims
        cut_dims = {dim for dim in output.dims if dim in space.dims and dim not in core}
        sizes = {
            dim: 1 if dim in cut_dims else size
            for dim, size in zip(space.dims, space.shape, strict=True)
        }
        new = [n for dim, n in zip(output.dims, output.shape, strict=True) if dim not in cut_dims]
        return count_bytes(self.arrays, sizes) + output.dtype.itemsize * int(np.prod(new))


@verb(job=Job, blocks=BlockOptions)
def transform(
    repo: AnyRepository,
    inputs: Sequence[str],
    output: str,
    function: Callable[..., Any] | None = None,
    *,
    blocks: BlockKind | BlockOptions = "xarray",
    reduce: str | None = None,
    over: Sequence[str] | str | None = None,
    groupby: str | None = None,
    template: DataArray | None = None,
    chunks: Mapping[str, int] | None = None,
    attrs: Mapping[str, Any] | None = None,
    encoding: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    statistics: bool = False,
    branch: str = "main",
    authorize: Authorize = (),
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> CommitReport:
    """Apply a function to arrays, or reduce them, and write the result as one array in one commit.

    `function(*blocks)` is called with aligned blocks of all inputs. It is tried on one block before
    anything is written.

    Parameters
    ----------
    inputs
        Paths of the input arrays.
    output
        Path of the output array.
    function
        Function of blocks. May be None with a single input.
    blocks
        Type of the blocks, `xarray` or `numpy`, or `BlockOptions` with their halo and core dimensions.
    reduce
        Reduction of the result or of the single input: mean, sum, min, max, count or std. NaN is
        skipped.
    over
        Dimensions to reduce.
    groupby
        Coordinate, or a component of it such as `time.month`, whose values define groups to reduce.
    template
        DataArray with the dimensions, type and attributes of the output. Default: those of the first
        block's result.
    chunks
        Chunk lengths of the output by dimension. Default: those of the template or the first input.
    attrs
        Attributes of the output.
    encoding
        `dtype`, `compressors`, `filters`, `serializer` or `shards` of the output.
    overwrite
        Replace an existing output.
    statistics
        Compute statistics of the output in the same commit, as `analyze` does.

    Returns
    -------
    CommitReport

    Raises
    ------
    AlreadyExistsError
        If there is a node at `output`, unless `overwrite`.
    InvalidInputError
        If options contradict each other, the inputs are not aligned, or a result has the wrong shape
        or type.

    Examples
    --------
    >>> transform(repo, ["t2m"], "t2m_celsius", lambda kelvin: kelvin - 273.15)
    >>> transform(repo, ["t2m"], "t2m_monthly", reduce="mean", over="time", groupby="time.month")
    """
    own = blocks if isinstance(blocks, BlockOptions) else BlockOptions(blocks)
    with committing("transform", repo, branch, job, spark, authorize) as run:
        session = run.open_session()
        source = run.repository.readonly_session(snapshot_id=session.snapshot_id)
        found = Inputs(source, tuple(map(path_of, inputs)))
        arrays = found.open()
        computation = Computation(
            found, find_space(arrays), function, plan_margins(own.halo, own.boundary), own.kind,
            tuple(own.core_dims),
        )  # fmt: skip
        _refuse_contradictions(computation, reduce, over, groupby, template)
        total = sum(array.nbytes for array in arrays)
        limit = run.task_bytes(total)
        runner = run.choose_runner(is_small=total <= limit)
        run.job.expect("transforming", bytes=total)
        written = dict(encoding or {})
        dtype = written.pop("dtype", None)
        wanted = Wanted(
            path_of(output), template, dtype, chunks or {}, attrs, checked_encoding(written),
            overwrite,
        )  # fmt: skip
        steps = Transforming(run, runner, session, computation, arrays, wanted, limit)
        if reduce is None:
            steps.map()
        else:
            steps.reduce(reduce, over, groupby)
        if statistics:
            analyses = plan_analyses(session, [wanted.path], is_strict=True)
            measure_chunks(runner, session, analyses, limit)
        return run.commit(session, message or f"transform {output}", metadata)


def _refuse_contradictions(
    computation: Computation,
    reduce: str | None,
    over: object,
    groupby: str | None,
    template: DataArray | None,
) -> None:
    if computation.function is None and len(computation.inputs.paths) != 1:
        raise InvalidInputError("without a function there must be exactly one input")
    if reduce is None and (over is not None or groupby is not None):
        raise InvalidInputError("over and groupby say how to reduce, but reduce is not given")
    if reduce is not None and (computation.core_dims or template is not None):
        raise InvalidInputError("core_dims and template can't be used with reduce: leave them out")
    named = {*computation.core_dims, *computation.margins}
    unknown = sorted(named - set(computation.space.dims))
    if unknown:
        raise InvalidInputError(f"the inputs have no dimension {', '.join(unknown)}")
