"""Times that files count from different days, counted from one."""

import warnings
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
    if _calendar(attributes) != _calendar(wanted):
        return None
    dims = tuple(f"axis_{axis}" for axis in range(values.ndim))
    moments = _decode(xarray.Variable(dims, values, _time_attributes(attributes)))
    encoding = {**_time_attributes(wanted), "dtype": values.dtype}
    with warnings.catch_warnings():
        # Where the units do not do, others are chosen with a warning, which is seen below.
        warnings.simplefilter("ignore")
        encoded = _CODER.encode(xarray.Variable(dims, moments.data, {}, encoding))
    found = np.asarray(encoded.data)
    if found.dtype != values.dtype:
        return None
    again = _decode(xarray.Variable(dims, found, _time_attributes(wanted)))
    return found if np.array_equal(again.data, moments.data) else None


def _calendar(attributes: Mapping[str, Any]) -> str:
    given = str(attributes.get("calendar", "standard")).lower()
    return "standard" if given == "gregorian" else given


def _decode(variable: xarray.Variable) -> xarray.Variable:
    return _CODER.decode(variable)


def _time_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: attributes[name] for name in ("units", "calendar") if name in attributes}
