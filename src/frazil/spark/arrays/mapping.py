"""A function over the blocks of arrays, its results written as one array."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xarray import DataArray

from frazil.errors import InvalidInputError
from frazil.session import ForkSession
from frazil.spark.arrays.blocks import Computation
from frazil.spark.arrays.inputs import Space
from frazil.spark.arrays.outputs import Output
from frazil.spark.arrays.regions import Box, cut, grow, slices_of, whole
from frazil.spark.arrays.zarr_arrays import open_for_writing


@dataclass(frozen=True, slots=True)
class MapBlock:
    """Computes and writes one box of the output's dimensions that the inputs have, too."""

    computation: Computation
    output: Output

    def __call__(self, session: ForkSession, box: Box) -> None:
        """Read, compute, check, write."""
        target = box_in(self.output, self.computation.space, box)
        result = self.computation(box_over(self.computation.space, self.output, box))
        values = self.output.fit(result, [stop - start for start, stop in target])
        open_for_writing(session, self.output.path)[slices_of(target)] = values


def shared_dims(output: Output, space: Space) -> tuple[str, ...]:
    """The dimensions along which blocks are cut."""
    return tuple(dim for dim in output.dims if dim in space.dims)


def box_over(space: Space, output: Output, box: Box) -> Box:
    """A box of the shared dimensions as one of the inputs' space: whole along the others."""
    ends = dict(zip(shared_dims(output, space), box, strict=True))
    return tuple(
        ends.get(dim, (0, size)) for dim, size in zip(space.dims, space.shape, strict=True)
    )


def box_in(output: Output, space: Space, box: Box) -> Box:
    """The same as one of the output: whole along the dimensions that the inputs don't have."""
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
    """Boxes of whole chunks of the output, and whole along core dimensions, that memory allows."""
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
    """What the output is like, by its template or else by what one block came to."""
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
