"""Times that files count from different days, counted from one."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray
from numpy.typing import NDArray

_CODER = xarray.coders.CFDatetimeCoder()


def is_time(attributes: Mapping[str, Any]) -> bool:
    """Whether values are times after CF."""
    units = attributes.get("units")
    return isinstance(units, str) and " since " in units


def recount(
    values: NDArray[Any], attributes: Mapping[str, Any], wanted: Mapping[str, Any]
) -> NDArray[Any] | None:
    """The same times in the units of other attributes; None where they have no exact place there."""
    dims = tuple(f"axis_{axis}" for axis in range(values.ndim))
    moments = _decode(xarray.Variable(dims, values, _time_attributes(attributes)))
    encoding = {**_time_attributes(wanted), "dtype": values.dtype}
    try:
        encoded = _CODER.encode(xarray.Variable(dims, moments.data, {}, encoding))
    except ValueError:
        return None
    found = np.asarray(encoded.data)
    if found.dtype != values.dtype:
        return None
    again = _decode(xarray.Variable(dims, found, _time_attributes(wanted)))
    return found if np.array_equal(again.data, moments.data) else None


def _decode(variable: xarray.Variable) -> xarray.Variable:
    return _CODER.decode(variable)


def _time_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: attributes[name] for name in ("units", "calendar") if name in attributes}
