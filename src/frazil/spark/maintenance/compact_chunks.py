"""Pack many small chunks into few larger objects, as one commit."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from frazil.arguments import verb
from frazil.errors import IcechunkError
from frazil.format.ids import ChunkId
from frazil.format.manifest import ChunkTable
from frazil.maintenance.reachability import distinct, pack
from frazil.protocols.assets import Assets
from frazil.repository.session import ForkSession
from frazil.spark.arrays.materialize import arrays_below
from frazil.spark.job import CompactReport, Job, SparkSession
from frazil.spark.maintenance.compact_ranges import (
    TASK_REFERENCES,
    ArrayRange,
    Keys,
    Numbers,
    Pieces,
    ReadCost,
    Sizes,
    count_distinct,
    count_references,
    cut,
    find_small,
    group,
    number_rows,
    plan_ranges,
    read_natives,
    weigh,
    words_of,
)
from frazil.spark.regions import choose_task_bytes, path_of
from frazil.spark.runtime import Runner
from frazil.spark.transaction import AnyRepository, committing, write_regions
from frazil.storage.interface import Buffer, ByteRange
from frazil.urls import parse_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """Pieces that were copied already, and their new locations."""

    keys: Keys
    """Sorted."""
    chunk_id: NDArray[np.uint8]
    offset: NDArray[np.uint64]

    @classmethod
    def nothing(cls, id_size: int) -> Self:
        """Return a value without pieces."""
        pieces = Pieces.empty(id_size)
        return cls(pieces.keys(), pieces.chunk_id, pieces.offset)

    def find(self, pieces: Pieces) -> Numbers:
        """Return the row of each piece, or -1."""
        if not len(self.keys) or not len(pieces):
            return np.full(len(pieces), -1, np.int64)
        wanted = pieces.keys()
        rows = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[rows] == wanted, rows, -1)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Selection rules for packing: sizes, shared objects and moved pieces."""

    sizes: Sizes
    shared_ids: Keys
    """Ids of objects used by more than one array range, sorted."""
    moved: Moved

    @classmethod
    def of(cls, sizes: Sizes, id_size: int) -> Self:
        """Return the rules for array ranges that share no objects."""
        return cls(sizes, Pieces.empty(id_size).ids(), Moved.nothing(id_size))


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Native references of an array range, and those that will change."""

    table: ChunkTable
    number: Numbers
    """Number of the piece of each reference."""
    pieces: Pieces
    packed: Numbers
    """Numbers of the pieces to pack, in order."""
    moved: Numbers
    """Row in `Moved` of each piece, or -1."""

    @property
    def small(self) -> Pieces:
        """Pieces to pack."""
        return self.pieces.take(self.packed)

    def rows_of(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Return the references to these pieces, and for each the index of its piece in `numbers`."""
        place = np.full(len(self.pieces), -1, np.int64)
        place[numbers] = np.arange(len(numbers))
        which = place[self.number]
        rows = np.flatnonzero(which >= 0)
        return rows, which[rows]


def select_pieces(table: ChunkTable, choice: Choice) -> Selection:
    """Select the pieces of an array range to pack."""
    pieces, number = Pieces.of(table.chunk_id, table.offset, table.length).unique()
    is_small = find_small(pieces, choice.sizes)
    if len(choice.shared_ids):
        is_small &= ~np.isin(pieces.ids(), choice.shared_ids)
    return Selection(table, number, pieces, np.flatnonzero(is_small), choice.moved.find(pieces))


Marks = NDArray[Any]
"""Structured array: `id`, `offset`, `length`, number of the `array_range`, `rank` in it."""

