"""Functions and reductions over arrays, as one commit each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from xarray import DataArray

from frazil.errors import InvalidInputError
from frazil.spark.arrays.blocks import BlockKind, Computation
from frazil.spark.arrays.inputs import Inputs, find_space
from frazil.spark.arrays.measuring import measure_chunks, plan_analyses
from frazil.spark.arrays.one_commit import AnyRepository, running
from frazil.spark.arrays.regions import choose_task_bytes
from frazil.spark.arrays.report import JobReport
from frazil.spark.arrays.runner import RunOn, count_slots
from frazil.spark.arrays.transform_steps import Transforming, Wanted
from frazil.spark.arrays.windows import Boundary, Halo, plan_margins
from frazil.spark.arrays.zarr_arrays import checked_encoding, path_of
from frazil.spark.job import Job


def transform(
    spark: SparkSession | None,
    repo: AnyRepository,
    function: Callable[..., Any] | None = None,
    inputs: Sequence[str] = (),
    output: str = "",
    *,
    blocks: BlockKind = "xarray",
    core_dims: Sequence[str] = (),
    halo: Halo | None = None,
    boundary: Boundary | Mapping[str, Boundary] = "clip",
    reduce: str | None = None,
    over: Sequence[str] | str | None = None,
    groupby: str | None = None,
    template: DataArray | None = None,
    dtype: Any = None,
    chunks: Mapping[str, int] | None = None,
    attrs: Mapping[str, Any] | None = None,
    encoding: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    statistics: bool = False,
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    task_bytes: int | None = None,
    job: Job | None = None,
    run_on: RunOn = "auto",
) -> JobReport:
    """Write what a function makes of arrays, or what they are reduced to, as one array and one commit.

    `function(*blocks)` is called for blocks of all inputs at the same place, as Xarray reads them,
    decoded and with their coordinates, or as plain arrays with `blocks="numpy"`. It is tried on one
    block before anything is written. Along a dimension that it needs whole, or takes away, name it in
    `core_dims`; with a `halo` blocks have neighbours, which are cut off from the result.

    `reduce` is one of mean, sum, min, max, count and std, of what the function gives or of the one
    input, `over` some dimensions, and by `groupby` for each value of a coordinate, or of a component of
    it such as `time.month`. NaN does not count.

    The output has the dimensions, the type and the attributes of `template`, or those that the function
    gave for the first block, and the chunks of the first input, if nothing else is said. With
    `statistics` its chunks are measured in the same commit, as `analyze` does it.
    """
    with running("transform", repo, branch, job) as run:
        session = run.open_session()
        source = run.repository.readonly_session(snapshot_id=session.snapshot_id)
        found = Inputs(source, tuple(map(path_of, inputs)))
        arrays = found.open()
        computation = Computation(
            found, find_space(arrays), function, plan_margins(halo, boundary), blocks,
            tuple(core_dims),
        )  # fmt: skip
        _refuse_contradictions(computation, reduce, over, groupby, template)
        total = sum(array.nbytes for array in arrays)
        limit = task_bytes or choose_task_bytes(total, count_slots(spark))
        runner = run.choose_runner(spark, run_on, is_small=total <= limit)
        run.job.expect("transforming", bytes=total)
        wanted = Wanted(
            path_of(output), template, dtype, chunks or {}, attrs, checked_encoding(encoding),
            overwrite,
        )  # fmt: skip
        steps = Transforming(run, runner, session, computation, arrays, wanted, limit)
        if reduce is None:
            steps.map()
        else:
            steps.reduce(reduce, over, groupby)
        if statistics:
            analyses = plan_analyses(session, [wanted.path], is_strict=True)
            measure_chunks(runner, session, analyses, count_slots(spark), limit)
        return run.commit(session, runner, spark, message or f"transform {output}", metadata)


def _refuse_contradictions(
    computation: Computation,
    reduce: str | None,
    over: object,
    groupby: str | None,
    template: DataArray | None,
) -> None:
    if computation.function is None and len(computation.inputs.paths) != 1:
        raise InvalidInputError("without a function there must be one input")
    if reduce is None and (over is not None or groupby is not None):
        raise InvalidInputError("over and groupby say how to reduce, but reduce is not given")
    if reduce is not None and (computation.core_dims or template is not None):
        raise InvalidInputError("core_dims and template are not for reductions")
    named = {*computation.core_dims, *computation.margins}
    unknown = sorted(named - set(computation.space.dims))
    if unknown:
        raise InvalidInputError(f"the inputs have no dimension {', '.join(unknown)}")
