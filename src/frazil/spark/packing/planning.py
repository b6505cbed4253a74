"""What a compaction has to do: found out by tasks that look at references."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from frazil.assets import Assets
from frazil.errors import IcechunkError
from frazil.maintenance.batches import pack
from frazil.maintenance.id_columns import distinct
from frazil.spark.arrays.regions import choose_task_bytes
from frazil.spark.arrays.runner import Runner
from frazil.spark.packing.choosing import Choice, Moved
from frazil.spark.packing.copying import CopyPieces, Work, place, split_work
from frazil.spark.packing.looking import LookAt, Looked, Looks
from frazil.spark.packing.pieces import Pieces, Sizes, cut
from frazil.spark.packing.sharing import (
    MARKS_TOGETHER,
    FindShared,
    LeftMarks,
    Shared,
    find_shared,
    unite,
)
from frazil.spark.packing.stretches import Stretch
from frazil.spark.packing.tasks import Share, group

_LOOKING = "looking for small chunks"
_COMPARING = "comparing chunks"
_COPYING = "packing shared chunks"

Groups = Sequence[Sequence[tuple[int, Stretch]]]
"""Numbered stretches by task."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What tasks have to do, and what there is before and after it."""

    choice: Choice
    works: tuple[Work, ...]
    objects_before: int
    objects: int
    bytes: int
    """Of the new objects."""
    left: int
    """Stretches that share too many chunks with others."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Runs the steps that find out what to do."""

    runner: Runner
    assets: Assets
    sizes: Sizes
    id_size: int
    slots: int

    def plan(self, stretches: Sequence[Stretch], shares: Sequence[Share]) -> Plan:
        """Look at stretches; what several of them have is copied at once, so that it is copied once."""
        groups = group(list(enumerate(stretches)), shares, self.slots)
        choice = Choice.of(self.sizes, self.id_size)
        looks, shared = self._look_first(groups, choice, sum(each.references for each in shares))
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
        """What is to be done if stretches share nothing, and what they share."""
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
        """Delete marks; what can't be is left for garbage collection."""
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
