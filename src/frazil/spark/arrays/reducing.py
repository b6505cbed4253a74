"""Reductions by tasks: states of pieces, combined as a tree, finished and written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from frazil.maintenance.batches import pack
from frazil.session import Session
from frazil.spark.arrays.blocks import Computation
from frazil.spark.arrays.one_commit import write_regions
from frazil.spark.arrays.outputs import Output
from frazil.spark.arrays.reduction_plan import Layout, ReductionPlan, plan_levels
from frazil.spark.arrays.reduction_tasks import (
    CombineParts,
    FinishedResults,
    Part,
    PartialResults,
    ReducePiece,
    Sink,
)
from frazil.spark.arrays.reductions import Reduction
from frazil.spark.arrays.regions import count_items
from frazil.spark.arrays.runner import Runner
from frazil.spark.arrays.scratch import Scratch


@dataclass(frozen=True, slots=True)
class Reducing:
    """A reduction on its way."""

    runner: Runner
    computation: Computation
    reduction: Reduction
    layout: Layout
    plan: ReductionPlan
    dtype: "np.dtype[Any]"
    output: Output
    task_bytes: int
    item_bytes: int

    def run(self, session: Session, scratch: Scratch) -> None:
        """Write the result to a session; states that are not finished go to the scratch arrays."""
        finished = FinishedResults(self.reduction, self.layout, self.output)
        count = len(self.plan.pieces)
        if count <= 1:
            self._reduce(session, finished)
            return
        partials = self._partials(scratch, 0, count)
        self._reduce(scratch.session, partials)
        *levels, last = plan_levels(count)
        for number, ranges in enumerate(levels, 1):
            above = self._partials(scratch, number, len(ranges))
            self._combine(scratch.session, scratch, partials, ranges, above)
            partials = above
        self._combine(session, scratch, partials, last, finished)

    def _reduce(self, session: Session, sink: Sink) -> None:
        pieces = self.plan.pieces
        task = ReducePiece(
            self.computation, self.reduction, self.layout, self.plan, self.dtype, sink
        )
        parts = [
            Part(box, number, number + 1, number)
            for box in self.plan.boxes
            for number in range(len(pieces))
        ]
        sizes = [
            count_items(part.box) * count_items(pieces[part.first]) * self.item_bytes
            for part in parts
        ]
        self._write(session, task, pack(parts, sizes, self.task_bytes), "reducing")

    def _combine(
        self,
        session: Session,
        scratch: Scratch,
        partials: PartialResults,
        ranges: Sequence[tuple[int, int]],
        sink: Sink,
    ) -> None:
        task = CombineParts(scratch.freeze(), partials, self.reduction, sink)
        parts = [
            Part(box, first, last, number)
            for box in self.plan.boxes
            for number, (first, last) in enumerate(ranges)
        ]
        state = sum(each.itemsize for each in self.reduction.columns(self.dtype).values())
        state *= self.layout.count_groups
        sizes = [count_items(each.box) * state * (each.last - each.first) for each in parts]
        self._write(session, task, pack(parts, sizes, self.task_bytes), "combining")

    def _write(self, session: Session, task: Any, groups: list[list[Part]], what: str) -> None:
        if groups:
            write_regions(self.runner, session, task, groups, what)

    def _partials(self, scratch: Scratch, level: int, count: int) -> PartialResults:
        box = self.layout.with_groups(self.plan.box, self.layout.count_groups)
        paths = {
            name: scratch.create(
                f"{name}-{level}",
                shape=(count, *self.output.shape),
                chunks=(1, *box),
                dtype=dtype,
                fill_value=0,
            )
            for name, dtype in self.reduction.columns(self.dtype).items()
        }
        return PartialResults(self.layout, paths)
