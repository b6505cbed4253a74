"""Write xarray datasets, or regions through a user function, in tasks."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from xarray import DataArray, Dataset, Variable

from frazil.arguments import verb
from frazil.errors import InvalidInputError
from frazil.maintenance.reachability import pack
from frazil.repository.session import ForkSession, Session
from frazil.spark.job import CommitReport, Job, SparkSession
from frazil.spark.regions import (
    Box,
    count_items,
    cut,
    find_unit,
    grow,
    open_for_writing,
    shift,
    slices_of,
)
from frazil.spark.transaction import (
    AnyRepository,
    RegionT,
    WriteRegion,
    committing,
    write_regions,
)
from frazil.xarray import LazyPart, Region, ZarrWriteModes, write_all_but_lazy


@verb(job=Job)
def write(
    repo: AnyRepository,
    dataset: Dataset | DataArray,
    *,
    branch: str = "main",
    group: str | None = None,
    mode: ZarrWriteModes | None = None,
    append_dim: Hashable | None = None,
    region: Region = None,
    encoding: Mapping[Any, Any] | None = None,
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> CommitReport:
    """Write a dataset to a group as one commit.

    The driver writes metadata, coordinates and values in memory. Tasks write lazy variables along the
    edges of Zarr chunks, whatever their Dask chunks.

    Parameters
    ----------
    dataset
        Dataset or DataArray to write.
    group, mode, append_dim, region, encoding
        As for `to_icechunk`.

    Returns
    -------
    CommitReport

    Raises
    ------
    RebaseFailedError
        If a concurrent commit changed the same chunks.

    Examples
    --------
    >>> write("s3://bucket/weather", dataset, append_dim="time", message="append May")
    """
    with committing("write", repo, branch, job, spark) as run:
        session = run.open_session()
        parts = write_all_but_lazy(
            _with_lazy_on_dask(_with_loaded_coordinates(dataset)), session,
            group=group, mode=mode, append_dim=append_dim, region=region, encoding=encoding,
        )  # fmt: skip
        total = sum(_size(part) for part in parts)
        limit = run.task_bytes(total)
        units = [find_unit(open_for_writing(session, part.path)) for part in parts]
        groups = plan_pieces(parts, units, limit)
        runner = run.choose_runner(is_small=len(groups) < 2)
        if groups:
            run.job.expect("writing", bytes=total)
            write_regions(runner, session, write_piece, groups)
        return run.commit(session, message, metadata)


@dataclass(frozen=True, slots=True)
class Piece:
    """Values that a task computes, and their target."""

    values: Any
    path: str
    box: Box
    bytes: int


def plan_pieces(
    parts: Sequence[LazyPart], units: Sequence[Sequence[int]], most_bytes: int
) -> list[list[Piece]]:
    """Split the values of arrays into pieces of whole chunks, grouped by task."""
    pieces = [
        piece
        for part, unit in zip(parts, units, strict=True)
        for piece in _cut_part(part, unit, most_bytes)
    ]
    return pack(pieces, [piece.bytes for piece in pieces], most_bytes)


def _cut_part(part: LazyPart, unit: Sequence[int], most_bytes: int) -> list[Piece]:
    itemsize = part.source.dtype.itemsize
    shape = [stop for _, stop in part.box]
    # Whole Dask chunks, if they fit, so that none is computed by two tasks.
    goals = [
        -(-size // step) * step for size, step in zip(part.source.chunksize, unit, strict=True)
    ]
    size = grow(unit, shape, most_bytes // itemsize, goals)
    origin = [-start for start, _ in part.box]
    return [
        Piece(
            part.source[slices_of(shift(box, origin))],
            part.path,
            box,
            count_items(box) * itemsize,
        )
        for box in cut(part.box, size)
    ]


def write_piece(session: ForkSession, piece: Piece) -> None:
    """Compute values and write them."""
    array = open_for_writing(session, piece.path)
    array[slices_of(piece.box)] = np.asarray(piece.values.compute(scheduler="synchronous"))


def _size(part: LazyPart) -> int:
    return count_items(part.box) * int(part.source.dtype.itemsize)


def _with_loaded_coordinates(dataset: Dataset | DataArray) -> Dataset | DataArray:
    """Return the dataset with its coordinates loaded."""
    return dataset.assign_coords({name: each.load() for name, each in dataset.coords.items()})


def _with_lazy_on_dask(dataset: Dataset | DataArray) -> Dataset | DataArray:
    """Return the dataset with lazy file-backed variables as Dask arrays, which can be sent in parts."""
    if find_spec("dask") is None:
        return dataset
    if isinstance(dataset, DataArray):
        variable = dataset.variable
        return dataset.chunk(_chunks_in_file(variable)) if _is_in_file(variable) else dataset
    variables = {
        name: each.variable.chunk(_chunks_in_file(each.variable))
        for name, each in dataset.data_vars.items()
        if _is_in_file(each.variable)
    }
    return dataset.assign(variables)


def _is_in_file(variable: Variable) -> bool:
    return not variable._in_memory and variable.chunks is None


def _chunks_in_file(variable: Variable) -> dict[Hashable, Any]:
    preferred = variable.encoding.get("preferred_chunks", {})
    return {dim: preferred.get(dim, "auto") for dim in variable.dims}


@verb(job=Job)
def foreach_region(
    repo: AnyRepository,
    regions: Iterable[RegionT],
    function: WriteRegion[RegionT],
    *,
    branch: str = "main",
    prepare: Callable[[Session], object] | None = None,
    regions_per_task: int = 1,
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> CommitReport:
    """Call `function(session, region)` for each region in tasks and commit all changes at once.

    Each task has its own fork of the session, sees the changes of `prepare`, and may be retried from
    the start. Two tasks must not write the same chunk. If an error is raised, the branch is unchanged.

    Parameters
    ----------
    regions
        Values that the function accepts as region.
    function
        Function that writes one region.
    prepare
        Function called with the session on the driver first, for example to create arrays.
    regions_per_task
        Number of regions per task.
    spark
        Session that runs the tasks. Default: the active one, or a new one.

    Returns
    -------
    CommitReport

    Raises
    ------
    InvalidInputError
        If `regions_per_task` is less than 1.
    OverlappingTasksError
        If two tasks wrote the same chunk.
    RebaseFailedError
        If a concurrent commit changed the same chunks.
    """
    if regions_per_task < 1:
        raise InvalidInputError(
            f"invalid regions_per_task {regions_per_task}: it must be at least 1"
        )
    with committing("foreach_region", repo, branch, job, spark) as run:
        all_regions = list(regions)
        starts = range(0, len(all_regions), regions_per_task)
        groups = [all_regions[start : start + regions_per_task] for start in starts]
        runner = run.choose_runner(is_small=len(groups) <= 1)
        session = run.open_session()
        if prepare is not None:
            prepare(session)
        write_regions(runner, session, function, groups)
        return run.commit(session, message, metadata)
