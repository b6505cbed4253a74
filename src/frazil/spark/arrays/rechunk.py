"""Change the chunks of arrays, with bounded memory in every task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, prod
from operator import itemgetter
from typing import Any

import zarr

from frazil.arguments import verb
from frazil.errors import InvalidInputError
from frazil.maintenance.reachability import pack
from frazil.repository.session import ForkSession, Session
from frazil.spark.job import CommitReport, Job, SparkSession
from frazil.spark.regions import (
    AnyArray,
    Box,
    Chunks,
    Shape,
    balance,
    byte_count,
    count_items,
    create_like,
    cut,
    find_unit,
    grow,
    open_array,
    open_for_writing,
    path_of,
    refuse_existing,
    resolve_chunks,
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
from frazil.urls import parse_bytes
from frazil.virtual.access import Authorize


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass that copies an array box by box."""

    box: Shape
    """Shape of the box that a task holds at a time."""
    target_chunks: Shape
    """Target chunks; every box consists of whole ones."""


@dataclass(frozen=True, slots=True)
class RechunkPlan:
    """Plan of one pass, or of two passes with an intermediate array."""

    passes: tuple[Pass, ...]
    cost: Fraction
    """Bytes read and written, as a multiple of the size of the array."""

    @property
    def is_direct(self) -> bool:
        """True if no intermediate array is needed."""
        return len(self.passes) == 1


