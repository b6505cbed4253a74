"""Data types of the generations before V1, and the fill values that go with each.

A fill value is stored under the name of its variant (`{"Int16": -5}`); in zarr.json it stands plain.
"Plain" here: NaN and infinities are the words that Zarr uses, complex numbers are `[real, imaginary]`,
raw bytes are lists of integers.
"""

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from frazil.errors import FormatError
from frazil.format.checked import as_bool, as_byte_list, as_float, as_int, as_list, as_text, show
from frazil.format.json_values import JsonValue

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

_RAW_BITS = re.compile(r"r(0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class FillForm:
    """How the fill values of one data type look."""

    variant: str
    check: Callable[[object], JsonValue]
    """Plain form of a value that is plain or has been read from a file; FormatError otherwise."""
    float_bits: int | None = None
    """Size of the floats in the variant, 32 for 16-bit ones too; None where there are none."""


def find_fill_form(data_type: str) -> FillForm | None:
    """The form for a data type (`float32`, `r16`), or None where there is no such type."""
    if _RAW_BITS.fullmatch(data_type):
        return FillForm("RawBits", _check_bytes)
    return _FORMS.get(data_type)


def get_fill_form(data_type: str) -> FillForm:
    """The form for a data type that must be known."""
    form = find_fill_form(data_type)
    if form is None:
        raise FormatError(f"data_type: {show(data_type)} is not known")
    return form


def unwrap_fill_value(data_type: str, variant: str, content: object) -> JsonValue:
    """The plain form of what a file has."""
    form = get_fill_form(data_type)
    if variant != form.variant:
        raise FormatError(f"fill_value: {show(variant)} for data type {data_type}")
    return form.check(content)


def wrap_fill_value(
    data_type: str, plain: JsonValue, write_float: Callable[[float | str, int], object]
) -> dict[str, Any]:
    """What a file has for a plain value; `write_float` gets a number or its word, and its bits."""
    form = get_fill_form(data_type)
    if form.float_bits is None:
        return {form.variant: plain}
    if isinstance(plain, list):
        return {form.variant: tuple(write_float(part, form.float_bits) for part in plain)}
    return {form.variant: write_float(plain, form.float_bits)}


def _integers(low: int, high: int) -> Callable[[object], JsonValue]:
    return lambda value: as_int("fill_value", value, low, high)


def _floats(bits: int) -> Callable[[object], JsonValue]:
    return lambda value: _check_float(value, bits)


def _complex_numbers(bits: int) -> Callable[[object], JsonValue]:
    return lambda value: [_check_float(part, bits) for part in as_list("fill_value", value, 2)]


def _check_float(value: object, bits: int) -> float | str:
    if isinstance(value, str) and value in NON_FINITE:
        return value
    number = as_float("fill_value", value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if bits == 32:
        _check_fits_32_bits(number)
    return number


def _check_fits_32_bits(number: float) -> None:
    try:
        struct.pack(">f", number)
    except OverflowError as error:
        raise FormatError(f"fill_value: {number} does not fit 32 bits") from error


def _check_bytes(value: object) -> JsonValue:
    return list(as_byte_list("fill_value", value))


_FORMS = {
    "bool": FillForm("Bool", lambda value: as_bool("fill_value", value)),
    "float16": FillForm("Float16", _floats(32), 32),
    "float32": FillForm("Float32", _floats(32), 32),
    "float64": FillForm("Float64", _floats(64), 64),
    "complex64": FillForm("Complex64", _complex_numbers(32), 32),
    "complex128": FillForm("Complex128", _complex_numbers(64), 64),
    "string": FillForm("String", lambda value: as_text("fill_value", value)),
    "bytes": FillForm("Bytes", _check_bytes),
}
for _bits in (8, 16, 32, 64):
    _half = 2 ** (_bits - 1)
    _FORMS[f"int{_bits}"] = FillForm(f"Int{_bits}", _integers(-_half, _half - 1))
    _FORMS[f"uint{_bits}"] = FillForm(f"UInt{_bits}", _integers(0, 2 * _half - 1))

DATA_TYPES = frozenset(_FORMS)
"""All but raw bits, which only the draft has."""