MARKS_TOGETHER = 1_000_000
"""Approximate number of marks compared by one task."""


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """Objects used by several array ranges, and the pieces of those that are small."""

    ids: Keys
    """Ids of all shared objects, sorted; packing of a single array range skips them."""
    small: Pieces
    """In the order of the array ranges."""
    places: NDArray[np.uint32]
    """One row per small piece: its first array range and its rank there."""
    left: frozenset[int] = frozenset()
    """Array ranges that share too many pieces with others to be compared."""

    @classmethod
    def nothing(cls, id_size: int) -> Self:
        """Return a value without shared objects."""
        pieces = Pieces.empty(id_size)
        return cls(pieces.ids(), pieces, np.empty((0, 2), np.uint32))


def mark_type(id_size: int) -> np.dtype[Any]:
    """Return the dtype of marks."""
    return np.dtype(
        [("id", f"S{id_size}"), ("offset", "<u8"), ("length", "<u8"), ("array_range", "<u4"),
         ("rank", "<u4")]
    )  # fmt: skip


def make_marks(found: Sequence[tuple[int, Pieces]], id_size: int) -> Marks:
    """Return the marks of the pieces of numbered array ranges, sorted by id."""
    marks = np.empty(sum(len(pieces) for _, pieces in found), mark_type(id_size))
    at = 0
    for number, pieces in found:
        part = marks[at : at + len(pieces)]
        part["id"], part["offset"], part["length"] = pieces.ids(), pieces.offset, pieces.length
        part["array_range"], part["rank"] = number, np.arange(len(pieces))
        at += len(pieces)
    return marks[np.lexsort(words_of(_ids_of(marks))[::-1])]


def find_shared(marks: Marks, sizes: Sizes, most: int | None = None) -> Shared:
    """Return the objects that have marks from more than one array range.

    If these have more than `most` small pieces, return only the array ranges they are in.
    """
    ids = words_of(_ids_of(marks))
    order = np.lexsort((marks["rank"], marks["array_range"], *reversed(ids)))
    object_number = number_rows([word[order] for word in ids])[1]
    array_ranges = marks["array_range"][order]
    first = np.flatnonzero(np.diff(object_number, prepend=-1))
    last = np.append(first, len(marks))[1:] - 1
    met = marks[order[(array_ranges[first] != array_ranges[last])[object_number]]]
    pieces, numbers = _pieces_of(met).unique()
    is_small = pieces.object_sizes() < sizes.smaller_than
    if most is not None and int(is_small.sum()) > most:
        nothing = Shared.nothing(marks.dtype["id"].itemsize)
        return replace(nothing, left=frozenset(met["array_range"].tolist()))
    firsts = np.unique(numbers, return_index=True)[1]
    places = np.stack([met["array_range"][firsts], met["rank"][firsts]], axis=1)
    return _in_order(np.unique(met["id"]), pieces.take(is_small), places[is_small], frozenset())


def unite(parts: Sequence[Shared]) -> Shared:
    """Merge the results of several id ranges."""
    return _in_order(
        np.sort(np.concatenate([part.ids for part in parts])),
        Pieces.of(*(np.concatenate([getattr(part.small, name) for part in parts])
                    for name in ("chunk_id", "offset", "length"))),
        np.concatenate([part.places for part in parts]),
        frozenset().union(*(part.left for part in parts)),
    )  # fmt: skip


def _in_order(ids: Keys, small: Pieces, places: NDArray[np.uint32], left: frozenset[int]) -> Shared:
    order = np.lexsort((places[:, 1], places[:, 0]))
    return Shared(ids, small.take(order), places[order], left)


def _pieces_of(marks: Marks) -> Pieces:
    columns = (marks[name].astype(np.uint64) for name in ("offset", "length"))
    return Pieces.of(_ids_of(marks), *columns)


def _ids_of(marks: Marks) -> NDArray[np.uint8]:
    size = marks.dtype["id"].itemsize
    return np.ascontiguousarray(marks["id"]).view(np.uint8).reshape(-1, size)


# Through the storage


@dataclass(frozen=True, slots=True)
class LeftMarks:
    """Marks written to an unreferenced object, and the position of each id range in it."""

    chunk_id: ChunkId
    edges: tuple[int, ...]


