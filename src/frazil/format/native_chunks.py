"""The native chunks that references name: all that garbage collection wants to know of a manifest."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class NativeChunks:
    """Ids, a row of bytes each, and how long the chunks are; an id may be there more than once."""

    ids: NDArray[np.uint8]
    lengths: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.lengths)