def plan_rechunk(
    shape: Sequence[int],
    source: Sequence[int],
    target: Sequence[int],
    itemsize: int,
    max_memory: int,
    task_bytes: int | None = None,
) -> RechunkPlan:
    """Return the cheaper of a direct and a staged plan, whose boxes take half of the memory.

    The other half is for the chunks that are read or written meanwhile. In two passes smaller boxes
    cost nothing: they are limited by `task_bytes`, if given. Raises InvalidInputError if a single
    chunk takes more than half of the memory.
    """
    most = max_memory // 2 // max(itemsize, 1)
    fair = most if task_bytes is None else min(most, task_bytes // max(itemsize, 1))
    for name, chunks in (("source", source), ("target", target)):
        _refuse_large(name, tuple(map(min, chunks, shape)), itemsize, max_memory, most)
    plans = [_plan_direct(shape, source, target, most), _plan_staged(shape, source, target, fair)]
    return min(plans, key=lambda plan: plan.cost)


def _plan_direct(
    shape: Sequence[int], source: Sequence[int], target: Sequence[int], most: int
) -> RechunkPlan:
    common = [min(lcm(a, b), n) for a, b, n in zip(source, target, shape, strict=True)]
    box = grow(target, shape, most, common)
    boxes = (balance(box, target, shape), box)
    cost, box = min(((_reading(shape, source, each), each) for each in boxes), key=itemgetter(0))
    return RechunkPlan((Pass(box, tuple(target)),), cost + 1)


def _plan_staged(
    shape: Sequence[int], source: Sequence[int], target: Sequence[int], most: int
) -> RechunkPlan:
    write = balance(grow(target, shape, most, _up_to(source, target, shape)), target, shape)
    read = balance(grow(source, shape, most, _up_to(write, source, shape)), source, shape)
    between = tuple(map(min, read, write))
    read = tuple(
        size if size == length else size - size % step
        for size, step, length in zip(read, between, shape, strict=True)
    )
    cost = _reading(shape, source, read) + 1 + _reading(shape, between, write) + 1
    return RechunkPlan((Pass(read, between), Pass(write, tuple(target))), cost)


def _up_to(goal: Sequence[int], unit: Sequence[int], shape: Sequence[int]) -> list[int]:
    """Round the goal up to whole units, at most the length of the array."""
    return [min(-(-g // u) * u, n) for g, u, n in zip(goal, unit, shape, strict=True)]


def _reading(shape: Sequence[int], chunks: Sequence[int], box: Sequence[int]) -> Fraction:
    """Return the elements read if every box reads all chunks it overlaps, relative to the array."""
    return prod(
        (_reading_along(n, c, b) for n, c, b in zip(shape, chunks, box, strict=True)),
        start=Fraction(1),
    )


def _reading_along(length: int, chunk: int, box: int) -> Fraction:
    if length == 0 or box % chunk == 0 or box >= length:
        return Fraction(1)
    touched = 0
    for start in range(0, length, box):
        stop = min(start + box, length)
        touched += min(-(-stop // chunk) * chunk, length) - start // chunk * chunk
    return Fraction(touched, length)


def _refuse_large(
    name: str, chunks: Sequence[int], itemsize: int, max_memory: int, most: int
) -> None:
    if prod(chunks) > most:
        raise InvalidInputError(
            f"a chunk of the {name}, {'x'.join(map(str, chunks))}, takes {prod(chunks) * itemsize} "
            f"bytes, which is more than half of max_memory ({max_memory} bytes)"
        )


@verb(job=Job)
def rechunk(
    repo: AnyRepository,
    array: str,
    chunks: Chunks,
    *,
    output: str | None = None,
    max_memory: int | str = "512MB",
    encoding: Mapping[str, Any] | None = None,
    branch: str = "main",
    authorize: Authorize = (),
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> CommitReport:
    """Change the chunks of an array, or write it with other chunks to another path, as one commit.

    Values, attributes and fill value stay as they are. If a single pass would read chunks too often,
    the data goes through a temporary array, which is deleted at the end. Virtual chunks become native
    ones.

    Parameters
    ----------
    array
        Path of the array.
    chunks
        New chunk lengths by dimension or in the order of the axes; -1 for the whole axis.
    output
        Path to write to. Default: replace the array.
    max_memory
        Maximum memory of a task.
    encoding
        New `compressors`, `filters`, `serializer` or `shards`. Default: those of the array.

    Returns
    -------
    CommitReport

    Raises
    ------
    AlreadyExistsError
        If there is a node at `output`.
    InvalidInputError
        If the chunks or the encoding are invalid, or a chunk takes more than half of `max_memory`.
    NodeNotFoundError
        If there is no node at `array`.

    Examples
    --------
    >>> rechunk("s3://bucket/weather", "t2m", {"time": -1, "lat": 20, "lon": 20})
    """
    with committing("rechunk", repo, branch, job, spark, authorize) as run:
        session = run.open_session()
        source = run.repository.readonly_session(snapshot_id=session.snapshot_id)
        path = path_of(array)
        target_path = path if output is None else path_of(output)
        original = open_array(source, path)
        if target_path != path:
            refuse_existing(session, target_path)
        target = create_like(
            session, target_path, original, resolve_chunks(original, chunks), encoding,
            overwrite=target_path == path,
        )  # fmt: skip
        memory = parse_bytes(max_memory)
        total = byte_count(original.shape, _itemsize(original))
        limit = run.task_bytes(total)
        plan = plan_arrays(original, target, memory, limit)
        runner = run.choose_runner(is_small=total <= limit)
        run.notes.append(_describe(plan))
        run.job.expect("rechunking", bytes=total)
        copying = Copying(runner, source, path, original, limit, memory)
        copying.follow(plan, run, session, target_path)
        return run.commit(session, message or f"rechunk {path}", metadata)


def plan_arrays(
    source: AnyArray, target: AnyArray, max_memory: int, task_bytes: int
) -> RechunkPlan:
    """Plan the copy of an array to another of the same shape."""
    return plan_rechunk(
        source.shape,
        find_unit(source),
        find_unit(target),
        _itemsize(source),
        max_memory,
        task_bytes,
    )


@dataclass(frozen=True, slots=True)
class Copying:
    """Copy of an array, box by box."""

    runner: Runner
    source: Session
    path: str
    array: AnyArray
    task_bytes: int
    max_memory: int

    @property
    def is_local(self) -> bool:
        """True if chunks are files on this machine."""
        return self.source.state.assets.storage.is_local

    def reading(self, source: Session, path: str) -> "Copying":
        """Return a copy from another array, with the same limits."""
        array = open_array(source, path_of(path))
        return Copying(self.runner, source, path, array, self.task_bytes, self.max_memory)

    def follow(self, plan: RechunkPlan, run: CommitRun, session: Session, path: str) -> None:
        """Copy the whole array to an array of a session, in one pass or in two."""
        if plan.is_direct:
            self.run(session, path, plan.passes[0])
            return
        with scratch_arrays(run.open_session(), run.job.id) as scratch:
            first, second = plan.passes
            between = scratch.create(
                "between" + path.replace("/", "-"),
                shape=self.array.shape,
                dtype=self.array.metadata.dtype,
                chunks=first.target_chunks,
                fill_value=self.array.fill_value,
                # Writing uncompressed to a disk is faster than compressing.
                compressors=None if self.is_local else "auto",
            )
            self.run(scratch.session, between, first, lasting=False)
            self.reading(scratch.freeze(), between).run(session, path, second)

    def run(self, session: Session, path: str, how: Pass, *, lasting: bool = True) -> None:
        """Copy the whole array to an array of a session."""
        itemsize = _itemsize(self.array)
        boxes = cut(whole(self.array.shape), how.box)
        sizes = [count_items(box) * itemsize for box in boxes]
        largest = max(byte_count(c, itemsize) for c in (find_unit(self.array), how.target_chunks))
        copy = CopyBox(self.source, self.path, path, self._concurrency(largest))
        groups = pack(boxes, sizes, self.task_bytes)
        if groups:
            write_regions(self.runner, session, copy, groups, "rechunking", lasting=lasting)

    def _concurrency(self, chunk_bytes: int) -> int:
        """Return how many chunks fit at once in the half of the memory that boxes leave."""
        return max(1, min(16, self.max_memory // 2 // max(chunk_bytes, 1)))


@dataclass(frozen=True, slots=True)
class CopyBox:
    """Task that copies one box of elements from one array to another."""

    source: Session
    source_path: str
    target_path: str
    concurrency: int

    def __call__(self, session: ForkSession, box: Box) -> None:
        """Read and write the box, with at most `concurrency` chunks at once."""
        with zarr.config.set({"async.concurrency": self.concurrency}):
            values = open_array(self.source, path_of(self.source_path))[slices_of(box)]
            open_for_writing(session, self.target_path)[slices_of(box)] = values


def _itemsize(array: AnyArray) -> int:
    return int(array.dtype.itemsize)


def _describe(plan: RechunkPlan) -> str:
    if plan.is_direct:
        return f"in one pass, by boxes of {plan.passes[0].box}"
    first, second = plan.passes
    return (
        f"in two passes, by boxes of {first.box} and {second.box}, "
        f"over chunks of {first.target_chunks}"
    )
