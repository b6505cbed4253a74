"""Stored numbers are decoded as xarray decodes them."""

import warnings
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from xarray.backends.zarr import FillValueCoder

from frazil.errors import InvalidInputError
from frazil.overview.nodes import Decoding

TYPES = ("i1", "u1", "i2", ">i2", "u2", "i4", "u4", "i8", "f4", ">f4", "f8")


def decode_by_xarray(values: np.ndarray[Any, Any], attributes: dict[str, Any]) -> Any:
    read = dict(attributes)
    if "_FillValue" in read:
        read["_FillValue"] = FillValueCoder.decode(read["_FillValue"], values.dtype)
    variable = xr.Variable(("x",), values, read)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.conventions.decode_cf_variable("x", variable, decode_times=False).values


@st.composite
def packed(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    small = st.integers(0, 9) if dtype.kind == "u" else st.integers(-9, 9)
    elements = (
        small
        if dtype.kind in "iu"
        else st.sampled_from([-999.0, float(np.float32(-999.9)), -1.5, 0.0, 2.5, np.nan])
    )
    values = draw(hnp.arrays(dtype, draw(st.integers(1, 8)), elements=elements))
    attributes: dict[str, Any] = {}
    if draw(st.booleans()):
        attributes["_FillValue"] = FillValueCoder.encode(draw(st.sampled_from(list(values))), dtype)
    if draw(st.booleans()):
        known = [each.item() for each in values if each == each] or [1]
        found = st.sampled_from([*known, 5, -999.9])
        attributes["missing_value"] = draw(st.one_of(found, st.lists(found, min_size=1)))
    if draw(st.booleans()):
        attributes["scale_factor"] = draw(st.sampled_from([0.01, 2.0, -0.5, [0.1]]))
    if draw(st.booleans()):
        attributes["add_offset"] = draw(st.sampled_from([270.0, -3, 0]))
    if dtype.kind in "iu" and dtype.byteorder != ">" and draw(st.booleans()):
        attributes["_Unsigned"] = draw(st.sampled_from(["true", "false"]))
    return values, attributes


@given(packed())
def test_numbers_are_decoded_as_xarray_decodes_them(
    stored: tuple[np.ndarray[Any, Any], dict[str, Any]],
) -> None:
    values, attributes = stored

    found = Decoding.of(attributes, values.dtype).decode(values)

    expected = decode_by_xarray(values, attributes)
    np.testing.assert_allclose(found.astype("f8"), expected.astype("f8"), rtol=1e-5, equal_nan=True)


def test_booleans_are_booleans() -> None:
    decoding = Decoding.of({"dtype": "bool"}, np.dtype("i1"))

    assert decoding.decode(np.array([0, 1], "i1")).tolist() == [False, True]


@pytest.mark.parametrize(
    ("number", "units", "calendar", "text"),
    [
        (31.5, "days since 2000-01-01", None, "2000-02-01T12:00:00"),
        (6, "hours since 1900-01-01 00:00:00", "standard", "1900-01-01T06:00:00"),
        (59, "days since 2000-01-01", "noleap", "2000-03-01T00:00:00"),
        (3600, "days since 2000-01-01", "360_day", "2010-01-01T00:00:00"),
        (1, "days since the flood", None, "1 days since the flood"),
        (1e300, "days since 2000-01-01", None, "1e+300 days since 2000-01-01"),
        (280.25, "K", None, "280.25 K"),
        (0.5, "1", None, "0.5"),
        (7, None, None, "7"),
    ],
)
def test_a_number_is_spelled_with_its_units_and_a_time_as_a_time(
    number: float, units: str | None, calendar: str | None, text: str
) -> None:
    assert Decoding(units=units, calendar=calendar).spell(number) == text


@pytest.mark.parametrize(
    "attributes",
    [
        {"scale_factor": "much"},
        {"add_offset": [1, 2]},
        {"scale_factor": {}},
        {"_FillValue": "?"},
        {"missing_value": [None]},
    ],
)
def test_attributes_that_make_no_sense_are_named(attributes: dict[str, Any]) -> None:
    (name,) = attributes

    with pytest.raises(InvalidInputError, match=f"invalid {name}"):
        Decoding.of(attributes, np.dtype("f4"))
