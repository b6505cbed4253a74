"""One block of a transform: what is read, what the user's function makes of it, whether that fits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from xarray import DataArray

from frazil.errors import InvalidInputError
from frazil.spark.arrays.inputs import Inputs, Space
from frazil.spark.arrays.regions import Box
from frazil.spark.arrays.windows import Margin, Window, window

BlockKind = Literal["xarray", "numpy"]


@dataclass(frozen=True, slots=True)
class Computation:
    """What is done with every block."""

    inputs: Inputs
    space: Space
    function: Callable[..., Any] | None
    """None for the one input itself."""
    margins: Mapping[str, Margin] = field(default_factory=dict)
    blocks: BlockKind = "xarray"
    core_dims: tuple[str, ...] = ()
    """Along which blocks are whole, and which the function may take away."""

    def __call__(self, box: Box) -> DataArray:
        """The block in a box of the space, without its margins."""
        windows = {
            dim: window(start, stop, length, self.margins.get(dim))
            for dim, (start, stop), length in zip(
                self.space.dims, box, self.space.shape, strict=True
            )
        }
        blocks = [_read(array, windows) for array in self.inputs.open()]
        if self.function is None:
            return blocks[0]
        given = [block.values for block in blocks] if self.blocks == "numpy" else blocks
        result = self._named(self.function(*given))
        return _trim(result, windows)

    def _named(self, result: Any) -> DataArray:
        """A result with the names of its dimensions."""
        if isinstance(result, DataArray):
            return result
        values = np.asarray(result)
        dims = self.space.dims
        if values.ndim == len(dims) - len(self.core_dims):
            dims = tuple(dim for dim in dims if dim not in self.core_dims)
        if values.ndim != len(dims):
            raise InvalidInputError(
                f"the function gave an array of {values.shape} for a block of {self.space.dims}: let "
                "it give a DataArray, which names its dimensions"
            )
        return DataArray(values, dims=dims)


def _read(array: DataArray, windows: Mapping[str, Window]) -> DataArray:
    index: dict[Any, Any] = {dim: windows[str(dim)].indices for dim in array.dims}
    return array.isel(index).load()


def _trim(result: DataArray, windows: Mapping[str, Window]) -> DataArray:
    inner: dict[Any, Any] = {}
    for dim in result.dims:
        if dim in windows:
            read = windows[str(dim)].indices
            count = read.stop - read.start if isinstance(read, slice) else len(read)
            if result.sizes[dim] != count:
                raise InvalidInputError(
                    f"the function made {result.sizes[dim]} of the {count} elements that its block "
                    f"had along {dim}"
                )
            inner[dim] = windows[str(dim)].inner
    return result.isel(inner)
