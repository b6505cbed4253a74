"""Arrays of a derived dataset: what each run creates, resizes and writes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from xarray import DataArray, Dataset

from frazil.errors import (
    InvalidInputError,
)
from frazil.maintenance.reachability import pack
from frazil.repository.session import Session
from frazil.spark.arrays.blocks import (
    Computation,
    Inputs,
    Output,
    count_bytes,
    create_array,
    find_groups,
    find_space,
    open_group,
    open_variable,
    plain_attributes,
    refuse_type,
)
from frazil.spark.arrays.derivation import (
    Change,
    Derivation,
    Dirty,
    Members,
    Product,
    WriteProducts,
    blocks_affected,
    count_codes,
    describe_levels,
    find_dirty,
    find_other_coordinates,
    find_seam,
    grown,
    plan_boxes,
    steps_affected,
    steps_moved,
)
from frazil.spark.arrays.rechunk import CopyBox, Copying, RechunkPlan, plan_arrays
from frazil.spark.arrays.reduction import (
    BLOCK_BYTES,
    MOST_STATE_BYTES,
    PARTIALS,
    Former,
    GroupBlock,
    Partials,
    find_reduction,
)
from frazil.spark.arrays.resample import Ends, ResamplePlan, find_steps
from frazil.spark.arrays.transform import BlockOptions, MapBlock, describe_output, shared_dims
from frazil.spark.regions import (
    LEAST_TASK_BYTES,
    AnyArray,
    Box,
    byte_count,
    count_items,
    create_like,
    dimensions_of,
    find_unit,
    grow,
    open_array,
    open_for_writing,
    path_of,
    plan_margins,
    replace_axis,
    resolve_chunks,
    whole,
)
from frazil.spark.transaction import (
    CommitRun,
    write_regions,
)
from frazil.xarray import to_icechunk

MAX_MEMORY = 512_000_000
"""Memory of a task that copies."""
_NAMING = ("coordinates", "bounds", "climatology", "grid_mapping", "ancillary_variables")
"""Attributes that name other arrays which a variable needs."""

_MEMBERS = "members"
"""Number of elements that each partial state has."""


def _resized(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


@dataclass(slots=True)
class Deriving:
    """One attempt of a derivation."""

    run: CommitRun
    what: Derivation
    session: Session
    new: Session
    """The source."""
    old: Session | None
    """The source as of the last run; None to compute everything."""
    elements: int = 0
    staged: list[tuple[str, str, RechunkPlan]] = field(default_factory=list)
    """Arrays to copy whole, in two passes."""
    dirty: dict[str, Dirty] = field(default_factory=dict)
    """Elements of output arrays that are written, for the levels of a pyramid."""
    shapes: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    """Shapes of output arrays before this run."""
    samples: dict[str, DataArray] = field(default_factory=dict)
    """Results of one block of arrays that functions make."""
    opened: dict[tuple[int, str], Dataset] = field(default_factory=dict)
    """Groups of the source by session."""
    kept: set[str] = field(default_factory=set)
    """Coordinates that the source does not have, and arrays of partial states."""
    base: Session | None = None

    @property
    def output(self) -> str:
        return path_of(self.what.output)

    # Names

    def _arrays(self) -> dict[str, Any]:
        """Return the arrays of the source by name."""
        group = path_of(self.what.source)
        if self.new.state.view.get_node(group).array is not None:
            raise InvalidInputError(f"invalid source {group!r}: it is an array, not a group")
        return {
            node.path.rpartition("/")[2]: open_array(self.new, node.path)
            for node in self.new.state.view.children(group)
            if node.array is not None
        }

    def _select(self, arrays: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return the names of variables to derive, and of the other arrays that they need."""
        needed = {
            name
            for name, each in arrays.items()
            if dimensions_of(each) == (name,)
        }  # fmt: skip
        for each in arrays.values():
            needed |= _named_by(each.attrs)
        group = zarr.open_group(
            self.new.store, path=path_of(self.what.source).lstrip("/"), mode="r"
        )
        needed |= set(str(group.attrs.get("coordinates", "")).split())
        if self.what.variables is None:
            data = [name for name in arrays if name not in needed]
            if not data:
                raise InvalidInputError(f"there are no variables in {path_of(self.what.source)}")
            return data, [name for name in arrays if name in needed]
        unknown = [name for name in self.what.variables if name not in arrays]
        if unknown:
            raise InvalidInputError(
                f"the source has no variable {unknown[0]!r}: it has {', '.join(sorted(arrays))}"
            )
        data = list(dict.fromkeys(self.what.variables))
        found: set[str] = set()
        todo = set(data)
        while todo:
            each = arrays[todo.pop()]
            more = {*_named_by(each.attrs), *filter(None, dimensions_of(each))} & arrays.keys()
            todo |= more - found - set(data)
            found |= more
        return data, sorted(found - set(data))

    def _path(self, name: str) -> str:
        return path_of(f"{self.what.source}/{name}")

    # Copies

    def copy(self, path: str, target_path: str, *, is_data: bool) -> Iterator[Product]:
        """Plan to copy an array, with the chunks of the declaration if it is a variable."""
        array = open_array(self.new, path)
        dirty = find_dirty(self.old, self.new, path, attributes="none")
        former = self._find(target_path)
        if former is not None and dirty is not None and _are_alike(former, array):
            target, before = former, former.shape
            if before != array.shape:
                target.resize(array.shape)
            _set_attributes(target, array.attrs.asdict())
        else:
            own = self.what.chunks or {}
            names = dimensions_of(array)
            chunks = {str(dim): own[str(dim)] for dim in names if dim in own} if is_data else {}
            target = create_like(
                self.session, target_path, array, resolve_chunks(array, chunks),
                self.what.encoding if is_data else None, overwrite=True,
            )  # fmt: skip
            dirty, before = None, None
        decoded = dirty
        if dirty is not None and self.what.levels:  # the next level reads decoded values
            decoded = find_dirty(self.old, self.new, path, attributes="decoding")
        self._remember(target_path, decoded, before)
        itemsize = max(int(array.dtype.itemsize), 1)
        unit, most = find_unit(target), MAX_MEMORY // 2 // itemsize
        boxes = plan_boxes(dirty, array.shape, unit)
        if boxes == [whole(array.shape)] and array.ndim:
            total = byte_count(array.shape, itemsize)
            plan = plan_arrays(array, target, MAX_MEMORY, self.run.task_bytes(total))
            if not plan.is_direct:
                self.staged.append((path, target_path, plan))
                return
            most = prod(plan.passes[0].box)
        if boxes:
            yield Product(CopyBox(self.new, path, target_path, 16), boxes, unit, itemsize, most)

    def _open(self, session: Session, path: str) -> DataArray:
        """Open an array with its coordinates; the arrays of a group are opened together."""
        group, _, name = path.rpartition("/")
        key = (id(session), group)
        if key not in self.opened:
            self.opened[key] = open_group(session, group)
        return self.opened[key][name]

    def _find(self, path: str) -> Any:
        node = self.session.state.view.find_node(path)
        return None if node is None or node.array is None else open_for_writing(self.session, path)

    def _remember(self, path: str, dirty: Dirty, before: tuple[int, ...] | None) -> None:
        self.dirty[path], self.shapes[path] = dirty, before

    # Steps and groups

    def reduce(self, path: str, target_path: str, old: DataArray | None) -> Iterator[Product]:
        """Plan coarser steps, or groups, of an array of the source."""
        dirty = find_dirty(self.old, self.new, path, attributes="decoding")
        inputs = Inputs(self.new, (path,), [self._open(self.new, path)])
        if self.what.groupby is not None:
            yield from self._group(inputs, target_path, dirty, old)
        else:
            yield from self._coarsen(
                inputs, target_path, dirty, old, None if old is None else old.shape
            )

    def _coarsen(
        self,
        inputs: Inputs,
        target_path: str,
        dirty: Dirty,
        old: DataArray | None,
        old_shape: tuple[int, ...] | None,
    ) -> Iterator[Product]:
        array = self._open(inputs.session, inputs.paths[0])
        by = {dim: rule for dim, rule in (self.what.by or {}).items() if dim in array.dims}
        plan = ResamplePlan.of(array, by, self.what.how, target_path, self._chunks(array.dims))
        dims, ends, item = plan.space.dims, plan.ends, plan.item_bytes
        output, before = self._reconcile(plan.output)
        times = [dim for dim, rule in by.items() if isinstance(rule, str)]
        axis = dims.index(times[0]) if times else 0
        is_appended = dims[axis] in by
        change = None
        if before is not None and dirty is not None and old_shape is not None:
            old_ends = [
                _old_ends(old, size, dim, by[dim]) if dim in by else np.arange(size + 1)
                for dim, size in zip(dims, old_shape, strict=True)
            ]
            moved = [
                replace_axis(whole(output.shape), number, run)
                for number, dim in enumerate(dims)
                if dim in by and not (is_appended and number == axis)
                for run in steps_moved(old_ends[number], ends[number])
            ]
            change = Change(
                dirty, find_seam(dirty, old_shape, array.shape, axis, plan.space.chunks[axis]),
                partial(Members.of_steps, old_ends[axis], ends[axis]), partial(_map_box, ends), moved,
            )  # fmt: skip
        if is_appended:
            columns = plan.reduction.columns(array.dtype)
            partials, former, dirty, share = self._keep(
                output, before, axis, np.diff(ends[axis]), 1, columns, inputs, change
            )
            task = plan.task(inputs, output, partials, former)
        else:
            dirty = None if change is None else [*map(change.map_box, change.dirty), *change.moved]
            task, share = plan.task(inputs, output), 1.0
        if dirty is not None:
            dirty += grown(before or (), output.shape)
        self._remember(target_path, dirty, before)
        unit = tuple(output.unit.values())
        # Elements of the input for one of the output.
        each = max(int(prod(plan.space.shape) * share) // max(prod(output.shape), 1), 1)
        state = sum(one.itemsize for one in plan.reduction.columns(array.dtype).values())
        yield Product(
            task, plan_boxes(dirty, output.shape, unit), unit, item * each,
            min(MOST_STATE_BYTES // state, max(LEAST_TASK_BYTES // (item * each), 1)),
        )  # fmt: skip

    def _group(
        self, inputs: Inputs, target_path: str, dirty: Dirty, old: DataArray | None
    ) -> Iterator[Product]:
        assert self.what.groupby is not None
        array = self._open(inputs.session, inputs.paths[0])
        grouping = find_groups(array, self.what.groupby)
        reduction = find_reduction(self.what.how, array.dtype)
        space = find_space([array])
        axis = space.dims.index(grouping.dim)
        chunks = {dim: space.chunk(dim) for dim in space.dims if dim != grouping.dim}
        chunks |= {grouping.name: 1, **self._chunks((*chunks, grouping.name))}
        dims = (*space.dims[:axis], grouping.name, *space.dims[axis + 1 :])
        shape = (*space.shape[:axis], len(grouping.labels), *space.shape[axis + 1 :])
        sizes = tuple(
            max(size if chunks[dim] == -1 else min(chunks[dim], size), 1)
            for dim, size in zip(dims, shape, strict=True)
        )
        dtype = reduction.result_type(array.dtype)
        output, before = self._reconcile(
            Output(target_path, dims, shape, sizes, dtype, array.attrs)
        )
        change = None
        if before is not None and dirty is not None and old is not None:
            change = Change(
                dirty, find_seam(dirty, old.shape, array.shape, axis, space.chunks[axis]),
                partial(Members.of_groups, find_groups(old, self.what.groupby), grouping),
            )  # fmt: skip
        columns, counts = reduction.columns(array.dtype), count_codes(grouping.codes, shape[axis])
        partials, former, dirty, share = self._keep(
            output, before, axis, counts, len(counts), columns, inputs, change
        )
        if dirty is not None:
            dirty += grown(before or (), output.shape)
        self._remember(target_path, dirty, before)
        item = max(int(array.dtype.itemsize), 1)
        each = max(int(space.size(grouping.dim) * share) // max(shape[axis], 1), 1)
        task = GroupBlock(
            inputs, output, reduction, grouping, axis,
            grow(space.chunks, space.shape, BLOCK_BYTES // item), array.dtype, partials, former,
        )  # fmt: skip
        unit = tuple(output.unit.values())
        state = sum(one.itemsize for one in columns.values())
        yield Product(
            task, plan_boxes(dirty, shape, unit), unit, item * each, MOST_STATE_BYTES // state
        )

    def _keep(
        self,
        output: Output,
        before: tuple[int, ...] | None,
        axis: int,
        counts: NDArray[np.int64],
        states: int,
        columns: Mapping[str, Any],
        inputs: Inputs,
        change: "Change | None",
    ) -> tuple[Partials, Former | None, Dirty, float]:
        """Plan which results continue from partial states of the last run, and where states are kept.

        `counts` are the elements of each result along the axis; the last ones have `states`. Returns
        also the affected results, and the share of their elements that is read.
        """
        dim, unit = output.dims[axis], tuple(output.unit.values())
        base = self._base()
        partials = Partials(f"{PARTIALS}{output.path}", axis, tuple(columns), base)
        arrays = {
            name: Output(
                f"{partials.path}/{name}", output.dims, _resized(output.shape, axis, states),
                _resized(unit, axis, min(unit[axis], max(states, 1))), dtype, {},
            )
            for name, dtype in columns.items()
        }  # fmt: skip
        arrays[_MEMBERS] = Output(
            f"{partials.path}/{_MEMBERS}", (dim,), (states,), (max(states, 1),), np.dtype("i8"), {}
        )
        self.kept |= {each.path for each in arrays.values()}
        found = {name: self._find(each.path) for name, each in arrays.items()}
        is_known = before is not None and all(
            found[name] is not None
            and (found[name].dtype, dimensions_of(found[name])) == (each.dtype, each.dims)
            for name, each in arrays.items()
        )
        dirty: Dirty = None
        former, share, has_state = None, 1.0, np.ones(len(counts), np.bool_)
        if change is not None and before is not None:
            known = np.zeros(before[axis], np.int64)
            if (
                is_known
                and self.old is not None
                and self._source_of_states() == self.old.snapshot_id
            ):
                known = found[_MEMBERS][...]
            members = change.compare(known)
            dirty, origins, has_state = members.find_affected(
                change.dirty, change.seam, axis, output.shape, change.moved, change.map_box
            )
            last = self.old if inputs.session is self.new and self.old is not None else base
            former = Former(Inputs(last, inputs.paths), change.seam[1], change.seam, origins)
            is_due = (members.new > 0) | (origins < 0)
            unread = np.where(origins < 0, counts, members.new)[is_due]
            share = float(unread.sum() / max(counts[is_due].sum(), 1))
        if dirty is None or dirty or before != output.shape:
            for name, each in arrays.items():
                if not is_known:
                    create_array(self.session, each, {}, overwrite=True)
                elif found[name].shape != each.shape:
                    found[name].resize(each.shape)
            values = np.zeros(states, np.int64)
            last_counts = np.where(has_state, counts, 0)[len(counts) - states :]
            values[: len(last_counts)] = last_counts
            self._find(arrays[_MEMBERS].path)[...] = values
        return partials, former, dirty, share

    def _base(self) -> Session:
        """Return the version of the target that this run starts from."""
        if self.base is None:
            snapshot = self.session.snapshot_id
            self.base = self.run.repository.readonly_session(snapshot_id=snapshot)
        return self.base

    def _source_of_states(self) -> Any:
        """Return the snapshot of the source that the partial states are of."""
        path = f"{PARTIALS}{self.output}"
        if self._base().state.view.find_node(path) is None:
            return None
        group = zarr.open_group(self._base().store, path=path.lstrip("/"), mode="r")
        return group.attrs.get("source_snapshot")

    def _chunks(self, dims: Sequence[Any]) -> dict[str, int]:
        return {dim: size for dim, size in (self.what.chunks or {}).items() if dim in dims}

    def _reconcile(self, output: Output) -> tuple[Output, tuple[int, ...] | None]:
        """Create an output array, or give it its new shape; return its shape before."""
        encoding = dict(self.what.encoding or {})
        shards = encoding.pop("shards", None)
        refuse_type(output.dtype)
        array = self._find(output.path)
        if array is None or array.dtype != output.dtype or dimensions_of(array) != output.dims:
            output = replace(output, shards=None if shards is None else tuple(shards))
            create_array(self.session, output, encoding, overwrite=True)
            return output, None
        before = array.shape
        if before != output.shape:
            array.resize(output.shape)
        _set_attributes(array, output.attrs)
        return replace(output, chunks=array.chunks, shards=array.shards), before

    # Functions

    def apply(self, names: Sequence[str], target_path: str) -> Iterator[Product]:
        """Plan the function over aligned blocks of arrays of the source."""
        given = self.what.blocks
        own = given if isinstance(given, BlockOptions) else BlockOptions(given)
        paths = tuple(map(self._path, names))
        arrays = [self._open(self.new, path) for path in paths]
        inputs = Inputs(self.new, paths, arrays)
        space = find_space(arrays)
        margins = plan_margins(own.halo, own.boundary)
        core = tuple(own.core_dims)
        unknown = sorted({*core, *margins} - set(space.dims))
        if unknown:
            raise InvalidInputError(f"the inputs have no dimension {', '.join(unknown)}")
        function = self.what.load_function()
        computation = Computation(inputs, space, function, margins, own.kind, core)
        changed = [find_dirty(self.old, self.new, path, attributes="all") for path in paths]
        former = self._find(target_path)
        if former is None or None in changed or self.old is None:
            output, before = self._sampled(computation, target_path), None
            output, _ = self._reconcile(output)
            dirty: Dirty = None
        else:
            dims = tuple(map(str, dimensions_of(former)))
            shape = tuple(
                space.size(dim) if dim in space.dims else size
                for dim, size in zip(dims, former.shape, strict=True)
            )
            attrs = former.attrs.asdict()
            output, before = self._reconcile(
                Output(target_path, dims, shape, former.chunks, former.dtype, attrs)
            )
            dirty = self._affected(computation, arrays, changed, output)
        shared = shared_dims(output, space)
        unit = [max(space.size(d), 1) if d in core else output.unit[d] for d in shared]
        item = count_bytes(
            arrays, {d: 1 if d in shared and d not in core else space.size(d) for d in space.dims}
        )
        boxes = plan_boxes(dirty, [space.size(dim) for dim in shared], unit)
        self._remember(target_path, dirty, before)
        yield Product(
            MapBlock(computation, output), boxes, unit, max(item, 1),
            max(LEAST_TASK_BYTES // max(item, 1), 1),
        )  # fmt: skip

    def _sampled(self, computation: Computation, path: str) -> Output:
        """Describe the output by the result of one block."""
        space, core = computation.space, computation.core_dims
        sample = computation(
            tuple(
                (0, size if dim in core else min(chunk, size))
                for dim, size, chunk in zip(space.dims, space.shape, space.chunks, strict=True)
            )
        )
        chunks = self._chunks(sample.dims)
        self.samples[path] = sample
        return describe_output(path, sample, computation, None, chunks, None)

    def _affected(
        self,
        computation: Computation,
        arrays: Sequence[DataArray],
        changed: Sequence[Dirty],
        output: Output,
    ) -> Dirty:
        """Return the boxes along the shared dimensions that changes of inputs and sizes affect."""
        space, margins = computation.space, computation.margins
        shared = shared_dims(output, space)
        assert self.old is not None
        ranges: list[Mapping[str, tuple[int, int]]] = []
        for path, array, boxes in zip(computation.inputs.paths, arrays, changed, strict=True):
            old = self._open(self.old, path)
            others = find_other_coordinates(old, array)
            if others is None or boxes is None:
                return None
            ranges += others
            ranges += [dict(zip(map(str, array.dims), box, strict=True)) for box in boxes]
            for dim, size in array.sizes.items():
                if size != old.sizes[dim] and dim in computation.core_dims:
                    return None  # a function of the whole dimension, which may be shorter
                if size != old.sizes[dim] and dim in margins:
                    if margins[str(dim)].boundary == "wrap":
                        return None
                    ranges.append({str(dim): (min(size, old.sizes[dim]), size)})
        return [
            box
            for ends in ranges
            for box in blocks_affected(space, shared, ends, computation.core_dims, margins)
        ]

    # The whole dataset

    def stages(self) -> Iterator[list[Product]]:
        """Yield the products that can be written at once; later stages read what is written."""
        arrays = self._arrays()
        data, others = self._select(arrays)
        self._refuse_unknown_dims([arrays[name] for name in data])
        target = f"{self.output}/0" if self.what.levels else self.output
        self._make_group(target)
        if self.what.function is not None:
            yield list(self._apply_all(data, others, arrays))
        elif self.what.levels or not (self.what.by or self.what.groupby):
            yield [
                product
                for name in (*others, *data)
                for product in self.copy(self._path(name), f"{target}/{name}", is_data=name in data)
            ]
        else:
            yield list(self._reduce_all(data, others, arrays, target))
        for level in range(1, self.what.levels + 1):
            yield list(self._coarsen_level(data, others, level))
        self._finish(data)

    def _apply_all(
        self, data: Sequence[str], others: Sequence[str], arrays: Mapping[str, Any]
    ) -> Iterator[Product]:
        made = [self.what.name] if self.what.name is not None else data
        calls = [data] if self.what.name is not None else [[name] for name in data]
        found = [
            product
            for name, inputs in zip(made, calls, strict=True)
            for product in self.apply(inputs, f"{self.output}/{name}")
        ]
        dims = {dim for name in made for dim in dimensions_of(self._find(f"{self.output}/{name}"))}
        for name in others:
            if set(dimensions_of(arrays[name])) <= dims:
                yield from self.copy(self._path(name), f"{self.output}/{name}", is_data=False)
        known = {str(dim) for each in arrays.values() for dim in dimensions_of(each)}
        for sample in self.samples.values():
            for dim, each in sample.coords.items():
                if each.dims == (dim,) and dim not in known:
                    self._set_labels(self.output, str(dim), each)
        self.kept |= {f"{self.output}/{dim}" for dim in dims - known if dim is not None}
        yield from found

    def _reduce_all(
        self,
        data: Sequence[str],
        others: Sequence[str],
        arrays: Mapping[str, Any],
        target: str,
    ) -> Iterator[Product]:
        reduced, labels = self._reduced_dims(data)
        for name, each in labels.items():
            self._set_labels(target, name, each)
        for name in (*others, *data):
            path, dims = self._path(name), set(dimensions_of(arrays[name]))
            if not dims & reduced:
                yield from self.copy(path, f"{target}/{name}", is_data=name in data)
            elif name in data:
                old = None
                if self.old is not None and self.old.state.view.find_node(path) is not None:
                    old = self._open(self.old, path)
                yield from self.reduce(path, f"{target}/{name}", old)

    def _reduced_dims(self, data: Sequence[str]) -> tuple[set[str], dict[str, DataArray]]:
        """Return the dimensions of the source that are reduced, and the labels of the results."""
        reduced, labels = set[str](), dict[str, DataArray]()
        for name in data:
            array = self._open(self.new, self._path(name))
            if self.what.groupby is not None:
                if self.what.groupby.partition(".")[0] in array.coords:
                    grouping = find_groups(array, self.what.groupby)
                    reduced.add(grouping.dim)
                    labels[grouping.name] = grouping.coordinate()
                continue
            for dim, rule in (self.what.by or {}).items():
                if dim in array.dims and dim not in reduced:
                    reduced.add(dim)
                    steps = find_steps(array, dim, rule)
                    if steps.labels is not None:
                        labels[dim] = steps.labels
        if self.what.groupby is not None and not reduced:
            raise InvalidInputError(
                f"no variable has a coordinate for groupby={self.what.groupby!r}"
            )
        return reduced, labels

    def _coarsen_level(
        self, data: Sequence[str], others: Sequence[str], level: int
    ) -> Iterator[Product]:
        below, target = f"{self.output}/{level - 1}", f"{self.output}/{level}"
        self._make_group(target)
        fork = self.session.fork()
        by = self.what.by or {}
        for name in others:
            array = open_array(fork, f"{below}/{name}") if self._find(f"{below}/{name}") else None
            if array is None:
                continue
            if not set(dimensions_of(array)) & set(by):
                yield from self._copy_level(fork, f"{below}/{name}", f"{target}/{name}")
            elif dimensions_of(array) == (name,):
                steps = find_steps(self._open(fork, f"{below}/{name}"), name, by[name])
                if steps.labels is not None:
                    self._set_labels(target, name, steps.labels)
        for name in data:
            path = f"{below}/{name}"
            if not set(dimensions_of(self._find(path))) & set(by):
                yield from self._copy_level(fork, path, f"{target}/{name}")
                continue
            inputs, before = Inputs(fork, (path,)), self.shapes[path]
            yield from self._coarsen(inputs, f"{target}/{name}", self.dirty[path], None, before)

    def _copy_level(self, fork: Session, path: str, target_path: str) -> Iterator[Product]:
        """Plan to copy an array that a level of a pyramid has in common with the one before."""
        array, former = open_array(fork, path), self._find(target_path)
        dirty, before = self.dirty[path], self.shapes[path]
        if former is None or before is None or dirty is None:
            create_like(self.session, target_path, array, array.chunks, overwrite=True)
            dirty = before = None
        else:
            if former.shape != array.shape:
                former.resize(array.shape)
            _set_attributes(former, array.attrs.asdict())
        self._remember(target_path, dirty, before)
        unit = find_unit(array)
        yield Product(
            CopyBox(fork, path, target_path, 16), plan_boxes(dirty, array.shape, unit), unit,
            max(array.dtype.itemsize, 1), MAX_MEMORY // 2 // max(array.dtype.itemsize, 1),
        )  # fmt: skip

    def _refuse_unknown_dims(self, arrays: Sequence[Any]) -> None:
        dims = {dim for each in arrays for dim in dimensions_of(each)}
        wanted = {**(self.what.by or {}), **(self.what.chunks or {})}
        if self.what.groupby is not None or self.what.function is not None:
            wanted = dict(self.what.by or {})
        unknown = [dim for dim in wanted if dim not in dims]
        if unknown:
            raise InvalidInputError(
                f"the variables have no dimension {unknown[0]!r}: they have "
                f"{', '.join(sorted(filter(None, dims)))}"
            )

    # Groups and labels

    def _make_group(self, path: str) -> None:
        """Create a group with the attributes of the source."""
        source = zarr.open_group(
            self.new.store, path=path_of(self.what.source).lstrip("/"), mode="r"
        )
        group = zarr.open_group(self.session.store, path=path.lstrip("/"), mode="a")
        _set_attributes(group, source.attrs.asdict())

    def _set_labels(self, group: str, name: str, labels: DataArray) -> None:
        """Write a coordinate that the source does not have, unless it is there already."""
        path = f"{group}/{name}"
        self.kept.add(path)
        plain = DataArray(labels.values, dims=(name,), name=name, attrs=labels.attrs)
        former = self._find(path)
        if former is not None:
            is_number = labels.dtype.kind in "iuf" and former.dtype == labels.dtype
            is_like = is_number and former.attrs.asdict() == plain.attrs
            if is_like and np.array_equal(former[...], labels.values):
                return
            found = open_variable(self.session, path)
            if found.identical(plain.assign_coords({name: plain})):
                return
            del zarr.open_group(self.session.store, path=group.lstrip("/"), mode="a")[name]
        attrs = zarr.open_group(self.session.store, path=group.lstrip("/"), mode="r").attrs.asdict()
        to_icechunk(Dataset(coords={name: plain}, attrs=attrs), self.session, group=group, mode="a")

    def _finish(self, data: Sequence[str]) -> None:
        """Delete what the derived dataset no longer has, and describe the levels of a pyramid."""
        kept = {*self.shapes, *self.kept}
        for path in (self.output, f"{PARTIALS}{self.output}"):
            for node in list(self.session.state.view.descendants(path)):
                if node.array is not None and node.path not in kept:
                    del zarr.open_group(self.session.store, mode="a")[node.path.lstrip("/")]
        if self.what.levels:
            group = zarr.open_group(self.session.store, path=self.output.lstrip("/"), mode="a")
            own = zarr.open_group(
                self.new.store, path=path_of(self.what.source).lstrip("/"), mode="r"
            )
            _set_attributes(group, {**own.attrs.asdict(), **self._multiscales(data)})

    def _multiscales(self, data: Sequence[str]) -> dict[str, Any]:
        """Return the attributes by which viewers find the levels: GeoZarr's and those of OME-NGFF."""
        dims = {name: dimensions_of(self._find(f"{self.output}/0/{name}")) for name in data}
        return describe_levels(
            self.what.levels, dims, {dim: int(n) for dim, n in (self.what.by or {}).items()},
            self.what.how,
        )  # fmt: skip

    def derive(self) -> None:
        """Write everything to the session."""
        states = f"{PARTIALS}{self.output}"
        for path in (self.output, states):
            if self.old is None and self.session.state.view.find_node(path) is not None:
                del zarr.open_group(self.session.store, mode="a")[path.lstrip("/")]
        for products in self.stages():
            self._write(products)
        has_states = self.session.state.view.find_node(states) is not None
        if has_states and self.session.has_uncommitted_changes:
            group = zarr.open_group(self.session.store, path=states.lstrip("/"), mode="a")
            group.attrs["source_snapshot"] = self.new.snapshot_id

    def _write(self, products: Sequence[Product]) -> None:
        """Run the tasks of one stage."""
        regions = [(number, box) for number, each in enumerate(products) for box in each.split()]
        sizes = [count_items(box) * products[number].item_bytes for number, box in regions]
        copies = [(*each, open_array(self.new, each[0])) for each in self.staged]
        total = sum(sizes) + sum(byte_count(a.shape, a.dtype.itemsize) for *_, a in copies)
        limit = self.run.task_bytes(total)
        self.elements += sum(count_items(box) for _, box in regions)
        self.elements += sum(prod(array.shape) for *_, array in copies)
        if not regions and not copies:
            return
        runner = self.run.choose_runner(is_small=total <= limit)
        self.run.job.expect("deriving", bytes=total)
        for path, target_path, plan, array in copies:
            copying = Copying(runner, self.new, path, array, limit, MAX_MEMORY)
            copying.follow(plan, self.run, self.session, target_path)
        self.staged.clear()
        if groups := pack(regions, sizes, limit):
            task = WriteProducts(tuple(each.write for each in products))
            write_regions(runner, self.session, task, groups, "deriving")


def _are_alike(one: AnyArray, other: AnyArray) -> bool:
    """Return True if arrays have the same type, dimensions and fill value, which may be NaN."""
    kinds = [
        [each.metadata.to_dict().get(name) for name in ("data_type", "fill_value")]
        for each in (one, other)
    ]
    return repr(kinds[0]) == repr(kinds[1]) and dimensions_of(one) == dimensions_of(other)


def _named_by(attributes: Any) -> set[str]:
    """Return the names of arrays that attributes of a variable refer to."""
    return {word.rstrip(":") for name in _NAMING for word in str(attributes.get(name, "")).split()}


def _set_attributes(node: Any, attributes: Mapping[str, Any]) -> None:
    wanted = plain_attributes(attributes)
    if node.attrs.asdict() != wanted:
        node.attrs.put(wanted)


def _old_ends(old: DataArray | None, size: int, dim: str, rule: str | int) -> Any:
    if isinstance(rule, str):
        assert old is not None
        return find_steps(old, dim, rule).ends
    return np.append(np.arange(0, size, rule, dtype=np.int64), size)


def _map_box(ends: Sequence[Ends], box: Box) -> Box:
    return tuple(steps_affected(each, *part) for each, part in zip(ends, box, strict=True))
