"""Values as xarray decodes them: missing values, packed numbers and times, with their units."""

import base64
import binascii
import struct
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError

NUMBERS = "iufb"
"""The kinds of types that have a minimum, a maximum and a picture."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the attributes of an array say that its stored numbers are to be read."""

    missing: tuple[int | float, ...] = ()
    """Stored numbers that stand for no value."""
    scale: float | None = None
    offset: float | None = None
    stored_as: str | None = None
    """The type to take the stored bytes for, where `_Unsigned` says another one."""
    is_bool: bool = False
    units: str | None = None
    calendar: str | None = None

    @classmethod
    def of(cls, attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> "Decoding":
        """Read the attributes of an array; raises InvalidInputError for those that make no sense."""
        stored = _find_signedness(attributes, dtype)
        fill = [_read_fill(each, dtype) for each in _listed(attributes, "_FillValue")]
        if stored is not None:
            fill = [int(np.array(int(each)).astype(dtype).view(stored)) for each in fill]
        missing = [
            _read_number(each, "missing_value") for each in _listed(attributes, "missing_value")
        ]
        units, calendar = attributes.get("units"), attributes.get("calendar")
        return cls(
            missing=(*fill, *missing),
            scale=_find_number(attributes, "scale_factor"),
            offset=_find_number(attributes, "add_offset"),
            stored_as=None if stored is None else stored.str,
            is_bool=attributes.get("dtype") == "bool" and dtype.kind in "iu",
            units=units if isinstance(units, str) and units else None,
            calendar=calendar if isinstance(calendar, str) else None,
        )

    @property
    def is_time(self) -> bool:
        """Whether the numbers count from a moment, as `days since 2000-01-01` does."""
        return self.units is not None and " since " in self.units

    def decode(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Numbers, NaN where they are missing; times stay numbers, which `spell` shows as times."""
        if stored.dtype.kind not in NUMBERS:
            return stored
        numbers = stored if self.stored_as is None else stored.view(self.stored_as)
        # In double precision, as xarray compares: -999.9 is none of the numbers of float32.
        absent = [numbers == np.asarray(each)[()] for each in self.missing if each == each]
        if self.missing or self.scale is not None or self.offset is not None:
            decoded = numbers.astype(np.float64)
            if self.scale is not None:
                decoded *= self.scale
            if self.offset is not None:
                decoded += self.offset
            for each in absent:
                decoded[each] = np.nan
            return decoded
        return numbers.astype(np.bool_) if self.is_bool else numbers

    def spell(self, number: Any) -> str:
        """A decoded number with its units, or the time that it stands for."""
        if isinstance(number, np.datetime64 | np.timedelta64):
            return str(number)
        if self.is_time:
            return _spell_time(float(number), str(self.units), self.calendar) or (
                f"{number:g} {self.units}"
            )
        return f"{number:g}" if self.units in (None, "1") else f"{number:g} {self.units}"


def _find_signedness(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    other = {("i", "true"): "u", ("u", "false"): "i"}.get(
        (dtype.kind, str(attributes.get("_Unsigned")).lower())
    )
    return None if other is None else np.dtype(f"{dtype.byteorder}{other}{dtype.itemsize}")


def _listed(attributes: Mapping[str, Any], name: str) -> list[Any]:
    value = attributes.get(name)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _read_fill(value: Any, dtype: np.dtype[Any]) -> int | float:
    """A fill value as xarray writes it: floats as the base64 of their eight bytes."""
    if isinstance(value, str) and dtype.kind == "f":
        try:
            return float(struct.unpack("<d", base64.b64decode(value, validate=True))[0])
        except (binascii.Error, struct.error, ValueError):
            pass
    return _read_number(value, "_FillValue")


def _read_number(value: Any, name: str) -> int | float:
    if isinstance(value, int | float):
        return value
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"invalid {name} {value!r}: the attribute must be a number, so that values can be decoded"
        ) from error


def _find_number(attributes: Mapping[str, Any], name: str) -> float | None:
    found = _listed(attributes, name)
    if len(found) > 1:
        raise InvalidInputError(f"invalid {name} {found!r}: the attribute must be one number")
    return float(_read_number(found[0], name)) if found else None


def _spell_time(number: float, units: str, calendar: str | None) -> str | None:
    """A time as xarray decodes it; None without xarray, or where it can't."""
    try:
        import xarray as xr  # noqa: PLC0415 (an extra)
    except ImportError:
        return None
    attributes = {"units": units} | ({} if calendar is None else {"calendar": calendar})
    stored = xr.Dataset({"x": ("i", np.array([number]), attributes)})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (date,) = xr.decode_cf(stored)["x"].values
    except (ValueError, TypeError, OverflowError, KeyError, ImportError):
        return None
    if isinstance(date, np.datetime64):
        return str(date.astype("datetime64[s]"))
    return str(date.isoformat()) if hasattr(date, "isoformat") else None