def leave_marks(assets: Assets, marks: Marks, ranges: int) -> LeftMarks:
    """Write marks such that they can be read by id range."""
    heads = words_of(_ids_of(marks))[0] >> np.uint64(32)
    of_range = heads * np.uint64(ranges) >> np.uint64(32)
    edges = np.searchsorted(of_range, np.arange(ranges + 1, dtype=np.uint64))
    return LeftMarks(assets.write_chunk(marks.tobytes()), tuple(edges.tolist()))


@dataclass(frozen=True, slots=True)
class FindShared:
    """Task that finds the shared objects of one id range."""

    assets: Assets
    left: tuple[LeftMarks, ...]
    sizes: Sizes
    id_size: int
    most: int

    def __call__(self, number: int) -> Shared:
        """Return the shared objects in the marks of the id range."""
        kind = mark_type(self.id_size)
        parts = [np.empty(0, kind)]
        for each in self.left:
            start, stop = each.edges[number], each.edges[number + 1]
            if start < stop:
                ends = start * kind.itemsize, stop * kind.itemsize
                parts.append(np.frombuffer(self.assets.read_chunk(each.chunk_id, *ends), kind))
        return find_shared(np.concatenate(parts), self.sizes, self.most)


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive small pieces of an array range that become one object."""

    start: int
    stop: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Looked:
    """Plan for one array range."""

    spans: tuple[Span, ...]
    chunks: int
    """Number of references that change."""
    objects: int
    """Number of objects that hold these pieces now."""
    follows: bool
    """True if some references point to moved pieces."""

    def __bool__(self) -> bool:
        return bool(self.spans or self.follows)


def look(selection: Selection, sizes: Sizes) -> Looked:
    """Plan the packing of an array range."""
    small = selection.small
    lengths = small.length.astype(np.int64)
    spans = tuple(
        Span(start, stop, int(lengths[start:stop].sum())) for start, stop in cut(small, sizes)
    )
    follows = int(np.sum(selection.moved[selection.number] >= 0))
    packed = len(selection.rows_of(selection.packed)[0]) if spans else 0
    objects = count_distinct(small.object) if spans else 0
    return Looked(spans, packed + follows, objects, follows > 0)


@dataclass(frozen=True, slots=True)
class Looks:
    """Plans of the array ranges of one task, and their marks."""

    looked: tuple[Looked, ...]
    marks: Marks | LeftMarks | None


@dataclass(frozen=True, slots=True)
class LookAt:
    """Task that plans the packing of numbered array ranges."""

    assets: Assets
    choice: Choice
    id_size: int
    ranges: int
    """Number of id ranges of marks written to the storage; 0 to return the marks."""
    wants_marks: bool

    def __call__(self, array_ranges: Sequence[tuple[int, ArrayRange]]) -> Looks:
        """Return the plans, and marks of all pieces that may be small."""
        looked, found = [], []
        for number, array_range in array_ranges:
            selection = select_pieces(read_natives(self.assets, array_range), self.choice)
            looked.append(look(selection, self.choice.sizes))
            if self.wants_marks:
                is_short = selection.pieces.length < self.choice.sizes.smaller_than
                found.append((number, selection.pieces.take(is_short)))
        return Looks(tuple(looked), self._mark(found) if self.wants_marks else None)

    def _mark(self, found: Sequence[tuple[int, Pieces]]) -> Marks | LeftMarks:
        marks = make_marks(found, self.id_size)
        if not self.ranges:
            return marks
        left = leave_marks(self.assets, marks, self.ranges)
        self.assets.storage.flush()
        return left


_READ_AT_ONCE = 256
"""Number of pieces requested at once."""


def copy_pieces(assets: Assets, pieces: Pieces) -> ChunkId:
    """Write pieces one after the other as one object, and return its id."""
    data = bytearray(pieces.bytes)
    at = 0
    for start in range(0, len(pieces), _READ_AT_ONCE):
        for piece in _read(assets, pieces.take(slice(start, start + _READ_AT_ONCE))):
            data[at : at + len(piece)] = piece
            at += len(piece)
    return assets.write_chunk(data)


def _read(assets: Assets, pieces: Pieces) -> Sequence[Buffer]:
    ids = [ChunkId(each.tobytes()) for each in pieces.chunk_id]
    ends = zip(pieces.offset.tolist(), (pieces.offset + pieces.length).tolist(), strict=True)
    keys = map(assets.layout.chunk_key, ids)
    return assets.storage.get_many(
        [(key, ByteRange(*each)) for key, each in zip(keys, ends, strict=True)]
    )


@dataclass(frozen=True, slots=True)
class CopyPieces:
    """Task that packs pieces into new objects."""

    assets: Assets

    def __call__(self, objects: Sequence[Pieces]) -> list[ChunkId]:
        """Return the id of each new object."""
        ids = [copy_pieces(self.assets, pieces) for pieces in objects]
        self.assets.storage.flush()
        return ids


def place(ids: Sequence[ChunkId], objects: Sequence[Pieces]) -> Moved:
    """Return the new locations of pieces packed into these objects."""
    keys = np.concatenate([pieces.keys() for pieces in objects])
    chunk_id = np.concatenate([_repeat(id, len(p)) for id, p in zip(ids, objects, strict=True)])
    offset = np.concatenate([starts(pieces) for pieces in objects])
    order = np.argsort(keys)
    return Moved(keys[order], chunk_id[order], offset[order])


def starts(pieces: Pieces) -> NDArray[np.uint64]:
    """Return the offset of each piece in an object that holds all of them."""
    ends: NDArray[np.uint64] = np.cumsum(pieces.length, dtype=np.uint64)
    return ends - pieces.length


def _repeat(id: ChunkId, count: int) -> NDArray[np.uint8]:
    return np.tile(np.frombuffer(bytes(id), np.uint8), (count, 1))


@dataclass(frozen=True, slots=True)
class Work:
    """Spans of an array range to pack; `follows` also updates references to moved pieces."""

    array_range: ArrayRange
    spans: tuple[Span, ...]
    follows: bool

    @property
    def bytes(self) -> int:
        """Number of bytes to copy."""
        return sum(span.bytes for span in self.spans)


def split_work(array_range: ArrayRange, looked: Looked) -> list[Work]:
    """Split the plan of an array range into the smallest units of work."""
    works = [Work(array_range, (span,), False) for span in looked.spans]
    return [*works, Work(array_range, (), True)] if looked.follows else works


def join_work(works: Sequence[Work]) -> list[Work]:
    """Merge adjacent units of the same array range, so that its references are read once."""
    return [
        replace(own[0], spans=tuple(s for each in own for s in each.spans),
                follows=any(each.follows for each in own))
        for own in (list(each) for _, each in groupby(works, lambda work: work.array_range))
    ]  # fmt: skip


def pack_chunks(choice: Choice, session: ForkSession, work: Work) -> None:
    """Copy small chunks into new objects and update their references."""
    state = session.state
    node, _ = state.view.get_array(work.array_range.path)
    selection = select_pieces(read_natives(state.assets, work.array_range), choice)
    edits = state.changes.edit_chunks(node)
    for span in work.spans:
        numbers = selection.packed[span.start : span.stop]
        pieces = selection.pieces.take(numbers)
        id = copy_pieces(state.assets, pieces)
        edits.set_table(_refer(selection, numbers, _repeat(id, len(pieces)), starts(pieces)))
    if work.follows:
        numbers = np.flatnonzero(selection.moved >= 0)
        rows = selection.moved[numbers]
        moved = choice.moved
        edits.set_table(_refer(selection, numbers, moved.chunk_id[rows], moved.offset[rows]))


def _refer(
    selection: Selection, numbers: Numbers, ids: NDArray[np.uint8], offsets: NDArray[np.uint64]
) -> ChunkTable:
    """Return the references to these pieces with new ids and offsets."""
    rows, which = selection.rows_of(numbers)
    return replace(selection.table.take(rows), chunk_id=ids[which], offset=offsets[which])


_LOOKING = "looking for small chunks"
_COMPARING = "comparing chunks"
_COPYING = "packing shared chunks"

Groups = Sequence[Sequence[tuple[int, ArrayRange]]]
"""Numbered array ranges by task."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Work for the tasks, with object counts before and after."""

    choice: Choice
    works: tuple[Work, ...]
    objects_before: int
    objects: int
    bytes: int
    """Total size of the new objects."""
    left: int
    """Number of array ranges skipped because they share too many chunks with others."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Planner of a compaction, which runs tasks to read the references."""

    runner: Runner
    assets: Assets
    sizes: Sizes
    id_size: int
    slots: int

    def plan(self, array_ranges: Sequence[ArrayRange], costs: Sequence[ReadCost]) -> Plan:
        """Plan the packing of array ranges; pieces shared by several are copied now, and only once."""
        groups = group(list(enumerate(array_ranges)), costs, self.slots)
        choice = Choice.of(self.sizes, self.id_size)
        looks, shared = self._look_first(groups, choice, sum(each.references for each in costs))
        objects: list[Pieces] = []
        if len(shared.ids) or shared.left:
            objects = [shared.small.take(slice(*ends)) for ends in cut(shared.small, self.sizes)]
            choice = Choice(self.sizes, shared.ids, self._copy(objects))
            groups = [[each for each in some if each[0] not in shared.left] for some in groups]
            looks = self._look(groups, choice)
        looked = [each for some in looks for each in some.looked]
        kept = [each for some in groups for _, each in some]
        works = [work for pair in zip(kept, looked, strict=True) for work in split_work(*pair)]
        return _sum_up(choice, works, looked, objects, len(shared.left))

    def _look_first(
        self, groups: Groups, choice: Choice, references: int
    ) -> tuple[list[Looks], Shared]:
        """Return the plans as if array ranges shared nothing, and the objects that they share."""
        is_alone = sum(map(len, groups)) < 2
        most = self.runner.returned_references
        ranges = 0 if is_alone or references <= most else -(-references // MARKS_TOGETHER)
        looks = self._look(groups, choice, ranges=ranges, wants_marks=not is_alone)
        if is_alone:
            return looks, Shared.nothing(self.id_size)
        if not ranges:
            marks = [each.marks for each in looks if isinstance(each.marks, np.ndarray)]
            return looks, find_shared(np.concatenate(marks), self.sizes, most)
        left = tuple(each.marks for each in looks if isinstance(each.marks, LeftMarks))
        task = FindShared(self.assets, left, self.sizes, self.id_size, most // ranges)
        try:
            return looks, unite(self.runner.run(_COMPARING, task, range(ranges)))
        finally:
            self._delete(left)

    def _look(
        self, groups: Groups, choice: Choice, *, ranges: int = 0, wants_marks: bool = False
    ) -> list[Looks]:
        task = LookAt(self.assets, choice, self.id_size, ranges, wants_marks)
        return self.runner.run(_LOOKING, task, groups)

    def _copy(self, objects: Sequence[Pieces]) -> Moved:
        if not objects:
            return Moved.nothing(self.id_size)
        sizes = [pieces.bytes for pieces in objects]
        groups = pack(objects, sizes, choose_task_bytes(sum(sizes), self.slots))
        found = self.runner.run(_COPYING, CopyPieces(self.assets), groups)
        return place([id for some in found for id in some], objects)

    def _delete(self, left: Iterable[LeftMarks]) -> None:
        """Delete marks; those that can't be deleted are left for garbage collection."""
        with suppress(IcechunkError):
            keys = (self.assets.layout.chunk_key(each.chunk_id) for each in left)
            self.assets.storage.delete_many(keys)


def _sum_up(
    choice: Choice,
    works: Sequence[Work],
    looked: Sequence[Looked],
    moved: Sequence[Pieces],
    left: int,
) -> Plan:
    spans = [span for each in looked for span in each.spans]
    ids = [pieces.ids() for pieces in moved]
    return Plan(
        choice,
        tuple(works),
        sum(each.objects for each in looked) + (len(distinct(np.concatenate(ids))) if ids else 0),
        len(spans) + len(moved),
        sum(span.bytes for span in spans) + sum(pieces.bytes for pieces in moved),
        left,
    )


_PACKING = "packing chunks"


@verb(job=Job)
def compact(
    repo: AnyRepository,
    arrays: Sequence[str] | None = None,
    *,
    smaller_than: int | str = "1MB",
    target_size: int | str = "64MB",
    branch: str = "main",
    message: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    job: Job | None = None,
    spark: SparkSession | None = None,
) -> CompactReport:
    """Pack small native chunks into larger objects, neighbours together, without decoding them.

    A chunk is small if less than `smaller_than` bytes of its object are referenced; several chunks may
    share an object. A new object holds chunks of one array, unless several arrays reference the same
    chunks. Inline and virtual chunks stay as they are. Old objects stay, too, because earlier snapshots
    reference them, until these expire and garbage is collected.

    Parameters
    ----------
    arrays
        Paths of arrays, or of groups for all arrays below them. Default: all arrays.
    smaller_than
        Size below which an object is small.
    target_size
        Approximate size of new objects, at least four times `smaller_than`.

    Returns
    -------
    CompactReport

    Raises
    ------
    InvalidInputError
        If `target_size` is less than four times `smaller_than`.
    RebaseFailedError
        If a concurrent commit changed the same chunks.

    Examples
    --------
    >>> compact("s3://bucket/weather", ["t2m"], smaller_than="1MB", target_size="64MB")
    """
    sizes = Sizes(parse_bytes(smaller_than), parse_bytes(target_size))
    with committing("compact", repo, branch, job, spark) as run:
        session = run.open_session()
        view = session.state.view
        nodes = view.nodes() if arrays is None else arrays_below(view, list(map(path_of, arrays)))
        array_ranges = plan_ranges([node for node in nodes if node.array], view.assets.dialect)
        counts = count_references(view.snapshot.manifest_files)
        costs = [weigh(each.box, each.manifests, counts) for each in array_ranges]
        is_small = sum(cost.references for cost in costs) <= TASK_REFERENCES
        runner = run.choose_runner(is_small=is_small)
        planner = Planner(runner, view.assets, sizes, session.state.changes.id_size, run.slots)
        plan = planner.plan(array_ranges, costs)
        limit = run.task_bytes(plan.bytes)
        runner = run.choose_runner(is_small=plan.bytes <= limit)
        if plan.works:
            run.job.expect(_PACKING, bytes=plan.bytes)
            sized = pack(plan.works, [work.bytes for work in plan.works], limit)
            groups = [join_work(works) for works in sized]
            write_regions(runner, session, partial(pack_chunks, plan.choice), groups, _PACKING)
        run.notes += _describe_left(plan)
        figures = {"objects_before": plan.objects_before, "objects": plan.objects}
        run.figures.update({"bytes": plan.bytes, **figures})
        report = replace(run.commit(session, message, metadata), bytes_written=plan.bytes)
        saved = plan.objects_before - plan.objects
        return CompactReport.of(report, **figures, requests_saved=saved)


def _describe_left(plan: Plan) -> list[str]:
    if not plan.left:
        return []
    return [
        f"{plan.left} parts of arrays share more chunks with each other than can be compared, and"
        " stay as they are"
    ]
