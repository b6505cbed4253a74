"""Arrays of a group with Xarray's decoding, whose coordinates are read once."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray
import zarr
from xarray import Dataset, Variable
from xarray.backends.zarr import ZarrArrayWrapper, ZarrStore
from xarray.core.indexing import LazilyIndexedArray
from zarr.core import codec_pipeline

from frazil.repository.session import Session
from frazil.tables.columns import Offsets, Pieces


class _CoordinateArray(ZarrArrayWrapper):
    """Coordinate of one dimension that keeps every chunk it has read.

    Xarray reads the first and the last value of times to find their type, and a scan all of them.
    """

    __slots__ = ("_offsets", "_pieces")

    def __init__(self, array: Any, offsets: Offsets, pieces: Pieces) -> None:
        init: Any = super().__init__  # Xarray has no types here.
        init(array)
        self._offsets = offsets
        self._pieces = pieces

    def _getitem(self, key: tuple[Any, ...]) -> Any:
        (part,) = key
        start, stop, step = part.indices(self.shape[0]) if isinstance(part, slice) else (0, 0, 0)
        if step != 1 or stop <= start:
            return self._array[key]
        first = int(np.searchsorted(self._offsets, start, "right")) - 1
        end = int(np.searchsorted(self._offsets, stop, "left"))
        self._read([number for number in range(first, end) if number not in self._pieces])
        whole = np.concatenate([self._pieces[number] for number in range(first, end)])
        origin = int(self._offsets[first])
        return whole[start - origin : stop - origin]

    def _read(self, missing: list[int]) -> None:
        """Read chunks; neighbours together."""
        for run in np.split(missing, np.flatnonzero(np.diff(missing) != 1) + 1):
            if not len(run):
                continue
            cuts = self._offsets[int(run[0]) : int(run[-1]) + 2]
            values = np.asarray(self._array[int(cuts[0]) : int(cuts[-1])])
            pieces = np.split(values, cuts[1:-1] - cuts[0])
            self._pieces.update(zip(map(int, run), pieces, strict=True))


class _SomeArrays(ZarrStore):
    """Zarr group from which Xarray opens only some arrays, because it may not support others."""

    names: Sequence[str] = ()
    coordinates: Mapping[str, tuple[Offsets, Pieces]] = {}

    def array_keys(self) -> tuple[str, ...]:
        """Return the names of the arrays to open."""
        return tuple(self.names)

    def open_store_variable(self, name: str) -> Variable:
        """Open an array; coordinates keep what they have read."""
        open_array: Any = super().open_store_variable
        variable: Variable = open_array(name)
        if name in self.coordinates:
            array = _CoordinateArray(self.members[name], *self.coordinates[name])
            variable.data = LazilyIndexedArray(array)
        return variable


def open_arrays(
    session: Session,
    group: str,
    names: Sequence[str],
    coordinates: Mapping[str, tuple[Offsets, Pieces]],
) -> Dataset:
    """Open arrays of a group; `coordinates` are those that keep what they have read."""
    # An array keeps the pipeline that it is opened with.
    with zarr.config.set(_FUSED):
        store = _SomeArrays.open_group(
            session.store,
            group=group.lstrip("/") or None,
            mode="r",
            consolidated=False,
            zarr_format=3,
            cache_members=False,
        )
        store.names = names
        store.coordinates = coordinates
        dataset: Dataset = xarray.open_dataset(
            store, chunks=None, cache=False, create_default_indexes=False
        )
    return dataset


_FUSED = (
    {"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"}
    if hasattr(codec_pipeline, "FusedCodecPipeline")
    else {}
)
"""Zarr's pipeline that decodes without an event loop, in two thirds of the time, where there is one."""
