"""Decoding of stored numbers as xarray decodes them: packing, missing values, CF times."""

import base64
import binascii
import re
import struct
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frazil.errors import InvalidInputError

NUMBERS = "iufb"
"""Kinds of types that have a minimum, a maximum and a picture."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Decoding of stored numbers, from the attributes of an array."""

    missing: tuple[int | float, ...] = ()
    """Stored numbers that mark missing values."""
    scale: float | None = None
    offset: float | None = None
    stored_as: str | None = None
    """Type to view the stored bytes as, if `_Unsigned` changes the signedness."""
    is_bool: bool = False
    units: str | None = None
    calendar: str | None = None

    @classmethod
    def of(cls, attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> "Decoding":
        """Parse the attributes of an array; raises InvalidInputError for invalid ones."""
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
        """Return True if the numbers are offsets from a time, such as `days since 2000-01-01`."""
        return self.units is not None and " since " in self.units

    def decode(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Decode numbers, with NaN for missing ones. Times stay numbers; `spell` formats them."""
        if stored.dtype.kind not in NUMBERS:
            return stored
        numbers = stored if self.stored_as is None else stored.view(self.stored_as)
        # Compare in double precision, as xarray does: float32 can't represent -999.9.
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
        """Format a decoded number with its units, or as a time."""
        if isinstance(number, np.datetime64 | np.timedelta64):
            return str(number)
        if self.is_time:
            found = _decode_times(np.array([float(number)]), str(self.units), self.calendar)
            return found[0] if found else f"{number:g} {self.units}"
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
    """Parse a fill value as xarray encodes it: floats as base64 of their eight bytes."""
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


_SINCE = re.compile(
    r"(day|hour|hr|minute|min|second|sec|millisecond|microsecond|nanosecond|h|d|s|ms|us|ns)s?"
    r" since (\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.0*)?)?)?"
    r"\s*(?:Z|UTC|\+?00:?00)?",
    re.IGNORECASE,
)
_STEPS = {
    "day": 86_400_000_000, "d": 86_400_000_000, "hour": 3_600_000_000, "hr": 3_600_000_000,
    "h": 3_600_000_000, "minute": 60_000_000, "min": 60_000_000, "second": 1_000_000,
    "sec": 1_000_000, "s": 1_000_000, "millisecond": 1000, "ms": 1000, "microsecond": 1, "us": 1,
    "nanosecond": 0.001, "ns": 0.001,
}  # fmt: skip
_GREGORIAN = np.datetime64("1582-10-16")


def spell_times(
    numbers: Sequence[float] | NDArray[Any], units: str, calendar: str | None
) -> list[str] | None:
    """Format CF times, all with the same precision; None if they can't be decoded."""
    known = np.asarray(numbers, np.float64)
    is_missing = ~np.isfinite(known)
    dates = _decode_times(np.where(is_missing, 0.0, known), units, calendar)
    if dates is None:
        return None
    return [
        "missing" if absent else text
        for absent, text in zip(is_missing.tolist(), trim_times(dates), strict=True)
    ]


def trim_times(dates: Sequence[str]) -> list[str]:
    """Drop seconds, or hours, that are zero in all ISO times."""
    for end in ("T00:00:00", ":00"):
        if dates and all(each.endswith(end) for each in dates):
            dates = [each.removesuffix(end) for each in dates]
            break
    return [each.replace("T", " ") for each in dates]


def _decode_times(
    numbers: NDArray[np.float64], units: str, calendar: str | None
) -> list[str] | None:
    """Return ISO times to the second, as xarray decodes them."""
    standard = calendar is None or calendar.lower() in (
        "standard", "gregorian", "proleptic_gregorian",
    )  # fmt: skip
    found = _SINCE.fullmatch(units.strip())
    if standard and found is not None:
        year, month, day = (int(found[number]) for number in (2, 3, 4))
        clock = [int(found[number] or 0) for number in (5, 6, 7)]
        try:
            epoch = np.datetime64(f"{year:04}-{month:02}-{day:02}", "us")
        except ValueError:
            return None
        with np.errstate(over="ignore"):
            offset = numbers * _STEPS[found[1].lower()]
        if np.all(np.abs(offset) < 2**62):
            seconds = clock[0] * 3600 + clock[1] * 60 + clock[2]
            times = epoch + np.timedelta64(seconds, "s") + np.rint(offset).astype("m8[us]")
            # Earlier dates of the standard calendar are Julian.
            if calendar == "proleptic_gregorian" or bool((times >= _GREGORIAN).all()):
                return [str(each) for each in times.astype("M8[s]")]
    return _decode_with_xarray(numbers, units, calendar)


def _decode_with_xarray(
    numbers: NDArray[np.float64], units: str, calendar: str | None
) -> list[str] | None:
    try:
        import xarray as xr  # noqa: PLC0415 (an extra)
    except ImportError:
        return None
    attributes = {"units": units} | ({} if calendar is None else {"calendar": calendar})
    stored = xr.Dataset({"x": ("i", numbers, attributes)})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dates = xr.decode_cf(stored)["x"].values
    except (ValueError, TypeError, OverflowError, KeyError, ImportError):
        return None
    if dates.dtype.kind == "M":
        return [str(each) for each in dates.astype("M8[s]")]
    return [str(each.isoformat()) for each in dates] if dates.dtype == object else None
