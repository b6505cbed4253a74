"""Conversions of values that an ingest applies: unpack, convert units, round. Pure."""

import base64
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from frazil.display import list_known
from frazil.errors import InvalidInputError
from frazil.virtual.source import ArrayHeader, SourceHeader, find_bounds, is_time

_SCALE = ("scale_factor", "add_offset")
_MISSING = ("_FillValue", "missing_value")
_PACKED = frozenset((*_SCALE, *_MISSING, "_Unsigned"))
PACKED_DIFFERENTLY = "scale, offset or fill values differ between files"
_TRIED_PACKINGS = 4
_PROVABLE_BYTES = 2
"""Maximum size of integers that are all tried when packings are compared."""
_PLAIN_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}]


@dataclass(frozen=True, slots=True)
class Packing:
    """CF encoding of the values of one array."""

    dtype: str
    scale: float
    offset: float
    missing: tuple[float, ...]
    is_unsigned: bool

    def __str__(self) -> str:
        if self.is_plain_float:
            missing = f"fill value {self.missing[0]:g}" if self.missing else "no fill value"
            return f"{np.dtype(self.dtype).name} with {missing}"
        return f"{np.dtype(self.dtype).name} with scale {self.scale:g} and offset {self.offset:g}"

    @classmethod
    def of(cls, array: ArrayHeader) -> Self | None:
        """Return the packing of an array, or None if its values are no numbers.

        Numbers that are not packed have scale 1 and offset 0.
        """
        attributes = array.attributes
        try:
            dtype = np.dtype(array.metadata.get("data_type"))
            scale, offset = (
                float(attributes.get(n, d)) for n, d in zip(_SCALE, (1, 0), strict=True)
            )
        except (TypeError, ValueError):
            return None
        if dtype.kind not in "iuf":
            return None
        missing = [each for name in _MISSING for each in _numbers(attributes.get(name))]
        is_unsigned = str(attributes.get("_Unsigned", "")).lower() == "true"
        is_unsigned = is_unsigned and dtype.kind == "i"
        return cls(dtype.str, scale, offset, tuple(dict.fromkeys(missing)), is_unsigned)

    @property
    def is_plain_float(self) -> bool:
        """Return whether values are floats without scale and offset."""
        return np.dtype(self.dtype).kind == "f" and (self.scale, self.offset) == (1, 0)

    def decode(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the values in their units, NaN where they are missing."""
        wide = values.dtype
        if self.is_unsigned:
            wide = np.dtype(f"u{values.dtype.itemsize}")
            values = values.astype(wide)
        decoded = values.astype(np.float64)
        is_missing = np.zeros(values.shape, bool)
        for each in self.missing:
            raw = np.array(each).astype(np.dtype(self.dtype)).astype(wide)
            is_missing |= np.isnan(decoded) if np.isnan(each) else values == raw
        decoded *= self.scale
        decoded += self.offset
        decoded[is_missing] = np.nan
        return decoded

    def encode(self, values: NDArray[np.float64]) -> NDArray[Any] | None:
        """Return the numbers of values, the first fill value where they are NaN; None if one lacks.

        Integers are the nearest ones, so that they stand for values of this packing alone exactly.
        """
        dtype = np.dtype(self.dtype)
        if self.is_plain_float:
            floats: NDArray[Any] = values.astype(dtype)
            if np.isin(floats, np.array(self.missing, dtype)).any():
                return None
            floats[np.isnan(floats)] = self.missing[0] if self.missing else np.nan
            return floats
        wide = np.dtype(f"u{dtype.itemsize}") if self.is_unsigned else dtype
        is_missing = np.isnan(values)
        if is_missing.any() and not self.missing:
            return None
        numbers = np.rint((np.where(is_missing, self.offset, values) - self.offset) / self.scale)
        limits = np.iinfo(wide)
        if numbers.size and (numbers.min() < limits.min or numbers.max() > limits.max):
            return None
        found: NDArray[Any] = numbers.astype(wide).astype(dtype)
        found[is_missing] = np.array(self.missing[:1] or 0).astype(dtype)
        return found


def _numbers(value: object) -> list[float]:
    given = value if isinstance(value, list | tuple) else [value]
    numbers = [number for each in given if (number := _to_number(each)) is not None]
    # Packings are compared, and NaN equals itself alone.
    return [np.nan if np.isnan(each) else each for each in numbers]


def _to_number(value: object) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    try:
        # Fill values of floating-point arrays are encoded as Xarray does.
        return float(struct.unpack("<d", base64.standard_b64decode(str(value)))[0])
    except (ValueError, struct.error):
        return None


@dataclass(frozen=True, slots=True)
class Repacking:
    """Packing that all files of an array are given, and how the array states it."""

    packing: Packing
    attributes: Mapping[str, Any]
    fill_value: Any

    @classmethod
    def of(cls, array: ArrayHeader) -> Self | None:
        """Return the packing of an array as one for others."""
        packing = Packing.of(array)
        attributes = {name: each for name, each in array.attributes.items() if name in _PACKED}
        return None if packing is None else cls(packing, attributes, array.metadata["fill_value"])

    def apply(self, array: ArrayHeader) -> ArrayHeader:
        """Return an array as if it were stored with this packing."""
        packing = Packing.of(array)
        others = {name: each for name, each in array.attributes.items() if name not in _PACKED}
        metadata = {**array.metadata, "attributes": {**others, **self.attributes}}
        if packing is None or packing == self.packing:
            return replace(array, metadata=metadata)
        metadata |= {
            "data_type": np.dtype(self.packing.dtype).name,
            "fill_value": self.fill_value,
            "codecs": _PLAIN_CODECS,
        }
        values = array.values
        if values is not None:
            values = Repacked(packing, self.packing).decode(values)
        text = f"{PACKED_DIFFERENTLY}: repacked exactly as {self.packing}"
        obstacle = None if values is not None else text
        return replace(array, metadata=metadata, values=values, obstacle=obstacle)


@dataclass(frozen=True, slots=True)
class Repacked:
    """Packing of a file, and the one that its integers are given."""

    packing: Packing
    target: Packing

    @property
    def dtype(self) -> str:
        """Return the type of the integers in the file."""
        return self.packing.dtype

    def decode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the integers of the new packing."""
        found = self.target.encode(self.packing.decode(values))
        if found is None:
            raise InvalidInputError(
                f"invalid values: {self.target} can't hold them; convert={{…: lambda values: values}} "
                "decodes them, and missing ones become NaN"
            )
        return found


def plan_packings(
    headers: Sequence[SourceHeader], there: Mapping[str, ArrayHeader]
) -> dict[str, Repacking | None]:
    """Return the arrays whose packing is not the same in all sources, with the one to give them.

    It is None for arrays to decode to float64, because no integers hold all their values. Arrays that
    are in the repository keep their packing if it holds the values of the sources.
    """
    by_name: dict[str, list[ArrayHeader]] = {}
    for header in headers:
        for name, array in header.arrays.items():
            by_name.setdefault(name, []).append(array)
    found: dict[str, Repacking | None] = {}
    for name, having in sorted(by_name.items()):
        before = there.get(name)
        everywhere = having if before is None else [*having, before]
        if not _differ(everywhere, having if before and is_decoded(before) else everywhere):
            continue
        arrays = {Packing.of(each): each for each in reversed(everywhere)}
        packings = {each: array for each, array in arrays.items() if each is not None}
        if len(packings) < len(arrays):
            continue
        if before is not None and is_decoded(before):
            found[name] = None
            continue
        usual = Counter(map(Packing.of, having)).most_common(1)[0][0]
        found[name] = _choose_packing(packings, Packing.of(before) if before else None, usual)
    return found


def _differ(arrays: Sequence[ArrayHeader], typed: Sequence[ArrayHeader]) -> bool:
    """Return whether arrays are packed differently, or state missing values differently.

    Without a scale, those of `typed` must have one type. Times are converted by their units.
    """
    first, types = arrays[0], {str(each.metadata.get("data_type")) for each in typed}
    stated = [first.attributes.get(name) for name in _PACKED]
    is_stated = all([e.attributes.get(name) for name in _PACKED] == stated for e in arrays)
    if any(name in each.attributes for each in arrays for name in _SCALE):
        return not is_stated or len(types) > 1
    # Integers of 64 bits are more exact than what they would be decoded to.
    is_exact = len(types) == 1 and not types & {"int64", "uint64"}
    return not is_stated and is_exact and not is_time(first.attributes)


def is_decoded(array: ArrayHeader) -> bool:
    """Return whether an array holds values that no scale or offset changes."""
    return array.metadata["data_type"] == "float64" and not _PACKED & array.attributes.keys()


def _choose_packing(
    packings: Mapping[Packing, ArrayHeader], there: Packing | None, usual: Packing | None
) -> Repacking | None:
    """Return a packing that holds all values of the others exactly, or None.

    Floats keep the fill value that is there, or the usual one: a value that equals it fails the ingest.
    """
    if all(each.is_plain_float for each in packings) and len({e.dtype for e in packings}) == 1:
        return Repacking.of(packings[there or usual or next(iter(packings))])
    # No other packing has integers for all values of the finest one.
    scale = min(abs(each.scale) for each in packings)
    finest = [each for each in packings if abs(each.scale) == scale][:_TRIED_PACKINGS]
    for packing in finest if there is None else [there]:
        if _holds_all(packing, packings):
            return Repacking.of(packings[packing])
    is_missing = any(each.missing for each in packings)
    fill = int(np.iinfo(np.int32).min)
    for packing in finest if there is None else ():
        missing = (float(fill),) if is_missing else ()
        wide = Packing(np.dtype("i4").str, packing.scale, packing.offset, missing, False)
        if _holds_all(wide, packings):
            stated: dict[str, Any] = dict(zip(_SCALE, (wide.scale, wide.offset), strict=True))
            stated |= {"_FillValue": fill} if is_missing else {}
            return Repacking(wide, stated, fill if is_missing else 0)
    return None


def _holds_all(target: Packing, packings: Iterable[Packing]) -> bool:
    """Return whether each integer of other packings has an integer with exactly its value."""
    if np.dtype(target.dtype).kind not in "iu":
        return False
    for each in packings:
        dtype = np.dtype(each.dtype)
        if each == target:
            continue
        if dtype.kind not in "iu" or dtype.itemsize > _PROVABLE_BYTES:
            return False
        limits = np.iinfo(dtype)
        values = each.decode(np.arange(limits.min, limits.max + 1).astype(dtype))
        packed = target.encode(values)
        if packed is None or not np.array_equal(target.decode(packed), values, equal_nan=True):
            return False
    return True


def repack_arrays(header: SourceHeader, packings: Mapping[str, Repacking | None]) -> SourceHeader:
    """Return the header of a source as if some of its arrays were stored repacked, or decoded."""
    arrays = dict(header.arrays)
    for name, each in packings.items():
        if name in arrays:
            arrays[name] = unpack_array(arrays[name]) if each is None else each.apply(arrays[name])
    return replace(header, arrays=arrays)


def find_decoder(array: ArrayHeader, repacking: Repacking | None) -> Packing | Repacked | None:
    """Return what decodes the values of a file; None if they are taken as they are."""
    packing = Packing.of(array)
    if repacking is None:
        return packing
    is_same = packing is None or packing == repacking.packing
    return None if is_same or packing is None else Repacked(packing, repacking.packing)


def unpack_array(array: ArrayHeader) -> ArrayHeader:
    """Return an array as if it were stored decoded."""
    packing = Packing.of(array)
    attributes = {name: each for name, each in array.attributes.items() if name not in _PACKED}
    metadata = _with_floats(array.metadata, "float64", attributes)
    values = array.values
    if values is not None:
        values = values.astype(np.float64) if packing is None else packing.decode(values)
    text = f"{PACKED_DIFFERENTLY}, and no integers hold all values exactly: decoded to float64"
    return replace(
        array, metadata=metadata, values=values, obstacle=None if values is not None else text
    )


CONVERTED = "frazil_convert"
"""Attribute of an array that lists the conversions of its values."""
EVERY_VARIABLE = "*"
"""Name that stands for all data variables of floating-point numbers."""


class Conversion(Protocol):
    """Conversion of the values of a variable by an ingest."""

    @property
    def is_per_file(self) -> bool:
        """Return whether the variable of a file is converted as a whole."""

    def refuse_unfit(self, header: SourceHeader, array: ArrayHeader) -> None:
        """Raise InvalidInputError if the array of a file can't be converted."""

    def change(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of the converted array."""

    def convert(self, values: NDArray[Any], array: ArrayHeader) -> NDArray[Any]:
        """Return converted values; missing ones are NaN."""


@dataclass(frozen=True, slots=True)
class Deaccumulate:
    """Differences along a dimension of values that are accumulated from the start of a file."""

    dim: str | None = None
    reset_after: int | None = None

    is_per_file = property(lambda _: True)

    def refuse_unfit(self, header: SourceHeader, array: ArrayHeader) -> None:
        """Raise InvalidInputError if the array has no steps to take differences of."""
        dim = self._find_dim(array)
        if array.shape[array.dims.index(dim)] < 2:
            raise InvalidInputError(
                f"invalid convert of {array.name!r}: deaccumulate takes differences along {dim!r} in "
                "each file, and a file has one step; ingest as is, and take them with transform"
            )
        index = header.arrays.get(dim)
        steps = None if index is None or index.values is None else index.values
        if steps is not None and steps.dtype.kind in "iufmM" and not np.all(steps[1:] > steps[:-1]):
            raise InvalidInputError(
                f"invalid convert of {array.name!r}: the values of {dim!r} must rise to deaccumulate"
            )

    def change(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes, which stay as they are."""
        return dict(attributes)

    def convert(self, values: NDArray[Any], array: ArrayHeader) -> NDArray[Any]:
        """Return the differences; the first value after each start is kept."""
        axis = array.dims.index(self._find_dim(array))
        moved = np.moveaxis(values, axis, 0)
        found = moved.copy()
        found[1:] -= moved[:-1]
        if self.reset_after is not None:
            found[:: self.reset_after] = moved[:: self.reset_after]
        return np.moveaxis(found, 0, axis)

    def _find_dim(self, array: ArrayHeader) -> str:
        wanted = _STEP_DIMS if self.dim is None else (self.dim,)
        for dim in wanted:
            if dim in array.dims:
                return dim
        raise InvalidInputError(
            f"invalid convert of {array.name!r} along {wanted[0]!r}: it has "
            f"{list_known(wanted[0], array.dims, 'dimensions')}"
        )

    def __str__(self) -> str:
        along = "" if self.dim is None else f"dim={self.dim!r}"
        reset = "" if self.reset_after is None else f"reset_after={self.reset_after}"
        return f"deaccumulate({', '.join(filter(None, (along, reset)))})"


@dataclass(frozen=True, slots=True)
class ToUnits:
    """Values in other units."""

    units: str

    is_per_file = property(lambda _: False)

    def refuse_unfit(self, header: SourceHeader, array: ArrayHeader) -> None:  # noqa: ARG002
        """Raise InvalidInputError if the units of the array can't be converted."""
        self._find_factors(array)

    def change(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes with the new units."""
        return {**attributes, "units": self.units}

    def convert(self, values: NDArray[Any], array: ArrayHeader) -> NDArray[Any]:
        """Return the values in the new units."""
        (scale, offset), (new_scale, new_offset) = self._find_factors(array)
        if (scale, offset) == (new_scale, new_offset):
            return values
        return (values * scale + (offset - new_offset)) / new_scale

    def _find_factors(self, array: ArrayHeader) -> tuple[tuple[float, float], tuple[float, float]]:
        units = array.attributes.get("units")
        if not isinstance(units, str):
            raise InvalidInputError(
                f"invalid convert of {array.name!r}: it has no units to convert to {self.units!r}"
            )
        kind, *old = _find_unit(units)
        new_kind, *new = _find_unit(self.units)
        if kind != new_kind:
            raise InvalidInputError(
                f"invalid convert of {array.name!r}: its units {units!r} are of {kind}, and "
                f"{self.units!r} of {new_kind}"
            )
        return (old[0], old[1]), (new[0], new[1])

    def __str__(self) -> str:
        return f"to_units({self.units!r})"


@dataclass(frozen=True, slots=True)
class RoundBits:
    """Values rounded to some bits of their mantissa."""

    keep: int

    is_per_file = property(lambda _: False)

    def refuse_unfit(self, header: SourceHeader, array: ArrayHeader) -> None:  # noqa: ARG002
        """Raise InvalidInputError if a number of the array has fewer bits."""
        bits = np.finfo(find_type(array)).nmant
        if self.keep > bits:
            raise InvalidInputError(
                f"invalid convert of {array.name!r}: keep={self.keep}, and its values have {bits} bits"
            )

    def change(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes, which stay as they are."""
        return dict(attributes)

    def convert(self, values: NDArray[Any], array: ArrayHeader) -> NDArray[Any]:
        """Return the nearest values with so many bits, even ones of two; NaN and infinity stay."""
        dtype = find_type(array)
        given = np.array(values, dtype, order="C")
        dropped = np.finfo(dtype).nmant - self.keep
        if not dropped:
            return given
        whole = np.dtype(f"u{dtype.itemsize}").type
        bits = given.view(whole)
        odd = (bits >> whole(dropped)) & whole(1)
        rounded = bits + whole((1 << (dropped - 1)) - 1) + odd
        rounded &= ~whole((1 << dropped) - 1)
        return np.where(np.isfinite(given), rounded.view(dtype), given)

    def __str__(self) -> str:
        return f"round_bits(keep={self.keep})"


@dataclass(frozen=True, slots=True)
class Custom:
    """Function of a user, called with blocks of values, or with the whole variable of a file."""

    function: Callable[[NDArray[Any]], Any]
    is_per_file: bool = False

    def refuse_unfit(self, header: SourceHeader, array: ArrayHeader) -> None:
        """Do nothing: any array may be converted."""

    def change(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes, which stay as they are."""
        return dict(attributes)

    def convert(self, values: NDArray[Any], array: ArrayHeader) -> NDArray[Any]:
        """Return what the function does; raise InvalidInputError if the shape is another one."""
        found = np.asarray(self.function(values))
        if found.shape != values.shape or found.dtype.kind not in "biuf":
            raise InvalidInputError(
                f"invalid convert of {array.name!r}: {self} returned {found.dtype} of shape "
                f"{found.shape} for values of shape {values.shape}"
            )
        return found

    def __str__(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"per_file({name})" if self.is_per_file else name


_STEP_DIMS = ("step", "lead_time", "forecast_period", "leadtime", "time", "valid_time")


def deaccumulate(dim: str | None = None, *, reset_after: int | None = None) -> Deaccumulate:
    """Convert values that are accumulated from the start of each file to those of each step.

    Parameters
    ----------
    dim
        Dimension of the steps. Default: the one that is named as steps or times are.
    reset_after
        Number of steps after which the accumulation starts again; it always does with a new file.

    Returns
    -------
    Deaccumulate
        Value for `convert=` of an ingest.

    Examples
    --------
    >>> convert = {"tp": deaccumulate("step")}
    """
    if reset_after is not None and reset_after < 1:
        raise InvalidInputError(f"invalid reset_after {reset_after!r}: it must be 1 or more")
    return Deaccumulate(dim, reset_after)


def to_units(units: str) -> ToUnits:
    """Convert values to other units, from those that each file states.

    Parameters
    ----------
    units
        Units, such as `degC`, `hPa`, `mm` or `m s-1`.

    Returns
    -------
    ToUnits
        Value for `convert=` of an ingest.

    Examples
    --------
    >>> convert = {"t2m": to_units("degC")}
    """
    _find_unit(units)
    return ToUnits(units)


def round_bits(keep: int) -> RoundBits:
    """Round values to a number of bits of their mantissa, so that they compress better.

    Parameters
    ----------
    keep
        Number of bits; 10 bits are about three decimal digits.

    Returns
    -------
    RoundBits
        Value for `convert=` of an ingest.

    Examples
    --------
    >>> convert = {"*": round_bits(keep=10)}
    """
    if not 1 <= keep <= 52:
        raise InvalidInputError(f"invalid keep {keep!r}: a number of bits is 1 to 52")
    return RoundBits(keep)


def per_file(function: Callable[[NDArray[Any]], Any]) -> Custom:
    """Convert the whole variable of each file with a function, not block by block.

    Parameters
    ----------
    function
        Function of an array of floating-point values, in which missing ones are NaN. It returns an
        array of the same shape.

    Returns
    -------
    Custom
        Value for `convert=` of an ingest.

    Examples
    --------
    >>> convert = {"tp": per_file(lambda values: values - values[:1])}
    """
    if not callable(function):
        raise InvalidInputError(f"invalid function {function!r} of per_file: it can't be called")
    return Custom(function, is_per_file=True)


_WATER = "amount of water"
_UNITS: Mapping[str, tuple[str, float, float]] = {
    "K": ("temperature", 1, 0), "degC": ("temperature", 1, 273.15),
    "degF": ("temperature", 5 / 9, 459.67 * 5 / 9),
    "Pa": ("pressure", 1, 0), "hPa": ("pressure", 100, 0), "kPa": ("pressure", 1000, 0),
    "mbar": ("pressure", 100, 0), "bar": ("pressure", 1e5, 0), "atm": ("pressure", 101325, 0),
    "m": ("length", 1, 0), "mm": ("length", 1e-3, 0), "cm": ("length", 1e-2, 0),
    "km": ("length", 1e3, 0), "um": ("length", 1e-6, 0), "ft": ("length", 0.3048, 0),
    "inch": ("length", 0.0254, 0),
    "kg m-2": (_WATER, 1, 0), "g m-2": (_WATER, 1e-3, 0),
    "kg m-2 s-1": ("flux of water", 1, 0), "kg m-2 h-1": ("flux of water", 1 / 3600, 0),
    "kg m-2 day-1": ("flux of water", 1 / 86400, 0),
    "m s-1": ("speed", 1, 0), "km h-1": ("speed", 1 / 3.6, 0), "knot": ("speed", 1852 / 3600, 0),
    "mph": ("speed", 0.44704, 0), "mm s-1": ("speed", 1e-3, 0), "mm h-1": ("speed", 1e-3 / 3600, 0),
    "mm day-1": ("speed", 1e-3 / 86400, 0), "cm s-1": ("speed", 1e-2, 0),
    "1": ("ratio", 1, 0), "%": ("ratio", 1e-2, 0), "kg kg-1": ("ratio", 1, 0),
    "g kg-1": ("ratio", 1e-3, 0), "mg kg-1": ("ratio", 1e-6, 0),
    "J m-2": ("energy", 1, 0), "kJ m-2": ("energy", 1e3, 0), "MJ m-2": ("energy", 1e6, 0),
    "W h m-2": ("energy", 3600, 0), "W m-2": ("power", 1, 0), "kW m-2": ("power", 1e3, 0),
    "s": ("duration", 1, 0), "min": ("duration", 60, 0), "h": ("duration", 3600, 0),
    "day": ("duration", 86400, 0),
    "degree": ("angle", 1, 0), "radian": ("angle", 180 / np.pi, 0),
    "kg m-3": ("density", 1, 0), "g m-3": ("density", 1e-3, 0), "ug m-3": ("density", 1e-9, 0),
}  # fmt: skip
"""Kind of quantity, factor and offset of units, to the first of their kind."""
_SYNONYMS = {
    "kelvin": "K", "celsius": "degC", "degree_celsius": "degC", "degrees_celsius": "degC",
    "degreec": "degC", "deg_c": "degC", "°c": "degC", "fahrenheit": "degF", "°f": "degF",
    "millibar": "mbar", "mb": "mbar", "pascal": "Pa", "meter": "m", "metre": "m", "meters": "m",
    "metres": "m", "m of water equivalent": "m", "feet": "ft", "in": "inch", "kt": "knot",
    "kts": "knot", "knots": "knot", "percent": "%", "(0 - 1)": "1", "dimensionless": "1",
    "fraction": "1", "second": "s", "seconds": "s", "minute": "min", "minutes": "min", "hour": "h",
    "hours": "h", "hr": "h", "days": "day", "d": "day", "deg": "degree", "degrees": "degree",
    "radians": "radian", "rad": "radian", "m/s": "m s-1", "km/h": "km h-1", "mm/h": "mm h-1",
    "mm/day": "mm day-1", "mm/d": "mm day-1", "mm d-1": "mm day-1", "mm/s": "mm s-1",
    "kg/kg": "kg kg-1", "g/kg": "g kg-1", "kg/m2": "kg m-2", "kg/m2/s": "kg m-2 s-1",
    "w/m2": "W m-2", "j/m2": "J m-2", "kg/m3": "kg m-3", "m s^-1": "m s-1", "µg m-3": "ug m-3",
}  # fmt: skip


def _find_unit(text: str) -> tuple[str, float, float]:
    plain = " ".join(text.replace("**", "").replace("^", "").split())
    plain = _SYNONYMS.get(plain.lower(), plain)
    if plain not in _UNITS:
        raise InvalidInputError(
            f"invalid units {text!r}: known are {list_known(plain, _UNITS, 'units')}"
        )
    return _UNITS[plain]


AnyConversion = Conversion | Callable[[NDArray[Any]], Any]
Conversions = Mapping[str, AnyConversion | Sequence[AnyConversion]]
"""Conversions by variable, or for all of them by `*`; several run one after the other."""
_KINDS = (Deaccumulate, ToUnits, RoundBits, Custom)


def as_conversions(given: Conversions) -> dict[str, tuple[Conversion, ...]]:
    """Return the conversions of each name; raise InvalidInputError for what is none."""
    found: dict[str, tuple[Conversion, ...]] = {}
    for name, each in given.items():
        several: Sequence[Any] = each if isinstance(each, list | tuple) else [each]
        for one in several:
            if not isinstance(one, _KINDS) and (not callable(one) or isinstance(one, type)):
                raise InvalidInputError(
                    f"invalid convert {one!r} of {name!r}: expected deaccumulate(…), to_units(…), "
                    "round_bits(…), or a function of values"
                )
        found[name] = tuple(one if isinstance(one, _KINDS) else Custom(one) for one in several)
    return found


def find_type(array: ArrayHeader) -> np.dtype[Any]:
    """Return the type of the converted values of an array: that of its floats, or float64."""
    dtype = np.dtype(array.metadata["data_type"])
    is_packed = any(name in array.attributes for name in _SCALE)
    return np.dtype("f4" if dtype.kind == "f" and dtype.itemsize < 8 and not is_packed else "f8")


@dataclass(frozen=True, slots=True)
class ConvertedArray:
    """Array of a file with the conversions of its values."""

    array: ArrayHeader
    packing: Packing
    conversions: tuple[Conversion, ...] = field(default=())

    @property
    def is_per_file(self) -> bool:
        """Return whether the array is converted as a whole."""
        return any(each.is_per_file for each in self.conversions)

    def decode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the converted values of what is stored in the file."""
        found: NDArray[Any] = self.packing.decode(values)
        array = self.array
        for each in self.conversions:
            found = each.convert(found, array).astype(np.float64, copy=False)
            attributes = each.change(array.attributes)
            array = replace(array, metadata={**array.metadata, "attributes": attributes})
        return found


def find_converted(
    header: SourceHeader, conversions: Mapping[str, Sequence[Conversion]]
) -> dict[str, ConvertedArray]:
    """Return the arrays of a source with conversions; raise InvalidInputError if one is impossible."""
    found: dict[str, ConvertedArray] = {}
    if not conversions:
        return found
    helpers = {*header.coordinates, *find_bounds(header.arrays)}
    for name, array in header.arrays.items():
        own = tuple(conversions.get(name, ()))
        packing = Packing.of(array)
        if own and (array.is_index or packing is None):
            what = "the coordinate of a dimension" if array.is_index else "no array of numbers"
            raise InvalidInputError(f"invalid convert of {name!r}: it is {what}")
        is_plain = name not in helpers and bool(array.dims) and packing is not None
        is_float = is_plain and np.dtype(array.metadata["data_type"]).kind == "f"
        all_own = (*own, *(conversions.get(EVERY_VARIABLE, ()) if own or is_float else ()))
        if all_own and packing is not None:
            shown = array
            for each in all_own:
                each.refuse_unfit(header, shown)
                attributes = each.change(shown.attributes)
                shown = replace(shown, metadata={**shown.metadata, "attributes": attributes})
            found[name] = ConvertedArray(array, packing, all_own)
    return found


def convert_arrays(
    header: SourceHeader, conversions: Mapping[str, Sequence[Conversion]]
) -> SourceHeader:
    """Return the header of a source as if its arrays were stored converted."""
    converted = find_converted(header, conversions)
    if not converted:
        return header
    arrays = {**header.arrays, **{name: _convert(each) for name, each in converted.items()}}
    return replace(header, arrays=arrays)


def _convert(converted: ConvertedArray) -> ArrayHeader:
    array = converted.array
    attributes: dict[str, Any] = dict(array.attributes)
    for each in converted.conversions:
        attributes = each.change(attributes)
    attributes = {name: each for name, each in attributes.items() if name not in _PACKED}
    attributes[CONVERTED] = list(map(str, converted.conversions))
    dtype = find_type(array)
    values = array.values
    if values is not None:
        values = converted.decode(values).astype(dtype)
    text = f"convert: {', '.join(attributes[CONVERTED])}"
    metadata = _with_floats(array.metadata, dtype.name, attributes)
    return replace(
        array, metadata=metadata, values=values, obstacle=None if values is not None else text
    )


def _with_floats(
    metadata: Mapping[str, Any], data_type: str, attributes: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        **metadata,
        "data_type": data_type,
        "fill_value": "NaN",
        "codecs": _PLAIN_CODECS,
        "attributes": dict(attributes),
    }
