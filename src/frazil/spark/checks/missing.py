"""Values that are none."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def find_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are NaN, or no time."""
    match values.dtype.kind:
        case "f" | "c":
            return np.isnan(values)
        case "m" | "M":
            return np.isnat(values)
        case "O":
            same: NDArray[np.bool_] = np.array([each == each for each in values.flat], np.bool_)
            return ~same.reshape(values.shape)
    return np.zeros(values.shape, np.bool_)
