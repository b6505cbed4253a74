"""The part of `zarr.json` that depends on type, fill value and filters only.

Files of an archive have few of these, so that Zarr is asked once for each.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from zarr.core.buffer import default_buffer_prototype
from zarr.core.dtype import parse_data_type
from zarr.core.metadata.v3 import ArrayV3Metadata

from frazil.virtual.quiet import without_codec_warnings
from frazil.virtual.readers.hdf5.filters import Filter, to_codecs
from frazil.virtual.readers.hdf5.refusals import RefusedError

_ENCODING_OF_KEYS = {"name": "default", "configuration": {"separator": "/"}}


@dataclass(frozen=True, slots=True)
class Kind:
    """What values a dataset has, and how they are stored."""

    dtype: np.dtype[Any]
    fill: bytes | str | None
    """The fill value as it is in memory, or as text; None for the one that Zarr takes."""
    filters: tuple[Filter, ...] = ()


def make_metadata(
    kind: Kind,
    shape: tuple[int, ...],
    chunk_shape: tuple[int, ...],
    dims: list[str],
    attributes: Mapping[str, Any],
) -> dict[str, Any]:
    """The `zarr.json` of an array; raises RefusedError for types and filters that Zarr has not."""
    return {
        **_describe(kind),
        "shape": list(shape),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk_shape)}},
        "chunk_key_encoding": _ENCODING_OF_KEYS,
        "attributes": dict(attributes),
        "dimension_names": dims,
    }


@lru_cache(maxsize=1024)
def _describe(kind: Kind) -> dict[str, Any]:
    codecs = [_serializer(kind.dtype), *to_codecs(kind.filters)]
    with without_codec_warnings():
        try:
            data_type = parse_data_type(kind.dtype, zarr_format=3)
            fill_value = data_type.default_scalar() if kind.fill is None else _fill_value(kind)
            made = ArrayV3Metadata(
                shape=(),
                data_type=data_type,
                chunk_grid={"name": "regular", "configuration": {"chunk_shape": ()}},
                chunk_key_encoding={"name": "default"},
                fill_value=fill_value,
                codecs=codecs,
                attributes={},
                dimension_names=(),
                storage_transformers=None,
            )
            encoded = made.to_buffer_dict(default_buffer_prototype())["zarr.json"]
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            raise RefusedError(f"Zarr can't represent it: {error}") from error
    found: dict[str, Any] = json.loads(encoded.to_bytes())
    return found


def _fill_value(kind: Kind) -> Any:
    if isinstance(kind.fill, str):
        return kind.fill
    value = np.frombuffer(kind.fill or b"", kind.dtype)[0]
    return value.item() if isinstance(value, np.generic) else value


def _serializer(dtype: np.dtype[Any]) -> dict[str, Any]:
    if dtype.kind == "T":
        return {"name": "vlen-utf8"}
    orders = _byte_orders(dtype)
    if len(orders) > 1:
        raise RefusedError(f"its fields are of both byte orders: {dtype}")
    endian = "big" if ">" in orders else "little"
    return {"name": "bytes", "configuration": {"endian": endian}}


def _byte_orders(dtype: np.dtype[Any]) -> set[str]:
    base = dtype.base
    if base.fields is None:
        return set() if base.byteorder == "|" else {">" if base.byteorder == ">" else "<"}
    return set[str]().union(*(_byte_orders(field[0]) for field in base.fields.values()))
