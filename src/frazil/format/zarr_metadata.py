"""Split and assemble zarr.json for the generations before V1, with fill values."""

import math
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from frazil.errors import FormatError
from frazil.format.metadata import (
    MOST_AXES,
    UINT64_MAX,
    JsonValue,
    as_bool,
    as_byte_list,
    as_float,
    as_int,
    as_json_map,
    as_list,
    as_map,
    as_text,
    decode_json,
    encode_json,
    refused,
    show,
)
from frazil.lazy import dataclass

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

_RAW_BITS = re.compile(r"r(0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class FillForm:
    """Representation of the fill values of one data type."""

    variant: str
    check: Callable[[object], JsonValue]
    """Return the plain form of a plain or stored value, or raise FormatError."""
    float_bits: int | None = None
    """Size of the floats in the variant, 32 for 16-bit ones too; None without floats."""


def find_fill_form(data_type: str) -> FillForm | None:
    """Return the form of a data type (`float32`, `r16`), or None if it is unknown."""
    if _RAW_BITS.fullmatch(data_type):
        return FillForm("RawBits", _check_bytes)
    return _FORMS.get(data_type)


def get_fill_form(data_type: str) -> FillForm:
    """Return the form of a data type, or raise FormatError."""
    form = find_fill_form(data_type)
    if form is None:
        raise FormatError(f"data_type: {show(data_type)} is not known")
    return form


def unwrap_fill_value(data_type: str, variant: str, content: object) -> JsonValue:
    """Return the plain form of a stored fill value."""
    form = get_fill_form(data_type)
    if variant != form.variant:
        raise FormatError(f"fill_value: {show(variant)} for data type {data_type}")
    return form.check(content)


def wrap_fill_value(
    data_type: str, plain: JsonValue, write_float: Callable[[float | str, int], object]
) -> dict[str, Any]:
    """Return the stored form of a plain value; `write_float` gets a number or word, and its bits."""
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
"""All data types except raw bits, which only the draft has."""

CHUNK_KEY_ENCODINGS: Mapping[str, JsonValue] = {
    "Slash": {"name": "default", "configuration": {"separator": "/"}},
    "Dot": {"name": "default", "configuration": {"separator": "."}},
    "Default": {"name": "default"},
}
"""Chunk key encodings by variant name."""


@dataclass(frozen=True, slots=True)
class Extension:
    """Codec or storage transformer."""

    name: str
    configuration: dict[str, JsonValue] | None

    def to_json(self) -> JsonValue:
        """Return its zarr.json form."""
        if self.configuration is None:
            return {"name": self.name}
        return {"name": self.name, "configuration": self.configuration}


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Parts of a group's zarr.json."""

    attributes: dict[str, JsonValue] | None


@dataclass(frozen=True, slots=True)
class ArrayMetadata:
    """Parts of an array's zarr.json."""

    attributes: dict[str, JsonValue] | None
    shape: tuple[int, ...]
    data_type: str
    chunk_shape: tuple[int, ...]
    chunk_key_encoding: str
    """Key of `CHUNK_KEY_ENCODINGS`."""
    fill_value: JsonValue
    """Fill value in plain form."""
    codecs: tuple[Extension, ...]
    storage_transformers: tuple[Extension, ...] | None
    dimension_names: tuple[str | None, ...] | None

    def __post_init__(self) -> None:
        axes = len(self.shape)
        if len(self.chunk_shape) != axes:
            raise FormatError(f"chunk_shape: {len(self.chunk_shape)} axes for a shape of {axes}")
        if self.dimension_names is not None and len(self.dimension_names) != axes:
            raise FormatError(f"dimension_names: {len(self.dimension_names)} for {axes} axes")
        if self.chunk_key_encoding not in CHUNK_KEY_ENCODINGS:
            raise FormatError(f"chunk_key_encoding: {show(self.chunk_key_encoding)} is not known")


ZarrMetadata = GroupMetadata | ArrayMetadata


def encode_zarr_json(metadata: ZarrMetadata) -> bytes:
    """Assemble zarr.json as the alpha releases passed it to Zarr."""
    if isinstance(metadata, GroupMetadata):
        return encode_json(
            {"zarr_format": 3, "node_type": "group", "attributes": metadata.attributes}
        )
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "attributes": metadata.attributes,
        "shape": metadata.shape,
        "data_type": metadata.data_type,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": metadata.chunk_shape},
        },
        "chunk_key_encoding": CHUNK_KEY_ENCODINGS[metadata.chunk_key_encoding],
        "fill_value": metadata.fill_value,
        "codecs": [codec.to_json() for codec in metadata.codecs],
    }
    if metadata.storage_transformers is not None:
        document["storage_transformers"] = [t.to_json() for t in metadata.storage_transformers]
    document["dimension_names"] = metadata.dimension_names
    return encode_json(document)


