"""The two kinds of transforms: maps and reductions, from what the user wants to tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xarray import DataArray

from frazil.errors import InvalidInputError
from frazil.maintenance.batches import pack
from frazil.session import Session
from frazil.spark.arrays.blocks import Computation
from frazil.spark.arrays.grouping import Grouping, find_groups
from frazil.spark.arrays.inputs import count_bytes
from frazil.spark.arrays.mapping import MapBlock, describe_output, plan_blocks
from frazil.spark.arrays.one_commit import Run, write_regions
from frazil.spark.arrays.outputs import Output, create_output, refuse_type
from frazil.spark.arrays.reducing import Reducing
from frazil.spark.arrays.reduction_plan import (
    BLOCK_BYTES,
    Layout,
    plan_chunks,
    plan_layout,
    plan_reduction,
)
from frazil.spark.arrays.reductions import find_reduction
from frazil.spark.arrays.regions import LEAST_TASK_BYTES, Shape, count_items
from frazil.spark.arrays.runner import Runner
from frazil.spark.arrays.scratch import scratch_arrays


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user says about the output."""

    path: str
    template: DataArray | None
    dtype: Any
    chunks: Mapping[str, int]
    attrs: Mapping[str, Any] | None
    encoding: Mapping[str, Any]
    overwrite: bool


@dataclass(frozen=True, slots=True)
class Transforming:
    """A transform on its way."""

    run: Run
    runner: Runner
    session: Session
    computation: Computation
    arrays: Sequence[DataArray]
    wanted: Wanted
    task_bytes: int

    def map(self) -> None:
        """Write what the function gives for every block."""
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
        """Write what is left of the dimensions that stay."""
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
        """What the first block comes to."""
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
        """What one place of the dimensions that blocks are cut along takes, of inputs and output."""
        space, core = self.computation.space, self.computation.core_dims
        cut_dims = {dim for dim in output.dims if dim in space.dims and dim not in core}
        sizes = {
            dim: 1 if dim in cut_dims else size
            for dim, size in zip(space.dims, space.shape, strict=True)
        }
        new = [n for dim, n in zip(output.dims, output.shape, strict=True) if dim not in cut_dims]
        return count_bytes(self.arrays, sizes) + output.dtype.itemsize * int(np.prod(new))
