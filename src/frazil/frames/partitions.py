"""Chunks to read, put together for tasks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frazil.frames.grids import Boxes, join_boxes


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """What a task reads: boxes of chunks of a grid."""

    boxes: Boxes

    @property
    def chunk_count(self) -> int:
        """How many chunks they have."""
        return int(np.diff(self.boxes, axis=2).prod(axis=(1, 2)).sum())


def plan_partitions(
    chosen: NDArray[np.bool_], chunk_bytes: int, target_bytes: int
) -> Sequence[Partition]:
    """Partitions of about the target size, or a chunk if that is larger, in the order of the grid."""
    chunks = np.argwhere(chosen).astype(np.int64)
    if not len(chunks):
        return []
    most = max(target_bytes // max(chunk_bytes, 1), 1)
    parts = np.array_split(chunks, -(-len(chunks) // most))
    return [Partition(join_boxes(part)) for part in parts]