def decode_zarr_json(data: bytes) -> ZarrMetadata:
    """Split zarr.json; raise InvalidInputError for content that the older generations can't store."""
    with refused("zarr.json"):
        document = as_map("zarr.json", decode_json(data, "zarr.json"))
        if document.get("zarr_format") != 3:
            raise FormatError(f"zarr_format: {show(document.get('zarr_format'))} is not 3")
        node_type = document.get("node_type")
        if node_type == "group":
            _refuse_others(document, _GROUP_MEMBERS)
            return GroupMetadata(check_attributes(document.get("attributes")))
        if node_type == "array":
            _refuse_others(document, _ARRAY_MEMBERS)
            return _decode_array(document)
        raise FormatError(f"node_type: {show(node_type)} is neither group nor array")


_GROUP_MEMBERS = frozenset({"zarr_format", "node_type", "attributes"})
_ARRAY_MEMBERS = _GROUP_MEMBERS | {
    "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs",
    "storage_transformers", "dimension_names",
}  # fmt: skip


def _refuse_others(members: Mapping[str, object], known: frozenset[str]) -> None:
    if others := sorted(members.keys() - known):
        raise FormatError(f"there is no place for {', '.join(map(show, others))}")


def _decode_array(document: Mapping[str, object]) -> ArrayMetadata:
    data_type = as_text("data_type", document.get("data_type"))
    return ArrayMetadata(
        attributes=check_attributes(document.get("attributes")),
        shape=check_lengths("shape", document.get("shape")),
        data_type=data_type,
        chunk_shape=_decode_chunk_grid(document.get("chunk_grid")),
        chunk_key_encoding=_decode_chunk_key_encoding(document.get("chunk_key_encoding")),
        fill_value=get_fill_form(data_type).check(document.get("fill_value")),
        codecs=_decode_extensions("codecs", document.get("codecs")),
        storage_transformers=_decode_storage_transformers(document.get("storage_transformers")),
        dimension_names=check_dimension_names(document.get("dimension_names")),
    )


def _decode_chunk_grid(value: object) -> tuple[int, ...]:
    grid = as_map("chunk_grid", value)
    _refuse_others(grid, frozenset({"name", "configuration"}))
    if grid.get("name") != "regular":
        raise FormatError(f"chunk_grid: {show(grid.get('name'))} is not regular")
    configuration = as_map("chunk_grid", grid.get("configuration"))
    _refuse_others(configuration, frozenset({"chunk_shape"}))
    return check_lengths("chunk_shape", configuration.get("chunk_shape"))


def _decode_chunk_key_encoding(value: object) -> str:
    for name, encoding in CHUNK_KEY_ENCODINGS.items():
        if value == encoding:
            return name
    raise FormatError(f"chunk_key_encoding: there is no place for {show(value)}")


def _decode_storage_transformers(value: object) -> tuple[Extension, ...] | None:
    return None if value is None else _decode_extensions("storage_transformers", value)


def _decode_extensions(what: str, value: object) -> tuple[Extension, ...]:
    extensions = []
    for item in as_list(what, value):
        members = as_map(what, item)
        _refuse_others(members, frozenset({"name", "configuration"}))
        extensions.append(check_extension(what, members.get("name"), members.get("configuration")))
    return tuple(extensions)


# Checks of single parts, also for parts that were not read from zarr.json


def check_attributes(value: object) -> dict[str, JsonValue] | None:
    """Return user attributes, or None."""
    return None if value is None else as_json_map("attributes", value)


def check_extension(what: str, name: object, configuration: object) -> Extension:
    """Return a codec or a storage transformer; `what` names it in errors."""
    return Extension(
        name=as_text(what, name),
        configuration=None if configuration is None else as_json_map(what, configuration),
    )


def check_lengths(what: str, value: object) -> tuple[int, ...]:
    """Return a shape, or raise FormatError."""
    items = as_list(what, value)
    if len(items) > MOST_AXES:
        raise FormatError(f"{what}: {len(items)} axes, {MOST_AXES} are the most")
    return tuple(as_int(what, item, 0, UINT64_MAX) for item in items)


def check_dimension_names(value: object) -> tuple[str | None, ...] | None:
    """Return a name or None for each axis, or None for no names."""
    if value is None:
        return None
    names = as_list("dimension_names", value)
    return tuple(None if name is None else as_text("dimension_names", name) for name in names)
