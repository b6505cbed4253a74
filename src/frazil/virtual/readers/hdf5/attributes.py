"""Attributes of groups and datasets as plain values, as Xarray and VirtualiZarr have them."""

import base64
import struct
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5s, h5t

# What the libraries of NetCDF4 and of dimension scales keep for themselves.
_HIDDEN = frozenset(
    (
        b"REFERENCE_LIST", b"CLASS", b"DIMENSION_LIST", b"NAME", b"_Netcdf4Dimid",
        b"_Netcdf4Coordinates", b"_nc3_strict", b"_NCProperties",
    )
)  # fmt: skip
_SCALE = "DIMENSION_SCALE"
_ORDERS = {h5t.ORDER_LE: "<", h5t.ORDER_BE: ">"}


class NotPlainError(ValueError):
    """An attribute that has no place in JSON."""


def read_attributes(owner: Any) -> dict[str, Any]:
    """The attributes of an object that users know of; raises NotPlainError, UnicodeDecodeError."""
    names: list[bytes] = []
    h5a.iterate(owner, lambda name, *_: names.append(name))
    found = {}
    for name in names:
        if name not in _HIDDEN:
            value = _read(owner, name)
            if value != _SCALE:
                found[name.decode("utf-8", "surrogateescape")] = value
    return found


def encode_fill_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """The attribute `_FillValue` as Xarray writes it to Zarr; raises NotPlainError."""
    if dtype.kind in "SUOT":
        return value
    if isinstance(value, bool | int | float | complex):
        match dtype.kind:
            case "b":
                return bool(value)
            case "i" | "u" if not isinstance(value, complex):
                return int(value)
            case "f" if not isinstance(value, complex):
                return _encode_float(value)
            case "c" if isinstance(value, complex):
                return [_encode_float(value.real), _encode_float(value.imag)]
    raise NotPlainError(f"its attribute _FillValue is {value!r}, which is no {dtype}")


def _encode_float(value: float) -> str:
    return base64.standard_b64encode(struct.pack("<d", value)).decode()


def _read(owner: Any, name: bytes) -> Any:
    attribute = h5a.open(owner, name)
    space = attribute.get_space()
    if space.get_simple_extent_type() == h5s.NULL:
        return ""
    kind = attribute.get_type()
    shape = space.get_simple_extent_dims()
    if isinstance(kind, h5t.TypeStringID):
        return _read_texts(attribute, kind, shape)
    dtype = find_plain_dtype(kind)
    if dtype is None:
        return _read_slowly(owner, name)
    values = np.zeros(shape, dtype)
    if values.size:
        attribute.read(values, mtype=kind)
    return _to_plain(values)


def find_plain_dtype(kind: Any) -> str | None:
    """The type of plain numbers, in few calls; None for anything else."""
    letter = None
    if type(kind) is h5t.TypeIntegerID:
        letter = "i" if kind.get_sign() else "u"
    elif type(kind) is h5t.TypeFloatID and kind.get_size() in (4, 8):
        letter = "f"
    order = _ORDERS.get(kind.get_order()) if letter else None
    return None if order is None or kind.get_size() > 8 else f"{order}{letter}{kind.get_size()}"


def _read_texts(attribute: Any, kind: Any, shape: tuple[int, ...]) -> Any:
    if kind.is_variable_str():
        texts = np.zeros(shape, h5t.string_dtype())
        if texts.size:
            attribute.read(texts)
        words = [each.decode("utf-8", "surrogateescape") for each in texts.flat]
        if len(words) == 1:
            return words[0]
        return np.array(words, object).reshape(shape).tolist()
    found = np.zeros(shape, f"S{kind.get_size()}")
    if not shape and kind.get_strpad() == h5t.STR_NULLTERM:
        attribute.read(found, mtype=kind)
        return found.tobytes().partition(b"\0")[0].decode("utf-8") or " "
    if found.size:
        attribute.read(found)
    if not shape:
        return bytes(found.item()).decode("utf-8") or " "
    return np.strings.decode(found, "utf-8").tolist()


def _read_slowly(owner: Any, name: bytes) -> Any:
    """What is seldom, as h5py understands it."""
    value = h5py.Dataset(owner).attrs if isinstance(owner, h5py.h5d.DatasetID) else None
    attributes = value if value is not None else h5py.Group(owner).attrs
    return _to_plain(attributes[name])


def _to_plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        return value.item() if value.size == 1 else value.tolist()
    raise NotPlainError(f"{value!r} has no place in JSON")
